"""`first_answers`: what every problem asks of its oracle before anyone believes it.

The answers to random thetas are needed anyway, to see whether the arms can tell answers apart. Here they are compared
with each other, and with what the oracle promises about them: a small part of `check_oracle`, for three more calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from math import exp, log
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import AnswerError, OracleError
from combopeps.oracles.base import ArgmaxOracle, Array, LogCardinality, Sparse
from combopeps.oracles.watch import ask, check_best, check_same_value, products, tolerance, typed, worse

Bools = NDArray[np.bool_]

_PROBES, _FEW_PROBES = 256, 64  # of an oracle that is quick or lists its facets, and of one that takes its time
_NUMBERS = 4_000_000  # coordinates drawn at most
_ROWS = 16  # answers that are compared with each other
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


def first_answers(oracle: ArgmaxOracle, rng: np.random.Generator) -> Array:
    """Answers to random thetas; `OracleError` if they contradict each other or the oracle's promises."""
    probes = _PROBES if oracle.quick or _lists_facets(oracle) else _FEW_PROBES
    draws = max(2, min(probes, _NUMBERS // oracle.dim))
    thetas = rng.normal(size=(draws, oracle.dim))
    if oracle.domain == "nonnegative":
        thetas = np.abs(thetas)
    answers = ask(oracle, thetas)
    ask(oracle, thetas[:0])
    _check_calls(oracle, thetas, answers)
    check_best(oracle, thetas[:_ROWS], answers[:_ROWS], answers[:_ROWS])
    _check_labels(oracle, answers[0])
    for fault in chain(promise_faults(oracle, answers[:_ROWS]), count_faults(oracle, answers)):
        raise OracleError(f"{type(oracle).__name__}: {fault}")
    _check_membership(oracle, thetas[:_ROWS], answers[:_ROWS])
    _check_facets(oracle, thetas, answers)
    return answers


def _check_calls(oracle: ArgmaxOracle, thetas: Array, answers: Array) -> None:
    """One theta after the other: earlier answers stay as they are, and values do not depend on the call."""
    name, few = type(oracle).__name__, answers[:_ROWS].copy()
    other = max(1, int((few != few[0]).any(axis=1).argmax()))  # an answer unlike the first, if there is one
    rows = [0, other, 0]
    alone = [(z, z.copy()) for z in (ask(oracle, thetas[row]) for row in rows)]
    if any(not np.array_equal(now, then) for now, then in [(answers[:_ROWS], few), *alone]):
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
    return kind.facets is not ArgmaxOracle.facets or kind.few_facets is not ArgmaxOracle.few_facets


def _listed(oracle: ArgmaxOracle, z: Array, most: int) -> Sparse | None:
    """The facets at z, where somebody has written a list of them and it is not too long to be looked at here."""
    count = oracle.facet_count
    if type(oracle).facets is not ArgmaxOracle.facets and (count is None or count <= most):
        rows = oracle.facets(z)
        if rows is not None:
            return rows if rows.shape[0] <= most else None
    if type(oracle).few_facets is ArgmaxOracle.few_facets or oracle.dim > _WIDE:
        return None
    return oracle.few_facets(z, min(most, _FEW))


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
