"""Independent random streams: one per replication (`Streams`), and named streams derived from a seed (`named_seed`).

The numbers of a replication do not depend on other replications. A named stream such as `named(seed, "query", 7)` is
independent of the main stream of the run: drawing from it does not change the run, and the same arguments give the same
numbers.

Compiled loops draw from xoshiro256++ (Blackman and Vigna): a stream is an array of four uint64 words, seeded from a
numpy generator or seed sequence. Compiled code cannot hold hundreds of numpy generators at once, and passing a single
one takes ten microseconds a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.utils.jit import log, njit, sqrt
from combopeps.utils.validation import MAX_RUNS, check_count, seed_error

Array = NDArray[np.float64]
States = NDArray[np.uint64]

_MASK = 2**64 - 1
_BLOCK = 512  # weights that are summed up at once
_17, _23, _41, _45, _19, _11 = (np.uint64(k) for k in (17, 23, 41, 45, 19, 11))
_UNIT_SCALE = 2.0**-53
_KEYS = {
    # of a run or replication
    "generator": 1,  # numpy generator for samplers that are not compiled
    "nature": 2,  # noise of simulated measurements
    "look": 3,  # index: number of measurements
    "truth": 5,  # theta, if drawn anew in each run
    "claim": 6,  # runs under the prior for the claim of a budget
    # of a look
    "doubt": 0,  # rough estimate of the error probability
    "ties": 1,
    "ranking": 2,
    # of a campaign: changing these numbers changes the next queries of stored campaigns
    "policy": 0,
    "query": 1,  # index: number of the query
    "status": 2,  # index: number of measurements
    # of a plan
    "planned": 5,  # index: number of the run
    "least": 6,  # thetas for which the least cost is computed
    "scale": 7,  # runs with other gaps
    # of a seed on the command line
    "measurements": 3,
}
"""Spawn keys of named streams. Keys within each group must be distinct, and must not be changed."""


def named_seed(seed: int | np.random.SeedSequence, name: str, *moment: int) -> np.random.SeedSequence:
    """Return the seed sequence of a named stream; `moment` distinguishes streams with the same name."""
    parent = seed if isinstance(seed, np.random.SeedSequence) else seed_sequence(seed)
    return np.random.SeedSequence(parent.entropy, spawn_key=(*parent.spawn_key, _KEYS[name], *moment))


def seed_sequence(rng: int | np.random.Generator | None) -> np.random.SeedSequence:
    """Return the seed sequence of a parameter `rng`; raise a ParameterError for an invalid seed."""
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence([int(word) for word in rng.integers(0, 2**32, size=8)])
    try:
        return np.random.SeedSequence(rng)
    except (TypeError, ValueError):
        raise seed_error(rng) from None


def stream_from(rng: np.random.Generator) -> States:
    """Return a new stream, seeded by 256 bits of the generator."""
    state: States = rng.bit_generator.random_raw(4)
    return state


@njit(inner=True)
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


@njit(inner=True)
def uniform(state: States) -> Any:
    """Uniform on [0, 1)."""
    return (_next(state) >> _11) * _UNIT_SCALE


@njit(inner=True)
def exponential(state: States) -> Any:
    """Standard exponential."""
    return -log(1.0 - uniform(state))


@njit(inner=True)
def normal(state: States) -> Any:
    """Standard normal, by the polar method."""
    while True:
        u, v = 2.0 * uniform(state) - 1.0, 2.0 * uniform(state) - 1.0
        s = u * u + v * v
        if 0.0 < s < 1.0:
            return u * sqrt(-2.0 * log(s) / s)


@njit(inner=True)
def fill_normals(state: States, out: Array) -> None:
    """Fill an array with standard normals; the polar method gives two at a time."""
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


@njit(steps=lambda states, out: 8 * len(out))
def _uniforms(states: States, out: Array) -> None:
    """Draw one uniform from every stream."""
    for r in range(len(states)):
        out[r] = uniform(states[r])


@njit(steps=lambda states, out: 8 * out.size)
def _normals(states: States, out: Array) -> None:
    """Draw a row of standard normals from every stream."""
    for r in range(len(states)):
        fill_normals(states[r], out[r])


class Streams:
    """Random numbers for R replications, each with a seed of its own.

    Parameters
    ----------
    seeds
        One seed sequence per replication (`np.random.SeedSequence(seed).spawn(R)`).

    Attributes
    ----------
    states
        States of the compiled streams, (R, 4), advanced in place by kernels.
    """

    def __init__(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        self._seeds = list(seeds)
        self.states: States = np.array([seed.generate_state(4, np.uint64) for seed in seeds], np.uint64)
        self._keys = self.states.tolist()
        self._position = -1  # argument of the last `seek`
        self._generators: dict[int, tuple[np.random.Generator, Any]] = {}  # with their initial states
        self._begun_at: dict[int, int] = {}  # position of the last `seek` of each generator

    @classmethod
    def of(cls, rng: int | np.random.Generator | None, replications: int) -> Streams:
        """Return streams from a parameter `rng`."""
        check_count("replications", replications, MAX_RUNS)
        return cls(seed_sequence(rng).spawn(int(replications)))

    def seek(self, position: int) -> None:
        """Set every row to the beginning of the stream (seed, position), regardless of earlier draws.

        The state is the position mixed with the key of the row by splitmix64. This takes about 2 us a row, a tenth of
        the time of a `SeedSequence`.
        """
        self._position = position
        for r, key in enumerate(self._keys):
            self.states[r] = _mix(key, position)

    def __len__(self) -> int:
        return len(self._seeds)

    def generator(self, r: int) -> np.random.Generator:
        """Return a numpy generator for row r, independent of its compiled stream."""
        if r not in self._generators:
            bits = np.random.PCG64(self.named(r, "generator"))
            self._generators[r], self._begun_at[r] = (np.random.Generator(bits), bits.state), -1
        generator, begin = self._generators[r]
        if self._begun_at[r] != self._position:  # streams of different positions are 2^64 numbers apart
            generator.bit_generator.state = begin
            generator.bit_generator.advance((self._position + 1) << 64)  # type: ignore[attr-defined]
            self._begun_at[r] = self._position
        return generator

    def named(self, r: int, name: str, *moment: int) -> np.random.SeedSequence:
        """Return the seed sequence of a named stream of row r."""
        return named_seed(self._seeds[r], name, *moment)

    def uniform(self) -> Array:
        """Draw one uniform per row, (R,)."""
        out = np.empty(len(self))
        _uniforms(self.states, out)
        return out

    def normal(self, n: int) -> Array:
        """Draw n standard normals per row, (R, n)."""
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


def _mix(key: list[int], position: int) -> list[int]:
    """Return four words from a key of four words and a position, by splitmix64."""
    state, words = (position + 1) * 0x9E3779B97F4A7C15, []
    for word in key:
        state = (state + word) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        state = mixed ^ (mixed >> 31)
        words.append(state)
    return words
