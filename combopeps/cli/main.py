"""`main`: from words to a command, and from an error to one line. Heavy imports wait until a command runs."""

from __future__ import annotations

import argparse
import io
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from importlib import import_module
from itertools import takewhile

from combopeps.cli.commands import UsageError, parser
from combopeps.cli.options import INTERRUPTED, MISUNDERSTOOD, OK, UNCERTAIN, UNSHOWN, WRONG
from combopeps.cli.output import complain, deliver, dumped, masked, occupy, solvers_aside
from combopeps.utils.jit import never_compile

_RECORDED = (
    "init",
    "tell",
    "observe",
    "abandon",
    "correct",
    "retract",
    "copy",
)  # what they did stands in the state file, whoever reads their output

_LOOKING = ("list", "show", "status")


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
            warnings.showwarning = lambda message, *_, **__: complain(f"warning: {message}")
            args = parser().parse_args(words)
            if argv is None and args.command in _LOOKING:  # and this process does nothing else
                never_compile()
            with nullcontext() if args.command in ("bench", "serve") else solvers_aside():
                code = getattr(import_module(args.module), f"run_{args.command}")(args)
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
        return masked(str(error.args[0]))
    from combopeps.errors import ComboPepsError

    text = masked(" ".join(str(error).split()))
    if isinstance(error, ComboPepsError):
        return text
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"unexpected {type(error).__name__}: {text:.300}; --debug shows where"
