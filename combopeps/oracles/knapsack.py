"""Z = all sets of items that fit into a knapsack."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import AnswerError, LabelError, ProgramError
from combopeps.oracles.base import ArgmaxOracle, Array, LogCardinality
from combopeps.oracles.input_checks import as_labels, as_vector
from combopeps.oracles.milp import MilpOracle
from combopeps.utils.validation import check_real

_TABLE = 8_000_000  # entries (items times capacity) up to which a table is filled: 6 ms; HiGHS took 3 to 1,400 there
_QUICK = 100_000  # entries of a table that takes some hundred microseconds


class KnapsackOracle(ArgmaxOracle):
    """The most valuable items within a capacity, when values are measured and weights are known.

        Z = {z in {0, 1}^d : sum_i weights_i z_i <= capacity}

    Small integer weights are solved exactly by dynamic programming, for a whole batch in compiled loops, others as a
    `MilpOracle`, whose `resolution` then counts. Only items of positive value are taken.

    Parameters
    ----------
    weights
        Non-negative numbers: a dict {item: weight}, a pandas Series by item, or a sequence.
    capacity
        How much all of them together may weigh. Items that alone weigh more are no components; `pruned` lists them.
    labels
        Names of the items, for a sequence of weights; 0, 1, ... by default.

    Examples
    --------
    >>> van = KnapsackOracle({"piano": 8, "books": 5, "lamp": 2, "bike": 4, "boat": 90}, capacity=10)
    >>> sorted(van.decode(van.argmax([7.0, 3.0, 3.0, 5.0])))
    ['lamp', 'piano']
    >>> van.pruned, van.log_cardinality
    (('boat',), 2.19722 (exact))
    """

    binary = True

    def __init__(
        self,
        weights: Mapping[Hashable, float] | ArrayLike,
        capacity: float,
        *,
        labels: Iterable[Hashable] | None = None,
    ) -> None:
        names, every = _named(weights, labels)
        check_real("capacity", capacity, 0.0, np.finfo(float).max, "a number, finite and not negative")
        capacity = float(capacity)
        wrong = np.flatnonzero(~((every >= 0.0) & (every < 1e150)))
        if len(wrong):
            raise ProgramError(
                f"item {names[wrong[0]]!r} weighs {every[wrong[0]]:g}; weights are finite and not negative"
            )
        self.capacity = capacity
        fits = every <= self.capacity
        if not fits.any():
            raise ProgramError(f"no item fits: the lightest weighs {every.min():g}, the capacity is {capacity:g}")
        super().__init__(name for name, fit in zip(names, fits, strict=True) if fit)
        self.weights = every[fits]
        self._too_heavy = {name: float(w) for name, w, fit in zip(names, every, fits, strict=True) if not fit}
        self.pruned = tuple(self._too_heavy)
        self._sizes, self._room = self._integers()
        self._program: MilpOracle | None = None
        self.quick = self._sizes is not None and self.dim * (self._room + 1) <= _QUICK
        if self._sizes is None:
            self._program = MilpOracle(self._components, self.weights[None], -np.inf, self.capacity)
            self.resolution, self.expensive = self._program.resolution, self._program.expensive
            self.parallel_backend, self.quick = self._program.parallel_backend, self._program.quick

    def __repr__(self) -> str:
        engine = "table" if self._program is None else self._program.engine
        return f"KnapsackOracle({self.dim} items, capacity={self.capacity:g}, engine={engine})"

    def _integers(self) -> tuple[np.ndarray[Any, np.dtype[np.int64]] | None, int]:
        """Weights and capacity in units of the weights' greatest common divisor, where a table of them is small."""
        if (self.weights != np.rint(self.weights)).any() or self.weights.max() > 1e15:
            return None, 0
        sizes = self.weights.astype(np.int64)
        unit = max(int(np.gcd.reduce(sizes)), 1)
        room = int(min(self.capacity, float(self.weights.sum())) // unit)
        return (sizes // unit, room) if self.dim * (room + 1) <= _TABLE else (None, 0)

    def _argmax_batch(self, thetas: Array) -> Array:
        if self._program is not None:
            return self._program._argmax_batch(thetas)
        from combopeps.oracles._set_kernels import knapsack_loads

        best = np.zeros(thetas.shape)
        knapsack_loads(self._sizes, self._room, thetas, best)
        return best

    def decode(self, z: ArrayLike) -> set[Hashable]:
        """The set of items taken."""
        vector = as_vector(z, self.dim)
        items: set[Hashable] = super().decode(vector)
        load = float(vector @ self.weights)
        if load > self.capacity + 2e-9 * float(self.weights.max()):
            raise AnswerError(f"z is not an answer: its items weigh {load:g}, the capacity is {self.capacity:g}")
        return items

    def encode(self, answer: Any) -> Array:
        """The vector of a collection of items."""
        z = super().encode(answer)
        self.decode(z)
        return z

    def why_pruned(self, label: Hashable) -> str:
        if label not in self._too_heavy:
            return super().why_pruned(label)
        return f"item {label!r} weighs {self._too_heavy[label]:g}, more than the capacity {self.capacity:g}"

    @property
    def log_cardinality(self) -> LogCardinality:
        """Exact for small integer weights, by counting loads, and where loads are listed; otherwise an upper bound."""
        return self._log_loads

    @cached_property
    def _log_loads(self) -> LogCardinality:
        if self._program is not None:
            return self._program.log_cardinality
        from combopeps.oracles._set_kernels import log_load_count

        return LogCardinality(float(log_load_count(self._sizes, self._room)), exact=True)


def _named(weights: Any, labels: Iterable[Hashable] | None) -> tuple[tuple[Hashable, ...], Array]:
    """Names and weights of all items."""
    if hasattr(weights, "columns"):
        raise ProgramError("weights is a table; give one column of it: weights[name]")
    if hasattr(weights, "iloc") and hasattr(weights, "items"):
        weights = dict(zip(as_labels(weights.index, "the index of weights"), weights.to_list(), strict=True))
    values: Any = list(weights.values()) if isinstance(weights, Mapping) else weights
    if isinstance(weights, Mapping) and labels is not None:
        raise LabelError("weights names the items already; leave out labels=")
    try:
        every = np.array(values)
    except ValueError:
        every = np.empty((0, 0))
    if isinstance(weights, Mapping):
        for name, weight in weights.items():
            if not isinstance(weight, Real):
                raise ProgramError(f"item {name!r} weighs {weight!r:.40}; weights must be numbers by item")
    if every.ndim != 1 or every.dtype.kind not in "biuf":
        raise ProgramError(f"weights must be numbers by item, or a sequence of numbers, got {type(weights).__name__}")
    if labels is None:
        labels = weights if isinstance(weights, Mapping) else range(len(every))
    names = as_labels(labels, "weights")
    if len(names) != len(every):
        raise LabelError(f"labels names {len(names)} items, but there are {len(every)} weights")
    return names, every.astype(np.float64)
