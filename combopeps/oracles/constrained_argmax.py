"""Constrained argmax, second-best answers and enumeration of Z, all through the argmax oracle.

    max z @ theta   over   {z in Z : z contains every component with constraint 1, and none with constraint -1}

A weight larger than the sum of all others gives a component lexicographic priority, so that one unconstrained argmax
solves the constrained problem. Entries of answers are 0 and `unit`.

`list_answers` enumerates Z by branching. A subproblem is given by constraints together with one known answer z that
satisfies them. One argmax finds the answer of the subproblem that differs from z in the most components:

    z' = argmax over the subproblem of  #{a : z'_a differs from z_a}

If z' = z, the subproblem has no other answer. Otherwise z and z' differ in some component, which splits the subproblem
in two with one known answer each. Every call thus finds an answer or closes a subproblem: 2 |Z| - 1 calls in total.

A set that is too large is detected early. Descend into either half with equal probability until a subproblem has one
answer; the mean of 2^splits over such random descents is |Z| (Knuth, 1975, Estimating the efficiency of backtrack
programs).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import OracleError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse

Constraints = NDArray[np.int8]  # (B, d): 1 for components that an answer must contain, -1 must not, 0 free

MAX_ANSWERS = 100_000  # answers listed, of an oracle that is quick
MAX_ANSWERS_SLOW = 256  # answers listed, of one whose calls are counted
_BATCH = 2048  # subproblems solved in one call
_MIN_ESTIMATED = 1024  # answers listed before their number is estimated
_DESCENTS = 64  # random descents of an estimate
_ESTIMATE_FACTOR = 4.0  # an estimate must exceed the limit by this factor to be trusted: its variance is large


class ConstrainedAnswers(NamedTuple):
    """Results of a constrained argmax, one per row.

    Attributes
    ----------
    answers
        The answers that the oracle returned, (B, d).
    obeys
        Whether they satisfy their constraints, (B,). If not, and nothing was clipped, no answer of Z does.
    slack
        By how much another answer that satisfies the constraints may be better, (B,), in sums of theta over its free
        components: the oracle's resolution and, for theta >= 0 only (`domain`), the negative entries that were clipped.
    """

    answers: Array
    is_feasible: NDArray[np.bool_]
    slack: Array


def can_constrain(oracle: ArgmaxOracle) -> bool:
    """Test whether components can be excluded (and, where answers may contain each other, included)."""
    return oracle.binary and (oracle.domain == "real" or (oracle.antichain and oracle.unit < 0))


def constrained_argmax(
    oracle: ArgmaxOracle, thetas: Array, constraints: NDArray[np.signedinteger[Any]]
) -> ConstrainedAnswers:
    """Maximise z @ theta under constraints, (B, d), for one theta (d,) or one per row (B, d).

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> constrained_argmax(TopKOracle(4, k=2), np.array([4.0, 3.0, 2.0, 1.0]), np.array([[-1, 0, 0, 1]])).answers
    array([[0., 1., 0., 1.]])
    """
    thetas = np.broadcast_to(thetas, constraints.shape)
    size = np.abs(thetas).sum(axis=1)
    large = np.where(size > 0.0, 2.0 * size, 1.0)[:, None]
    weights = np.where(constraints == 0, thetas, np.sign(oracle.unit) * large * constraints)
    # The resolution is thousands of rounding errors, which covers the large weights. Values are |unit| times sums of
    # theta, hence the division.
    slack = oracle.resolution * size * max(1.0, 1.0 / abs(oracle.unit))
    if oracle.domain == "nonnegative":
        slack += np.maximum(-weights, 0.0).sum(axis=1)
        weights = np.maximum(weights, 0.0)
    answers = binary_answers(oracle, weights) if oracle.binary else oracle.argmax(weights)
    is_feasible = (constraints == 0) | ((answers != 0.0) == (constraints > 0))
    return ConstrainedAnswers(answers, is_feasible.all(axis=1), slack)


def flip_one_component(components: NDArray[np.intp], z: Array) -> Constraints:
    """Return one row of constraints per component: excluded if z contains it, included if not."""
    constraints = np.zeros((len(components), len(z)), dtype=np.int8)
    constraints[np.arange(len(components)), components] = np.where(z[components] != 0.0, -1, 1)
    return constraints


def second_best(oracle: ArgmaxOracle, theta: Array, z_star: Array) -> Array | None:
    """Return an argmax over Z without z*, by facets or constrained argmax; None if there is none or neither works."""
    facets = oracle.facets(z_star)
    if facets is not None:
        gains = facets @ theta
        return z_star + facets[[int(gains.argmax())]].toarray()[0] if len(gains) else None
    if not can_constrain(oracle):
        return None
    # Of an antichain, every other answer lacks some component of z*.
    components = np.flatnonzero(z_star) if oracle.antichain else np.arange(oracle.dim)
    found = constrained_argmax(oracle, theta, flip_one_component(components, z_star))
    others = found.answers[found.is_feasible]
    return others[int((others @ theta).argmax())] if len(others) else None


def binary_answers(oracle: ArgmaxOracle, thetas: Array) -> Array:
    """Return the argmax of an oracle with `binary = True`; `OracleError` if entries are neither 0 nor `unit`."""
    answers = oracle.argmax(thetas)
    if not ((answers == 0.0) | (answers == oracle.unit)).all():
        raise OracleError(
            f"{oracle!r} has binary = True, but an answer has entries other than 0 and {oracle.unit:g}; "
            "list such a Z with ExplicitOracle, or set binary = False",
            thetas[0],
        )
    return answers


def enumerate_answers(oracle: ArgmaxOracle, limit: int, calls: int = 5000) -> list[Array] | None:
    """List all answers of a set of 0/unit vectors on R^d by Lawler's branching.

    A branch fixes the first coordinates. If the oracle's answer satisfies its constraints, the branch splits at every
    later coordinate; otherwise the branch is empty. Slower than `list_answers`, and independent of it: for checks.

    Returns
    -------
    list of array or None
        None if there are more than `limit` answers, or more than `calls` oracle calls are needed.
    """
    d = oracle.dim
    tie_breaker = np.random.default_rng(0).uniform(0.1, 1.0, d)
    first = oracle.argmax(tie_breaker)
    answers = [first]
    branches = [(first, i) for i in range(d)]  # equal to this answer before coordinate i, different from it there
    while branches:
        parent, i = branches.pop()
        constraints = np.zeros((1, d), dtype=np.int8)
        constraints[0, : i + 1] = np.where(parent[: i + 1] != 0.0, 1, -1)
        constraints[0, i] *= -1
        calls -= 1
        found = constrained_argmax(oracle, tie_breaker, constraints)
        if found.is_feasible[0]:
            answers.append(found.answers[0])
            branches += [(found.answers[0], j) for j in range(i + 1, d)]
        if len(answers) > limit or calls <= 0:
            return None
    return answers


def can_list(oracle: ArgmaxOracle) -> bool:
    """Test whether components can be included and excluded, and |Z| is not known to be too large."""
    if not oracle.binary or oracle.domain != "real":
        return False
    size = oracle.log_cardinality
    return size is None or not size.exact or size <= np.log(_max_answers(oracle)) + 1e-9


def list_answers(oracle: ArgmaxOracle) -> Sparse | None:
    """List all answers, one per row; None if there are too many, or the oracle misses an answer known to exist.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> list_answers(TopKOracle(4, k=2)).shape
    (6, 4)
    """
    if not can_list(oracle):
        return None
    limit = _max_answers(oracle)
    skip_estimate = oracle.log_cardinality is not None and oracle.log_cardinality.exact
    pending, found, known = [_Subproblems.whole_set(oracle, 1)], list[NDArray[np.bool_]](), 1
    while pending:
        problems = pending.pop()
        if len(problems.z) > _BATCH:
            pending.append(problems[_BATCH:])
            problems = problems[:_BATCH]
        other = problems.farthest(oracle)
        if other is None:
            return None
        split = (other != problems.z).any(axis=1)
        found.append(problems.z[~split])
        known += int(split.sum())  # subproblems are disjoint, and each has a known answer
        if known > _MIN_ESTIMATED and not skip_estimate:
            skip_estimate = True
            if _estimate_cardinality(oracle) > _ESTIMATE_FACTOR * limit:
                return None
        if known > limit:
            return None
        if split.any():
            one, two = problems[split].halves(other[split])
            constraints = np.concatenate([one.constraints, two.constraints])
            pending.append(_Subproblems(constraints, np.concatenate([one.z, two.z])))
    return as_sparse(np.concatenate(found)) * oracle.unit


@dataclass(frozen=True)
class _Subproblems:
    """Disjoint parts of Z: constraints (B, d), and one known answer of each as a 0/1 row (B, d)."""

    constraints: Constraints
    z: NDArray[np.bool_]

    @classmethod
    def whole_set(cls, oracle: ArgmaxOracle, copies: int) -> _Subproblems:
        """Return copies of the unconstrained problem."""
        z = oracle.argmax(np.zeros(oracle.dim)) != 0.0
        return cls(np.zeros((copies, oracle.dim), dtype=np.int8), np.repeat(z[None], copies, axis=0))

    def __getitem__(self, rows: Any) -> _Subproblems:
        return _Subproblems(self.constraints[rows], self.z[rows])

    def farthest(self, oracle: ArgmaxOracle) -> NDArray[np.bool_] | None:
        """Return z' of every subproblem; None if an answer violates constraints that z satisfies."""
        found = constrained_argmax(oracle, np.sign(oracle.unit) * np.where(self.z, -1.0, 1.0), self.constraints)
        return found.answers != 0.0 if found.is_feasible.all() else None

    def halves(self, other: NDArray[np.bool_]) -> tuple[_Subproblems, _Subproblems]:
        """Split at the first component in which z and z' differ."""
        rows, at = np.arange(len(self.z)), (other != self.z).argmax(axis=1)
        with_z, with_other = self.constraints.copy(), self.constraints.copy()
        with_z[rows, at] = np.where(self.z[rows, at], 1, -1)
        with_other[rows, at] = -with_z[rows, at]
        return _Subproblems(with_z, self.z), _Subproblems(with_other, other)


def _estimate_cardinality(oracle: ArgmaxOracle) -> float:
    """Estimate |Z| by the mean of 2^splits over random descents (Knuth)."""
    rng, problems, total = np.random.default_rng(0), _Subproblems.whole_set(oracle, _DESCENTS), 0.0
    for splits in count():
        other = problems.farthest(oracle)
        if other is None:
            return np.inf
        split = (other != problems.z).any(axis=1)
        total += float((~split).sum()) * 2.0**splits
        if not split.any():
            return total / _DESCENTS
        one, two = problems[split].halves(other[split])
        first = (rng.random(int(split.sum())) < 0.5)[:, None]
        problems = _Subproblems(np.where(first, one.constraints, two.constraints), np.where(first, one.z, two.z))
    raise AssertionError


def _max_answers(oracle: ArgmaxOracle) -> int:
    return MAX_ANSWERS if oracle.quick else MAX_ANSWERS_SLOW
