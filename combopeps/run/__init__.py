"""Runs: from a way to measure to an answer, or to a trace of many."""
