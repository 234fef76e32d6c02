"""Is a measurement further off than the prior and the noise allow?

    y ~ N(0, |x|^2 prior_std^2 + noise_std^2),   P(|N(0, 1)| > sqrt(2 ln(1000 pi^2 t^2 / 6))) < 6 / (1000 pi^2 t^2)

A fixed threshold is passed by chance in a long run. This one grows with the number t of the measurement, so that all
chances together are below 1/1000, however long the run is.
"""

from __future__ import annotations

from math import hypot, log, pi, sqrt

import numpy as np

from combopeps.belief import GaussianBelief
from combopeps.problem import Problem

AT_LEAST = 5.0  # standard deviations


def threshold(t: int) -> float:
    """Standard deviations by which the t-th measurement may be off."""
    return max(AT_LEAST, sqrt(2.0 * log(1000.0 * pi**2 * t * t / 6.0)))


def is_surprising(belief: GaussianBelief, arm: int, y: float, t: int) -> bool:
    """Does the t-th measurement contradict the prior?"""
    arms = belief.arms
    size = abs(arms.coefficient[arm]) if arms.matrix is None else float(np.linalg.norm(arms.matrix[arm]))
    return abs(y) > threshold(t) * hypot(size / sqrt(belief.prior_precision), belief.noise_std)


def surprise_text(problem: Problem, y: float) -> str:
    """What to say about it, and the cure."""
    return (
        f"measured {y:g}, which prior_std = {problem.prior_std:g} and noise_std = {problem.noise_std:g} make all but "
        "impossible: set Problem(..., prior_std=, noise_std=) to the scale of your data, or the error probability will "
        "be far too small"
    )
