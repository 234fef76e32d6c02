"""Run-time validation of oracles: initial checks of a problem, consistency checks of a run, and `CheckedOracle`.

All checks rest on one property: an answer is never worse than another answer of the same oracle,

    z_i @ theta_i >= z_j @ theta_i   for all answers z_j of the oracle.

Sign errors, greedy rules and answers outside Z violate it, and testing it takes no oracle call.

- `probe_oracle` validates an oracle when a problem is created. The answers to random thetas are needed anyway, to test
  whether the arms identify the answers; a small part of `check_oracle` is applied to them, for three more calls.
- `ConsistencyCheck` compares the answers that a run gets anyway.
- `CheckedOracle` wraps an oracle and validates every call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from math import exp, log
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, ComboPepsError, OracleError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse, reject_masked
from combopeps.utils.validation import check_choice, check_kind

Bools = NDArray[np.bool_]

_ROUNDING = 1e-12  # rounding error of a value, relative to sum |z theta|

_WATCHED_ROWS = 4  # rows of a batch that a `ConsistencyCheck` checks
_KEPT_ANSWERS = 8  # recent answers of the run that a `ConsistencyCheck` compares with
_EARLY_BATCHES = 8  # batches that a `ConsistencyCheck` checks; after them, those whose number is a power of two

_MAX_PROBES, _MAX_SLOW_PROBES = 256, 64  # random thetas, for an oracle that is quick or lists its facets, and others
_MAX_DRAWN_ENTRIES = 4_000_000  # of all random thetas
_COMPARED_ROWS = 16  # answers that are compared with each other
_MAX_LISTED_FACETS, _MAX_LISTED_DIM = 1024, 10_000  # for `facets_up_to`: more rows, or components, would take too long
_MAX_PRODUCTS = 4_000_000  # entries of facets @ thetas

_MAX_INCUMBENTS = 16  # answers that a `CheckedOracle` compares with
_SAMPLING_PERIOD = 16  # in mode "sampled", one call in 16 is checked in full


@contextmanager
def convert_errors(oracle: ArgmaxOracle, thetas: Array) -> Iterator[None]:
    """Convert exceptions of the oracle into an `OracleError` with the thetas; typed errors pass unchanged."""
    try:
        yield
    except Exception as cause:
        if isinstance(cause, ComboPepsError) and not isinstance(cause, AnswerError):
            raise
        hint = "; it writes into theta, work on a copy" if "read-only" in str(cause) else ""
        hint = hint if len(thetas) else " for an empty batch; return an empty (0, d) array"
        outside = "returned a z outside Z, " if isinstance(cause, AnswerError) else ""
        raise OracleError(
            f"{type(oracle).__name__} {outside}raised {type(cause).__name__}: {cause}{hint} (theta is kept in .theta)",
            thetas.copy(),
        ) from cause


def checked_argmax(oracle: ArgmaxOracle, thetas: Array) -> Array:
    """Call `argmax`; `OracleError` if it raises, changes theta, or does not return one float vector per row."""
    passed = thetas.copy()
    with convert_errors(oracle, thetas):
        answers = oracle.argmax(passed)
    if not np.array_equal(passed, thetas):
        raise OracleError(f"{type(oracle).__name__} changed theta in place; work on a copy", thetas.copy())
    check_array(oracle, thetas, answers)
    return answers


def check_array(oracle: ArgmaxOracle, thetas: Array, answers: Any) -> None:
    """Raise `OracleError` unless the answers are one finite float64 vector per theta."""
    name = type(oracle).__name__
    reject_masked(oracle, thetas, answers)
    if not isinstance(answers, np.ndarray) or answers.shape != thetas.shape or answers.dtype != np.float64:
        returned = f"{answers.dtype} {answers.shape}" if isinstance(answers, np.ndarray) else type(answers).__name__
        raise OracleError(
            f"{name} returned {returned} for thetas of shape {thetas.shape}; return one float vector per row (float64)",
            thetas.copy(),
        )
    if not np.isfinite(answers).all():
        row = thetas if thetas.ndim == 1 else thetas[int(np.argwhere(~np.isfinite(answers))[0][0])]
        raise OracleError(f"{name} returned NaN or infinity in z; is an array made by np.empty not filled?", row.copy())


def products(a: Array, b: Array) -> Array:
    """Compute a_i @ b_j for few long rows, without BLAS, whose threads made it 50 times slower."""
    return np.asarray(np.einsum("id,jd->ij", a, b))


def tolerance(oracle: ArgmaxOracle, thetas: Array, size: float) -> Array:
    """Return by how much a correct answer may be worse than the best, (B,), for entries of answers up to `size`."""
    return np.asarray((oracle.resolution + _ROUNDING * size) * np.abs(thetas).sum(axis=1))


def is_worse(oracle: ArgmaxOracle, answers: Array, others: Array, thetas: Array) -> Bools:
    """Test row by row whether the answer is worse than the other one by more than the oracle's tolerance."""
    size = max(float(np.abs(answers).max(initial=0.0)), float(np.abs(others).max(initial=0.0)))
    return np.asarray(((others - answers) * thetas).sum(axis=1) > tolerance(oracle, thetas, size))


def check_same_value(oracle: ArgmaxOracle, thetas: Array, answers: Array, again: Array) -> None:
    """Raise `OracleError` if two calls gave answers of different value; of several best answers any may be returned."""
    differ = is_worse(oracle, answers, again, thetas) | is_worse(oracle, again, answers, thetas)
    if differ.any():
        row = int(differ.argmax())
        raise OracleError(
            f"{type(oracle).__name__} gave two answers of different value for one theta "
            f"({answers[row] @ thetas[row]:.12g} and {again[row] @ thetas[row]:.12g}): does it keep state between "
            "calls, or between the rows of a batch?",
            thetas[row].copy(),
        )


def check_best(oracle: ArgmaxOracle, thetas: Array, answers: Array, others: Array, slack: float = 0.0) -> None:
    """Raise `OracleError` if another answer of the oracle is better than an answer under its own theta.

    Differences up to the tolerance plus `slack` times the largest entry of an answer are allowed.
    """
    if not len(answers) or not len(others):
        return
    values = products(thetas, others)
    own = (answers * thetas).sum(axis=1)
    size = max(float(np.abs(answers).max()), float(np.abs(others).max()))
    allowed = tolerance(oracle, thetas, size) + slack * size
    loss = values.max(axis=1) - own
    row = int((loss - allowed).argmax())
    if loss[row] <= allowed[row]:
        return
    if (values >= (own - allowed)[:, None]).all():
        cure = "is it minimising? Return the argmax of z @ theta; to minimise a cost, let z be minus its vector (unit)"
    else:
        cure = (
            "a greedy rule that is not exact, a solver's tolerance (then set resolution), or answers outside Z? "
            "run check_oracle(oracle) for details"
        )
    raise OracleError(
        f"{type(oracle).__name__} returned an answer worth {own[row]:.12g}, but another answer of its own is worth "
        f"{values[row].max():.12g} under this theta: not an argmax, or not in Z ({cure})",
        thetas[row].copy(),
    )


class ConsistencyCheck:
    """Consistency check of the answers of a run, in its first batches and in those numbered by powers of two.

    Parameters
    ----------
    oracle
        Oracle that returned the answers.
    known
        Some of its answers to other thetas, (n, d). Without them, a run in which the oracle returns the same wrong
        answer to all thetas would look consistent.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> oracle = TopKOracle(3, k=1)
    >>> thetas = np.eye(3)
    >>> ConsistencyCheck(oracle).see(thetas, oracle.argmax(thetas))
    >>> ConsistencyCheck(oracle).see(thetas, oracle.argmax(-thetas))
    Traceback (most recent call last):
    ...
    combopeps.errors.OracleError: TopKOracle returned an answer worth 0, but another answer of its own is worth 1 ...
    """

    def __init__(self, oracle: ArgmaxOracle, known: Array | None = None) -> None:
        self.oracle = oracle
        self._batches, self._interval = 0, 1  # number of the last checked batch; batches from it to the next check
        self.countdown = 1  # batches until the next check; callers may count down themselves, and call `check` at 0
        self.known = np.empty((0, oracle.dim)) if known is None else known
        self._recent = self.known[:0]

    def see(self, thetas: Array, answers: Any, slack: float = 0.0) -> None:
        """Check one batch of thetas and their answers, both (B, d), if a check is due; `slack` as in `check_best`."""
        self.countdown -= 1
        if self.countdown <= 0:
            self.check(thetas, answers, slack)

    def check(self, thetas: Array, answers: Any, slack: float = 0.0) -> None:
        """Check one batch, whether or not a check is due, and schedule the next check."""
        self._batches += self._interval
        self._interval = self.countdown = 1 if self._batches < _EARLY_BATCHES else self._batches
        first, best = thetas[:_WATCHED_ROWS], answers[:_WATCHED_ROWS]
        check_array(self.oracle, first, best)
        recent = np.concatenate([self._recent, best])
        check_best(self.oracle, first, best, np.concatenate([self.known, recent]), slack)
        self._recent = recent[-_KEPT_ANSWERS:]


def interface_faults(oracle: ArgmaxOracle) -> Iterator[str]:
    """Yield faults of labels, dimension, domain and unit, which an oracle must have before it is called."""
    try:
        labels, dim = oracle.components, oracle.dim
    except AttributeError as cause:
        yield f"{cause}; call super().__init__(components) in your __init__"
        return
    if len(labels) != dim or dim < 1:
        yield f"dim is {dim} but there are {len(labels)} components; pass one label per coordinate"
    if len(set(labels)) != len(labels):
        yield "components repeats a label; every coordinate needs its own"
    if oracle.domain not in ("real", "nonnegative"):
        yield f'domain is {oracle.domain!r}; it must be "real" or "nonnegative"'
    if not (isinstance(oracle.unit, Real) and np.isfinite(oracle.unit) and oracle.unit != 0):
        yield f"unit is {oracle.unit!r}; it is what a chosen component contributes to z: 1, -1, or another number"


def check_interface(oracle: ArgmaxOracle) -> None:
    """Raise `OracleError` for the first fault of the interface."""
    for fault in interface_faults(oracle):
        raise OracleError(f"{type(oracle).__name__}: {fault}")


def promise_faults(oracle: ArgmaxOracle, answers: Array) -> Iterator[str]:
    """Yield promises of the oracle that these answers violate."""
    if oracle.binary and not ((answers == 0.0) | (answers == oracle.unit)).all():
        yield f"binary = True, but answers have entries other than 0 and {oracle.unit:g}: set unit, or binary = False"
    if oracle.antichain:
        if not oracle.binary:
            yield "antichain = True means nothing without binary = True"
        chosen = (answers != 0.0).astype(np.float64)
        size = chosen.sum(axis=1)
        if ((products(chosen, chosen) >= size[:, None]) & (size[:, None] < size)).any():
            yield "antichain = True, but one answer contains all components of another: set it to False"
    rows = oracle.equalities()
    if rows is not None and np.ptp(rows @ answers.T, axis=1).max(initial=0.0) > 1e-9 * np.abs(answers).max(initial=0.0):
        yield "equalities lists a row r for which r @ z is not the same for all answers"


def count_faults(oracle: ArgmaxOracle, answers: Array) -> Iterator[str]:
    """Yield contradictions of `log_cardinality` and the number of distinct answers."""
    claimed = oracle.log_cardinality
    if claimed is None:
        return
    if not isinstance(claimed, LogCardinality):
        yield f"log_cardinality is a {type(claimed).__name__}; return LogCardinality(value, exact=...), or None"
        return
    if not claimed >= 0.0:
        yield f"log_cardinality is {float(claimed)}; it is ln of a number of answers, or None"
    if claimed < log(len(answers)):
        seen = len({z.tobytes() for z in answers + 0.0})
        if seen > exp(claimed) * (1 + 1e-9):
            yield f"log_cardinality claims {exp(claimed):.4g} answers, but {seen} were seen"


def probe_oracle(oracle: ArgmaxOracle, rng: np.random.Generator) -> Array:
    """Return answers to random thetas; `OracleError` if they contradict each other or the oracle's promises."""
    probes = _MAX_PROBES if oracle.quick or _lists_facets(oracle) else _MAX_SLOW_PROBES
    draws = max(2, min(probes, _MAX_DRAWN_ENTRIES // oracle.dim))
    thetas = rng.normal(size=(draws, oracle.dim))
    if oracle.domain == "nonnegative":
        thetas = np.abs(thetas)
    answers = checked_argmax(oracle, thetas)
    checked_argmax(oracle, thetas[:0])
    _check_repeated_calls(oracle, thetas, answers)
    check_best(oracle, thetas[:_COMPARED_ROWS], answers[:_COMPARED_ROWS], answers[:_COMPARED_ROWS])
    _check_labels(oracle, answers[0])
    for fault in chain(promise_faults(oracle, answers[:_COMPARED_ROWS]), count_faults(oracle, answers)):
        raise OracleError(f"{type(oracle).__name__}: {fault}")
    _check_membership(oracle, thetas[:_COMPARED_ROWS], answers[:_COMPARED_ROWS])
    _check_facets(oracle, thetas, answers)
    return answers


def _check_repeated_calls(oracle: ArgmaxOracle, thetas: Array, answers: Array) -> None:
    """Call with single thetas: earlier answers must not change, and values must not depend on the call."""
    name, copies = type(oracle).__name__, answers[:_COMPARED_ROWS].copy()
    other = max(1, int((copies != copies[0]).any(axis=1).argmax()))  # an answer unlike the first, if there is one
    rows = [0, other, 0]
    single = [(z, z.copy()) for z in (checked_argmax(oracle, thetas[row]) for row in rows)]
    if any(not np.array_equal(now, then) for now, then in [(answers[:_COMPARED_ROWS], copies), *single]):
        raise OracleError(f"{name}: a later call changed an answer returned before; return a fresh array, not a buffer")
    check_same_value(oracle, thetas[rows], answers[rows], np.stack([then for _, then in single]))


def _check_labels(oracle: ArgmaxOracle, z: Array) -> None:
    """Decode an answer, as a result will be; `encode`, if it accepts the decoded answer, must return z."""
    name = type(oracle).__name__
    try:
        answer = oracle.decode(z)
    except Exception as cause:
        raise OracleError(
            f"{name} cannot decode its own answer ({type(cause).__name__}: {cause}); set unit, or override decode and "
            "encode; or is the answer outside Z?"
        ) from cause
    try:
        again = oracle.encode(answer)
    except AnswerError:  # only decode is overridden: nothing to compare
        return
    if not np.array_equal(again, z):
        raise OracleError(f"{name}: encode(decode(z)) is not z; override the two together, and mind the sign of z")


def _check_membership(oracle: ArgmaxOracle, thetas: Array, answers: Array) -> None:
    if type(oracle)._membership_batch is ArgmaxOracle._membership_batch:
        return
    with convert_errors(oracle, thetas):
        is_best = oracle.membership(answers[0], thetas.copy())
    first = np.broadcast_to(answers[0], answers.shape)
    is_beaten = is_worse(oracle, first, answers, thetas)
    _check_agreement(oracle, "membership", ~np.asarray(is_best, dtype=bool), is_beaten, answers, thetas)


def _check_facets(oracle: ArgmaxOracle, thetas: Array, answers: Array) -> None:
    """Check at every theta that the first answer is beaten exactly if a facet's half-space contains theta."""
    rows = _list_facets(oracle, answers[0], _MAX_PRODUCTS // len(thetas))
    if rows is None:
        return
    z = answers[0]
    gains = np.asarray(rows @ thetas.T).max(axis=0, initial=-np.inf)
    slack = tolerance(oracle, thetas, float(np.abs(answers).max()))
    is_beaten = is_worse(oracle, np.broadcast_to(z, answers.shape), answers, thetas)
    # Only clear cases count: within the tolerance, facets and argmax may disagree.
    by_facets = np.where(is_beaten, gains > 0.0, gains > slack)
    _check_agreement(oracle, "facets", by_facets, is_beaten, answers, thetas)


def _lists_facets(oracle: ArgmaxOracle) -> bool:
    """Test whether the class implements a list of facets, and this instance does not disable it."""
    cls = type(oracle)
    if cls.facet_count is not ArgmaxOracle.facet_count and oracle.facet_count is None:
        return False
    return cls.facets is not ArgmaxOracle.facets or cls.facets_up_to is not ArgmaxOracle.facets_up_to


def _list_facets(oracle: ArgmaxOracle, z: Array, limit: int) -> Sparse | None:
    """Return the facets at z if the class lists them and they are few enough for this check."""
    count = oracle.facet_count
    if type(oracle).facets is not ArgmaxOracle.facets and (count is None or count <= limit):
        rows = oracle.facets(z)
        if rows is not None:
            return rows if rows.shape[0] <= limit else None
    if type(oracle).facets_up_to is ArgmaxOracle.facets_up_to or oracle.dim > _MAX_LISTED_DIM:
        return None
    return oracle.facets_up_to(z, min(limit, _MAX_LISTED_FACETS))


def _check_agreement(
    oracle: ArgmaxOracle, hook: str, claimed: Bools, is_beaten: Bools, answers: Array, thetas: Array
) -> None:
    """Compare claims that the first answer is beaten, except at near ties, where either may be correct."""
    same = (answers == answers[0]).all(axis=1)
    wrong = (is_beaten & ~claimed) | (same & claimed)
    if wrong.any():
        raise OracleError(
            f"{type(oracle).__name__}: {hook} disagrees with argmax on whether an answer is beaten; "
            "run check_oracle(oracle) for details",
            thetas[int(wrong.argmax())].copy(),
        )


class CheckedOracle(ArgmaxOracle):
    """Wrapper that validates the answers of an oracle; a violation raises `OracleError`.

    Shape, type, finiteness, exceptions and changes to theta are checked on every call. Full checks add: z is a member
    of Z (by decode and encode), no earlier answer is better than the returned one, and a repeated call returns neither
    the same memory nor an answer of different value. (Of several best answers any may be returned, and not always the
    same: `check_oracle` is stricter.) The error has the theta that caused it as attribute `theta`.

    Parameters
    ----------
    oracle
        Any `ArgmaxOracle`.
    mode
        "always" checks every call in full, which doubles the oracle calls; "sampled" one call in 16.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> CheckedOracle(TopKOracle(4, k=2), mode="always").argmax([1.0, 4.0, 3.0, 2.0])
    array([0., 1., 1., 0.])
    """

    def __init__(self, oracle: ArgmaxOracle, mode: Literal["sampled", "always"] = "sampled") -> None:
        check_choice("mode", mode, ("sampled", "always"))
        check_kind("oracle", oracle, ArgmaxOracle)
        super().__init__(oracle.components)
        self.oracle, self.mode = oracle, mode
        self.domain, self.unit, self.resolution = oracle.domain, oracle.unit, oracle.resolution
        self.binary, self.antichain, self.pruned = oracle.binary, oracle.antichain, oracle.pruned
        self.expensive, self.quick, self.exchanges = oracle.expensive, oracle.quick, oracle.exchanges
        self._calls = 0
        self._incumbents: list[Array] = []

    def _summary(self) -> Mapping[str, Any]:
        return {**super()._summary(), "oracle": self.oracle, "mode": self.mode}

    def _argmax_batch(self, thetas: Array) -> Array:
        in_full = self.mode == "always" or self._calls % _SAMPLING_PERIOD == 0
        self._calls += 1
        best = checked_argmax(self.oracle, thetas)
        if in_full:
            self._check_feasible(best, thetas)
            if len(thetas):
                self._check_value(best, thetas)
                self._check_repetition(best, thetas)
        return best

    _answers = _argmax_batch  # no workers here: the wrapped oracle has its own, and calls are counted here

    def _check_feasible(self, best: Array, thetas: Array) -> None:
        for z, theta in zip(best, thetas, strict=True):
            with convert_errors(self.oracle, theta):
                again = self.oracle.encode(self.oracle.decode(z))
            if not np.array_equal(again, z):
                raise OracleError(f"{self._name} returned a z for which encode(decode(z)) is not z", theta.copy())

    def _check_value(self, best: Array, thetas: Array) -> None:
        for z in best:
            if not any(np.array_equal(z, known) for known in self._incumbents):
                self._incumbents = [*self._incumbents[1 - _MAX_INCUMBENTS :], z.copy()]
        check_best(self.oracle, thetas, best, np.stack(self._incumbents))

    def _check_repetition(self, best: Array, thetas: Array) -> None:
        """Call again: the first answers must not change, and values must be equal."""
        kept = best.copy()
        again = checked_argmax(self.oracle, thetas)
        if np.shares_memory(best, again):
            raise OracleError(
                f"{self._name} returned the same memory twice, so that a later call changes earlier answers; return a "
                "fresh array, not a buffer",
                thetas.copy(),
            )
        check_same_value(self.oracle, thetas, kept, again)

    @property
    def _name(self) -> str:
        return type(self.oracle).__name__

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        with convert_errors(self.oracle, thetas):
            return np.atleast_1d(self.oracle.membership(z, thetas.copy()))

    def decode(self, z: ArrayLike) -> Any:
        return self.oracle.decode(z)

    def encode(self, answer: Any) -> Array:
        return self.oracle.encode(answer)

    def index(self, label: Hashable) -> int:
        return self.oracle.index(label)

    def why_pruned(self, label: Hashable) -> str:
        return self.oracle.why_pruned(label)

    def aliases(self, label: Hashable) -> tuple[Hashable, ...]:
        return self.oracle.aliases(label)

    def facets(self, z: ArrayLike) -> Sparse | None:
        return self.oracle.facets(z)

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        return self.oracle.facets_up_to(z, most)

    def confusions(self, *, whole: bool = False) -> Confusions | None:
        return self.oracle.confusions(whole=whole)

    def equalities(self) -> Sparse | None:
        return self.oracle.equalities()

    @property
    def facet_count(self) -> int | None:
        return self.oracle.facet_count

    @property
    def log_cardinality(self) -> LogCardinality | None:
        return self.oracle.log_cardinality
