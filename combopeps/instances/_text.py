"""From bytes on a disk to text and JSON values, with the line in every refusal."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NoReturn

from combopeps import files
from combopeps.errors import FileFormatError

LARGEST = 1e150  # as for theta: beyond it, sums of squares overflow


def refuse(path: Path, message: str, line: int | None = None, field: str = "") -> NoReturn:
    """Raise a `FileFormatError` that begins with file, line and field."""
    where = "".join((str(path), f", line {line}" if line else "", f", {field}" if field else ""))
    raise FileFormatError(f"{where}: {message}", str(path), line, field)


def read_text(path: Path) -> str:
    """The content of a UTF-8 file, with or without a byte order mark."""
    data = files.read(path)
    try:
        text = data.decode("utf-8-sig")
        bad = data.find(b"\0")  # UTF-16 without a mark looks like UTF-8 with zeros in between
    except UnicodeDecodeError as cause:
        bad = cause.start
    if bad >= 0:
        refuse(path, "this is not UTF-8 text; save the file in that encoding", data[:bad].count(b"\n") + 1)
    return text


def parse_json(path: Path, text: str) -> Any:
    """JSON as the standard has it: no NaN, no infinity, and no key twice in an object."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            refuse(path, "stands there twice in one object", field=twice)
        return result

    def unknown(constant: str) -> NoReturn:
        refuse(path, f"{constant} is not a number that JSON or this package allows")

    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=unknown)
    except json.JSONDecodeError as cause:
        refuse(path, f"this is not JSON: {cause.msg} (column {cause.colno})", cause.lineno)
    except RecursionError:
        refuse(path, "the brackets are nested too deeply")
    except FileFormatError:
        raise
    except ValueError as cause:  # an integer of thousands of digits
        refuse(path, f"holds a number that cannot be read: {cause}")


def is_plain(text: str) -> bool:
    """No 1_000 and no digits of other scripts, which Python reads as numbers."""
    return text.isascii() and "_" not in text


def parse_number(path: Path, text: str, line: int, field: str) -> float:
    """A finite number in plain notation."""
    try:
        value = float(text) if is_plain(text) else math.nan
    except ValueError:
        value = math.nan
    if not abs(value) < LARGEST:
        refuse(path, f"must be a finite number below {LARGEST:g}, got {text[:40]!r}", line, field)
    return value
