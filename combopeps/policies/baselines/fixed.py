"""Shares of the measurements that are given beforehand: `Uniform`, and `FixedAllocation`.

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
from combopeps.utils.validation import as_reals

_SUM = 1e-6  # shares typed in by hand need not add up to the last digit


class Uniform(Policy):
    """The least measured arm, ties in an order drawn at random in each replication: what any other policy should beat.

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
        """Return the arm that was measured least."""
        fewest = self.pulls == self.pulls.min(axis=1, keepdims=True)
        return np.asarray(np.where(fewest, self._order, -np.inf).argmax(axis=1))

    def weigh(self) -> tuple[Array, None]:
        """What has been seen least, so that every component is seen about as often as the others."""
        fewest = self.pulls.min(axis=1, keepdims=True)
        return np.exp2(fewest - self.pulls), None


class FixedAllocation(Policy):
    """Tracks a fixed distribution over arms: N_x(t) stays within K of t lam_x.

    Parameters
    ----------
    problem, rng, **options
        As for every `Policy`.
    lam
        The shares: one per arm, in the order of `problem.arms`, or a dict label -> share (arms left out get none).

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
        self.lam = _shares(lam, self.problem.arms)
        self._tracker = CTracking(len(self.problem.arms), self.streams)

    def choose(self) -> Arm:
        """The arm that lags most behind t lam."""
        return self._tracker.pick(self.lam)


def _shares(lam: Any, arms: Arms) -> Array:
    """A distribution over the arms, or a typed error."""
    if lam is None:
        raise ParameterError("FixedAllocation needs the shares of the arms: lam=[...] or lam={label: share}")
    if isinstance(lam, Mapping):
        unknown = [label for label in lam if label not in set(arms.labels)]
        if unknown:
            raise LabelError(
                f"lam names {unknown[0]!r}, which is not an arm; the arms are {list(arms.labels)[:5]}, ..."
            )
        lam = [lam.get(label, 0.0) for label in arms.labels]
    shares = as_reals("lam", lam)
    if shares.shape != (len(arms),):
        raise ParameterError(f"lam must hold one share for each of the {len(arms)} arms, got shape {shares.shape}")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and abs(shares.sum() - 1.0) <= _SUM):
        raise ParameterError(f"lam must be non-negative and sum to 1, got a sum of {shares.sum():g}; divide by it")
    return np.asarray(shares / shares.sum())
