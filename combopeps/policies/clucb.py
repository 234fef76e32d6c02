"""CLUCB (Chen, Lin, King, Lyu, Chen 2014), for sets of components, by argmax only.

for t = n + 1, n + 2, ...                            (after every component was measured once)
M_t = argmax_M w(M)                              w(e) the mean of e's measurements
rad(e) = noise_std sqrt(2 ln(4 n t^3 / delta) / T(e))
w~(e) = w(e) - rad(e) for e in M_t, w(e) + rad(e) for others
M~_t = argmax_M w~(M)
stop and answer M_t if w~(M~_t) = w~(M_t)
measure argmax of rad(e) over e in the symmetric difference of M_t and M~_t
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, strictly_better
from combopeps.policies.base import Arm, Policy
from combopeps.policies.tracking import RoundRobin
from combopeps.problem import Problem


class CLUCB(Policy):
    """Confidence bounds on components, and one argmax with all of them against the current answer.

    For answers that are sets of components and arms that measure one component each. Where Theta is bounded, w and w~
    are projected on it.

    Parameters
    ----------
    problem, rng, **options
        As for every `Policy`.
    delta
        The probability with which the answer at the stop may be wrong.

    Attributes
    ----------
    finished
        Replications whose stopping test has succeeded, (R,); looked at by `choose`, and never taken back.
    stopped_at
        After how many measurements it did, (R,); 0 where it has not.
    leader
        M_t, and the answer M_t at the stop where there was one, (R, d).

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> policy = CLUCB(TopKOracle(["a", "b", "c"], k=1), rng=0, delta=0.1)
    >>> truth = {"a": 0.0, "b": 4.0, "c": 1.0}
    >>> while True:
    ...     query = policy.ask()
    ...     if policy.finished.all():
    ...         break
    ...     policy.tell(query, truth[query.label])
    >>> policy.problem.oracle.decode(policy.leader[0]), policy.samples
    ({'b'}, 33)
    """

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        rng: int | np.random.Generator | None = None,
        *,
        delta: float = 0.05,
        **options: Any,
    ) -> None:
        super().__init__(problem, rng, **options)
        if not 0 < delta < 1:
            raise ParameterError(f"delta must lie in (0, 1), got {delta!r}")
        arms, oracle = self.problem.arms, self.problem.oracle
        if not arms.are_units or len(np.unique(arms.component)) != len(arms):
            raise ParameterError("CLUCB needs arms that measure one component each; use TopTwo or PEPS")
        self.delta = delta
        self.finished = np.zeros(self.replications, dtype=bool)
        self.stopped_at = np.zeros(self.replications, dtype=np.int64)
        self.leader = self._sets(self.problem.space.project(np.zeros((self.replications, oracle.dim))))
        self._first = RoundRobin(len(arms), self.streams)
        self._favour = 1.0 + 1e-9 * self.streams.normal(len(arms))  # between components with equal radii

    def choose(self) -> Arm:
        """The least certain component on which M_t and M~_t differ; of all, where they do not."""
        if not self._first.complete:
            return self._first.pick()
        arms = self.problem.arms
        M, M_tilde, w_tilde, rad = self.sets()
        news = ~strictly_better(M_tilde, M, w_tilde) & ~self.finished
        self.leader = np.where(self.finished[:, None], self.leader, M)
        self.finished |= news
        self.stopped_at[news] = self.samples
        differ = (M_tilde != M)[:, arms.component]
        differ |= ~differ.any(axis=1, keepdims=True)
        return np.asarray(np.where(differ, rad[:, arms.component] * self._favour, -1.0).argmax(axis=1))

    def sets(self) -> tuple[Array, Array, Array, Array]:
        """M_t, M~_t, w~ and rad, each (R, d)."""
        arms, space, sign = self.problem.arms, self.problem.space, np.sign(self.problem.oracle.unit)
        w, rad = np.zeros(self.belief.theta_hat.shape), np.zeros(self.belief.theta_hat.shape)
        log_term = np.log(4.0 * len(arms) * float(self.samples) ** 3 / self.delta)
        known = np.maximum(self.pulls, 1)  # what no arm measures is in every answer or in none: 0 will do there
        w[:, arms.component] = self.totals / (known * arms.coefficient)
        rad[:, arms.component] = np.sqrt(2.0 * log_term / known) * self.problem.noise_std / np.abs(arms.coefficient)
        M = self._sets(space.project(w + self._tie))
        w_tilde = space.project(w + sign * np.where(M != 0.0, -rad, rad))
        return M, self._sets(w_tilde), w_tilde, rad

    def _sets(self, thetas: Array) -> Array:
        """The oracle's answers, which must be sets: every entry 0 or `unit`."""
        answers = self.problem.oracle.argmax(thetas)
        chosen: NDArray[np.bool_] = answers != 0.0
        if (answers[chosen] != self.problem.oracle.unit).any():
            raise ParameterError("CLUCB needs answers that are sets of components (0/1 vectors); use TopTwo or PEPS")
        return answers
