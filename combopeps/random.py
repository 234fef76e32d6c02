"""R independent random streams, one per replication: row r sees the same numbers whatever the other rows do.

Every other stream comes from a seed and a name: `named(seed, "query", 7)`. Nobody who draws on the side changes what
the run itself will see, and the same moment of the same run draws the same numbers again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.utils.validation import MOST_RUNS, check_count, seed_error

Array = NDArray[np.float64]

_MASK = 2**64 - 1
_KEYS = {
    # of one run or replication
    "generator": 1,  # of samplers that are not compiled
    "nature": 2,  # results of simulated measurements
    "look": 3,  # after so many measurements
    "truth": 5,  # where it is drawn anew in each run
    "claim": 6,  # runs under the prior, for what a budget claims
    # of one look
    "doubt": 0,
    "ties": 1,
    "ranking": 2,
    # of a campaign: these numbers decide what old files ask next
    "policy": 0,
    "query": 1,  # of this number
    "status": 2,  # after so many measurements
    # of a plan
    "planned": 5,  # run of this number
    "least": 6,  # thetas for which the least cost is computed
    "scale": 7,  # runs with other gaps
    # of a seed on the command line
    "measurements": 3,
}
"""Names of side streams. Those of one owner have different numbers; a number, once given, stays."""


def named(seed: int | np.random.SeedSequence, name: str, *moment: int) -> np.random.SeedSequence:
    """The seed of a side stream: whose it is, what for, and when."""
    owner = seed if isinstance(seed, np.random.SeedSequence) else seed_sequence(seed)
    return np.random.SeedSequence(owner.entropy, spawn_key=(*owner.spawn_key, _KEYS[name], *moment))


def seed_sequence(rng: int | np.random.Generator | None) -> np.random.SeedSequence:
    """The seed sequence of what users pass as `rng`; a typed error for what is no seed."""
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence([int(word) for word in rng.integers(0, 2**32, size=8)])
    try:
        return np.random.SeedSequence(rng)
    except (TypeError, ValueError):
        raise seed_error(rng) from None


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
        self._keys = self.states.tolist()
        self._position = -1  # of `seek`
        self._generators: dict[int, tuple[np.random.Generator, Any]] = {}  # with the state at their beginning
        self._at: dict[int, int] = {}  # position at which each generator was begun

    @classmethod
    def of(cls, rng: int | np.random.Generator | None, replications: int) -> Streams:
        """Streams from what users pass as `rng`."""
        check_count("replications", replications, MOST_RUNS)
        return cls(seed_sequence(rng).spawn(int(replications)))

    def seek(self, position: int) -> None:
        """Continue every row with the stream (seed, position), whatever was drawn before.

        The state is the position, mixed with the row's key by splitmix64: some 2 us a row, a tenth of a `SeedSequence`.
        """
        self._position = position
        for r, key in enumerate(self._keys):
            self.states[r] = _mixed(key, position)

    def __len__(self) -> int:
        return len(self._seeds)

    def generator(self, r: int) -> np.random.Generator:
        """A numpy generator for row r, independent of its compiled stream."""
        if r not in self._generators:
            bits = np.random.PCG64(self.named(r, "generator"))
            self._generators[r], self._at[r] = (np.random.Generator(bits), bits.state), -1
        generator, begin = self._generators[r]
        if self._at[r] != self._position:  # streams of different positions are 2^64 numbers apart
            generator.bit_generator.state = begin
            generator.bit_generator.advance((self._position + 1) << 64)  # type: ignore[attr-defined]
            self._at[r] = self._position
        return generator

    def named(self, r: int, name: str, *moment: int) -> np.random.SeedSequence:
        """The seed of a side stream of row r."""
        return named(self._seeds[r], name, *moment)

    def uniform(self) -> Array:
        """One uniform per row, (R,)."""
        from combopeps.utils.xoshiro import uniforms

        out = np.empty(len(self))
        uniforms(self.states, out)
        return out

    def normal(self, n: int) -> Array:
        """n standard normals per row, (R, n)."""
        from combopeps.utils.xoshiro import normals

        out = np.empty((len(self), n))
        normals(self.states, out)
        return out


def _mixed(key: list[int], position: int) -> list[int]:
    """Four words from a key of four words and a position."""
    state, words = (position + 1) * 0x9E3779B97F4A7C15, []
    for word in key:
        state = (state + word) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        state = mixed ^ (mixed >> 31)
        words.append(state)
    return words
