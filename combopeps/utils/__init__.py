"""Utilities without knowledge of the problem: validation, files, labels, formatting, compiled numerics."""
