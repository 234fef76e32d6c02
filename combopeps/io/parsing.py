"""Reading of files as text and JSON, and `Field`: validated access to the values of a JSON document.

Errors name the file and line, or the path of the field in the document.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from combopeps.errors import ComboPepsError, FileFormatError, InstanceError
from combopeps.utils import files
from combopeps.utils.csv_files import MAX_ABS_VALUE, parse_cell
from combopeps.utils.files import raise_format_error
from combopeps.utils.label_format import first_repeated

MAX_COMPONENTS = 2_000_000  # larger files are rejected as damaged
_MAX_LABEL_DEPTH = 8  # of nested lists


def read_text(path: Path) -> str:
    """Read a UTF-8 file, with or without a byte order mark."""
    data = files.read_regular(path)
    try:
        text = data.decode("utf-8-sig")
        invalid_at = data.find(b"\0")  # UTF-16 without a byte order mark decodes as UTF-8 with zeros in between
    except UnicodeDecodeError as cause:
        invalid_at = cause.start
    if invalid_at >= 0:
        raise_format_error(
            path, "this is not UTF-8 text; save the file in that encoding", data[:invalid_at].count(b"\n") + 1
        )
    return text


def parse_json(path: Path, text: str) -> Any:
    """Parse standard JSON: NaN, infinity and duplicate keys are errors."""

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise_format_error(path, "duplicate key in one object", field=first_repeated(key for key, _ in pairs))
        return result

    def reject_constant(constant: str) -> NoReturn:
        raise_format_error(path, f"{constant} is not a number that JSON or this package allows")

    try:
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=reject_constant)
    except json.JSONDecodeError as cause:
        raise_format_error(path, f"this is not JSON: {cause.msg} (column {cause.colno})", cause.lineno)
    except RecursionError:
        raise_format_error(path, "the brackets are nested too deeply")
    except FileFormatError:
        raise
    except ValueError as cause:  # an integer of thousands of digits
        raise_format_error(path, f"holds a number that cannot be read: {cause}")


def parse_number(path: Path, text: str, line: int, field: str) -> float:
    """Parse a finite number in plain notation."""
    try:
        return parse_cell(text)
    except ValueError as cause:
        raise_format_error(path, str(cause), line, field)


class Field:
    """Value of a JSON document and its path, such as `oracle.edges[3]`.

    Each method returns the value as one type, or raises `InstanceError` with the path.
    """

    def __init__(self, value: Any, path: str = "") -> None:
        self.value, self.path = value, path

    def fail(self, message: str) -> NoReturn:
        """Raise `InstanceError` with the path of the value."""
        raise InstanceError(f"{self.path or 'the instance'}: {message}", self.path)

    def _fail_type(self, expected: str) -> NoReturn:
        shown = repr(self.value) if isinstance(self.value, (str, int, float, bool, type(None))) else ""
        self.fail(f"must be {expected}, got {type(self.value).__name__} {shown[:40]}".rstrip())

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Convert errors of the package in a `with` block to `InstanceError` with the path of the value."""
        try:
            yield
        except InstanceError:
            raise
        except ComboPepsError as cause:
            raise InstanceError(f"{self.path}: {cause}", self.path) from cause

    def record(self, required: set[str], optional: set[str]) -> dict[str, Field]:
        """Return the fields of an object with these keys and no others; missing optional ones have the value None."""
        if not isinstance(self.value, dict):
            self._fail_type("an object")
        prefix = f"{self.path}." if self.path else ""
        for key in self.value:
            if key not in required | optional:
                self.fail(f"has an unknown field {key[:40]!r}; known ones are {', '.join(sorted(required | optional))}")
        for key in sorted(required - set(self.value)):
            raise InstanceError(f"{prefix}{key}: is missing", prefix + key)
        return {key: Field(self.value.get(key), prefix + key) for key in required | optional}

    def items(self) -> list[Field]:
        """Return the entries of a non-empty list."""
        if not isinstance(self.value, list) or not self.value:
            self._fail_type("a non-empty list")
        return [Field(value, f"{self.path}[{i}]") for i, value in enumerate(self.value)]

    def text(self) -> str:
        """Return a string."""
        if not isinstance(self.value, str):
            self._fail_type("a string")
        return self.value

    def choice(self, *options: Any) -> Any:
        """Return one of the options, of equal value and type."""
        for option in options:
            if type(self.value) is type(option) and self.value == option:
                return option
        self._fail_type("one of " + ", ".join(repr(option) for option in options))

    def flag(self, default: bool) -> bool:
        """Return a Boolean; the default if the field is missing."""
        return default if self.value is None else bool(self.choice(True, False))

    def count(self) -> int:
        """Return an integer from 1 to the largest allowed size."""
        if type(self.value) is not int or not 1 <= self.value <= MAX_COMPONENTS:
            self._fail_type(f"a whole number in 1..{MAX_COMPONENTS}")
        return self.value

    def number(self) -> float:
        """Return a finite number."""
        if type(self.value) not in (int, float) or not abs(self.value) < MAX_ABS_VALUE:
            self._fail_type(f"a finite number below {MAX_ABS_VALUE:g}")
        return float(self.value)

    def positive(self) -> float:
        """Return a positive number."""
        value = self.number()
        if value <= 0:
            self._fail_type("a number above 0")
        return value

    def numbers(self) -> list[float]:
        """Return a list of finite numbers."""
        return [entry.number() for entry in self.items()]

    def matrix(self) -> list[list[float]]:
        """Return rows of numbers of equal length."""
        rows = [(row, row.numbers()) for row in self.items()]
        for row, values in rows:
            if len(values) != len(rows[0][1]):
                row.fail(f"has {len(values)} numbers, the first row has {len(rows[0][1])}")
        return [values for _, values in rows]

    def label(self, depth: int = 0) -> Hashable:
        """Return a label: a string, a number, or a tuple of labels, which JSON stores as a list."""
        if isinstance(self.value, list):
            if depth == _MAX_LABEL_DEPTH:
                self.fail(f"is nested more than {_MAX_LABEL_DEPTH} deep")
            return tuple(part.label(depth + 1) for part in self.items())
        if type(self.value) not in (str, int, float):
            self._fail_type("a label: a string, a number, or a list of these")
        return self.value if isinstance(self.value, (str, int)) else self.number()

    def labels(self) -> list[Hashable]:
        """Return a list of distinct labels."""
        seen: dict[Hashable, str] = {}
        for entry in self.items():
            label = entry.label()
            if label in seen:
                entry.fail(f"{label!r} is a duplicate of {seen[label]}")
            seen[label] = entry.path
        return list(seen)

    def count_or_labels(self) -> int | list[Hashable]:
        """Return a number of labels, or the labels."""
        return self.labels() if isinstance(self.value, list) else self.count()
