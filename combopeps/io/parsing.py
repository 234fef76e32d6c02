"""From bytes on a disk to text, JSON and checked values, with file, line or field in every refusal."""

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

MOST = 2_000_000  # components: a file that asks for more is taken for broken
_DEEPEST = 8  # lists inside a label


def read_text(path: Path) -> str:
    """The content of a UTF-8 file, with or without a byte order mark."""
    data = files.read_regular(path)
    try:
        text = data.decode("utf-8-sig")
        bad = data.find(b"\0")  # UTF-16 without a mark looks like UTF-8 with zeros in between
    except UnicodeDecodeError as cause:
        bad = cause.start
    if bad >= 0:
        raise_format_error(path, "this is not UTF-8 text; save the file in that encoding", data[:bad].count(b"\n") + 1)
    return text


def parse_json(path: Path, text: str) -> Any:
    """JSON as the standard has it: no NaN, no infinity, and no key twice in an object."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            raise_format_error(path, "stands there twice in one object", field=first_repeated(key for key, _ in pairs))
        return result

    def unknown(constant: str) -> NoReturn:
        raise_format_error(path, f"{constant} is not a number that JSON or this package allows")

    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=unknown)
    except json.JSONDecodeError as cause:
        raise_format_error(path, f"this is not JSON: {cause.msg} (column {cause.colno})", cause.lineno)
    except RecursionError:
        raise_format_error(path, "the brackets are nested too deeply")
    except FileFormatError:
        raise
    except ValueError as cause:  # an integer of thousands of digits
        raise_format_error(path, f"holds a number that cannot be read: {cause}")


def parse_number(path: Path, text: str, line: int, field: str) -> float:
    """A finite number in plain notation."""
    try:
        return parse_cell(text)
    except ValueError as cause:
        raise_format_error(path, str(cause), line, field)


class Field:
    """One value of a document, and where it stands."""

    def __init__(self, value: Any, path: str = "") -> None:
        self.value, self.path = value, path

    def fail(self, message: str) -> NoReturn:
        """Refuse the value, by its path."""
        raise InstanceError(f"{self.path or 'the instance'}: {message}", self.path)

    def _wanted(self, what: str) -> NoReturn:
        shown = repr(self.value) if isinstance(self.value, (str, int, float, bool, type(None))) else ""
        self.fail(f"must be {what}, got {type(self.value).__name__} {shown[:40]}".rstrip())

    @contextmanager
    def checked(self) -> Iterator[None]:
        """What the package refuses inside is refused by this path."""
        try:
            yield
        except InstanceError:
            raise
        except ComboPepsError as cause:
            raise InstanceError(f"{self.path}: {cause}", self.path) from cause

    def record(self, required: set[str], optional: set[str]) -> dict[str, Field]:
        """An object with these keys and no others; optional ones that are missing come as None."""
        if not isinstance(self.value, dict):
            self._wanted("an object")
        prefix = f"{self.path}." if self.path else ""
        for key in self.value:
            if key not in required | optional:
                self.fail(f"has an unknown field {key[:40]!r}; known ones are {', '.join(sorted(required | optional))}")
        for key in sorted(required - set(self.value)):
            raise InstanceError(f"{prefix}{key}: is missing", prefix + key)
        return {key: Field(self.value.get(key), prefix + key) for key in required | optional}

    def items(self) -> list[Field]:
        """The entries of a non-empty list."""
        if not isinstance(self.value, list) or not self.value:
            self._wanted("a list with something in it")
        return [Field(value, f"{self.path}[{i}]") for i, value in enumerate(self.value)]

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self._wanted("a string")
        return self.value

    def choice(self, *options: Any) -> Any:
        """One of the options, of the same type."""
        for option in options:
            if type(self.value) is type(option) and self.value == option:
                return option
        self._wanted("one of " + ", ".join(repr(option) for option in options))

    def flag(self, default: bool) -> bool:
        """True or false; the default where it is left out."""
        return default if self.value is None else bool(self.choice(True, False))

    def count(self) -> int:
        """A whole number from 1 to the largest size allowed."""
        if type(self.value) is not int or not 1 <= self.value <= MOST:
            self._wanted(f"a whole number in 1..{MOST}")
        return self.value

    def number(self) -> float:
        """A finite number."""
        if type(self.value) not in (int, float) or not abs(self.value) < MAX_ABS_VALUE:
            self._wanted(f"a finite number below {MAX_ABS_VALUE:g}")
        return float(self.value)

    def positive(self) -> float:
        """A number above zero."""
        value = self.number()
        if value <= 0:
            self._wanted("a number above 0")
        return value

    def numbers(self) -> list[float]:
        """A list of finite numbers."""
        return [entry.number() for entry in self.items()]

    def matrix(self) -> list[list[float]]:
        """Rows of one length."""
        rows = [(row, row.numbers()) for row in self.items()]
        for row, values in rows:
            if len(values) != len(rows[0][1]):
                row.fail(f"has {len(values)} numbers, the first row has {len(rows[0][1])}")
        return [values for _, values in rows]

    def label(self, depth: int = 0) -> Hashable:
        """A string, a number, or a list of labels, which stands for a tuple."""
        if isinstance(self.value, list):
            if depth == _DEEPEST:
                self.fail(f"is nested more than {_DEEPEST} deep")
            return tuple(part.label(depth + 1) for part in self.items())
        if type(self.value) not in (str, int, float):
            self._wanted("a label: a string, a number, or a list of these")
        return self.value if isinstance(self.value, (str, int)) else self.number()

    def labels(self) -> list[Hashable]:
        """A list of labels, all different."""
        seen: dict[Hashable, str] = {}
        for entry in self.items():
            label = entry.label()
            if label in seen:
                entry.fail(f"{label!r} stands at {seen[label]} already")
            seen[label] = entry.path
        return list(seen)

    def count_or_labels(self) -> int | list[Hashable]:
        """How many, or what they are called."""
        return self.labels() if isinstance(self.value, list) else self.count()
