"""Sessions: ask, tell, look and run; simulations and their results."""
