"""R independent random streams, one per replication: row r sees the same numbers whatever the other rows do.

Compiled loops draw from xoshiro256++ (Blackman and Vigna): a stream is an array of four uint64 words, seeded from a
numpy generator or seed sequence. They cannot hold hundreds of numpy generators at once, and handing over a single one
costs ten microseconds a call.

Every other stream comes from a seed and a name: `named(seed, "query", 7)`. Nobody who draws on the side changes what
the run itself will see, and the same moment of the same run draws the same numbers again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.utils.jit import log, njit, sqrt
from combopeps.utils.validation import MOST_RUNS, check_count, seed_error

Array = NDArray[np.float64]
States = NDArray[np.uint64]

_MASK = 2**64 - 1
_BLOCK = 512  # weights that are summed up at once
_17, _23, _41, _45, _19, _11 = (np.uint64(k) for k in (17, 23, 41, 45, 19, 11))
_TO_UNIT = 2.0**-53
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


def stream_from(rng: np.random.Generator) -> States:
    """A fresh stream, seeded by 256 bits of the generator."""
    state: States = rng.bit_generator.random_raw(4)
    return state


@njit(cache=True, nogil=True)
def _next(state: States) -> Any:
    a, b, c, d = state[0], state[1], state[2], state[3]
    total = a + d
    result = ((total << _23) | (total >> _41)) + a
    t = b << _17
    c ^= a
    d ^= b
    b ^= c
    a ^= d
    c ^= t
    d = (d << _45) | (d >> _19)
    state[0], state[1], state[2], state[3] = a, b, c, d
    return result


@njit(cache=True, nogil=True)
def uniform(state: States) -> Any:
    """Uniform on [0, 1)."""
    return (_next(state) >> _11) * _TO_UNIT


@njit(cache=True, nogil=True)
def exponential(state: States) -> Any:
    """Standard exponential."""
    return -log(1.0 - uniform(state))


@njit(cache=True, nogil=True)
def normal(state: States) -> Any:
    """Standard normal, by the polar method."""
    while True:
        u, v = 2.0 * uniform(state) - 1.0, 2.0 * uniform(state) - 1.0
        s = u * u + v * v
        if 0.0 < s < 1.0:
            return u * sqrt(-2.0 * log(s) / s)


@njit(cache=True, nogil=True)
def fill_normals(state: States, out: Array) -> None:
    """Independent standard normals: the polar method gives two at a time."""
    i = 0
    while i < len(out):
        u, v = 2.0 * uniform(state) - 1.0, 2.0 * uniform(state) - 1.0
        s = u * u + v * v
        if 0.0 < s < 1.0:
            scale = sqrt(-2.0 * log(s) / s)
            out[i] = u * scale
            if i + 1 < len(out):
                out[i + 1] = v * scale
            i += 2


@njit(cache=True, nogil=True)
def _uniforms(states: States, out: Array) -> None:
    """One uniform from every stream."""
    for r in range(len(states)):
        out[r] = uniform(states[r])


@njit(cache=True, nogil=True)
def _normals(states: States, out: Array) -> None:
    """A row of standard normals from every stream."""
    for r in range(len(states)):
        fill_normals(states[r], out[r])


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
        self.states: States = np.array([seed.generate_state(4, np.uint64) for seed in seeds], np.uint64)
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
        out = np.empty(len(self))
        _uniforms(self.states, out)
        return out

    def normal(self, n: int) -> Array:
        """n standard normals per row, (R, n)."""
        out = np.empty((len(self), n))
        _normals(self.states, out)
        return out

    def draw(self, weights: Array) -> NDArray[np.intp]:
        """One index per row, (R,), with probability proportional to its weight; weights are (R, K).

        Examples
        --------
        >>> Streams.of(0, 2).draw(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]]))
        array([1, 2])
        """
        uniform = self.uniform()
        if len(weights) == 1:
            return np.array([_draw_one(weights[0], float(uniform[0]))])
        cumulative = np.cumsum(weights, axis=1)
        last = weights.shape[1] - 1
        return np.asarray(np.minimum((cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(axis=1), last))


def _draw_one(weights: Array, uniform: float) -> int:
    """First the block, then the index in it: sums of blocks are many times faster than running sums of everything."""
    if len(weights) <= 4 * _BLOCK:
        cumulative = weights.cumsum()
        return _place(cumulative, uniform * cumulative[-1])
    blocks = np.add.reduceat(weights, np.arange(0, len(weights), _BLOCK)).cumsum()
    target = uniform * blocks[-1]
    block = _place(blocks, target)
    first, before = block * _BLOCK, blocks[block - 1] if block else 0.0
    return first + _place(weights[first : first + _BLOCK].cumsum(), target - before)


def _place(cumulative: Array, target: float) -> int:
    return min(int(cumulative.searchsorted(target, side="right")), len(cumulative) - 1)


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
