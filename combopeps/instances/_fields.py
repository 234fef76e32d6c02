"""Reading a JSON value with the path of every field at hand."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from combopeps.errors import ComboPepsError, InstanceError
from combopeps.instances._text import LARGEST

MOST = 2_000_000  # components: a file that asks for more is taken for broken
_DEEPEST = 8  # lists inside a label


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

    def count(self) -> int:
        """A whole number from 1 to the largest size allowed."""
        if type(self.value) is not int or not 1 <= self.value <= MOST:
            self._wanted(f"a whole number in 1..{MOST}")
        return self.value

    def number(self) -> float:
        """A finite number."""
        if type(self.value) not in (int, float) or not abs(self.value) < LARGEST:
            self._wanted(f"a finite number below {LARGEST:g}")
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
        """Differences of one length."""
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
