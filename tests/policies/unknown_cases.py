"""Problems whose noise is not stated, and readings with noise."""

import numpy as np
from unit_problem import unit_problem

from combopeps import ExplicitOracle, TopKOracle

GENERAL = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.5], [0.3, 0.0, 1.0], [1.0, 1.0, 1.0], [0.2, -1.0, 0.4]])
RATIOS = [1.0, 2.0, 0.5, 1.0, 3.0]


def units(**options):
    return unit_problem(TopKOracle(5, k=2), **{"noise_std": None, "noise_ratio": RATIOS} | options)


def general(**options):
    return unit_problem(ExplicitOracle(np.eye(3)), GENERAL, **{"noise_std": None, "noise_ratio": RATIOS} | options)


def readings(n=60, seed=0, sigma=0.7):
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 5, n)
    return arms, 10.0 + arms + sigma * np.array(RATIOS)[arms] * rng.normal(size=n)


def measure(problem, theta, sigma, rng):
    """Normal noise: sigma times the ratios, or what is stated if sigma is None."""
    noise = problem.noise * (1.0 if sigma is None else sigma)
    known = dict(zip(problem.arms.labels, zip(problem.arms.dot(theta), noise, strict=True), strict=True))
    return lambda label: known[label][0] + known[label][1] * rng.normal()
