"""Markov chains along lines: the hit-and-run and Gibbs samplers that the paper suggests.

With theta = theta_hat + L xi, a line through the current point in the unit direction u is xi + s u, and the posterior
restricted to it is s ~ N(-u @ xi, 1). The cone of z_hat cuts an interval out of the line; its ends are found by two ray
exits, and s is drawn exactly from the rest.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from combopeps.alternatives.base import Alternatives, AlternativeSampler, SamplingStats, SamplingTask
from combopeps.alternatives.cone import ray_exits
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import Array, strictly_better
from combopeps.posterior.normal_tails import draw_interval, log_interval
from combopeps.posterior.parameter_space import ParameterSpace
from combopeps.random import stream_from
from combopeps.utils.validation import check_count

_START_RAYS = 64
_REACHES = (8.0, 1e3, 1e6, 1e9)  # standard deviations; lengths of the first rays in a box, tried in turn


class LineSampler(AlternativeSampler):
    """Base class of Markov chains that move along lines.

    A subclass implements `_direction`.

    Parameters
    ----------
    steps
        Moves between two returned alternatives; 2 d by default.
    """

    def __init__(self, *, steps: int | None = None) -> None:
        if steps is not None:
            check_count("steps", steps)
        self.steps = steps
        self._theta: Array | None = None
        self._moves = 0

    @abstractmethod
    def _direction(self, dim: int, rng: np.random.Generator) -> Array:
        """Return the next unit direction u."""

    def _sample(self, question: SamplingTask, n: int, rng: np.random.Generator) -> Alternatives:
        theta, calls = self._start(question, rng)
        dim = question.posterior.dim
        steps = self.steps or 2 * dim
        thetas = np.empty((n, dim))
        for k in range(n):
            for _ in range(steps):
                theta, new_calls = self._move(theta, question, rng)
                calls += new_calls
            thetas[k] = theta
        self._theta = theta
        return Alternatives(thetas, question.oracle.argmax(thetas), SamplingStats(n * steps, calls + n))

    def _start(self, question: SamplingTask, rng: np.random.Generator) -> tuple[Array, int]:
        """Return the chain's last point if it is an alternative, else one beyond the exit of a random ray."""
        posterior, oracle, z_hat, space, eta = question
        last = self._theta
        if last is not None and last.shape == z_hat.shape and space.contains(last):
            still = strictly_better(oracle.argmax(last)[None], z_hat, last[None])[0]
            if still:
                return last, 1
        base = space.project(posterior.theta_hat[0])
        noise = posterior.noise(rng.standard_normal((1, _START_RAYS // 2, posterior.dim)))[0]
        for reach in _REACHES:
            far = reach * np.concatenate([noise, -noise]) / np.sqrt(eta)
            directions = space.project(base + far) - base
            bounded = not space.contains(base + 1e6 * directions).all()
            start = np.full(len(directions), 1.0 if bounded else np.inf)
            exits = ray_exits(oracle, z_hat, base, directions, start, stop=0.0)
            if exits.found.any() or not bounded:
                break
        if not exits.found.any():
            raise NoAlternativeError(f"no alternative exists along {_START_RAYS} rays from the current posterior")
        nearest = int(np.argmin(np.where(exits.found, exits.s, np.inf)))
        s = float(exits.s[nearest])
        beyond = 0.5 * (s + 1.0) if bounded else s + max(1e-3, 0.05 * abs(s))
        return base + beyond * directions[nearest], exits.oracle_calls + 1

    def _move(self, theta: Array, question: SamplingTask, rng: np.random.Generator) -> tuple[Array, int]:
        posterior, oracle, z_hat, space, eta = question
        u = self._direction(posterior.dim, rng)
        v = posterior.noise(u[None, None])[0, 0] / np.sqrt(eta)
        centre = -float(u @ posterior.whiten(theta)) * np.sqrt(eta)
        first, last = _interval_in_box(space, theta, v)
        # theta lies in Alt, so that the cone's interval, if there is one, is on one side of it.
        start = np.array([last, -first])
        exits = ray_exits(oracle, z_hat, theta, np.stack([v, -v]), start, stop=-start[::-1])
        right, left = exits.s[0], -exits.s[1]
        pieces = [(first, last)]
        if not exits.empty.any():
            pieces = [(first, left if exits.found[1] else first), (right if exits.found[0] else last, last)]
        pieces = [(a - centre, b - centre) for a, b in pieces if b - centre > a - centre]
        if not pieces:
            return theta, exits.oracle_calls
        mass = np.array([log_interval(a, b) for a, b in pieces])
        share = np.exp(mass - mass.max())
        a, b = pieces[int(rng.random() * share.sum() > share[0])]
        moved = theta + (draw_interval(stream_from(rng), a, b) + centre) * v
        return space.project(moved), exits.oracle_calls


class HitAndRunSampler(LineSampler):
    """Lines in uniformly random directions of the whitened space.

    The chain mixes only while P(Alt) is large: at a small P(Alt) the alternatives lie in thin regions, one beyond each
    facet, and a random line hardly ever leads from one to another. On a symmetric top-k problem (d=12, k=3, 27 equal
    facets) with the default 2 d moves per draw, independent draws change the best answer 97 % of the time; this chain
    does so 89 % of the time at P(Alt) = 0.3, 49 % at 1e-3 and 14 % at 1e-6 (`python -m benchmarks.samplers` measures
    it). Use `AutoSampler` there.
    """

    def _direction(self, dim: int, rng: np.random.Generator) -> Array:
        u = rng.standard_normal(dim)
        return np.asarray(u / np.linalg.norm(u))


class GibbsSampler(LineSampler):
    """Lines along the coordinates of the whitened space, one after the other.

    It mixes worse than hit-and-run: a change of one coordinate must carry theta across the cone. On the symmetric top-k
    problem described there, the best answer changes 83 % of the time at P(Alt) = 0.3, 21 % at 1e-3 and 3 % at 1e-6,
    against 97 % for independent draws.
    """

    def _direction(self, dim: int, rng: np.random.Generator) -> Array:
        u = np.zeros(dim)
        u[self._moves % dim] = 1.0
        self._moves += 1
        return u


def _interval_in_box(space: ParameterSpace, theta: Array, v: Array) -> tuple[float, float]:
    """Return the ends of the interval of s for which theta + s v is in the box."""
    low, high = space.bounds(len(theta))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(low - theta) / v, (high - theta) / v])
    ends = ends[:, v != 0.0]
    return float(ends.min(axis=0).max(initial=-np.inf)), float(ends.max(axis=0).min(initial=np.inf))
