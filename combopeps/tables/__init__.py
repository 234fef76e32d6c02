"""Rows of numbers that people have written down: files of CSV, data frames, lists; and the names in them."""

from combopeps.tables.observed import Observed

__all__ = ["Observed"]
