"""Write to stdout and stderr: control characters are escaped, and closed streams and broken pipes are handled."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import Any, TextIO

from combopeps.utils.label_format import printable as printable


def quoted_path(path: str) -> str:
    """Quote a path for the shell; FILE in place of paths that cannot be printed."""
    return shlex.quote(path) if path.isprintable() else "FILE"


def mask_passwords(text: str) -> str:
    """Replace passwords of URLs in a text.

    Examples
    --------
    >>> mask_passwords("postgresql://ann:sesame@host/db?sslpassword=x#beans")
    'postgresql://ann:***@host/db?sslpassword=***#beans'
    """
    return re.sub(
        r"(://[^:/@\s]*:)[^@\s]*@|(password=)[^&#\s]*", lambda m: f"{m[1]}***@" if m[1] else f"{m[2]}***", text
    )


def to_json(document: Mapping[str, Any], indent: int | None = None) -> str:
    """Return strict JSON, in which NaN and infinity are null, and a line break."""
    return json.dumps(_finite(document), indent=indent) + "\n"


def print_json(document: Mapping[str, Any]) -> None:
    """Print a document as one line of JSON."""
    print(to_json(document), end="")


def print_result(as_json: bool, document: Mapping[str, Any], lines: Iterable[str]) -> None:
    """Print the document as JSON, or the lines of text."""
    print(to_json(document) if as_json else "".join(f"{line}\n" for line in lines), end="")


def _finite(value: Any) -> Any:
    """Replace NaN and infinity by None."""
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def replace_closed_streams() -> bool:
    """Open the null device in place of closed standard streams, and return whether stdout was open.

    Otherwise the next file that is opened would get the descriptor of the stream, and output of libraries would be
    written into it.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    is_stdout_open = sys.stdout is not None
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # set by Python if the descriptor is closed at its start
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(getattr(sys, name), "reconfigure"):
            # Characters that the encoding of the terminal lacks must not raise.
            getattr(sys, name).reconfigure(errors="backslashreplace")
    return is_stdout_open


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Redirect the descriptor of stdout, to which compiled libraries print, to stderr: stdout has only results."""
    saved = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def write(text: str, stream: TextIO) -> OSError | None:
    """Write and flush escaped text; return the error if that fails, and redirect the stream to the null device.

    Without the redirection, Python would fail again when it flushes the stream at exit.
    """
    try:
        stream.write("\n".join(map(_escaped, text.split("\n"))))
        stream.flush()
    except OSError as cause:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        return cause
    return None


def print_error(message: str) -> None:
    """Print one line to stderr, and ignore failures to do so."""
    write(f"combopeps: {' '.join(message.split())}\n", sys.stderr)


def _escaped(line: str) -> str:
    """Escape control characters, which could change the state of a terminal."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in line)
