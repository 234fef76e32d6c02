"""Certificates: lower bounds of the evidence against all other answers, for frequentist guarantees."""
