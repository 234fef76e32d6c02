"""Lower bounds on evidence, over all of Z: what a guarantee rests on."""
