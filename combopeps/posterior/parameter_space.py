"""Parameter spaces: Theta, the set of possible parameters, is R^d or a box.

The posterior and the alternatives are restricted to Theta. A box may be unbounded on one side: graphs with cycles need the
non-negative orthant, `Box(0, inf)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import SpaceError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.utils.formatting import short_repr
from combopeps.utils.validation import as_float_array, check_kind


class ParameterSpace(ABC):
    """A closed convex subset of R^d."""

    @abstractmethod
    def bounds(self, dim: int) -> tuple[Array, Array]:
        """Return the lower and upper bounds of every coordinate, `(d,)` each; infinite if there is none."""

    def contains(self, theta: Array) -> NDArray[np.bool_]:
        """Return whether theta is in the space, `(d,) -> ()`, `(B, d) -> (B,)`."""
        low, high = self.bounds(theta.shape[-1])
        return np.asarray(((theta >= low) & (theta <= high)).all(axis=-1))

    def project(self, theta: Array) -> Array:
        """Return the nearest point of the space."""
        return np.clip(theta, *self.bounds(theta.shape[-1]))


class RealSpace(ParameterSpace):
    """All of R^d.

    Examples
    --------
    >>> bool(RealSpace().contains(np.array([1e9, -3.0])))
    True
    """

    def __repr__(self) -> str:
        return "RealSpace()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RealSpace)

    def __hash__(self) -> int:
        return hash(RealSpace)

    def bounds(self, dim: int) -> tuple[Array, Array]:
        """Return infinite bounds."""
        return np.full(dim, -np.inf), np.full(dim, np.inf)

    def contains(self, theta: Array) -> NDArray[np.bool_]:
        """Return True for every theta."""
        return np.ones(theta.shape[:-1], dtype=bool)

    def project(self, theta: Array) -> Array:
        """Return theta."""
        return theta


class Box(ParameterSpace):
    """The box low <= theta <= high, by coordinate.

    Parameters
    ----------
    low, high
        Numbers, or vectors of length d; entries may be infinite.

    Examples
    --------
    >>> orthant = Box(0, np.inf)
    >>> orthant.project(np.array([0.5, -2.0]))
    array([0.5, 0. ])
    """

    def __init__(self, low: ArrayLike = -np.inf, high: ArrayLike = np.inf) -> None:
        try:
            self.low, self.high = as_float_array("low", low, SpaceError), as_float_array("high", high, SpaceError)
            with np.errstate(invalid="ignore"):
                width = self.high - self.low
        except (TypeError, ValueError) as cause:
            raise SpaceError(f"low and high must be numbers or vectors of one length: {cause}") from None
        if self.low.ndim > 1 or self.high.ndim > 1:
            raise SpaceError("low and high must be numbers or vectors, one entry per component")
        if not (width > 0).all():  # NaN and two equal infinities fail too
            raise SpaceError("low must be below high in every coordinate, and neither may be NaN")
        self._ends: tuple[Array, Array] | None = None

    def __repr__(self) -> str:
        low, high = (float(end) if end.ndim == 0 else short_repr(end, 200) for end in (self.low, self.high))
        return f"Box({low}, {high})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    def __hash__(self) -> int:
        return hash(((self.low + 0.0).tobytes(), (self.high + 0.0).tobytes()))

    def bounds(self, dim: int) -> tuple[Array, Array]:
        """Return the bounds, repeated for every coordinate where they are numbers."""
        low, high = self._repeated(dim)
        return low.copy(), high.copy()

    def project(self, theta: Array) -> Array:
        """Return the nearest point of the box."""
        low, high = self._repeated(theta.shape[-1])
        return np.minimum(np.maximum(theta, low), high)

    def _repeated(self, dim: int) -> tuple[Array, Array]:
        if self._ends is None or len(self._ends[0]) != dim:
            for end in (self.low, self.high):
                if end.ndim == 1 and len(end) != dim:
                    raise SpaceError(f"the box has {len(end)} coordinates, the problem has {dim} components")
            self._ends = self.low + np.zeros(dim), self.high + np.zeros(dim)
        return self._ends


def space_for(oracle: ArgmaxOracle, space: ParameterSpace | None) -> ParameterSpace:
    """Return the given space, validated against the oracle's domain; by default the whole domain."""
    if space is None:
        return RealSpace() if oracle.domain == "real" else Box(0.0, np.inf)
    if isinstance(space, RealSpace) and oracle.domain == "real":
        return space
    check_kind("space", space, ParameterSpace)
    low, _ = space.bounds(oracle.dim)
    if oracle.domain == "nonnegative" and (low < 0).any():
        raise SpaceError(f"{oracle!r} maximises over theta >= 0 only; use Box(0, high) instead of {space!r}")
    return space
