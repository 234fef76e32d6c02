"""`Memory`: the answers that a run has seen, and the rows it has asked its oracle for.

    rows aside  <=  3 rows chosen with + 64

Whoever answers quickly may be asked thousands of times at every look. For everyone else a row is what a run costs:
those of looks and of searches for facets, aside from choosing what to measure, stay within a multiple of the others.
Rows are counted, not timed: the same seed is the same run. And what was seen is used: z_hat is beaten under theta if
one of those answers beats it, which takes a product and no oracle.
"""

from __future__ import annotations

from itertools import islice
from typing import Self

import numpy as np

from combopeps.oracles.base import ArgmaxOracle, Array

MULTIPLE = 3  # rows aside, for each row that was chosen with
_ALWAYS = 64  # rows aside, whatever was chosen
_MOST, _NUMBERS = 2048, 2_000_000  # answers that are remembered, and their coordinates
_RECENT = 4  # thetas whose answers are not asked for again: a look and the choice after it have one in common
_RUN = 8  # rows chosen with, before that is a run


class Memory:
    """Answers of one run, each once, the latest last; and how many rows it has asked for.

    Attributes
    ----------
    chosen, aside
        Rows for choosing what to measure, and for anything else.
    attempts
        Looks that have asked for rows to claim something by.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> memory = Memory(TopKOracle(3, k=1))
    >>> memory.ask(np.eye(3)[:2], aside=True).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    >>> memory.aside, memory.affords(80)
    (2, False)
    """

    def __init__(self, oracle: ArgmaxOracle, known: Array | None = None) -> None:
        self.oracle = oracle
        self.chosen = self.aside = self.attempts = 0
        self._most = max(64, min(_MOST, _NUMBERS // oracle.dim))
        self._number = 0  # of the answer that was first seen last
        self._seen: dict[bytes, tuple[int, Array]] = {}
        self._recent: dict[bytes, Array] = {}
        if known is not None:
            self.note(known)

    def copy(self) -> Self:
        """With the same answers, for somebody who asks aside from the run: it knows nothing of that."""
        twin = type(self)(self.oracle)
        twin._number, twin._seen, twin._recent = self._number, dict(self._seen), dict(self._recent)
        return twin

    def ask(self, thetas: Array, *, aside: bool) -> Array:
        """Best answers, (B, d), by the oracle."""
        if not len(thetas):
            return np.empty(thetas.shape)
        answers = self.oracle.argmax(thetas)
        if aside:
            self.aside += len(thetas)
        else:
            self.chosen += len(thetas)
        self.note(answers)
        return answers

    def answer(self, theta: Array) -> Array:
        """The best answer under the mean of a belief; nobody is asked twice in a row.

        Whoever wants to know leaves no trace: the row counts when an arm is chosen by it.
        """
        key = theta.tobytes()
        if key not in self._recent:
            best = self.oracle.argmax(theta[None])[0]
            self._recent = dict([*self._recent.items(), (key, best.copy())][-_RECENT:])
        return self._recent[key].copy()

    def choose_by(self, z_hat: Array) -> None:
        """An arm is about to be chosen by this answer."""
        self.chosen += 1
        self.note(z_hat[None])

    def note(self, answers: Array) -> None:
        """Answers that somebody was given; of too many, those that were not seen for longest are dropped."""
        for z in answers + 0.0:  # no -0.0
            key = z.tobytes()
            if key in self._seen:
                self._seen[key] = self._seen.pop(key)
            else:
                self._number += 1
                self._seen[key] = self._number, z.copy()
        while len(self._seen) > self._most:
            del self._seen[next(iter(self._seen))]

    def since(self, number: int) -> tuple[Array, int]:
        """Answers first seen after that of this number, and the number of the last of all."""
        if number == self._number:
            return np.empty((0, self.oracle.dim)), number
        new = [z for n, z in self._seen.values() if n > number]
        return np.array(new).reshape(len(new), self.oracle.dim), self._number

    def latest(self, most: int) -> Array:
        """Up to so many answers that were seen last, (m, d)."""
        last = [z for _, z in islice(reversed(self._seen.values()), most)]
        return np.array(last).reshape(len(last), self.oracle.dim)

    def affords(self, rows: float, free: float = 0.0) -> bool:
        """May so many rows be asked for aside? `free` of them are for something that has to be done once."""
        return self.aside + rows <= MULTIPLE * self.chosen + _ALWAYS + free

    @property
    def apart(self) -> bool:
        """Nobody has chosen with it: there is no run that rows could be weighed against."""
        return self.chosen < _RUN
