"""LinGame (Degenne, Menard, Shang, Valko 2020), with one learner and gains without confidence bounds.

    for t = 1, 2, ...
        lam_t from AdaHedge,   A(lam) = sum_x lam_x x x'
        theta_t = argmin_{theta in Alt(z_hat_t)} |theta - theta_hat_t|^2_{A(lam_t)}
        lam_{t+1} from AdaHedge, fed with the gains (x @ (theta_t - theta_hat_t))^2 / 2
        x_t = argmax_x sum_{s <= t} lam_{s, x} - N_x

On the facet y = z - z_hat, with gap = -y @ theta_hat and q = A(lam)^-1 y, the nearest alternative is
theta_hat + q gap / (y @ q), at the squared distance gap^2 / (y @ q). The minimum is over all facets, in every round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.alternatives.replications import ListedCones
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.allocation import AdaHedge, CTracking, per_cost
from combopeps.policies.base import Arm, Policy, check_unbounded
from combopeps.problem import Problem
from combopeps.utils.validation import check_flag

_RIDGE = 1e-9  # relative: keeps A(lam) invertible where lam is concentrated on few arms


class LinGame(Policy):
    """Zero-sum game between AdaHedge over the arms and the nearest alternative.

    Needs an oracle that lists the facets of an answer (`oracle.facets`), and Theta = R^d.

    Parameters
    ----------
    problem, rng, **options
        As for every `Policy`.
    optimism
        Add a confidence width of sqrt(2 ln t) standard deviations to |x @ (theta_t - theta_hat_t)|, as the proof
        requires; the paper's experiments do not.
    every_arm_once
        Measure every arm once before the game starts.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> identify(TopKOracle(3, k=1), [0.0, 3.0, 1.0].__getitem__, policy="lingame", budget=30).answer
    {1}
    """

    learns_from_choices = True
    _learners = "learner", "_tracker"

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        rng: int | np.random.Generator | None = None,
        *,
        optimism: bool = False,
        every_arm_once: bool = True,
        **options: Any,
    ) -> None:
        check_flag("every_arm_once", every_arm_once)
        check_flag("optimism", optimism)
        super().__init__(problem, rng, **options)
        check_unbounded(self)
        arms = len(self.problem.arms)
        self.optimism = optimism
        self.facets = ListedCones(self.problem.oracle, self.replications)
        self.learner = AdaHedge(arms, self.replications)
        self._tracker = CTracking(arms, self.streams)
        if every_arm_once:
            self.begin_with_every_arm()
        self._priced = self.problem.signal.scaled(self.problem.relative_cost**-0.5)
        component = self.problem.arms.component
        order = component.argsort(kind="stable")
        self._by_component = order, *np.unique(component[order], return_index=True)[::-1]

    def choose(self) -> Arm:
        """Play one round of the game, which does not depend on the result of the arm."""
        self.t += 1
        lam = self.learner.lam
        self.learner.update(self._gains(self.nearest(lam)))
        return self._tracker.pick(per_cost(lam, self.relative_cost))

    def nearest(self, lam: Array) -> Array:
        """Return theta_t - theta_hat_t, (R, d), for the nearest alternative in the norm of A(lam), lam (R, K)."""
        inverse = self._inverse_design(lam)
        self.facets.set_answers(self.z_hat())
        gap, width = self.facets.weigh(self.posterior.theta_hat, inverse)
        gap = np.maximum(gap, 0.0)  # non-negative up to rounding
        best = (gap * gap / width).argmin(axis=1)
        y = self.facets.pick(best)
        q = inverse * y if inverse.ndim == 2 else np.matmul(inverse, y[:, :, None])[:, :, 0]
        rows = np.arange(self.replications)
        return np.asarray(q * (gap[rows, best] / width[rows, best])[:, None])

    def _gains(self, deviation: Array) -> Array:
        """Return (x @ deviation)^2 / 2 per cost, in units of the noise variance, (R, K)."""
        along = self._priced.dot(deviation) / self.posterior.sigma[:, None]
        if self.optimism:
            width = self.posterior.arm_widths()
            width = width if self.relative_cost is None else width / self.relative_cost
            along = np.abs(along) + np.sqrt(2.0 * np.log(self.t) * width)
        return np.asarray(0.5 * along * along)

    def _inverse_design(self, lam: Array) -> Array:
        """Return A(lam)^-1, (R, d, d), or its diagonal (R, d) for unit arms."""
        arms = self._priced
        if arms.columns is None:
            design = np.zeros((self.replications, arms.dim))
            order, starts, components = self._by_component
            design[:, components] = np.add.reduceat((lam * arms.coefficient**2)[:, order], starts, axis=1)
            return np.asarray(1.0 / (design + _RIDGE * design.mean(axis=1, keepdims=True)))
        design = np.matmul(arms.columns * lam[:, None, :], arms.columns.T)
        ridge = _RIDGE * np.trace(design, axis1=1, axis2=2) / arms.dim
        return np.linalg.inv(design + ridge[:, None, None] * np.eye(arms.dim))
