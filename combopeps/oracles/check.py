"""`check_oracle`: test an oracle against the contract of `ArgmaxOracle`.

Each check yields messages that name the likely cause of a violation. A `MatroidOracle` is also tested for the axioms of
independent sets, on random sets:

    subsets     I independent, J a subset of I                          =>  J independent
    exchange    I, J independent, |I| = |J| - 1, |I - J| = 1            =>  I + e independent for some e in J - I

With the first, the second for such pairs already characterises matroids (Schrijver, Combinatorial Optimization, theorem
39.1). All maximal independent sets then have the same size, which is tested too.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from math import exp, inf, log
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import AnswerError
from combopeps.oracles.base import ArgmaxOracle, Array, LogCardinality, strictly_better
from combopeps.oracles.constrained_argmax import enumerate_answers
from combopeps.oracles.matroid import MatroidOracle
from combopeps.oracles.runtime_checks import count_faults, interface_faults, promise_faults
from combopeps.utils.interface_checks import ContractReport, run_checks
from combopeps.utils.validation import as_generator, check_flag, check_kind

_MAX_LISTED_FACETS = 1000  # for `facets_up_to`
_MAX_ENUMERATED = 200  # size of sets that are enumerated to check their cardinality
_INDEPENDENCE_TESTS = 3000  # approximate number per matroid check
_MIN_TRIALS, _MAX_TRIALS = 10, 100  # of a matroid check
_CURE = "a greedy choice is then not always the best: write an oracle with an exact argmax"


def check_oracle(
    oracle: ArgmaxOracle, rng: int | np.random.Generator | None = 0, *, raises: bool = True
) -> ContractReport:
    """Test an oracle against the contract of `ArgmaxOracle`.

    Parameters
    ----------
    oracle
        Oracle to test; some thousands of argmax calls are made. Exact cardinalities of small sets of 0/unit answers on
        R^d are compared with a full enumeration, others with the number of answers found. Of a `MatroidOracle`, subsets
        and exchanges of random independent sets are tested too.
    rng
        Seed or generator of the random thetas.
    raises
        Whether to raise `ContractError` with all violations (for tests), or only to return the report.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> print(check_oracle(TopKOracle(5, k=2)))
    TopKOracle: 13 checks passed, 0 failed
    """
    check_kind("oracle", oracle, ArgmaxOracle)
    check_flag("raises", raises)
    generator = as_generator(rng)
    is_initialised = hasattr(oracle, "components") and hasattr(oracle, "dim")
    checks = _CHECKS if is_initialised else {"interface": _CHECKS["interface"]}
    if isinstance(oracle, MatroidOracle) and is_initialised:
        checks = {**checks, **MATROID_CHECKS}
    return run_checks(type(oracle).__name__, _Probe(oracle, generator), checks, raises=raises)


class _Probe:
    """Oracle under test, and the thetas it is tested with."""

    def __init__(self, oracle: ArgmaxOracle, rng: np.random.Generator) -> None:
        self.oracle, self.rng = oracle, rng

    @cached_property
    def _thetas(self) -> Array:
        d = self.oracle.dim
        smooth = self.rng.normal(size=(24, d))
        tied = self.rng.integers(-2, 3, size=(12, d)).astype(float)
        thetas = np.concatenate([smooth, tied, np.zeros((1, d)), np.ones((1, d))])
        return np.abs(thetas) if self.oracle.domain == "nonnegative" else thetas

    @property
    def thetas(self) -> Array:
        """A copy, so that an oracle that changes its input does not affect later checks."""
        return self._thetas.copy()

    def answers(self) -> Array:
        return np.unique(self.oracle.argmax(self.thetas), axis=0)


Check = Callable[[_Probe], Iterator[str]]


def _shapes(p: _Probe) -> Iterator[str]:
    d = p.oracle.dim
    for thetas in (p.thetas[0], p.thetas, p.thetas[:1], p.thetas[:0]):
        z = p.oracle.argmax(thetas)
        if not isinstance(z, np.ndarray):
            yield f"argmax returns a {type(z).__name__}; return a float64 array with one vector of length {d} per row"
            return
        if z.dtype != np.float64:
            yield f"argmax returns {z.dtype}; return a float64 array"
        elif z.shape != thetas.shape:
            yield f"argmax of shape {thetas.shape} has shape {z.shape}; return one vector of length {d} per row"
        elif not np.isfinite(z).all():
            yield "argmax returns NaN or infinity; an uninitialised array (np.empty) is a likely cause"


def _batch(p: _Probe) -> Iterator[str]:
    batch = p.oracle.argmax(p.thetas)
    single = np.stack([p.oracle.argmax(theta) for theta in p.thetas])
    if _values_differ(batch, single, p.thetas).any():
        yield "a batch gives other values than its rows one by one; state shared between rows is a likely cause"


def _determinism(p: _Probe) -> Iterator[str]:
    first, again = p.oracle.argmax(p.thetas), p.oracle.argmax(p.thetas)
    if not np.array_equal(first, again):
        yield "the same theta gave two answers; break ties by a fixed rule and keep no state between calls"


def _purity(p: _Probe) -> Iterator[str]:
    for theta in (p.thetas, p.thetas[0]):
        before = theta.copy()
        first = p.oracle.argmax(theta)
        if not np.array_equal(before, theta):
            yield "argmax changed theta in place; work on a copy"
        kept = first.copy()
        p.oracle.argmax(-theta if p.oracle.domain == "real" else theta[..., ::-1])
        if not np.array_equal(first, kept):
            yield "a later call changed an answer returned before; return a fresh array, not a buffer of your own"
    first = p.oracle.argmax(p.thetas)
    kept = first.copy()
    try:
        first[...] = 7.0
    except ValueError:
        yield "argmax returns a read-only array; return a fresh one"
    if not np.array_equal(p.oracle.argmax(p.thetas), kept):
        yield "writing into a returned answer changed later ones; return a fresh array, not a view of your own"


def _pickling(p: _Probe) -> Iterator[str]:
    try:
        copy = _pickled_copy(p.oracle)
    except Exception as error:
        yield f"pickling failed ({error}); keep plain data in attributes, no lambdas, locks or open files"
        return
    if not np.array_equal(copy.argmax(p.thetas), p.oracle.argmax(p.thetas)):
        yield "a pickled copy gives other answers; is part of the state left out?"


def _homogeneity(p: _Probe) -> Iterator[str]:
    base = p.oracle.argmax(p.thetas)
    for c in (0.25, 3.0, 1e6, 1e-6):
        if _values_differ(p.oracle.argmax(c * p.thetas), base, p.thetas).any():
            yield f"argmax({c:g} theta) is not argmax(theta): rounding to integers, or an absolute tolerance?"


def _optimality(p: _Probe) -> Iterator[str]:
    best = p.oracle.argmax(p.thetas)
    for other in p.answers():
        if strictly_better(np.broadcast_to(other, best.shape), best, p.thetas).any():
            yield (
                "an answer given for one theta beats the answer given for another: "
                "a sign error, a greedy rule that is not exact, or answers outside Z"
            )


def _labels(p: _Probe) -> Iterator[str]:
    for z in p.answers():
        try:
            again = p.oracle.encode(p.oracle.decode(z))
        except AnswerError as error:
            yield f"decode or encode rejects an answer of argmax ({error}); set unit, or override both"
            return
        if not np.array_equal(again, z):
            yield "encode(decode(z)) is not z; override the two together, and mind the sign of z"


def _membership(p: _Probe) -> Iterator[str]:
    best = p.oracle.argmax(p.thetas)
    for z in p.answers()[:10]:
        expected = ~strictly_better(best, z, p.thetas)
        if not np.array_equal(p.oracle.membership(z, p.thetas), expected):
            yield "membership disagrees with argmax; ties count as yes, and the result is one bool per row"


def _facets(p: _Probe) -> Iterator[str]:
    answers = p.answers()
    best = p.oracle.argmax(p.thetas)
    for z in answers[:5]:
        rows = p.oracle.facets(z)
        if rows is None:
            rows = p.oracle.facets_up_to(z, _MAX_LISTED_FACETS)
        if rows is None:
            return
        count = p.oracle.facet_count
        if count is not None and rows.shape[0] > count:
            yield f"facet_count is {count}, but the number of listed facets is {rows.shape[0]}"
        limit = rows.shape[0] - 1
        if limit >= 0 and p.oracle.facets_up_to(z, limit) is not None:
            yield f"facets_up_to lists {limit + 1} rows where at most {limit} are wanted; return None instead"
        if rows.shape[1:] != z.shape or (abs(rows).sum(axis=1) == 0).any():
            yield "facets must be non-zero rows z' - z of length d"
            return
        for row in p.rng.permutation(rows.shape[0])[:20]:
            try:
                neighbour = p.oracle.encode(p.oracle.decode(z + rows[[row]].toarray()[0]))
            except AnswerError as error:
                yield f"z + y is no answer for a listed facet y: {error}"
                return
            if strictly_better(np.broadcast_to(neighbour, best.shape), best, p.thetas).any():
                yield "z + y is no answer for a listed facet y: it beats the argmax"
        # Close to the cone of z few facets are violated at a time, so that a missing one is noticed.
        center = z / max(1.0, np.abs(z).max())
        if p.oracle.domain == "nonnegative":
            center = center - center.min()
        near = center + 0.3 * p.rng.normal(size=(min(400, 1 + 200_000 // len(z)), len(z)))
        thetas = np.concatenate([p.thetas, np.abs(near) if p.oracle.domain == "nonnegative" else near])
        by_facets = np.array([(rows @ t > 1e-13 * (abs(rows) @ np.abs(t))).any() for t in thetas])
        if not np.array_equal(by_facets, strictly_better(p.oracle.argmax(thetas), z, thetas)):
            yield "facets is incomplete: z is beaten at a theta where no listed facet is positive; return None instead"


def _cardinality(p: _Probe) -> Iterator[str]:
    claimed, answers = p.oracle.log_cardinality, p.answers()
    yield from count_faults(p.oracle, answers)
    if not isinstance(claimed, LogCardinality) or not claimed.exact or p.oracle.domain != "real":
        return
    if not np.isin(answers, [0.0, p.oracle.unit]).all():
        return
    answers_found = enumerate_answers(p.oracle, limit=_MAX_ENUMERATED)
    count = inf if answers_found is None else len(answers_found)
    claimed_count = exp(min(claimed, 50.0))
    if claimed < log(_MAX_ENUMERATED) if answers_found is None else abs(count - claimed_count) > 0.5:
        yield f"log_cardinality claims exactly {claimed_count:.6g} answers, enumeration finds {count}"


def _values_differ(a: Array, b: Array, thetas: Array) -> NDArray[np.bool_]:
    return strictly_better(a, b, thetas) | strictly_better(b, a, thetas)


def _trials(oracle: MatroidOracle) -> range:
    """Return the trials of a matroid check, limited by the number of independence tests."""
    return range(min(_MAX_TRIALS, max(_MIN_TRIALS, _INDEPENDENCE_TESTS // (2 * oracle.dim))))


def _random_maximal_set(oracle: MatroidOracle, rng: np.random.Generator) -> list[int]:
    """Return a maximal independent set, by adding components in random order."""
    chosen: list[int] = []
    for i in rng.permutation(oracle.dim).tolist():
        if oracle.is_independent(sorted([*chosen, i])):
            chosen = sorted([*chosen, i])
    return chosen


def _subsets(p: _Probe) -> Iterator[str]:
    """Test subsets of maximal and other independent sets: one component less, and a random part."""
    oracle, rng = cast(MatroidOracle, p.oracle), p.rng
    for trial in _trials(oracle):
        if trial % 4 == 0:
            independent = _random_maximal_set(oracle, rng)
        else:
            size = int(rng.integers(1, min(oracle.rank + 1, oracle.dim) + 1))
            independent = sorted(rng.choice(oracle.dim, size, replace=False).tolist())
            if not oracle.is_independent(independent):
                continue
        kept = rng.random(len(independent)) < rng.random()
        subsets = [[i for i, keep in zip(independent, kept, strict=True) if keep]]
        subsets += [[i for i in independent if i != f] for f in rng.permutation(independent)[:8].tolist()]
        for subset in subsets:
            if not oracle.is_independent(subset):
                yield (
                    f"not a matroid: {oracle.name(independent)} is independent, and its subset {oracle.name(subset)} "
                    f"is not; {_CURE}"
                )
                return


def _exchange(p: _Probe) -> Iterator[str]:
    """Search for maximal sets of different sizes, and for violations of the exchange axiom."""
    oracle, rng = cast(MatroidOracle, p.oracle), p.rng
    first = _random_maximal_set(oracle, rng)
    for _ in _trials(oracle):
        maximal = _random_maximal_set(oracle, rng)
        if len(maximal) != len(first):
            yield _exchange_violation(oracle, *sorted([maximal, first], key=len))
            return
        if len(maximal) < 2:
            continue
        larger = rng.permutation(maximal)[: rng.integers(2, len(maximal) + 1)].tolist()
        common, candidates = larger[2:], larger[:2]
        for e in rng.permutation(oracle.dim).tolist():
            smaller = sorted([*common, e])
            if e in larger or not oracle.is_independent(smaller):
                continue
            if not any(oracle.is_independent(sorted([*smaller, x])) for x in candidates):
                yield _exchange_violation(oracle, smaller, sorted(larger))
                return


def _exchange_violation(oracle: MatroidOracle, smaller: list[int], larger: list[int]) -> str:
    return (
        f"not a matroid: {oracle.name(smaller)} and {oracle.name(larger)} are independent, but no component of the "
        f"larger set can be added to the smaller; {_CURE}"
    )


def _pickled_copy(oracle: ArgmaxOracle) -> ArgmaxOracle:
    """Return a pickled copy that shares a local class, and a local independence test, with the oracle.

    Objects defined in a function or a doctest cannot be pickled by name; process pools (joblib) send them by value.
    """
    cls, shared = type(oracle), dict[str, Any]()
    if isinstance(oracle, MatroidOracle) and not _is_importable(oracle.independent):
        shared = {"independent": oracle.independent}
    if _is_importable(cls) and not shared:
        copy: ArgmaxOracle = pickle.loads(pickle.dumps(oracle))
        return copy
    copy = cls.__new__(cls)
    state = {name: value for name, value in vars(oracle).items() if name not in shared}
    copy.__dict__.update(pickle.loads(pickle.dumps(state)), **shared)
    return copy


def _is_importable(value: Any) -> bool:
    """Test whether a function or class can be found by name; other objects are pickled with their data."""
    name = getattr(value, "__qualname__", None)
    return name is None or getattr(sys.modules.get(value.__module__), name, None) is value


_CHECKS: dict[str, Check] = {
    "interface": lambda p: interface_faults(p.oracle),
    "shapes": _shapes,
    "batch": _batch,
    "determinism": _determinism,
    "purity": _purity,
    "pickling": _pickling,
    "homogeneity": _homogeneity,
    "optimality": _optimality,
    "labels": _labels,
    "membership": _membership,
    "facets": _facets,
    "cardinality": _cardinality,
    "promises": lambda p: promise_faults(p.oracle, p.answers()),
}
MATROID_CHECKS: dict[str, Check] = {"subsets": _subsets, "exchange": _exchange}
