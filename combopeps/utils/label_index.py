"""`LabelIndex`: find arms by their labels, or by the spelling of labels in text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Protocol

from combopeps.errors import LabelError
from combopeps.utils.label_format import label_text, spellings

_MAX_LISTED = 5  # labels named in an error message
_MAX_COMPARED = 5_000  # labels searched for similar spellings


class LabelledOracle(Protocol):
    """The part of the interface of oracles that concerns labels."""

    @property
    def components(self) -> tuple[Hashable, ...]:
        """Labels of the components."""

    pruned: Sequence[Hashable]
    """Labels of components that belong to no answer, and were left out."""

    def why_pruned(self, label: Hashable) -> str:
        """Explain why a component was left out."""

    def aliases(self, label: Hashable) -> tuple[Hashable, ...]:
        """Return other labels of the same component."""


class LabelIndex:
    """Index of labels: arms have the numbers 0, 1, ..., components pruned by the oracle -1, -2, ...

    Parameters
    ----------
    labels
        Labels of the arms, in their order.
    oracle
        Oracle whose components the arms measure.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> book = LabelIndex([7, "eight"], TopKOracle([7, "eight", "nine"], k=1))
    >>> book.find("eight"), book.match("7")
    (1, 0)
    """

    def __init__(self, labels: Sequence[Hashable], oracle: LabelledOracle) -> None:
        self._labels, self._oracle = labels, oracle
        self._ambiguous_spellings: dict[str | tuple[str, ...], set[int]] = {}

    def find(self, label: Any) -> int:
        """Return the arm with this label (not a spelling); raise a `LabelError` if there is none."""
        number = self.number(label)
        if number is None:
            raise self._unknown_label_error(label, repr)
        return self._require_arm(number)

    def match(self, label: Any, *, is_text: bool = False) -> int:
        """Return the number of a label or spelling, negative if pruned; raise a `LabelError` unless it is unique."""
        found = self.meant(label, is_text=is_text)
        if len(found) == 1:
            return min(found)
        raise self.refusal(label, found)

    def meant(self, label: Any, *, is_text: bool = False) -> set[int]:
        """Return the numbers of all labels that match.

        A label that exists matches itself only, unless it was read from text (`is_text`): 1 and "1" are then ambiguous.
        """
        number = None if is_text else self.number(label)
        if number is not None:
            return {number}
        variants: list[str | tuple[str, ...]]
        if isinstance(label, tuple):
            variants = [tuple(map(str, label)), tuple(str(part).strip() for part in label)]
        else:
            variants = [str(label), str(label).strip()]
        return self._matches(variants[0]) or self._matches(variants[1])

    def by_words(self, words: Sequence[str]) -> Hashable:
        """Return the label given on a command line, by its parts as words or as one text such as `a - b`."""
        found = self.candidates_by_words(words)
        if len(found) != 1:
            raise self.refusal(" ".join(words), found)
        return self._labels[self._require_arm(min(found))]

    def candidates_by_words(self, words: Sequence[str]) -> set[int]:
        """Return the numbers of all labels that match the words."""
        return self._matches(tuple(words)) | self._matches(" ".join(words))

    def refusal(self, label: Any, found: set[int]) -> LabelError:
        """Return the error for a label that matches none, or several: `found`."""
        return self._ambiguous_label_error(label, found) if found else self._unknown_label_error(label)

    def reason(self, number: int) -> str:
        """Explain why a pruned component is not measured."""
        return self._oracle.why_pruned(self.pruned(number))

    def pruned(self, number: int) -> Hashable:
        """Return the label of a pruned component from its negative number."""
        return self._oracle.pruned[-1 - number]

    def _require_arm(self, number: int) -> int:
        """Return the number of an arm; raise a `LabelError` for a pruned component."""
        if number < 0:
            raise LabelError(f"{self.reason(number)}, so it is not measured; leave it out")
        return number

    def number(self, label: Any) -> int | None:
        """Return the number of a label or alias, negative if pruned; None if it is unknown."""
        try:
            return self._by_label.get(label)
        except TypeError:  # unhashable
            return None

    def _ambiguous_label_error(self, label: Any, found: set[int]) -> LabelError:
        alike = sorted(repr(self._labels[i] if i >= 0 else self.pruned(i)) for i in found)
        return LabelError(
            f"{label_text(label)[:60]!r} may be {' or '.join(alike[:2])}, which are written alike; give the parts of a "
            "label apart (in a table the columns source and target, on a command line one word each), or, from Python, "
            "the label itself"
        )

    def _unknown_label_error(self, label: Any, shown: Callable[[Any], str] = label_text) -> LabelError:
        try:
            known = label in self._oracle.components
        except (TypeError, ValueError):  # not comparable
            known = False
        if known:
            return LabelError(f"{label!r:.60} is a component that no arm of the problem measures alone; leave it out")
        names = {label_text(name): name for name in self._labels[:_MAX_COMPARED]}
        near = get_close_matches(label_text(label)[:100], names, n=3, cutoff=0.6)
        ellipsis = ", ..." if len(self._labels) > _MAX_LISTED else ""
        listed = ", ".join(map(shown, self._labels[:_MAX_LISTED])) + ellipsis
        cure = f"did you mean {' or '.join(shown(names[name]) for name in near)}?" if near else f"there are {listed}"
        text = f"{label!r:.60}" if shown is repr else f"{shown(label)[:60]!r}"
        return LabelError(f"{text} is not the label of anything to measure; {cure}")

    @cached_property
    def _by_label(self) -> dict[Hashable, int]:
        """Numbers of all labels and aliases."""
        numbered = [*enumerate(self._labels), *((-1 - i, label) for i, label in enumerate(self._oracle.pruned))]
        exact: dict[Hashable, int] = {}
        for number, label in numbered:
            exact.setdefault(label, number)
        for number, label in numbered:
            for alias in self._oracle.aliases(label):
                exact.setdefault(alias, number)
        return exact

    def _matches(self, spelling: str | tuple[str, ...]) -> set[int]:
        """Return the numbers of all labels with this spelling."""
        number = self._by_spelling.get(spelling)
        return set() if number is None else self._ambiguous_spellings.get(spelling, {number})

    @cached_property
    def _by_spelling(self) -> dict[str | tuple[str, ...], int]:
        """First number of every spelling; spellings of several numbers are added to `_ambiguous_spellings`."""
        by_spelling: dict[str | tuple[str, ...], int] = {}
        for label, number in self._by_label.items():
            for spelling in spellings(label):
                first = by_spelling.setdefault(spelling, number)
                if first != number:
                    self._ambiguous_spellings.setdefault(spelling, {first}).add(number)
        return by_spelling
