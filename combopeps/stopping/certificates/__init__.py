"""Certificates: lower bounds of the evidence against all other answers, on which guarantees rest."""
