"""`main`: from words to a command, and from an error to one line. Heavy imports wait until a command runs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from combopeps import __version__
from combopeps.cli import bench, campaign, compare, instances, solve, status
from combopeps.cli.options import OK, WRONG, Commands

_ABOUT = "Find the best answer of a huge combinatorial set with the fewest noisy measurements."
_END = """exit codes:
  0  done; for `solve` and `status`: the answer is certain enough
  1  error, in one line on stderr (with --json as an object on stdout); for `doctor`: the file is damaged
  2  the command was not understood
  3  `solve`, `status`: not certain enough yet
  130  interrupted

`combopeps COMMAND --help` explains a command, with an example.
"""


def parser() -> argparse.ArgumentParser:
    """All commands."""
    top = argparse.ArgumentParser(
        "combopeps", description=_ABOUT, epilog=_END, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--version", action="version", version=f"combopeps {__version__}")
    commands = Commands(top.add_subparsers(title="commands", metavar="COMMAND", required=True))
    for group in (instances, solve, compare, bench, campaign, status):
        group.register(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code.

    Examples
    --------
    >>> main(["solve", "no-such-instance", "--json"])  # doctest: +ELLIPSIS
    {"error": "no instance is called 'no-such-instance'...", "type": "InstanceError"}
    1
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a label that the terminal cannot show is no reason to fail
    try:
        args = parser().parse_args(argv)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            code: int = args.run(args)
            sys.stdout.flush()
            return code
    except BrokenPipeError:  # `combopeps list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return _fail(args, "interrupted", "KeyboardInterrupt", 130)
    except Exception as error:
        if args.debug:
            raise
        return _fail(args, _one_line(error), type(error).__name__, WRONG)


def _one_line(error: Exception) -> str:
    """What is wrong, and the cure; for a fault of ours, how to find out more."""
    from combopeps.errors import ComboPepsError

    text = " ".join(str(error).split())
    if isinstance(error, ComboPepsError):
        return text
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"unexpected {type(error).__name__}: {text:.300}; --debug shows where"


def _fail(args: argparse.Namespace, message: str, kind: str, code: int) -> int:
    if args.json:
        print(json.dumps({"error": message, "type": kind}))
    else:
        print(f"combopeps: error: {message}", file=sys.stderr)
    return code


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    print(f"combopeps: warning: {' '.join(str(message).split())}", file=sys.stderr)
