"""Uniform: every arm equally often."""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Arm, Policy
from combopeps.policies.tracking import RoundRobin
from combopeps.problem import Problem


class Uniform(Policy):
    """Round robin, in an order drawn at random in each replication: what any other policy should beat.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> policy = Uniform(TopKOracle(["a", "b", "c"], k=1), rng=0)
    >>> sorted(query.label for query in policy.ask(6))
    ['a', 'a', 'b', 'b', 'c', 'c']
    """

    def __init__(
        self, problem: Problem | ArgmaxOracle, rng: int | np.random.Generator | None = None, **options: Any
    ) -> None:
        super().__init__(problem, rng, **options)
        self._turns = RoundRobin(len(self.problem.arms), self.streams)

    def choose(self) -> Arm:
        """Whose turn it is."""
        return self._turns.pick()
