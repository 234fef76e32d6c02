"""Answers of one oracle, compared with each other: an argmax is never beaten by another answer of its own.

    z_i @ theta_i >= z_j @ theta_i   for all answers z_j ever given

A sign error, a greedy rule and answers outside Z all break this, and it costs no oracle call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import AnswerError, ComboPepsError, OracleError
from combopeps.oracles.base import ArgmaxOracle, Array, refuse_masked

_ROUNDING = 1e-12  # of a value, relative to sum |z theta|
_ROWS = 4  # of a batch are looked at
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


def ask(oracle: ArgmaxOracle, thetas: Array) -> Array:
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


class Watch:
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
    >>> Watch(oracle).see(thetas, oracle.argmax(thetas))
    >>> Watch(oracle).see(thetas, oracle.argmax(-thetas))
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
        given, best = thetas[:_ROWS], answers[:_ROWS]
        check_form(self.oracle, given, best)
        recent = np.concatenate([self._recent, best])
        check_best(self.oracle, given, best, np.concatenate([self.known, recent]), slack)
        self._recent = recent[-_RECENT:]
