"""Thetas as somebody expects them: normal in every component, restricted to Theta."""

from __future__ import annotations

import numpy as np

from combopeps.errors import ParameterError, SpaceError
from combopeps.oracles.base import Array
from combopeps.posterior.per_label import Stated, each
from combopeps.problem import Problem

_TRIES = 1000  # for spaces that are no box


def draw_thetas(
    problem: Problem, n: int, rng: np.random.Generator, mean: Stated | None = None, std: Stated | None = None
) -> Array:
    """n draws, (n, d), by default from the problem's prior; a component with std 0 is its mean.

    Examples
    --------
    >>> from combopeps import Box, TopKOracle
    >>> problem = Problem(TopKOracle(3, k=1), space=Box(0, 1), prior_mean=0.0, prior_std=1.0)
    >>> thetas = draw_thetas(problem, 100, np.random.default_rng(0))
    >>> thetas.shape, bool(thetas.min() >= 0), bool(thetas.max() <= 1)
    ((100, 3), True, True)
    """
    dim, space = problem.oracle.dim, problem.space
    mean, std = problem.prior_mean if mean is None else mean, problem.prior_std if std is None else std
    if mean is None or std is None:
        raise ParameterError("theta cannot be drawn from a prior that is estimated from data: state mean and std")
    middle, width = each(mean, dim), each(std, dim)
    low, high = space.bounds(dim)
    drawn = _normal(middle, width, low, high, n, rng)
    for _ in range(_TRIES):
        outside = np.flatnonzero(~space.contains(drawn))
        if not len(outside):
            return drawn
        drawn[outside] = _normal(middle, width, low, high, len(outside), rng)
    raise SpaceError(
        f"{_TRIES} draws in a row lie outside {space!r}: theta cannot be drawn from what is expected of it"
    )


def _normal(mean: Array, std: Array, low: Array, high: Array, n: int, rng: np.random.Generator) -> Array:
    """Each component from a normal distribution between its ends."""
    drawn = mean + std * rng.standard_normal((n, len(mean)))
    bounded = np.flatnonzero((np.isfinite(low) | np.isfinite(high)) & (std > 0.0))
    if len(bounded):
        from scipy.stats import truncnorm

        middle, width = mean[bounded], std[bounded]
        ends = (low[bounded] - middle) / width, (high[bounded] - middle) / width
        drawn[:, bounded] = truncnorm.rvs(*ends, loc=middle, scale=width, size=(n, len(bounded)), random_state=rng)
        drawn[:, bounded] = np.clip(drawn[:, bounded], low[bounded], high[bounded])
    return drawn
