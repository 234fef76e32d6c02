"""`probe_oracle`: what every problem asks of its oracle before anyone believes it.

The answers to random thetas are needed anyway, to see whether the arms can tell answers apart. Here they are compared
with each other, and with what the oracle promises about them: a small part of `check_oracle`, for three more calls.

Answers of one oracle, compared with each other: an argmax is never beaten by another answer of its own.

    z_i @ theta_i >= z_j @ theta_i   for all answers z_j ever given

A sign error, a greedy rule and answers outside Z all break this, and it costs no oracle call.

A wrapper that catches an oracle that lies.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from itertools import chain
from math import exp, log
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, ComboPepsError, OracleError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse, refuse_masked
from combopeps.utils.validation import check_choice, check_kind

_ROUNDING = 1e-12  # of a value, relative to sum |z theta|
_WATCHED_ROWS = 4  # of a batch are looked at
_RECENT = 8  # answers of the run itself that are remembered
_EARLY = 8  # the first so many batches of a run are looked at; later ones at powers of two


@contextmanager
def typed(oracle: ArgmaxOracle, thetas: Array) -> Iterator[None]:
    """What the oracle raises, if it is not typed, becomes an `OracleError` that keeps the thetas."""
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
    """The answers of an oracle that raises nothing, leaves theta as it is, and returns a float vector per row."""
    given = thetas.copy()
    with typed(oracle, thetas):
        answers = oracle.argmax(given)
    if not np.array_equal(given, thetas):
        raise OracleError(f"{type(oracle).__name__} changed theta in place; work on a copy", thetas.copy())
    check_form(oracle, thetas, answers)
    return answers


def check_form(oracle: ArgmaxOracle, thetas: Array, answers: Any) -> None:
    """One finite float64 vector per theta, or an `OracleError`."""
    name = type(oracle).__name__
    refuse_masked(oracle, thetas, answers)
    if not isinstance(answers, np.ndarray) or answers.shape != thetas.shape or answers.dtype != np.float64:
        form = f"{answers.dtype} {answers.shape}" if isinstance(answers, np.ndarray) else type(answers).__name__
        raise OracleError(
            f"{name} returned {form} for thetas of shape {thetas.shape}; return one float vector per row (float64)",
            thetas.copy(),
        )
    if not np.isfinite(answers).all():
        row = thetas if thetas.ndim == 1 else thetas[int(np.argwhere(~np.isfinite(answers))[0][0])]
        raise OracleError(f"{name} returned NaN or infinity in z; is an array made by np.empty not filled?", row.copy())


def products(a: Array, b: Array) -> Array:
    """a_i @ b_j of few long rows. Not by BLAS, which starts threads for them: seen to take 50 times as long."""
    return np.asarray(np.einsum("id,jd->ij", a, b))


def tolerance(oracle: ArgmaxOracle, thetas: Array, size: float) -> Array:
    """How much less than the best an honest answer may be worth, (B,), when answers have entries up to `size`."""
    return np.asarray((oracle.resolution + _ROUNDING * size) * np.abs(thetas).sum(axis=1))


def worse(oracle: ArgmaxOracle, answers: Array, others: Array, thetas: Array) -> NDArray[np.bool_]:
    """Row by row: is the answer worth less than the other one, by more than the oracle's tolerance?"""
    size = max(float(np.abs(answers).max(initial=0.0)), float(np.abs(others).max(initial=0.0)))
    return np.asarray(((others - answers) * thetas).sum(axis=1) > tolerance(oracle, thetas, size))


def check_same_value(oracle: ArgmaxOracle, thetas: Array, answers: Array, again: Array) -> None:
    """Raise `OracleError` if two calls gave answers of different value. Of several best answers any may be returned."""
    differ = worse(oracle, answers, again, thetas) | worse(oracle, again, answers, thetas)
    if differ.any():
        row = int(differ.argmax())
        raise OracleError(
            f"{type(oracle).__name__} gave two answers of different value for one theta "
            f"({answers[row] @ thetas[row]:.12g} and {again[row] @ thetas[row]:.12g}): does it keep state between "
            "calls, or between the rows of a batch?",
            thetas[row].copy(),
        )


def check_best(oracle: ArgmaxOracle, thetas: Array, answers: Array, rivals: Array, slack: float = 0.0) -> None:
    """Raise `OracleError` if one of the rivals, answers of the oracle too, beats an answer under its own theta.

    By more than the tolerance and, per unit of an answer's entries, `slack`.
    """
    if not len(answers) or not len(rivals):
        return
    values = products(thetas, rivals)
    own = (answers * thetas).sum(axis=1)
    size = max(float(np.abs(answers).max()), float(np.abs(rivals).max()))
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
            "check_oracle(oracle) tells more"
        )
    raise OracleError(
        f"{type(oracle).__name__} returned an answer worth {own[row]:.12g}, but another answer of its own is worth "
        f"{values[row].max():.12g} under this theta: not an argmax, or not in Z ({cure})",
        thetas[row].copy(),
    )


class ConsistencyCheck:
    """Compares the answers that a run gets anyway, in its first batches and now and then later.

    Parameters
    ----------
    oracle
        Whose answers they are.
    known
        Some of its answers to other thetas, (n, d): a run that sees one wrong answer only would find it consistent.

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
        self._batches, self._pause = 0, 1  # at the last check, and from there to the next
        self.countdown = 1  # batches to the next check; a caller may count down by itself, and call `check` at 0
        self.known = np.empty((0, oracle.dim)) if known is None else known
        self._recent = self.known[:0]

    def see(self, thetas: Array, answers: Any, slack: float = 0.0) -> None:
        """Check one batch of thetas and their answers, both (B, d), if that is due; `slack` as for `check_best`."""
        self.countdown -= 1
        if self.countdown <= 0:
            self.check(thetas, answers, slack)

    def check(self, thetas: Array, answers: Any, slack: float = 0.0) -> None:
        """Check one batch: each of the first ones, then those whose number is a power of two."""
        self._batches += self._pause
        self._pause = self.countdown = 1 if self._batches < _EARLY else self._batches
        given, best = thetas[:_WATCHED_ROWS], answers[:_WATCHED_ROWS]
        check_form(self.oracle, given, best)
        recent = np.concatenate([self._recent, best])
        check_best(self.oracle, given, best, np.concatenate([self.known, recent]), slack)
        self._recent = recent[-_RECENT:]


Bools = NDArray[np.bool_]

_PROBES, _FEW_PROBES = 256, 64  # of an oracle that is quick or lists its facets, and of one that takes its time
_NUMBERS = 4_000_000  # coordinates drawn at most
_COMPARED_ROWS = 16  # answers that are compared with each other
_FEW, _WIDE = 1024, 10_000  # facets asked for where there is no closed form, and components up to which that is quick
_PRODUCTS = 4_000_000  # entries of facets times thetas, at most


def interface_faults(oracle: ArgmaxOracle) -> Iterator[str]:
    """Labels, dimension, domain and unit: what must be in order before a question can be put."""
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
    """Raise `OracleError` for the first of these faults."""
    for fault in interface_faults(oracle):
        raise OracleError(f"{type(oracle).__name__}: {fault}")


def promise_faults(oracle: ArgmaxOracle, answers: Array) -> Iterator[str]:
    """Promises about all answers that these do not keep."""
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
    """Is what is said of |Z| possible, now that these answers were seen?"""
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
    """Answers to random thetas; `OracleError` if they contradict each other or the oracle's promises."""
    probes = _PROBES if oracle.quick or _lists_facets(oracle) else _FEW_PROBES
    draws = max(2, min(probes, _NUMBERS // oracle.dim))
    thetas = rng.normal(size=(draws, oracle.dim))
    if oracle.domain == "nonnegative":
        thetas = np.abs(thetas)
    answers = checked_argmax(oracle, thetas)
    checked_argmax(oracle, thetas[:0])
    _check_calls(oracle, thetas, answers)
    check_best(oracle, thetas[:_COMPARED_ROWS], answers[:_COMPARED_ROWS], answers[:_COMPARED_ROWS])
    _check_labels(oracle, answers[0])
    for fault in chain(promise_faults(oracle, answers[:_COMPARED_ROWS]), count_faults(oracle, answers)):
        raise OracleError(f"{type(oracle).__name__}: {fault}")
    _check_membership(oracle, thetas[:_COMPARED_ROWS], answers[:_COMPARED_ROWS])
    _check_facets(oracle, thetas, answers)
    return answers


def _check_calls(oracle: ArgmaxOracle, thetas: Array, answers: Array) -> None:
    """One theta after the other: earlier answers stay as they are, and values do not depend on the call."""
    name, few = type(oracle).__name__, answers[:_COMPARED_ROWS].copy()
    other = max(1, int((few != few[0]).any(axis=1).argmax()))  # an answer unlike the first, if there is one
    rows = [0, other, 0]
    alone = [(z, z.copy()) for z in (checked_argmax(oracle, thetas[row]) for row in rows)]
    if any(not np.array_equal(now, then) for now, then in [(answers[:_COMPARED_ROWS], few), *alone]):
        raise OracleError(f"{name}: a later call changed an answer returned before; return a fresh array, not a buffer")
    check_same_value(oracle, thetas[rows], answers[rows], np.stack([then for _, then in alone]))


def _check_labels(oracle: ArgmaxOracle, z: Array) -> None:
    """`decode` is what people read in the end: it must not fail there, and `encode`, where it takes it, must agree."""
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
    except AnswerError:  # decode was overridden alone: nothing to compare with
        return
    if not np.array_equal(again, z):
        raise OracleError(f"{name}: encode(decode(z)) is not z; override the two together, and mind the sign of z")


def _check_membership(oracle: ArgmaxOracle, thetas: Array, answers: Array) -> None:
    if type(oracle)._membership_batch is ArgmaxOracle._membership_batch:
        return
    with typed(oracle, thetas):
        still = oracle.membership(answers[0], thetas.copy())
    first = np.broadcast_to(answers[0], answers.shape)
    lost = worse(oracle, first, answers, thetas)
    _agree(oracle, "membership", ~np.asarray(still, dtype=bool), lost, answers, thetas)


def _check_facets(oracle: ArgmaxOracle, thetas: Array, answers: Array) -> None:
    """At every theta: the first answer is beaten exactly if the theta lies behind one of its facets."""
    rows = _listed(oracle, answers[0], _PRODUCTS // len(thetas))
    if rows is None:
        return
    z = answers[0]
    gains = np.asarray(rows @ thetas.T).max(axis=0, initial=-np.inf)
    slack = tolerance(oracle, thetas, float(np.abs(answers).max()))
    lost = worse(oracle, np.broadcast_to(z, answers.shape), answers, thetas)
    behind = np.where(lost, gains > 0.0, gains > slack)
    _agree(oracle, "facets", behind, lost, answers, thetas)


def _lists_facets(oracle: ArgmaxOracle) -> bool:
    """Has somebody written a list of them, and not taken it back?"""
    kind = type(oracle)
    if kind.facet_count is not ArgmaxOracle.facet_count and oracle.facet_count is None:
        return False
    return kind.facets is not ArgmaxOracle.facets or kind.facets_up_to is not ArgmaxOracle.facets_up_to


def _listed(oracle: ArgmaxOracle, z: Array, most: int) -> Sparse | None:
    """The facets at z, where somebody has written a list of them and it is not too long to be looked at here."""
    count = oracle.facet_count
    if type(oracle).facets is not ArgmaxOracle.facets and (count is None or count <= most):
        rows = oracle.facets(z)
        if rows is not None:
            return rows if rows.shape[0] <= most else None
    if type(oracle).facets_up_to is ArgmaxOracle.facets_up_to or oracle.dim > _WIDE:
        return None
    return oracle.facets_up_to(z, min(most, _FEW))


def _agree(oracle: ArgmaxOracle, what: str, said: Bools, lost: Bools, answers: Array, thetas: Array) -> None:
    """Where the first answer is clearly beaten, or is the answer itself, there are no two opinions."""
    same = (answers == answers[0]).all(axis=1)
    wrong = (lost & ~said) | (same & said)
    if wrong.any():
        raise OracleError(
            f"{type(oracle).__name__}: {what} disagrees with argmax on whether an answer is beaten; "
            "check_oracle(oracle) tells more",
            thetas[int(wrong.argmax())].copy(),
        )


_POOL = 16  # answers remembered as incumbents
_EVERY = 16  # in mode "sampled", one call in so many is checked in full


class CheckedOracle(ArgmaxOracle):
    """Passes every question on to `oracle` and every answer through a check; a lie raises `OracleError`.

    Shape, type, finiteness, exceptions and changes to theta are checked on every call. Full checks add: z a member
    of Z (through decode and encode), no earlier answer worth more than the one returned, and, asked again, no
    memory returned twice and no answer of another value. (Of several best answers any may be returned, and not always
    the same: `check_oracle` is stricter.) The error keeps the theta that caused it in `.theta`.

    Parameters
    ----------
    oracle
        Any `ArgmaxOracle`.
    mode
        "always" checks every call in full, which asks twice, "sampled" one call in 16.

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

    def _argmax_batch(self, thetas: Array) -> Array:
        in_full = self.mode == "always" or self._calls % _EVERY == 0
        self._calls += 1
        best = checked_argmax(self.oracle, thetas)
        if in_full:
            self._check_feasible(best, thetas)
            if len(thetas):
                self._check_value(best, thetas)
                self._check_repetition(best, thetas)
        return best

    _answers = _argmax_batch  # the oracle inside has its own workers, and checks are counted here

    def _check_feasible(self, best: Array, thetas: Array) -> None:
        for z, theta in zip(best, thetas, strict=True):
            with typed(self.oracle, theta):
                again = self.oracle.encode(self.oracle.decode(z))
            if not np.array_equal(again, z):
                raise OracleError(f"{self._name} returned a z that decode and encode do not give back", theta.copy())

    def _check_value(self, best: Array, thetas: Array) -> None:
        for z in best:
            if not any(np.array_equal(z, known) for known in self._incumbents):
                self._incumbents = [*self._incumbents[1 - _POOL :], z.copy()]
        check_best(self.oracle, thetas, best, np.stack(self._incumbents))

    def _check_repetition(self, best: Array, thetas: Array) -> None:
        """Ask again: the first answers must stay as they were, and none may have another value."""
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
        with typed(self.oracle, thetas):
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
