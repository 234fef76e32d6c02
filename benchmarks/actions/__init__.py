"""Whole answers measured at once."""
