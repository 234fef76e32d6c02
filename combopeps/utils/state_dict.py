"""Validated loading of state dictionaries.

`state_dict()` of an object returns its state as a dict of numbers, texts, arrays, lists and such dicts, and nothing
that could be run. `load_state_dict(data)` of an object that has just been made restores it. Data of another type, shape
or range raise a ValueError, or another error of Python; the object must not be used then. Arrays in `state_dict()` are
the object's own: serialise them at once.
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
            fill(getattr(self, name), data[name.lstrip("_")])


def fill(into: NDArray[Any], given: Any) -> None:
    """Copy an array of the same kind and shape into one that is there, so that it lies in memory as before."""
    into[...] = array(given, into.dtype, *into.shape)


def array(given: Any, dtype: DTypeLike, *shape: int | None) -> NDArray[Any]:
    """A copy of an array of this kind and shape (None: of any length) without NaN."""
    if not isinstance(given, np.ndarray) or given.dtype != np.dtype(dtype) or given.ndim != len(shape):
        raise ValueError(f"an array of {np.dtype(dtype)} in {len(shape)} dimensions is wanted")
    if any(wanted is not None and wanted != size for wanted, size in zip(shape, given.shape, strict=True)):
        raise ValueError(f"an array of shape {shape} is wanted, got {given.shape}")
    if given.dtype.kind == "f" and np.isnan(given).any():
        raise ValueError("an array holds NaN")
    return given.copy()


def whole(given: Any, most: int = _LARGEST, *, least: int = 0) -> int:
    """An integer from least to most."""
    if type(given) is not int or not least <= given <= most:
        raise ValueError(f"a whole number from {least} to {most} is wanted, got {given!r:.40}")
    return given


def wholes(given: Any, most: int = _LARGEST, *, least: int = 0) -> list[int]:
    """A list of them."""
    if not isinstance(given, list):
        raise ValueError("a list of whole numbers is wanted")
    return [whole(each, most, least=least) for each in given]


def real(given: Any) -> float:
    """A finite float; what may be infinite or NaN goes into an array."""
    if type(given) is not float or not np.isfinite(given):
        raise ValueError(f"a finite number is wanted, got {given!r:.40}")
    return given


def numbers(given: Any, count: int) -> list[float]:
    """So many floats that may be infinite or NaN, from an array."""
    if not isinstance(given, np.ndarray) or given.dtype != np.float64 or given.shape != (count,):
        raise ValueError(f"an array of {count} numbers is wanted")
    return [float(number) for number in given]


def flag(given: Any) -> bool:
    """True or False."""
    if type(given) is not bool:
        raise ValueError(f"True or False is wanted, got {given!r:.40}")
    return given


def text(given: Any) -> str:
    """Words."""
    if type(given) is not str:
        raise ValueError(f"a text is wanted, got {given!r:.40}")
    return given


def plain_rows(rows: Any) -> StateDict:
    """Sparse rows (a csr_array), as plain data."""
    return {"ends": rows.indptr, "places": rows.indices, "entries": rows.data}


def rows(given: Any, dim: int) -> Any:
    """From that: sparse rows with so many columns."""
    from scipy.sparse import csr_array

    ends, places = given["ends"], given["places"]
    entries = array(given["entries"], np.float64, None)
    if ends.dtype != places.dtype or ends.dtype not in (np.int32, np.int64) or ends.ndim != 1 or len(ends) < 1:
        raise ValueError("places of sparse rows are whole numbers")
    places = array(places, places.dtype, len(entries))
    if ends[0] != 0 or ends[-1] != len(entries) or (np.diff(ends) < 0).any():
        raise ValueError("sparse rows end where the next one begins")
    if len(places) and not 0 <= places.min() <= places.max() < dim:
        raise ValueError("sparse rows have places of their own")
    return csr_array((entries, places, ends.copy()), shape=(len(ends) - 1, dim))
