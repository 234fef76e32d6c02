"""Validated loading of state dictionaries.

`state_dict()` of an object returns its state as a dict of numbers, strings, arrays, lists and such dicts, without
executable content. `load_state_dict(data)` restores it in a new object. Data of another type, shape or range raise a
ValueError or another built-in exception, after which the object must not be used. Arrays in `state_dict()` are not
copied: serialise them immediately.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

StateDict = dict[str, Any]
_LARGEST = 2**53


class ArrayState:
    """Base of objects whose state is some arrays, the attributes that `_arrays` names."""

    _arrays: ClassVar[tuple[str, ...]]

    def state_dict(self) -> StateDict:
        """Return the state."""
        return {name.lstrip("_"): getattr(self, name) for name in self._arrays}

    def load_state_dict(self, data: StateDict) -> None:
        """Restore the state."""
        for name in self._arrays:
            load_into(getattr(self, name), data[name.lstrip("_")])


def load_into(into: NDArray[Any], given: Any) -> None:
    """Copy an array of the same dtype and shape into `into`, in place."""
    into[...] = array(given, into.dtype, *into.shape)


def array(given: Any, dtype: DTypeLike, *shape: int | None) -> NDArray[Any]:
    """Return a copy of an array of this dtype and shape (None: any length), which must not contain NaN."""
    if not isinstance(given, np.ndarray) or given.dtype != np.dtype(dtype) or given.ndim != len(shape):
        raise ValueError(f"expected an array of {np.dtype(dtype)} with {len(shape)} dimensions")
    if any(expected is not None and expected != size for expected, size in zip(shape, given.shape, strict=True)):
        raise ValueError(f"expected an array of shape {shape}, got {given.shape}")
    if given.dtype.kind == "f" and np.isnan(given).any():
        raise ValueError("an array contains NaN")
    return given.copy()


def integer(given: Any, most: int = _LARGEST, *, least: int = 0) -> int:
    """Return an integer in [least, most]."""
    if type(given) is not int or not least <= given <= most:
        raise ValueError(f"expected an integer from {least} to {most}, got {given!r:.40}")
    return given


def integers(given: Any, most: int = _LARGEST, *, least: int = 0) -> list[int]:
    """Return a list of integers in [least, most]."""
    if not isinstance(given, list):
        raise ValueError("expected a list of integers")
    return [integer(each, most, least=least) for each in given]


def finite_float(given: Any) -> float:
    """Return a finite float; state that may be infinite or NaN is stored in arrays."""
    if type(given) is not float or not np.isfinite(given):
        raise ValueError(f"expected a finite number, got {given!r:.40}")
    return given


def numbers(given: Any, count: int) -> list[float]:
    """Return `count` floats, which may be infinite or NaN, from an array."""
    if not isinstance(given, np.ndarray) or given.dtype != np.float64 or given.shape != (count,):
        raise ValueError(f"expected an array of {count} numbers")
    return [float(number) for number in given]


def boolean(given: Any) -> bool:
    """Return a bool."""
    if type(given) is not bool:
        raise ValueError(f"expected True or False, got {given!r:.40}")
    return given


def string(given: Any) -> str:
    """Return a string."""
    if type(given) is not str:
        raise ValueError(f"expected a string, got {given!r:.40}")
    return given


def sparse_state(rows: Any) -> StateDict:
    """Return a csr_array as plain data."""
    return {"ends": rows.indptr, "places": rows.indices, "entries": rows.data}


def load_sparse(given: Any, dim: int) -> Any:
    """Return the csr_array with `dim` columns of a state from `sparse_state`."""
    from scipy.sparse import csr_array

    ends, places = given["ends"], given["places"]
    entries = array(given["entries"], np.float64, None)
    if ends.dtype != places.dtype or ends.dtype not in (np.int32, np.int64) or ends.ndim != 1 or len(ends) < 1:
        raise ValueError("indices of sparse rows must be integers")
    places = array(places, places.dtype, len(entries))
    if ends[0] != 0 or ends[-1] != len(entries) or (np.diff(ends) < 0).any():
        raise ValueError("index pointers of sparse rows must start at 0, increase, and end at the number of entries")
    if len(places) and not 0 <= places.min() <= places.max() < dim:
        raise ValueError("indices of sparse rows are out of range")
    return csr_array((entries, places, ends.copy()), shape=(len(ends) - 1, dim))
