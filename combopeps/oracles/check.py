"""`check_oracle`: the contract of `ArgmaxOracle`, for people who write their own.

Is it a matroid? Subsets and exchanges of random independent sets, for `check_oracle`.

    subsets     I independent, J a part of I                            =>  J independent
    exchange    I, J independent, |I| = |J| - 1, and I has one          =>  I + e independent for some e in J - I
                component that J has not

The second, for sets this close, with the first is all there is to a matroid (Schrijver, Combinatorial Optimization,
theorem 39.1); and all maximal independent sets are then of one size, which is looked at too.

An oracle as another process would get it.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from math import exp, inf, log
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import AnswerError
from combopeps.oracles.base import ArgmaxOracle, Array, LogCardinality, strictly_better
from combopeps.oracles.constrained_argmax import enumerate_answers
from combopeps.oracles.matroid import MatroidOracle
from combopeps.oracles.validation import count_faults, interface_faults, promise_faults
from combopeps.utils.contract import ContractReport, run_checks
from combopeps.utils.validation import as_generator, check_flag, check_kind

_TESTS = 3000  # of independence, roughly, for each of the two
_MOST_TRIALS, _FEWEST_TRIALS = 100, 10
_GREEDY = "a greedy choice is then not always the best: write an oracle with an exact argmax"


class _MatroidProbe(Protocol):
    @property
    def oracle(self) -> ArgmaxOracle: ...
    @property
    def rng(self) -> np.random.Generator: ...


def _trials(oracle: MatroidOracle) -> range:
    """As many sets as can be grown with so many tests."""
    return range(min(_MOST_TRIALS, max(_FEWEST_TRIALS, _TESTS // (2 * oracle.dim))))


def _grown(oracle: MatroidOracle, rng: np.random.Generator) -> list[int]:
    """A maximal independent set, by adding components in random order."""
    chosen: list[int] = []
    for i in rng.permutation(oracle.dim).tolist():
        if oracle.is_independent(sorted([*chosen, i])):
            chosen = sorted([*chosen, i])
    return chosen


def _subsets(p: _MatroidProbe) -> Iterator[str]:
    """Of sets drawn at random, and of grown ones: one component less, and any number less."""
    oracle, rng = cast(MatroidOracle, p.oracle), p.rng
    for trial in _trials(oracle):
        if trial % 4 == 0:
            found = _grown(oracle, rng)
        else:
            size = int(rng.integers(1, min(oracle.rank + 1, oracle.dim) + 1))
            found = sorted(rng.choice(oracle.dim, size, replace=False).tolist())
            if not oracle.is_independent(found):
                continue
        left = rng.random(len(found)) < rng.random()
        parts = [[i for i, keep in zip(found, left, strict=True) if keep]]
        parts += [[i for i in found if i != f] for f in rng.permutation(found)[:8].tolist()]
        for part in parts:
            if not oracle.is_independent(part):
                yield (
                    f"not a matroid: {oracle.name(found)} is independent, and {oracle.name(part)}, a part of it, "
                    f"is not; {_GREEDY}"
                )
                return


def _exchange(p: _MatroidProbe) -> Iterator[str]:
    """Two maximal sets of different size, or two small ones that differ in three components."""
    oracle, rng = cast(MatroidOracle, p.oracle), p.rng
    first = _grown(oracle, rng)
    for _ in _trials(oracle):
        larger = _grown(oracle, rng)
        if len(larger) != len(first):
            yield _no_exchange(oracle, *sorted([larger, first], key=len))
            return
        if len(larger) < 2:
            continue
        some = rng.permutation(larger)[: rng.integers(2, len(larger) + 1)].tolist()
        common, two = some[2:], some[:2]
        for e in rng.permutation(oracle.dim).tolist():
            smaller = sorted([*common, e])
            if e in some or not oracle.is_independent(smaller):
                continue
            if not any(oracle.is_independent(sorted([*smaller, x])) for x in two):
                yield _no_exchange(oracle, smaller, sorted(some))
                return


def _no_exchange(oracle: MatroidOracle, smaller: list[int], larger: list[int]) -> str:
    return (
        f"not a matroid: {oracle.name(smaller)} and {oracle.name(larger)} are independent, but no component of the "
        f"larger set can be added to the smaller; {_GREEDY}"
    )


MATROID_CHECKS: dict[str, Callable[[_MatroidProbe], Iterator[str]]] = {"subsets": _subsets, "exchange": _exchange}


def pickled_copy(oracle: ArgmaxOracle) -> ArgmaxOracle:
    """A pickled copy; what was defined in a function or a doctest is shared, as it cannot be found by name.

    Process pools (joblib) send such classes, and a matroid's test of independence, by value.
    """
    cls, shared = type(oracle), dict[str, Any]()
    if isinstance(oracle, MatroidOracle) and not _has_a_name(oracle.independent):
        shared = {"independent": oracle.independent}
    if _has_a_name(cls) and not shared:
        copy: ArgmaxOracle = pickle.loads(pickle.dumps(oracle))
        return copy
    copy = cls.__new__(cls)
    own = {name: value for name, value in vars(oracle).items() if name not in shared}
    copy.__dict__.update(pickle.loads(pickle.dumps(own)), **shared)
    return copy


def _has_a_name(value: Any) -> bool:
    """Can it be found by name? Objects other than functions and classes need not: they hold their data."""
    name = getattr(value, "__qualname__", None)
    return name is None or getattr(sys.modules.get(value.__module__), name, None) is value


def check_oracle(
    oracle: ArgmaxOracle, rng: int | np.random.Generator | None = 0, *, raises: bool = True
) -> ContractReport:
    """Run the whole contract on an oracle.

    Parameters
    ----------
    oracle
        The oracle to examine; some thousands of argmax calls are made. Cardinality is compared with a full
        enumeration for exact claims about small sets of 0/unit answers on R^d, otherwise with the answers seen. Of a
        `MatroidOracle`, subsets and exchanges of random independent sets are tested too.
    rng
        Seed or generator of the thetas tried.
    raises
        Raise `ContractError` with all violations (for tests), or only return the report.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> print(check_oracle(TopKOracle(5, k=2)))
    TopKOracle: 13 checks passed, 0 failed
    """
    check_kind("oracle", oracle, ArgmaxOracle)
    check_flag("raises", raises)
    generator = as_generator(rng)
    begun = hasattr(oracle, "components") and hasattr(oracle, "dim")
    checks = _CHECKS if begun else {"interface": _CHECKS["interface"]}
    if isinstance(oracle, MatroidOracle) and begun:
        checks = {**checks, **MATROID_CHECKS}
    return run_checks(type(oracle).__name__, _Probe(oracle, generator), checks, raises=raises)


class _Probe:
    """The oracle under examination, and the thetas put to it."""

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
        """A fresh copy each time: an oracle that changes its input must not spoil the next check."""
        return self._thetas.copy()

    def answers(self) -> Array:
        return np.unique(self.oracle.argmax(self.thetas), axis=0)


_LISTED = 1000  # facets asked for where there is no closed form
_ENUMERABLE = 200  # sets up to this size are listed to check their cardinality

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
    together = p.oracle.argmax(p.thetas)
    alone = np.stack([p.oracle.argmax(theta) for theta in p.thetas])
    if _values_differ(together, alone, p.thetas).any():
        yield "a batch gives other values than its rows one by one; state shared between rows is a likely cause"


def _determinism(p: _Probe) -> Iterator[str]:
    first, again = p.oracle.argmax(p.thetas), p.oracle.argmax(p.thetas)
    if not np.array_equal(first, again):
        yield "the same theta gave two answers; break ties by a fixed rule and keep no state between calls"


def _purity(p: _Probe) -> Iterator[str]:
    for given in (p.thetas, p.thetas[0]):
        before = given.copy()
        first = p.oracle.argmax(given)
        if not np.array_equal(before, given):
            yield "argmax changed theta in place; work on a copy"
        kept = first.copy()
        p.oracle.argmax(-given if p.oracle.domain == "real" else given[..., ::-1])
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
        twin = pickled_copy(p.oracle)
    except Exception as error:
        yield f"pickling failed ({error}); keep plain data in attributes, no lambdas, locks or open files"
        return
    if not np.array_equal(twin.argmax(p.thetas), p.oracle.argmax(p.thetas)):
        yield "a pickled copy gives other answers; is part of the state left out?"


def _homogeneity(p: _Probe) -> Iterator[str]:
    base = p.oracle.argmax(p.thetas)
    for c in (0.25, 3.0, 1e6, 1e-6):
        if _values_differ(p.oracle.argmax(c * p.thetas), base, p.thetas).any():
            yield f"argmax({c:g} theta) is not argmax(theta): rounding to integers, or an absolute tolerance?"


def _optimality(p: _Probe) -> Iterator[str]:
    best = p.oracle.argmax(p.thetas)
    for rival in p.answers():
        if strictly_better(np.broadcast_to(rival, best.shape), best, p.thetas).any():
            yield (
                "an answer given for one theta beats the answer given for another: "
                "a sign error, a greedy rule that is not exact, or answers outside Z"
            )


def _labels(p: _Probe) -> Iterator[str]:
    for z in p.answers():
        try:
            again = p.oracle.encode(p.oracle.decode(z))
        except AnswerError as error:
            yield f"decode or encode refuses an answer of argmax ({error}); set unit, or override both"
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
            rows = p.oracle.facets_up_to(z, _LISTED)
        if rows is None:
            return
        count = p.oracle.facet_count
        if count is not None and rows.shape[0] > count:
            yield f"facet_count says that there are at most {count} facets, facets lists {rows.shape[0]}"
        most = rows.shape[0] - 1
        if most >= 0 and p.oracle.facets_up_to(z, most) is not None:
            yield f"facets_up_to lists {most + 1} rows where at most {most} are wanted; return None instead"
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
        # Close to the cone of z the alternatives lie behind few facets: a missing one shows up there.
        toward = z / max(1.0, np.abs(z).max())
        if p.oracle.domain == "nonnegative":
            toward = toward - toward.min()
        near = toward + 0.3 * p.rng.normal(size=(min(400, 1 + 200_000 // len(z)), len(z)))
        thetas = np.concatenate([p.thetas, np.abs(near) if p.oracle.domain == "nonnegative" else near])
        behind = np.array([(rows @ t > 1e-13 * (abs(rows) @ np.abs(t))).any() for t in thetas])
        if not np.array_equal(behind, strictly_better(p.oracle.argmax(thetas), z, thetas)):
            yield "facets is incomplete: z is beaten at a theta that lies behind no listed facet; return None instead"


def _cardinality(p: _Probe) -> Iterator[str]:
    claimed, answers = p.oracle.log_cardinality, p.answers()
    yield from count_faults(p.oracle, answers)
    if not isinstance(claimed, LogCardinality) or not claimed.exact or p.oracle.domain != "real":
        return
    if not np.isin(answers, [0.0, p.oracle.unit]).all():
        return
    found = enumerate_answers(p.oracle, limit=_ENUMERABLE)
    seen = inf if found is None else len(found)
    wrong = claimed < log(_ENUMERABLE) if found is None else abs(len(found) - exp(min(claimed, 50.0))) > 0.5
    if wrong:
        yield f"log_cardinality claims exactly {exp(min(claimed, 50.0)):.6g} answers, enumeration finds {seen}"


def _values_differ(a: Array, b: Array, thetas: Array) -> NDArray[np.bool_]:
    return strictly_better(a, b, thetas) | strictly_better(b, a, thetas)


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
