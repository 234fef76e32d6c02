"""Random numbers for compiled loops: xoshiro256++ (Blackman and Vigna).

Compiled code cannot hold hundreds of numpy generators at once, and passing a single one takes ten microseconds a call.
A stream is an array of four uint64 words, seeded from a numpy generator or seed sequence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combopeps.utils.jit import log, njit, sqrt

_17, _23, _41, _45, _19, _11 = (np.uint64(k) for k in (17, 23, 41, 45, 19, 11))
_UNIT_SCALE = 2.0**-53


def stream_from(rng: np.random.Generator) -> NDArray[np.uint64]:
    """Return a new stream, seeded by 256 bits of the generator."""
    state: NDArray[np.uint64] = rng.bit_generator.random_raw(4)
    return state


@njit(cache=True, nogil=True)
def _next(state):
    """Advance the stream, and return 64 random bits."""
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
def uniform(state):
    """Uniform on [0, 1)."""
    return (_next(state) >> _11) * _UNIT_SCALE


@njit(cache=True, nogil=True)
def exponential(state):
    """Standard exponential."""
    return -log(1.0 - uniform(state))


@njit(cache=True, nogil=True)
def normal(state):
    """Standard normal, by the polar method."""
    while True:
        u, v = 2.0 * uniform(state) - 1.0, 2.0 * uniform(state) - 1.0
        s = u * u + v * v
        if 0.0 < s < 1.0:
            return u * sqrt(-2.0 * log(s) / s)


@njit(cache=True, nogil=True)
def fill_normals(state, out):
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


@njit(cache=True, nogil=True)
def uniforms(states, out):
    """Draw one uniform from every stream."""
    for r in range(len(states)):
        out[r] = uniform(states[r])


@njit(cache=True, nogil=True)
def normals(states, out):
    """Draw a row of standard normals from every stream."""
    for r in range(len(states)):
        fill_normals(states[r], out[r])
