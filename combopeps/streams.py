"""R independent random streams, one per replication: row r sees the same numbers whatever the other rows do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError

Array = NDArray[np.float64]


def seed_sequence(rng: int | None) -> np.random.SeedSequence:
    """The seed sequence of a seed, or of nothing in particular; a typed error for what is no seed."""
    try:
        return np.random.SeedSequence(rng)
    except (TypeError, ValueError):
        raise _no_seed(rng) from None


def generator_of(rng: int | np.random.Generator | None) -> np.random.Generator:
    """`np.random.default_rng`, with the same typed error."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise _no_seed(rng) from None


def _no_seed(rng: object) -> ParameterError:
    return ParameterError(f"rng must be an integer of at least 0, a numpy Generator, or None, got {rng!r:.40}")


class Streams:
    """Random numbers for R replications, seeded row by row.

    Parameters
    ----------
    seeds
        One seed sequence per replication (`np.random.SeedSequence(seed).spawn(R)`).

    Attributes
    ----------
    states
        The compiled streams' states, (R, 4); kernels advance them.
    """

    def __init__(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        self._seeds = list(seeds)
        self.states: NDArray[np.uint64] = np.array([seed.generate_state(4, np.uint64) for seed in seeds], np.uint64)
        self._generators: dict[int, np.random.Generator] = {}

    @classmethod
    def of(cls, rng: int | np.random.Generator | None, replications: int) -> Streams:
        """Streams from what users pass as `rng`."""
        if isinstance(rng, np.random.Generator):
            root = np.random.SeedSequence([int(word) for word in rng.integers(0, 2**32, size=8)])
        else:
            root = seed_sequence(rng)
        return cls(root.spawn(replications))

    def reseed(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        """Begin anew with other seeds, one per row."""
        self._seeds = list(seeds)
        self.states[:] = [seed.generate_state(4, np.uint64) for seed in seeds]
        self._generators.clear()

    def __len__(self) -> int:
        return len(self._seeds)

    def generator(self, r: int) -> np.random.Generator:
        """A numpy generator for row r, independent of its compiled stream."""
        if r not in self._generators:
            seed = self._seeds[r]
            child = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 1))
            self._generators[r] = np.random.default_rng(child)
        return self._generators[r]

    def aside(self, r: int, moment: int) -> np.random.Generator:
        """A generator of row r for a look at some moment: the run itself goes on as if nobody had looked."""
        seed = self._seeds[r]
        return np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, 3, moment)))

    def uniform(self) -> Array:
        """One uniform per row, (R,)."""
        from combopeps._random import uniforms

        out = np.empty(len(self))
        uniforms(self.states, out)
        return out

    def normal(self, n: int) -> Array:
        """n standard normals per row, (R, n)."""
        from combopeps._random import normals

        out = np.empty((len(self), n))
        normals(self.states, out)
        return out
