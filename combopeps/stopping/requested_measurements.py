"""Measurements requested by a stopping rule (`Requests`), and their results (`FreshResults`).

A rule that proves its claim on fresh data fixes what is measured before any of these data are known. Its log lists the
arms to be measured, the queries issued for them, and the sums of their results. Only these results are fresh data.
Results of other queries, observations and repetitions enter the posterior but not the proof, so that other measurements
never invalidate an epoch. An abandoned request is issued again. Interrupting a run and continuing it with the same rule
changes nothing.

An epoch has a plan: c_a measurements of every arm a, fixed before its first result. Its estimate is least squares with
the planned weights,

    theta_epoch = G^-1 sum_a x_a S_a,   G = sum_a c_a x_a x_a',   S_a the sum of the c_a results,

so that the weight of a result is fixed before the epoch begins. Let s_j be the standard error of the j-th result, in
units of the noise of its arm (1 unless the result came with a standard error), and w_j its weight in
D = -y @ theta_epoch. If every s_j is determined by what was known before the j-th result, then for every fixed lam

    exp(lam (D - gap) - lam^2 V / 2),   V = sum_j w_j^2 s_j^2,

has expectation at most 1. Hence a test that uses the realised V in place of the planned variance is valid for standard
errors that depend on other results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array, Sparse
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import Normal
from combopeps.posterior.least_squares import Measurements
from combopeps.problem import Problem
from combopeps.utils.state_dict import StateDict, array, integers, load_into


class FreshResults:
    """Sums over the results of one epoch, (K,) each; values are in units of the noise (`Problem.signal`).

    Attributes
    ----------
    counts
        Number of results of each arm.
    totals
        Sums of the results.
    squares
        Sums of the squared standard errors, in units of the variance of the arm's noise.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> fresh = FreshResults(Arms.of(TopKOracle(2, k=1)))
    >>> fresh.add(0, 3.0)
    >>> fresh.add(1, 1.0, variance=4.0)
    >>> fresh.estimate().theta, fresh.variances(np.array([[-1.0, 1.0]]))
    (array([3., 1.]), array([5.]))
    """

    def __init__(self, arms: Arms) -> None:
        self.arms = arms
        self.counts = np.zeros(len(arms), dtype=np.int64)
        self.totals, self.squares = np.zeros((2, len(arms)))

    def restart(self) -> None:
        """Begin an epoch: discard the results of the previous one."""
        for sums in (self.counts, self.totals, self.squares):
            sums[:] = 0

    def add(self, arm: int, value: float, variance: float = 1.0) -> None:
        """Add one result with its squared standard error."""
        self.counts[arm] += 1
        self.totals[arm] += value
        self.squares[arm] += variance

    @property
    def samples(self) -> int:
        """Number of results of this epoch."""
        return int(self.counts.sum())

    @property
    def has_nominal_errors(self) -> bool:
        """Whether every standard error equals the noise of its arm."""
        return bool(np.allclose(self.squares, self.counts, rtol=1e-9, atol=0.0))

    @property
    def with_planned_weights(self) -> Measurements:
        """The results with weight 1 each, as planned."""
        counts = self.counts.astype(np.float64)
        return Measurements(self.arms, counts, self.totals.copy(), counts)

    def estimate(self) -> Normal:
        """Return theta_epoch with the planned covariance G^-1; unmeasured components have an infinite variance."""
        data = self.with_planned_weights
        if not self.arms.are_units:
            estimate = data.least_squares()
            assert estimate is not None  # an epoch measures all directions of general arms
            return estimate
        n = data.information
        measured = n > 0.0
        n = np.where(measured, n, 1.0)
        return Normal(np.where(measured, data.moment / n, 0.0), np.where(measured, 1.0 / n, np.inf))

    def variances(self, rows: Array | Sparse) -> Array:
        """Compute V of every row y, the variance of y @ theta_epoch under the standard errors of the results."""
        arms = self.arms
        if arms.are_units:
            return Normal(np.zeros(arms.dim), self.component_variances).quadratic(rows)
        lifted = np.asarray(rows @ arms.span.lift)
        weights = np.linalg.solve(self.with_planned_weights.information, lifted.T).T @ arms.span.rows.T
        return np.asarray(weights**2 @ self.squares)

    @property
    def component_variances(self) -> Array:
        """V of every component, for unit arms; infinite for unmeasured ones."""
        n = self.with_planned_weights.information
        realised = Measurements(self.arms, self.squares, self.totals).information
        return np.where(n > 0.0, realised / np.where(n > 0.0, n, 1.0) ** 2, np.inf)

    def missing(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the planned counts of every arm that are missing."""
        return wanted - self.counts

    def state_dict(self) -> StateDict:
        """Return the sums as plain data."""
        return {"counts": self.counts, "totals": self.totals, "squares": self.squares}

    def load_state_dict(self, data: StateDict) -> None:
        """Restore from plain data."""
        load_into(self.counts, data["counts"])
        load_into(self.totals, data["totals"])
        load_into(self.squares, data["squares"])
        if (self.counts < 0).any() or ((self.squares > 0.0) != (self.counts > 0)).any():
            raise ValueError("counts and standard errors of fresh results contradict each other")


class Requests:
    """The log of the measurements requested by one rule.

    Attributes
    ----------
    wanted
        Arms of the pending requests, in order.
    fresh
        Sums of the results of requests since the current epoch began.
    """

    def __init__(self, problem: Problem) -> None:
        self._noise, self._attached = problem.noise.tolist(), False
        self.wanted: deque[int] = deque()
        self._open: dict[int, int] = {}  # arms by the ids of the queries issued for them
        self.fresh = FreshResults(problem.signal)
        self._weights, self._totals, self._pulls = np.zeros((3, len(problem.arms)))

    @property
    def outstanding(self) -> bool:
        """Whether results of requests are missing."""
        return bool(self.wanted or self._open)

    @property
    def query_results(self) -> Measurements:
        """Results of all queries of the run: of requests and of the policy's choices."""
        return Measurements(self.fresh.arms, self._weights.copy(), self._totals.copy(), self._pulls.copy())

    def replace_query_results(self, query_results: Measurements) -> None:
        """Replace the sums over all queries after results were corrected or retracted."""
        self._weights[:], self._totals[:], self._pulls[:] = (
            query_results.weights,
            query_results.totals,
            query_results.pulls,
        )

    def replace(self, arms: Iterable[int]) -> None:
        """Replace the pending requests by these arms."""
        self.wanted = deque(int(arm) for arm in arms)

    def cancel(self) -> None:
        """Withdraw all requests and discard their results."""
        self.wanted.clear()
        self._open.clear()
        self.fresh.restart()

    def issue(self, id: int, arm: int) -> None:
        """Register a query that was issued; it serves the first pending request if that is for the same arm."""
        if self.wanted and arm == self.wanted[0]:
            self._open[id] = self.wanted.popleft()

    def answer(self, id: int, arm: int, y: float, sem: float | None, count: int) -> bool:
        """Add the result of a query for a single arm; return whether it was requested."""
        noise = self._noise[arm]
        value = y / noise
        weight = float(count) if sem is None else (noise / sem) ** 2
        self._weights[arm] += weight
        self._totals[arm] += weight * value
        self._pulls[arm] += count
        if self._open.pop(id, None) is None:
            return False
        self.fresh.add(arm, value, 1.0 if sem is None else (sem / noise) ** 2)
        return True

    def abandon(self, id: int) -> None:
        """Request the arm of a query again that was closed without a result."""
        arm = self._open.pop(id, None)
        if arm is not None:
            self.wanted.appendleft(arm)

    def attach(self) -> None:
        """Attach the log to a session; raise a ParameterError if it is attached to another one."""
        if self._attached:
            raise ParameterError("this stopping rule serves a run that has not ended: make a new one for every run")
        self._attached = True

    def detach(self) -> None:
        """Detach the log at the end of a run; open queries become pending requests of the next run.

        A repeated call changes nothing.
        """
        self._attached = False
        self.wanted.extendleft(self._open.values())
        self._open.clear()

    def state_dict(self) -> StateDict:
        ids = sorted(self._open)
        return {
            "wanted": np.array(self.wanted, dtype=np.int64), "open": ids,
            "arms": np.array([self._open[id] for id in ids], dtype=np.int64),
            "fresh": self.fresh.state_dict(), "weights": self._weights, "totals": self._totals, "pulls": self._pulls,
        }  # fmt: skip

    def load_state_dict(self, data: StateDict) -> None:
        ids = integers(data["open"])
        wanted, arms = array(data["wanted"], np.int64, None), array(data["arms"], np.int64, len(ids))
        for requested in (wanted, arms):
            if len(requested) and not 0 <= requested.min() <= requested.max() < len(self._pulls):
                raise ValueError("a request is for an unknown arm")
        self.wanted, self._open = deque(wanted.tolist()), dict(zip(ids, arms.tolist(), strict=True))
        self.fresh.load_state_dict(data["fresh"])
        for sums, name in ((self._weights, "weights"), (self._totals, "totals"), (self._pulls, "pulls")):
            load_into(sums, data[name])

    def require_open(self, open_queries: Container[int]) -> None:
        """Raise ValueError unless every query that was issued for a request is open."""
        if not all(id in open_queries for id in self._open):
            raise ValueError("a query issued for a request of the rule is not open")
