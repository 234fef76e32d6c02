"""`main`: from words to a command, and from an error to one line. Heavy imports wait until a command runs."""

from __future__ import annotations

import argparse
import io
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from itertools import takewhile
from typing import Any, NoReturn

from combopeps import __version__
from combopeps.cli import bench, measure, report, show, solve
from combopeps.cli.options import INTERRUPTED, MISUNDERSTOOD, OK, UNCERTAIN, UNSHOWN, WRONG, Commands
from combopeps.cli.output import complain, deliver, dumped, occupy

_ABOUT = "Find the best answer of a huge combinatorial set with the fewest noisy measurements."
_END = """exit codes:
  0  done; for `solve` and `status`: the answer is certain enough
  1  error, in one line on stderr (with --json as an object on stdout); for `doctor`: the file is damaged
  2  the command was not understood
  3  `solve`, `status`: not certain enough yet
  4  `ask`: the queries are recorded, but could not be shown; `status` lists them
  130  interrupted

With --json there is exactly one object on stdout, a result or {"error": ..., "type": ...}.
`init`, `tell`, `observe` and `abandon` give 0 once the fact is recorded, whether or not their
output can be written. A reader that closes the pipe changes the code of `ask` (4) and of nothing
else; output that cannot be written for another reason, such as a full disk, is an error.

`combopeps COMMAND --help` explains a command, with an example.
"""
_RECORDED = ("init", "tell", "observe", "abandon")  # what they did stands in the state file, whoever reads their output


class UsageError(Exception):
    """The words make no command."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Without an exponent in its pattern, argparse takes the measurement -1e-05 for an option.
        self._negative_number_matcher = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage())


def parser() -> argparse.ArgumentParser:
    """All commands."""
    top = _Parser("combopeps", description=_ABOUT, epilog=_END, formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument("--version", action="version", version=f"combopeps {__version__}")
    commands = Commands(top.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True))
    for group in (show, solve, bench, measure, report):
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
    heard, said = occupy(), io.StringIO()
    words = sys.argv[1:] if argv is None else list(argv)
    args = argparse.Namespace(command="", debug=False, json=_asks_for_json(words))
    code: int = OK
    failure: BaseException | None = None
    try:
        with redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            args = parser().parse_args(words)
            code = args.run(args)
    except SystemExit:  # --help and --version
        said = io.StringIO(dumped({"help": said.getvalue()}) if args.json else said.getvalue())
    except UsageError as error:
        code, failure = MISUNDERSTOOD, error
    except KeyboardInterrupt as error:
        code, failure = INTERRUPTED, error
    except Exception as error:
        if args.debug and not args.json:
            raise
        if args.debug:
            deliver(traceback.format_exc(), sys.stderr)
        code, failure = WRONG, error
    if failure is None:
        return _finish(said.getvalue(), code, args, heard=heard)
    if args.json:
        return _finish(dumped({"error": _one_line(failure), "type": type(failure).__name__}), code, args, heard=heard)
    if isinstance(failure, UsageError):
        deliver(failure.args[1], sys.stderr)
    complain(f"error: {_one_line(failure)}")
    return code


def _asks_for_json(words: Sequence[str]) -> bool:
    """Also when the rest cannot be understood; argparse takes an option for its beginnings."""
    options = takewhile(lambda word: word != "--", words)
    return any(len(word) > 2 and "--json".startswith(word) for word in options)


def _finish(text: str, code: int, args: argparse.Namespace, *, heard: bool) -> int:
    """Print what was said. The code says what was done, not what became of the print, unless the print is the point."""
    cause = deliver(text, sys.stdout)
    if code not in (OK, UNCERTAIN) or (cause is None and heard):
        return code
    gone = cause is None or isinstance(cause, BrokenPipeError)  # whoever read this does not want more
    if args.command == "ask":
        code = UNSHOWN
    elif not gone and args.command not in _RECORDED:
        code = WRONG
    if not gone:
        done = {OK: "recorded, but", UNSHOWN: "the queries are recorded (see `combopeps status`), but"}
        complain(f"{done.get(code, 'error:')} the output cannot be written: {cause}")
    return code


def _one_line(error: BaseException) -> str:
    """What is wrong, and the cure; for a fault of ours, how to find out more."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, UsageError):
        return str(error.args[0])
    from combopeps.errors import ComboPepsError

    text = " ".join(str(error).split())
    if isinstance(error, ComboPepsError):
        return text
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"unexpected {type(error).__name__}: {text:.300}; --debug shows where"


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    complain(f"warning: {message}")
