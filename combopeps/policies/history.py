"""`History`: a table of measurements, matched with the arms of a problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from combopeps.belief.scales import LARGEST_REWARD
from combopeps.errors import LabelError, RewardError
from combopeps.oracles.base import Array
from combopeps.tables import Observed
from combopeps.tables.book import LabelBook
from combopeps.tables.table import Table

_NONE = -1  # no arm


@dataclass(frozen=True)
class History:
    """Measurements in the order of their table: arms, results, standard errors (None: unknown) and counts."""

    arms: list[int]
    ys: list[float]
    sems: list[float | None]
    counts: list[int]

    def add(self, arm: int, y: float, sem: float | None = None, count: int = 1) -> None:
        """One more."""
        self.arms.append(arm)
        self.ys.append(y)
        self.sems.append(sem)
        self.counts.append(count)

    def weights(self, noise: Array) -> Array:
        """How many ordinary measurements of its arm each is worth, with noise (K,): count, or (noise / sem)^2."""
        sems = np.array([np.nan if sem is None else sem for sem in self.sems], dtype=np.float64)
        with np.errstate(over="ignore"):
            return np.where(np.isnan(sems), self.counts, (noise[self.arms] / sems) ** 2)


def history_of(table: Table, book: LabelBook, noise_std: float) -> tuple[History, Observed]:
    """All rows are checked; then those of what is in no answer are left out, and counted."""
    faults = table.faults
    numbers = _numbers(table, book)
    for row, y in enumerate(table.values):
        if y is not None and abs(y) > LARGEST_REWARD * noise_std:
            most = f"{LARGEST_REWARD:g} times noise_std = {noise_std:g}"
            faults.add(row, "value", f"must be at most {most}, got {y:g}; is it in other units?", RewardError)
    faults.check()
    kept = [row for row, number in enumerate(numbers) if number >= 0]
    left_out = Counter(number for number in numbers if number < 0)
    reason = f"{book.reason(next(iter(left_out)))}, so it is not measured" if left_out else ""
    named: dict[Hashable, int] = {book.pruned(number): count for number, count in left_out.items()}
    columns: tuple[list[Any], ...] = (numbers, table.values, table.sems, table.counts)
    history = History(*([column[row] for row in kept] for column in columns))
    return history, Observed(len(table), len(kept), named, reason)


def _numbers(table: Table, book: LabelBook) -> list[int]:
    """The arm of every row, negative for what was pruned; the first label that is unknown is explained."""
    known: dict[Any, set[int]] = {}
    numbers, message = [], ""
    for row, label in enumerate(table.labels):
        found = _meant(label, table, book, known)
        if len(found) != 1:
            message = message or str(book.refusal(label, found))
            table.faults.add(row, "label", message, LabelError)
        numbers.append(min(found, default=_NONE))
    return numbers


def _meant(label: Any, table: Table, book: LabelBook, known: dict[Any, set[int]]) -> set[int]:
    try:
        if label not in known:
            known[label] = book.meant(label, is_text=table.is_text)
        return known[label]
    except TypeError:  # unhashable
        return set()
