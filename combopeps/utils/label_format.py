"""Text form of labels. Imports nothing, as it is used by `combopeps --help`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any


def printable(value: object) -> str:
    r"""Return the text of a label, name or path; its `repr` if it contains non-printable characters.

    Examples
    --------
    >>> print(printable("Zürich"), printable("a\x1b[2J"), printable("a\u202eb"))
    Zürich 'a\x1b[2J' 'a\u202eb'
    """
    text = str(value)
    return text if text.isprintable() else repr(text)


def label_text(label: Any) -> str:
    """Return the text of a label: the parts of a tuple joined as in `a - b`."""
    return " - ".join(map(printable, label)) if isinstance(label, tuple) else printable(label)


def as_label(value: Any) -> Any:
    """Convert lists, also nested ones, to tuples, as labels read from JSON have lists."""
    return tuple(as_label(part) for part in value) if isinstance(value, (list, tuple)) else value


def first_repeated(values: Iterable[Hashable]) -> Any:
    """Return the first value that occurred before; None if all values are distinct.

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
    """Yield all accepted spellings of a label: as one text, and part by part.

    Examples
    --------
    >>> [*spellings((0, 1))]
    ['0 - 1', '(0, 1)', ('0', '1')]
    """
    yield label_text(label)
    yield str(label)
    yield tuple(map(str, label)) if isinstance(label, tuple) else (str(label),)
