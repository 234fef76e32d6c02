"""Thompson sampling, for problems whose arms are the answers.

    theta_t ~ N(theta_hat_t, V_{t-1}^-1),   x_t = argmax_{x in X} x @ theta_t

It minimises regret: most measurements are of arms that are probably best, few of their rivals, so that identification
is slow.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np

from combopeps.errors import AnswerError, ParameterError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Arm, Policy, check_unbounded
from combopeps.problem import Problem


class ThompsonSampling(Policy):
    """Measure the best arm under one draw from the posterior; requires X = Z and Theta = R^d.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> identify(TopKOracle(3, k=1), [0.0, 3.0, 1.0].__getitem__, policy="thompson", budget=30).answer
    {1}
    """

    def __init__(
        self, problem: Problem | ArgmaxOracle, rng: int | np.random.Generator | None = None, **options: Any
    ) -> None:
        super().__init__(problem, rng, **options)
        check_unbounded(self)
        _check_arms_are_answers(self.problem)

    def choose(self) -> Arm:
        """Return the best arm under one draw per replication."""
        normals = self.streams.normal(self.problem.oracle.dim)[:, None, :]
        theta = self.posterior.theta_hat + self.posterior.noise(normals)[:, 0]
        return np.asarray(self.problem.arms.dot(theta).argmax(axis=1))


def _check_arms_are_answers(problem: Problem) -> None:
    """Raise ParameterError unless X = Z: K distinct arms that are answers, and at most K answers."""
    hint = "Thompson sampling is for arms that are the answers; use TopTwo or PEPS"
    oracle, arms = problem.oracle, problem.arms
    size = oracle.log_cardinality
    if size is None or size > log(len(arms)) + 1e-9:
        count = "an unknown number of" if size is None else f"about {np.exp(min(float(size), 700.0)):.3g}"
        raise ParameterError(f"there are {len(arms)} arms and {count} answers; {hint}")
    rows = arms.row(np.arange(len(arms)))
    if len(np.unique(rows, axis=0)) != len(rows):
        raise ParameterError(f"two arms are equal; {hint}")
    for label, row in zip(arms.labels, rows, strict=True):
        try:
            oracle.decode(row)
        except AnswerError:
            raise ParameterError(f"arm {label!r} is not an answer; {hint}") from None
