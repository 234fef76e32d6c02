"""From bytes on a disk to text and JSON values, with the line in every refusal."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, NoReturn

from combopeps.errors import FileFormatError

LARGEST = 1e150  # as for theta: beyond it, sums of squares overflow


def refuse(path: Path, message: str, line: int | None = None, field: str = "") -> NoReturn:
    """Raise a `FileFormatError` that begins with file, line and field."""
    where = "".join((str(path), f", line {line}" if line is not None else "", f", {field}" if field else ""))
    raise FileFormatError(f"{where}: {message}", str(path), line, field)


def read_text(path: Path) -> str:
    """The content of a UTF-8 file, with or without a byte order mark."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = cause.object[: cause.start].count(b"\n") + 1
        refuse(path, "this is not UTF-8 text; save the file in that encoding", line)
    except (OSError, ValueError) as cause:  # ValueError: a path with a NUL
        refuse(path, f"cannot be read: {cause}")


def write_text(path: Path, text: str) -> None:
    """All or nothing: a reader sees the old file or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)
    except (OSError, ValueError) as cause:
        draft.unlink(missing_ok=True)
        refuse(path, f"cannot be written: {cause}")


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


def parse_number(path: Path, text: str, line: int, field: str) -> float:
    """A finite number in plain notation."""
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if not abs(value) < LARGEST:
        refuse(path, f"must be a finite number below {LARGEST:g}, got {text[:40]!r}", line, field)
    return value
