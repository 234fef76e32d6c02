"""R independent random streams, one per replication: row r sees the same numbers whatever the other rows do.

Every other stream comes from a seed and a name: `named(seed, "query", 7)`. Nobody who draws on the side changes what
the run itself will see, and the same moment of the same run draws the same numbers again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from combopeps.restore import Plain, fill, whole, wholes
from combopeps.validation import MOST_RUNS, check_count, seed_error

Array = NDArray[np.float64]

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
        self._generators: dict[int, np.random.Generator] = {}

    @classmethod
    def of(cls, rng: int | np.random.Generator | None, replications: int) -> Streams:
        """Streams from what users pass as `rng`."""
        check_count("replications", replications, MOST_RUNS)
        return cls(seed_sequence(rng).spawn(int(replications)))

    def reseed(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        """Begin anew with other seeds, one per row."""
        self._seeds = list(seeds)
        self.states[:] = [seed.generate_state(4, np.uint64) for seed in seeds]
        self._generators.clear()

    def plain(self) -> Plain:
        """Where the compiled streams are, as plain data; numpy's own generators begin anew."""
        seeds = [[seed.entropy, list(seed.spawn_key)] for seed in self._seeds]
        return {"states": self.states, "seeds": seeds}

    def restore(self, data: Plain) -> None:
        """Take that back."""
        fill(self.states, data["states"])
        if len(data["seeds"]) != len(self):
            raise ValueError("there is one seed for each row")
        self._seeds = [np.random.SeedSequence(whole(entropy), spawn_key=wholes(key)) for entropy, key in data["seeds"]]
        self._generators.clear()

    def __len__(self) -> int:
        return len(self._seeds)

    def generator(self, r: int) -> np.random.Generator:
        """A numpy generator for row r, independent of its compiled stream."""
        if r not in self._generators:
            self._generators[r] = np.random.default_rng(self.named(r, "generator"))
        return self._generators[r]

    def named(self, r: int, name: str, *moment: int) -> np.random.SeedSequence:
        """The seed of a side stream of row r."""
        return named(self._seeds[r], name, *moment)

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
