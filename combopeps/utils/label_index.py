"""`LabelBook`: which arm somebody means, by its label or by how that is written."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Protocol

from combopeps.errors import LabelError
from combopeps.utils.label_format import label_text, spellings

_SHOWN = 5
_COMPARED = 5_000  # labels that are searched for one that was meant


class Names(Protocol):
    """What an oracle says about the names of its components."""

    @property
    def components(self) -> tuple[Hashable, ...]:
        """What it knows by name."""

    pruned: Sequence[Hashable]
    """What it has left out, as no answer has it."""

    def why_pruned(self, label: Hashable) -> str:
        """Why that was left out."""

    def aliases(self, label: Hashable) -> tuple[Hashable, ...]:
        """Other names of the same component."""


class LabelBook:
    """Finds arms from 0 up, and what the oracle has pruned from -1 down.

    Parameters
    ----------
    labels
        Of the arms, in their order.
    oracle
        Whose components they measure.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> book = LabelBook([7, "eight"], TopKOracle([7, "eight", "nine"], k=1))
    >>> book.find("eight"), book.match("7")
    (1, 0)
    """

    def __init__(self, labels: Sequence[Hashable], oracle: Names) -> None:
        self._labels, self._oracle = labels, oracle
        self._alike: dict[str | tuple[str, ...], set[int]] = {}

    def find(self, label: Any) -> int:
        """The arm of a label itself; a `LabelError` says why there is none."""
        number = self.number(label)
        if number is None:
            raise self._unknown(label, repr)
        return self._arm(number)

    def match(self, label: Any, *, is_text: bool = False) -> int:
        """The number of what is called or written like this, negative where it was pruned; or a `LabelError`."""
        found = self.meant(label, is_text=is_text)
        if len(found) == 1:
            return min(found)
        raise self.refusal(label, found)

    def meant(self, label: Any, *, is_text: bool = False) -> set[int]:
        """The numbers of all that may be meant.

        A label itself is what it is, unless all there is is text (`is_text`): then 1 and "1" cannot be told apart.
        """
        number = None if is_text else self.number(label)
        if number is not None:
            return {number}
        ways: list[str | tuple[str, ...]]
        if isinstance(label, tuple):
            ways = [tuple(map(str, label)), tuple(str(part).strip() for part in label)]
        else:
            ways = [str(label), str(label).strip()]
        return self._written(ways[0]) or self._written(ways[1])

    def by_words(self, words: Sequence[str]) -> Hashable:
        """The label that is meant on a command line: its parts as words, or as one text such as `a - b`."""
        found = self.meant_by_words(words)
        if len(found) != 1:
            raise self.refusal(" ".join(words), found)
        return self._labels[self._arm(min(found))]

    def meant_by_words(self, words: Sequence[str]) -> set[int]:
        """The numbers of all that `by_words` may mean."""
        return self._written(tuple(words)) | self._written(" ".join(words))

    def refusal(self, label: Any, found: set[int]) -> LabelError:
        """What to say where not one thing is meant, but these."""
        return self._ambiguous(label, found) if found else self._unknown(label)

    def reason(self, number: int) -> str:
        """Why something pruned is not measured."""
        return self._oracle.why_pruned(self.pruned(number))

    def pruned(self, number: int) -> Hashable:
        """What has this negative number."""
        return self._oracle.pruned[-1 - number]

    def _arm(self, number: int) -> int:
        if number < 0:
            raise LabelError(f"{self.reason(number)}, so it is not measured; leave it out")
        return number

    def number(self, label: Any) -> int | None:
        """Of what is called this, by whatever name; negative where it was pruned, None where nobody knows it."""
        try:
            return self._exact.get(label)
        except TypeError:  # unhashable
            return None

    def _ambiguous(self, label: Any, found: set[int]) -> LabelError:
        alike = sorted(repr(self._labels[i] if i >= 0 else self.pruned(i)) for i in found)
        return LabelError(
            f"{label_text(label)[:60]!r} may be {' or '.join(alike[:2])}, which are written alike; give the parts of a "
            "label apart (in a table the columns source and target, on a command line one word each), or, from Python, "
            "the label itself"
        )

    def _unknown(self, label: Any, shown: Callable[[Any], str] = label_text) -> LabelError:
        try:
            known = label in self._oracle.components
        except (TypeError, ValueError):  # what cannot be compared
            known = False
        if known:
            return LabelError(f"{label!r:.60} is a component that no arm of the problem measures alone; leave it out")
        names = {label_text(name): name for name in self._labels[:_COMPARED]}
        near = get_close_matches(label_text(label)[:100], names, n=3, cutoff=0.6)
        there = ", ".join(map(shown, self._labels[:_SHOWN])) + (", ..." if len(self._labels) > _SHOWN else "")
        cure = f"did you mean {' or '.join(shown(names[name]) for name in near)}?" if near else f"there are {there}"
        text = f"{label!r:.60}" if shown is repr else f"{shown(label)[:60]!r}"
        return LabelError(f"{text} is not the label of anything to measure; {cure}")

    @cached_property
    def _exact(self) -> dict[Hashable, int]:
        numbered = [*enumerate(self._labels), *((-1 - i, label) for i, label in enumerate(self._oracle.pruned))]
        exact: dict[Hashable, int] = {}
        for number, label in numbered:
            exact.setdefault(label, number)
        for number, label in numbered:
            for alias in self._oracle.aliases(label):
                exact.setdefault(alias, number)
        return exact

    def _written(self, way: str | tuple[str, ...]) -> set[int]:
        """The numbers of all that is written like this."""
        number = self._texts.get(way)
        return set() if number is None else self._alike.get(way, {number})

    @cached_property
    def _texts(self) -> dict[str | tuple[str, ...], int]:
        """The first number that is written so; all others are in `_alike`, which is filled here."""
        texts: dict[str | tuple[str, ...], int] = {}
        for label, number in self._exact.items():
            for way in spellings(label):
                first = texts.setdefault(way, number)
                if first != number:
                    self._alike.setdefault(way, {first}).add(number)
        return texts
