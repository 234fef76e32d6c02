"""The command line."""

from combopeps.cli.main import main

__all__ = ["main"]
