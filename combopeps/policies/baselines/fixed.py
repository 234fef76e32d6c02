"""Allocations that are fixed in advance: `Uniform` and `FixedAllocation`.

With lam* = argmax_lam min_{theta in Alt} |theta - theta*|^2_{A(lam)} the latter is the strategy of the lower bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import LabelError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.allocation import CTracking
from combopeps.policies.base import Arm, Policy
from combopeps.posterior.arms import Arms
from combopeps.problem import Problem
from combopeps.utils.validation import as_float_array

_SUM_TOLERANCE = 1e-6  # shares are often rounded


class Uniform(Policy):
    """Measure the least measured arm; ties are broken by a random order in each replication.

    Examples
    --------
    >>> from combopeps import Session, TopKOracle
    >>> session = Session(TopKOracle(["a", "b", "c"], k=1), policy="uniform")
    >>> sorted(query.label for query in session.ask(6))
    ['a', 'a', 'b', 'b', 'c', 'c']
    """

    def __init__(
        self, problem: Problem | ArgmaxOracle, rng: int | np.random.Generator | None = None, **options: Any
    ) -> None:
        super().__init__(problem, rng, **options)
        self._order = self.streams.normal(len(self.problem.arms))

    def choose(self) -> Arm:
        """Return the least measured arm."""
        fewest = self.pulls == self.pulls.min(axis=1, keepdims=True)
        return np.asarray(np.where(fewest, self._order, -np.inf).argmax(axis=1))

    def weigh(self) -> tuple[Array, None]:
        """Return gains that halve with every measurement of a component, so that counts stay about equal."""
        fewest = self.pulls.min(axis=1, keepdims=True)
        return np.exp2(fewest - self.pulls), None


class FixedAllocation(Policy):
    """C-tracking of a fixed distribution over arms: |N_x(t) - t lam_x| <= K.

    Parameters
    ----------
    problem, rng, **options
        As for every `Policy`.
    lam
        Shares, one per arm in the order of `problem.arms`; or a dict label -> share, where omitted arms have share 0.

    Examples
    --------
    >>> from combopeps import Session, TopKOracle
    >>> policy = FixedAllocation(
    ...     Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0, prior_mean=0.0, prior_std=1.0),
    ...     rng=0,
    ...     lam={"a": 0.75, "b": 0.25},
    ... )
    >>> sorted(query.label for query in Session(policy.problem, policy=policy).ask(8))
    ['a', 'a', 'a', 'a', 'a', 'a', 'b', 'b']
    """

    by_name = False
    _learners = ("_tracker",)

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        rng: int | np.random.Generator | None = None,
        *,
        lam: ArrayLike | Mapping[Hashable, float] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(problem, rng, **options)
        self.lam = _as_shares(lam, self.problem.arms)
        self._tracker = CTracking(len(self.problem.arms), self.streams)

    def choose(self) -> Arm:
        """Return the arm with the largest deficit t lam_x - N_x."""
        return self._tracker.pick(self.lam)


def _as_shares(lam: Any, arms: Arms) -> Array:
    """Validate lam and return it as a distribution over the arms."""
    if lam is None:
        raise ParameterError("FixedAllocation needs the shares of the arms: lam=[...] or lam={label: share}")
    if isinstance(lam, Mapping):
        unknown = [label for label in lam if label not in set(arms.labels)]
        if unknown:
            raise LabelError(
                f"lam names {unknown[0]!r}, which is not an arm; the arms are {list(arms.labels)[:5]}, ..."
            )
        lam = [lam.get(label, 0.0) for label in arms.labels]
    shares = as_float_array("lam", lam)
    if shares.shape != (len(arms),):
        raise ParameterError(f"lam must hold one share for each of the {len(arms)} arms, got shape {shares.shape}")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and abs(shares.sum() - 1.0) <= _SUM_TOLERANCE):
        raise ParameterError(f"lam must be non-negative and sum to 1, got a sum of {shares.sum():g}; divide by it")
    return np.asarray(shares / shares.sum())
