"""Validation of user input to oracles: labels, thetas, answers, pandas objects, time limits."""

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

TIME_LIMIT = 60.0  # default seconds per solve
_BLOCK_SIZE = 9984  # of dot products: fits in cache, and is below the size from which BLAS starts threads
_DOUBLE = np.dtype(np.float64)


def as_labels(labels: object, what: str) -> tuple[Hashable, ...]:
    """Return labels as a tuple; `LabelError` if they are empty, unhashable or repeated."""
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
    """Return labels 0 .. n-1 for an integer n, otherwise the given labels."""
    if isinstance(labels, (int, np.integer)) and not isinstance(labels, bool):
        check_count(what, labels, MAX_COMPONENTS)
        return tuple(range(int(labels)))
    return as_labels(labels, what)


def reversed_edge(label: object, length: int) -> tuple[Hashable, ...]:
    """Return the alias (v, u) or (v, u, key) of an undirected edge, as a tuple of aliases; empty for other labels."""
    if not isinstance(label, tuple) or len(label) != length:
        return ()
    return ((label[1], label[0], *label[2:]),)


def series_index(labels: Any, what: str) -> Any:
    """Return the index of a pandas Series (detected by its attributes); other values unchanged.

    `LabelError` for a Series of names under an integer index, where either could be meant.
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


def reorder(values: Any, names: tuple[Hashable, ...], what: str) -> Any:
    """Reorder the columns of a pandas DataFrame, or a Series, to match these names; other values unchanged."""
    if not hasattr(values, "iloc"):
        return values
    labels, default = tuple(values.columns if values.ndim == 2 else values.index), tuple(range(len(names)))
    if len(labels) == len(names) and set(labels) == set(names):
        position = {label: i for i, label in enumerate(labels)}
        order = [position[name] for name in names]
        return values.iloc[:, order] if values.ndim == 2 else values.iloc[order]
    if default in (labels, names):  # one of the two has no names: positions count
        return values
    raise ProgramError(f"{what} are labelled {short_repr(list(labels))}, but should be {short_repr(list(names))}")


def as_seconds(time_limit: float | None) -> float:
    """Return a time limit as a positive float, infinite for None."""
    if time_limit is None:
        return inf
    seconds = as_float(time_limit)
    if seconds is None or not seconds > 0:
        raise ParameterError(f"time_limit must be a positive number of seconds, or None, got {shown(time_limit)}")
    return seconds


def check_several_answers(
    components: tuple[Hashable, ...], z: NDArray[np.float64], farthest: NDArray[np.float64]
) -> None:
    """Raise `NoAlternativeError` if the answer that differs most from z is z itself: then |Z| = 1."""
    if np.array_equal(z, farthest):
        values = dict(zip(components, map(int, z), strict=True))
        is_set = set(values.values()) <= {0, 1}
        only = [label for label, chosen in values.items() if chosen] if is_set else values
        raise NoAlternativeError(
            f"the constraints leave one answer only, {short_repr(only)}: there is nothing to find out; relax them"
        )


def as_thetas(theta: ArrayLike, dim: int, domain: str) -> NDArray[np.float64]:
    """Return theta as a read-only, contiguous float64 array of shape (d,) or (B, d); check domain and finiteness."""
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
            "(as for shortest routes in graphs with cycles); clip theta at 0"
        )
    thetas = array.view() if array.flags.c_contiguous else np.ascontiguousarray(array)
    thetas.flags.writeable = False
    return thetas


def _squares_finite(array: NDArray[np.float64]) -> bool:
    """Test for the absence of NaN, infinity and entries near 1e154, whose sums may overflow.

    A dot product is the fastest such test. BLAS threads would cost milliseconds while the other cores are busy.
    """
    if array.size <= _BLOCK_SIZE:
        return isfinite(np.vdot(array, array))
    flat = array.ravel()
    blocks = [flat[start : start + _BLOCK_SIZE] for start in range(0, flat.size, _BLOCK_SIZE)]
    return all(map(isfinite, map(np.vdot, blocks, blocks)))


def as_vector(z: ArrayLike, dim: int) -> NDArray[np.float64]:
    """Return an answer as a float64 vector of length d."""
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
