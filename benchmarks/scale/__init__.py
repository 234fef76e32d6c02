"""How work and memory grow: with components, arms, runs and answers."""
