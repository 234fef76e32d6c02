"""LinGapE (Xu, Honda, Sugiyama 2018) with the greedy arm rule.

    for t = 1, 2, ...
        z_t = argmax_{z != z_hat_t} (z - z_hat_t) @ theta_hat_t + c_t |z - z_hat_t|_{V^-1}
        x_t = argmin_x |y|_{(V + x x')^-1},   y = z_t - z_hat_t
        c_t = sqrt(2 (ln(1 / delta) + 2 ln(t + 1)))

By the Sherman-Morrison formula |y|^2_{(V + x x')^-1} = |y|^2_{V^-1} - (x' V^-1 y)^2 / (1 + |x|^2_{V^-1}). The maximum
is over the facets of z_hat_t, as in m-LinGapE (Reda, Kaufmann, Delahaye-Duriez 2021) for the top m; for listed answers
these are all other answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.alternatives.replications import ListedCones
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.base import Arm, Policy, check_unbounded
from combopeps.problem import Problem
from combopeps.utils.validation import check_flag, check_fraction


class LinGapE(Policy):
    """Reduce the confidence width of the most ambiguous comparison.

    Needs an oracle that lists the facets of an answer (`oracle.facets`), and Theta = R^d.

    Parameters
    ----------
    problem, rng, **options
        As for every `Policy`.
    delta
        Error probability in c_t.
    every_arm_once
        Measure every arm once first.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> identify(TopKOracle(3, k=1), [0.0, 3.0, 1.0].__getitem__, policy="lingape", budget=30).answer
    {1}
    """

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        rng: int | np.random.Generator | None = None,
        *,
        delta: float = 0.05,
        every_arm_once: bool = True,
        **options: Any,
    ) -> None:
        check_flag("every_arm_once", every_arm_once)
        super().__init__(problem, rng, **options)
        check_unbounded(self)
        check_fraction("delta", delta)
        self.delta = delta
        self.facets = ListedCones(self.problem.oracle, self.replications)
        if every_arm_once:
            self.begin_with_every_arm()
        self._tie_factor = 1.0 + 1e-9 * self.streams.normal(len(self.problem.arms))  # between equally useful arms

    def choose(self) -> Arm:
        """Return the arm that reduces the width of the most ambiguous comparison most."""
        self.t += 1
        y = self.ambiguous()
        along = self.problem.signal.dot(self.posterior.covariance_dot(y))
        reduction = along * along / (1.0 + self.posterior.arm_widths())
        if self.relative_cost is not None:
            reduction /= self.relative_cost
        return np.asarray((reduction * self._tie_factor).argmax(axis=1))

    def ambiguous(self) -> Array:
        """Return z_t - z_hat_t, (R, d)."""
        self.facets.set_answers(self.z_hat())
        theta_hat = self.posterior.theta_hat + self._tie  # random ties between facets
        gap, width = self.facets.weigh(theta_hat, self.posterior.covariance())
        c = np.sqrt(2.0 * (np.log(1.0 / self.delta) + 2.0 * np.log(self.t + 1)))
        return self.facets.pick((c * np.sqrt(width) - gap).argmax(axis=1))
