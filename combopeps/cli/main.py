"""Entry point of the command line: parse arguments, run the command, and report errors in one line.

Modules of commands are imported when the command runs, so that `--help` is fast.
"""

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

from combopeps.cli.options import ERROR, INTERRUPTED, NOT_CERTAIN, NOT_SHOWN, OK, USAGE_ERROR
from combopeps.cli.output import mask_passwords, print_error, replace_closed_streams, stdout_to_stderr, to_json, write
from combopeps.cli.parser import UsageError, parser

# These succeed once they have changed the state file, even if their output cannot be written: if they failed then, the
# caller would repeat them, and results would count twice.
_RECORDING_COMMANDS = ("init", "tell", "observe", "abandon", "correct", "retract", "copy")
_COMMANDS_WITHOUT_COMPILATION = ("show", "status")  # compilation would take longer than they do


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    argv
        Arguments; those of the process by default.

    Examples
    --------
    >>> main(["solve", "no-such-instance", "--json"])  # doctest: +ELLIPSIS
    {"error": "no instance is called 'no-such-instance'...", "type": "InstanceError"}
    1
    """
    is_stdout_open, output = replace_closed_streams(), io.StringIO()
    words = sys.argv[1:] if argv is None else list(argv)
    args = argparse.Namespace(command="", debug=False, json=_wants_json(words))
    code: int = OK
    failure: BaseException | None = None
    try:
        with redirect_stdout(output), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: print_error(f"warning: {message}")
            args = parser().parse_args(words)
            if argv is None and args.command in _COMMANDS_WITHOUT_COMPILATION:  # with `argv` the process may go on
                from combopeps.utils.jit import disable_compilation  # imports numpy, which --help does not need

                disable_compilation()
            with nullcontext() if args.command in ("bench", "serve") else stdout_to_stderr():
                code = getattr(import_module(args.module), f"run_{args.command}")(args)
    except SystemExit:  # --help and --version
        output = io.StringIO(to_json({"help": output.getvalue()}) if args.json else output.getvalue())
    except UsageError as error:
        code, failure = USAGE_ERROR, error
    except KeyboardInterrupt as error:
        code, failure = INTERRUPTED, error
    except Exception as error:
        if args.debug and not args.json:
            raise
        if args.debug:
            write(traceback.format_exc(), sys.stderr)
        code, failure = ERROR, error
    if failure is None:
        return _print_output(output.getvalue(), code, args, is_stdout_open)
    if args.json:
        document = to_json({"error": _one_line(failure), "type": type(failure).__name__})
        return _print_output(document, code, args, is_stdout_open)
    if isinstance(failure, UsageError):
        write(failure.args[1], sys.stderr)
    print_error(f"error: {_one_line(failure)}")
    return code


def _wants_json(words: Sequence[str]) -> bool:
    """Return whether --json is given, even if other arguments are invalid; argparse accepts abbreviations of it."""
    options = takewhile(lambda word: word != "--", words)
    return any(len(word) > 2 and "--json".startswith(word) for word in options)


def _print_output(text: str, code: int, args: argparse.Namespace, is_stdout_open: bool) -> int:
    """Print the output of a command, and return the exit code.

    If the output cannot be written, commands that only print have failed; those that record something have not.
    """
    cause = write(text, sys.stdout)
    if code not in (OK, NOT_CERTAIN) or (cause is None and is_stdout_open):
        return code
    is_closed = cause is None or isinstance(cause, BrokenPipeError)  # the reader needs no more output: not an error
    if args.command == "ask":
        code = NOT_SHOWN
    elif not is_closed and args.command not in _RECORDING_COMMANDS:
        code = ERROR
    if not is_closed:
        done = {OK: "recorded, but", NOT_SHOWN: "the queries are recorded (see `combopeps status`), but"}
        print_error(f"{done.get(code, 'error:')} the output cannot be written: {cause}")
    return code


def _one_line(error: BaseException) -> str:
    """Return the message of an error in one line, without passwords; for unexpected errors, with their type."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, UsageError):
        return mask_passwords(str(error.args[0]))
    from combopeps.errors import ComboPepsError

    text = mask_passwords(" ".join(str(error).split()))
    if isinstance(error, ComboPepsError):
        return text
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return f"unexpected {type(error).__name__}: {text:.300}; --debug shows where"
