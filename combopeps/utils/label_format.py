"""How labels are written, for people to read and to write back. Nothing is imported: help needs it too."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any


def shown(value: object) -> str:
    r"""A label, name or path on one line: as it is if all of it can be seen, as Python would write it otherwise.

    Examples
    --------
    >>> print(shown("Zürich"), shown("a\x1b[2J"), shown("a\u202eb"))
    Zürich 'a\x1b[2J' 'a\u202eb'
    """
    text = str(value)
    return text if text.isprintable() else repr(text)


def label_text(label: Any) -> str:
    """An edge as `a - b`; anything else as it is."""
    return " - ".join(map(shown, label)) if isinstance(label, tuple) else shown(label)


def as_label(value: Any) -> Any:
    """Lists stand for tuples, as in a file."""
    return tuple(as_label(part) for part in value) if isinstance(value, (list, tuple)) else value


def first_repeated(values: Iterable[Hashable]) -> Any:
    """The first value that occurred before; None where all are different.

    Examples
    --------
    >>> first_repeated("abcbc")
    'b'
    """
    seen: set[Hashable] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def spellings(label: Hashable) -> Iterator[str | tuple[str, ...]]:
    """All ways in which a label may be written: as one text, and part by part.

    Examples
    --------
    >>> [*spellings((0, 1))]
    ['0 - 1', '(0, 1)', ('0', '1')]
    """
    yield label_text(label)
    yield str(label)
    yield tuple(map(str, label)) if isinstance(label, tuple) else (str(label),)
