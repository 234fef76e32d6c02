"""The way to stdout and stderr: nothing a file says can steer the terminal, and a reader who is gone is no surprise."""

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

from combopeps.utils.label_format import shown as shown


def quoted(path: str) -> str:
    """A path as a part of a command that may be copied."""
    return shlex.quote(path) if path.isprintable() else "FILE"


def masked(text: str) -> str:
    """A URL, or words with one in them, without its password.

    Examples
    --------
    >>> masked("postgresql://ann:sesame@host/db?sslpassword=x#beans")
    'postgresql://ann:***@host/db?sslpassword=***#beans'
    """
    return re.sub(
        r"(://[^:/@\s]*:)[^@\s]*@|(password=)[^&#\s]*", lambda m: f"{m[1]}***@" if m[1] else f"{m[2]}***", text
    )


def dumped(document: Mapping[str, Any], indent: int | None = None) -> str:
    """Strict JSON: NaN and infinity become null."""
    return json.dumps(_strict(document), indent=indent) + "\n"


def show_json(document: Mapping[str, Any]) -> None:
    """One line of it on stdout."""
    print(dumped(document), end="")


def show(as_json: bool, document: Mapping[str, Any], lines: Iterable[str]) -> None:
    """On stdout, the document for scripts or the lines for people."""
    print(dumped(document) if as_json else "".join(f"{line}\n" for line in lines), end="")


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _strict(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def occupy() -> bool:
    """Put the null device where a standard stream is closed; False if that is stdout.

    Otherwise the next file to be opened would get its number, and whatever a library prints would end up in there.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    heard = sys.stdout is not None
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # so Python starts when the stream is closed
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        elif hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")  # what the terminal cannot show is no failure
    return heard


@contextmanager
def solvers_aside() -> Iterator[None]:
    """What compiled libraries print goes to stderr: on stdout there is nothing but results."""
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def deliver(text: str, stream: TextIO) -> OSError | None:
    """Write, and see to it that it arrives; otherwise what stood in the way. Nothing is left for Python to fail on."""
    try:
        stream.write("\n".join(map(_visible, text.split("\n"))))
        stream.flush()
    except OSError as cause:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        return cause
    return None


def complain(message: str) -> None:
    """One line on stderr, whether or not anyone can read it."""
    deliver(f"combopeps: {' '.join(message.split())}\n", sys.stderr)


def _visible(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in line)
