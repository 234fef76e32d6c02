"""CLUCB (Chen, Lin, King, Lyu, Chen 2014): confidence bounds on components, for answers that are sets.

for t = n + 1, n + 2, ...                            (after every component was measured once)
M_t = argmax_M w(M)                              w(e) the mean of e's measurements
rad(e) = noise_std sqrt(2 ln(4 n t^3 / delta) / T(e))
w~(e) = w(e) - rad(e) for e in M_t, w(e) + rad(e) for others
M~_t = argmax_M w~(M)
stop and answer M_t if w~(M~_t) = w~(M_t)
measure argmax of rad(e) over e in the symmetric difference of M_t and M~_t

With probability 1 - delta all means are within their radii at all times, however arms are chosen, and then no M is
better than M_t by more than w~(M~_t) - w~(M_t). `ClucbRule` applies the same test to runs of any policy.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, strictly_better
from combopeps.policies.base import Arm, Policy
from combopeps.posterior.arms import Arms
from combopeps.posterior.parameter_space import ParameterSpace
from combopeps.problem import Problem
from combopeps.utils.state_dict import StateDict, array, load_into
from combopeps.utils.validation import check_fraction


class ConfidenceSets(NamedTuple):
    """M_t, M~_t, w~ and rad, each (R, d)."""

    M: Array
    M_tilde: Array
    w_tilde: Array
    rad: Array

    @property
    def lead(self) -> Array:
        """w~(M~_t) - w~(M_t), an upper bound on the loss of M_t, (R,); 0 within rounding."""
        lead = ((self.M_tilde - self.M) * self.w_tilde).sum(axis=1)
        return np.asarray(np.where(strictly_better(self.M_tilde, self.M, self.w_tilde), lead, 0.0))


def confidence_sets(
    oracle: ArgmaxOracle,
    space: ParameterSpace,
    arms: Arms,
    samples: int,
    weights: Array,
    totals: Array,
    *,
    delta: float,
    tie: Array | float = 0.0,
) -> ConfidenceSets:
    """Compute the two sets from arms in units of the noise, and weights and sums of their measurements, (R, K).

    `tie` breaks ties between sets with equal means.
    """
    sign, shape = np.sign(oracle.unit), (len(weights), oracle.dim)
    w, rad = np.zeros(shape), np.zeros(shape)
    log_term = np.log(4.0 * len(arms) * float(samples) ** 3 / delta)
    counts = np.where(weights > 0.0, weights, 1.0)
    # Components without an arm are in every answer or in none: they keep w = rad = 0.
    w[:, arms.component] = totals / (counts * arms.coefficient)
    rad[:, arms.component] = np.sqrt(2.0 * log_term / counts) / np.abs(arms.coefficient)
    M = sets_of(oracle, space.project(w + tie))
    w_tilde = space.project(w + sign * np.where(M != 0.0, -rad, rad))
    return ConfidenceSets(M, sets_of(oracle, w_tilde), w_tilde, rad)


def sets_of(oracle: ArgmaxOracle, thetas: Array) -> Array:
    """Return the oracle's answers; ParameterError unless they are sets (every entry 0 or `unit`)."""
    answers = oracle.argmax(thetas)
    if (answers[answers != 0.0] != oracle.unit).any():
        raise ParameterError("CLUCB needs answers that are sets of components (0/1 vectors); use TopTwo or PEPS")
    return answers


def check_unit_arms(arms: Arms, hint: str) -> None:
    """Raise ParameterError unless every arm measures one component, and no two the same."""
    if not arms.are_units or len(np.unique(arms.component)) != len(arms):
        raise ParameterError(f"CLUCB needs arms that measure one component each; {hint}")


class CLUCB(Policy):
    """Measure the least certain component on which the answer and its optimistic rival differ.

    For answers that are sets of components and arms that measure one component each. Where Theta is bounded, w and w~
    are projected on it.

    Parameters
    ----------
    problem, rng, **options
        As for every `Policy`.
    delta
        Error probability of the answer at the stop.

    Attributes
    ----------
    finished
        Whether the stopping test has succeeded, (R,); tested by the measurements so far when an arm is chosen, and
        never reset.
    stopped_at
        Number of measurements at the stop, (R,); 0 before it.
    leader
        M_t; after the stop, M_t at the stop, (R, d).

    Examples
    --------
    >>> from combopeps import Session, TopKOracle
    >>> policy = CLUCB(Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0), rng=0, delta=0.1)
    >>> truth = {"a": 0.0, "b": 4.0, "c": 1.0}
    >>> session = Session(policy.problem, policy=policy)
    >>> while True:
    ...     query = session.ask()
    ...     if policy.finished.all():
    ...         break
    ...     session.tell(query, truth[query.label])
    >>> policy.problem.oracle.decode(policy.leader[0]), policy.samples
    ({'b'}, 33)
    """

    _fantasy_state = (*Policy._fantasy_state, "finished", "stopped_at", "leader")

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        rng: int | np.random.Generator | None = None,
        *,
        delta: float = 0.05,
        **options: Any,
    ) -> None:
        super().__init__(problem, rng, **options)
        self.problem.require_noise("CLUCB")
        check_fraction("delta", delta)
        arms, oracle = self.problem.arms, self.problem.oracle
        check_unit_arms(arms, "use TopTwo or PEPS")
        self.delta = delta
        self.finished = np.zeros(self.replications, dtype=bool)
        self.stopped_at = np.zeros(self.replications, dtype=np.int64)
        self.leader = sets_of(oracle, self.problem.space.project(np.zeros((self.replications, oracle.dim))))
        self.begin_with_every_arm()
        self._tie_factor = 1.0 + 1e-9 * self.streams.normal(len(arms))  # between components with equal radii

    def choose(self) -> Arm:
        """Return the component with the largest radius on which M_t and M~_t differ; of all if they are equal."""
        found, component = self.sets(), self.problem.arms.component
        self._test(found)
        differ = (found.M_tilde != found.M)[:, component]
        differ |= ~differ.any(axis=1, keepdims=True)
        return np.asarray(np.where(differ, found.rad[:, component] * self._tie_factor, -1.0).argmax(axis=1))

    def with_fantasies(self) -> Self:
        """Test on real results before fantasies are added; tests made by the copy are discarded."""
        if self.weights.all():
            self._test(self.sets())
        other = super().with_fantasies()
        other.finished, other.stopped_at = self.finished.copy(), self.stopped_at.copy()
        return other

    def state_dict(self) -> StateDict:
        test = {"finished": self.finished, "stopped_at": self.stopped_at, "leader": self.leader}
        return super().state_dict() | test

    def load_state_dict(self, data: StateDict) -> None:
        super().load_state_dict(data)
        load_into(self.finished, data["finished"])
        load_into(self.stopped_at, data["stopped_at"])
        self.leader = array(data["leader"], np.float64, *self.leader.shape)

    def _test(self, found: ConfidenceSets) -> None:
        newly_finished = (found.lead == 0.0) & ~self.finished
        self.leader = np.where(self.finished[:, None], self.leader, found.M)
        self.finished |= newly_finished
        self.stopped_at[newly_finished] = self.samples

    def sets(self) -> ConfidenceSets:
        """Return M_t, M~_t, w~ and rad, each (R, d)."""
        problem = self.problem
        arguments = (problem.oracle, problem.space, problem.signal, self.samples, self.weights, self.totals)
        return confidence_sets(*arguments, delta=self.delta, tie=self._tie)
