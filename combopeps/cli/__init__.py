"""The command line `combopeps`."""

from combopeps.cli.main import main

__all__ = ["main"]
