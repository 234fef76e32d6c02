"""Checks of what users hand over: labels, thetas, answers. Each message names the cure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import (
    AnswerError,
    ComboPepsError,
    DomainError,
    LabelError,
    NoAlternativeError,
    ParameterError,
    ProgramError,
    ThetaError,
)
from combopeps.utils.formatting import short_repr
from combopeps.utils.validation import MAX_COMPONENTS, as_float, as_float_array, check_count, shown

TIME_LIMIT = 60.0  # seconds of one solve, unless stated otherwise
_BLOCK = 9984
_DOUBLE = np.dtype(np.float64)


def as_labels(labels: object, what: str) -> tuple[Hashable, ...]:
    """Labels as a tuple, refused when empty, unhashable or repeated."""
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise LabelError(f"{what} must be a sequence of labels, got {labels!r}; wrap a single label in a list")
    result = tuple(labels)
    if not result:
        raise LabelError(f"{what} is empty; give at least one label")
    seen: set[Hashable] = set()
    for label in result:
        try:
            repeated = label in seen
            seen.add(label)
        except TypeError:
            raise LabelError(f"{what} holds the unhashable {label!r}; use a tuple, a string or a number") from None
        if repeated:
            raise LabelError(f"{what} holds {label!r} twice; every label must be different")
    return result


def count_or_labels(labels: int | Iterable[Hashable], what: str) -> tuple[Hashable, ...]:
    """Labels 0 .. n-1 for a number n, or the given labels."""
    if isinstance(labels, (int, np.integer)) and not isinstance(labels, bool):
        check_count(what, labels, MAX_COMPONENTS)
        return tuple(range(int(labels)))
    return as_labels(labels, what)


def other_way_round(label: object, length: int) -> tuple[Hashable, ...]:
    """The other name of an edge without direction, a tuple (u, v) or (u, v, key) of this length."""
    if not isinstance(label, tuple) or len(label) != length:
        return ()
    return ((label[1], label[0], *label[2:]),)


def index_of_series(labels: Any, what: str) -> Any:
    """The index of a pandas Series (scores by name), which is told by its looks; anything else as it is.

    Where the values look like the names and the index does not, nobody can tell which are meant.
    """
    if not hasattr(labels, "iloc") or not hasattr(labels, "index"):
        return labels
    if getattr(labels, "ndim", 1) != 1:
        raise LabelError(f"{what} is a table; give its index (table.index), or one column as a list")
    if labels.dtype.kind not in "biuf" and getattr(labels.index.dtype, "kind", "O") in "iu":
        raise LabelError(
            f"{what} is a Series of names under an index of numbers: give list(series) if the names are the labels, "
            "series.index if the numbers are"
        )
    return as_labels(labels.index, f"the index of {what}")


def in_order_of(values: Any, names: tuple[Hashable, ...], what: str) -> Any:
    """The columns of a pandas table, or a Series, in the order of these names; anything else as it is."""
    if not hasattr(values, "iloc"):
        return values
    labels, counted = tuple(values.columns if values.ndim == 2 else values.index), tuple(range(len(names)))
    if len(labels) == len(names) and set(labels) == set(names):
        position = {label: i for i, label in enumerate(labels)}
        order = [position[name] for name in names]
        return values.iloc[:, order] if values.ndim == 2 else values.iloc[order]
    if counted in (labels, names):  # nothing is named there
        return values
    raise ProgramError(f"{what} are labelled {short_repr(list(labels))}, but should be {short_repr(list(names))}")


def as_seconds(time_limit: float | None) -> float:
    """A time limit as a positive number, infinite for None."""
    if time_limit is None:
        return inf
    seconds = as_float(time_limit)
    if seconds is None or not seconds > 0:
        raise ParameterError(f"time_limit must be a positive number of seconds, or None, got {shown(time_limit)}")
    return seconds


def refuse_one_answer(
    components: tuple[Hashable, ...], some: NDArray[np.float64], farthest: NDArray[np.float64]
) -> None:
    """Raise `NoAlternativeError` where the answer that has the least in common with some answer is that answer."""
    if np.array_equal(some, farthest):
        values = dict(zip(components, map(int, some), strict=True))
        is_set = set(values.values()) <= {0, 1}
        only = [label for label, chosen in values.items() if chosen] if is_set else values
        raise NoAlternativeError(
            f"the constraints leave one answer only, {short_repr(only)}: there is nothing to find out; loosen them"
        )


def as_thetas(theta: ArrayLike, dim: int, domain: str) -> NDArray[np.float64]:
    """Theta as a read-only, contiguous float64 array of shape (d,) or (B, d), finite and in the domain."""
    is_double = type(theta) is np.ndarray and theta.dtype is _DOUBLE
    array = np.asarray(theta) if is_double else _as_float(theta, "theta", ThetaError)
    if array.shape != (dim,) and (array.ndim != 2 or array.shape[1] != dim):
        raise ThetaError(f"theta must have shape ({dim},) or (B, {dim}), got {array.shape}")
    if not _squares_finite(array):
        if not np.isfinite(array).all():
            row = np.argwhere(~np.isfinite(array))[0]
            raise ThetaError(f"theta is {array[tuple(row)]} at index {row.tolist()}; every entry must be finite")
        raise ThetaError("theta has entries above 1e150; divide it by a constant, the argmax does not change")
    if domain == "nonnegative" and array.size and array.min() < 0:
        row = np.argwhere(array < 0)[0]
        raise DomainError(
            f"theta is {array[tuple(row)]:g} at index {row.tolist()}: this oracle is valid for theta >= 0 only "
            "(as shortest routes are with cycles); clip theta at 0"
        )
    thetas = array.view() if array.flags.c_contiguous else np.ascontiguousarray(array)
    thetas.flags.writeable = False
    return thetas


def _squares_finite(array: NDArray[np.float64]) -> bool:
    """No NaN, no infinity and nothing near 1e154, where sums would overflow too.

    In blocks that stay in cache and below the size at which BLAS starts threads (seen to cost milliseconds when
    the other cores are busy).
    """
    if array.size <= _BLOCK:
        return isfinite(np.vdot(array, array))
    flat = array.ravel()
    blocks = [flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK)]
    return all(map(isfinite, map(np.vdot, blocks, blocks)))


def as_vector(z: ArrayLike, dim: int) -> NDArray[np.float64]:
    """An answer as a float64 vector of length d."""
    vector = _as_float(z, "z", AnswerError)
    if vector.shape != (dim,):
        raise AnswerError(f"z must have shape ({dim},), got {vector.shape}")
    if not _squares_finite(vector):
        raise AnswerError("z has entries that are not finite")
    return vector


def _as_float(values: ArrayLike, name: str, error: type[ComboPepsError]) -> NDArray[np.float64]:
    if isinstance(values, dict):
        raise error(
            f"{name} is a dict; give a vector in the order of the components: [d[c] for c in oracle.components]"
        )
    return as_float_array(name, values, error)
