"""Answers that a run has seen, and a budget of oracle calls, for slow oracles.

    aside  <=  3 chosen + 64

`chosen` counts the rows (thetas passed to the oracle) that choose what to measure, `aside` all others: those of
stopping rules and of searches for facets. For an oracle that is not `quick`, rows dominate the cost of a run; the
budget keeps the others within a multiple of the first kind. Rows are counted, not timed, so that a seed determines the
run. Cached answers save rows: z_hat is beaten under theta if a cached answer beats it, which takes a product and no
oracle call.
"""

from __future__ import annotations

from itertools import islice
from typing import Self

import numpy as np

from combopeps.oracles.base import ArgmaxOracle, Array

MAX_ROW_RATIO = 3  # rows aside per row that chooses
_FREE_ROWS = 64  # rows aside that are always allowed
_MAX_ANSWERS, _MAX_COORDINATES = 2048, 2_000_000  # of the cached answers
_MAX_RECENT = 4  # thetas cached with their answers: a stopping rule and the next choice ask for the same one
_MIN_RUN_ROWS = 8  # rows that choose, from which on this counts as a run


class AnswerCache:
    """The answers of one run without duplicates, the latest last, and counts of its oracle calls.

    Attributes
    ----------
    chosen, aside
        Rows that choose what to measure, and all others.
    attempts
        Checks of a stopping rule that have used rows to make a claim.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> memory = AnswerCache(TopKOracle(3, k=1))
    >>> memory.ask(np.eye(3)[:2], aside=True).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    >>> memory.aside, memory.can_afford(80)
    (2, False)
    """

    def __init__(self, oracle: ArgmaxOracle, known: Array | None = None) -> None:
        self.oracle = oracle
        self.chosen = self.aside = self.attempts = 0
        self._capacity = max(64, min(_MAX_ANSWERS, _MAX_COORDINATES // oracle.dim))
        self._last_number = 0  # of the answer that was first seen last
        self._answers: dict[bytes, tuple[int, Array]] = {}
        self._recent: dict[bytes, Array] = {}
        if known is not None:
            self.note(known)

    def copy(self) -> Self:
        """Return a copy with the same answers and counts of 0, for calls that do not belong to the run."""
        copied = type(self)(self.oracle)
        copied._last_number = self._last_number
        copied._answers, copied._recent = dict(self._answers), dict(self._recent)
        return copied

    def ask(self, thetas: Array, *, aside: bool) -> Array:
        """Return the best answers by the oracle, (B, d); count the rows and add the answers."""
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
        """Return the best answer under the mean of a posterior; the last few are cached by theta.

        Does not change the counts: the row is counted when an arm is chosen by the answer.
        """
        key = theta.tobytes()
        if key not in self._recent:
            best = self.oracle.argmax(theta[None])[0]
            self._recent = dict([*self._recent.items(), (key, best.copy())][-_MAX_RECENT:])
        return self._recent[key].copy()

    def choose_by(self, z_hat: Array) -> None:
        """Count a row for an arm that is about to be chosen by this answer, and add the answer."""
        self.chosen += 1
        self.note(z_hat[None])

    def note(self, answers: Array) -> None:
        """Add answers; if there are too many, those not seen for longest are removed."""
        for z in answers + 0.0:  # no -0.0
            key = z.tobytes()
            if key in self._answers:
                self._answers[key] = self._answers.pop(key)
            else:
                self._last_number += 1
                self._answers[key] = self._last_number, z.copy()
        while len(self._answers) > self._capacity:
            del self._answers[next(iter(self._answers))]

    def since(self, number: int) -> tuple[Array, int]:
        """Return the answers first seen after number `number`, and the number of the last one."""
        if number == self._last_number:
            return np.empty((0, self.oracle.dim)), number
        new = [z for n, z in self._answers.values() if n > number]
        return np.array(new).reshape(len(new), self.oracle.dim), self._last_number

    def latest(self, most: int) -> Array:
        """Return up to `most` answers seen last, (m, d)."""
        last = [z for _, z in islice(reversed(self._answers.values()), most)]
        return np.array(last).reshape(len(last), self.oracle.dim)

    def can_afford(self, rows: float, free: float = 0.0) -> bool:
        """Return whether the budget allows `rows` more rows aside; `free` rows are granted on top of it."""
        return self.aside + rows <= MAX_ROW_RATIO * self.chosen + _FREE_ROWS + free

    @property
    def apart(self) -> bool:
        """Whether there is no run to relate rows to: few or no rows have chosen an arm."""
        return self.chosen < _MIN_RUN_ROWS
