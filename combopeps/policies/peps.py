"""PEPS, Algorithm 1 of *Optimal Exploration is no harder than Thompson Sampling*.

1   lam_G = argmin_lam max_x |x|^2_{A(lam)^-1},   lam_1 uniform
2   V_0 = I,  S_0 = 0
3   for t = 1, 2, ...
4       gamma_t = t^-alpha
6       z_hat_t = argmax_z z @ theta_hat_t
7       theta_t ~ TN(theta_hat_t, V_{t-1}^-1 / eta_p; Theta^c_{z_hat_t})
10      x_t ~ (1 - gamma_t) lam_t + gamma_t lam_G
11      y_t = x_t @ theta* + noise
14      V_t = V_{t-1} + x_t x_t',  S_t = S_{t-1} + x_t y_t,  theta_hat_{t+1} = V_t^-1 S_t
15      lam_{t+1, x} ~ lam_{t, x} exp(eta_lambda (x @ (theta_t - theta_hat_t))^2)
17  theta~ from TN(theta_hat_{T+1}, V_T^-1; Theta);  answer argmax_z z @ theta~

Deviations from the paper, by line number; docs/method.md has the reasons, and the options for the printed algorithm:

-   The noise has any size: x and y are divided by it, in gains too. Where costs differ, lam is a distribution of the
    cost: gains are divided by the cost, and x_t ~ lam_x / cost_x. There is no horizon.
1   lam_G is within 0.1 % of the optimal value, and is computed only if `alpha` is given.
2   V_0 = I / prior_std^2 (before that division), theta_hat_1 = prior_mean.
4   gamma_t = 0 by default; t counts choices, including those without a result.
6   theta_hat is projected on Theta; ties are broken by a small random vector, fixed per run.
7   `alternatives_per_round` draws, in the half-spaces of the facets found so far where not all are known; where no
    alternative exists, the least measured arm is chosen.
10  With `tracking`, C-tracking.
14  `ask(n)` chooses n arms, and updates lam n times, before any result; V_{t-1} in line 7 includes the arms of open
    queries. Results of `observe`, of the initial design and of arms requested by a stopping rule update the posterior
    but not lam.
15  AdaHedge by default; executed before line 14, which is equivalent; `gain="projected"` is another gain. Where
    measurements are actions, follow the perturbed leader over components, whatever the options of the learner.
17  `sample_answer`; `recommend` returns argmax_z z @ theta_hat, as in line 6.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from combopeps.alternatives.base import draw_thetas_and_noise
from combopeps.errors import SamplerCapError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.allocation import AdaHedge, CTracking, Hedge, PerturbedLeader, g_optimal, per_cost
from combopeps.policies.base import Arm, Policy
from combopeps.problem import Problem
from combopeps.utils.validation import as_generator, check_choice, check_count, check_flag, check_positive, check_real


class PEPS(Policy):
    """Pure exploration with projection-free sampling.

    By default the variant of the paper's experiments: AdaHedge, eta_p = 1, no forced exploration. With `eta_lambda`
    and `alpha` it is Algorithm 1, with the deviations listed in the module docstring.

    Parameters
    ----------
    problem, rng, **options
        As for every `Policy`.
    eta_lambda
        Step size of Hedge over arms, for gains in units of the noise's variance; None for AdaHedge.
    eta_p
        The posterior covariance is divided by `eta_p` before alternatives are drawn.
    alpha
        Forced exploration: in round t the arm is drawn from the G-optimal design with probability t^-alpha; None for no
        forced exploration.
    alternatives_per_round
        Number of alternatives over which gains are averaged (paper: 1; the authors' code: 20).
    gain
        "sampled" as in the paper, (x @ (theta_t - theta_hat))^2 / noise_std^2; "projected" uses the projection of
        theta_t - theta_hat on the difference of the two answers, in the metric of V.
    tracking
        Choose arms by C-tracking of lam, instead of drawing from lam.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> identify(TopKOracle(3, k=1), [0.0, 3.0, 1.0].__getitem__, policy="peps", budget=60).answer
    {1}
    """

    learns_from_choices = True
    _learners = "learner", "_leader", "_tracker"

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        rng: int | np.random.Generator | None = None,
        *,
        eta_lambda: float | None = None,
        eta_p: float = 1.0,
        alpha: float | None = None,
        alternatives_per_round: int = 1,
        gain: Literal["sampled", "projected"] = "sampled",
        tracking: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(problem, rng, **options)
        check_choice("gain", gain, ("sampled", "projected"))
        check_count("alternatives_per_round", alternatives_per_round)
        check_positive("eta_p", eta_p)
        if eta_lambda is not None:
            check_positive("eta_lambda", eta_lambda)
        if alpha is not None:
            check_real("alpha", alpha, 0.0, np.inf, "a number of at least 0, or None for no forced exploration")
        check_flag("tracking", tracking)
        arms = len(self.problem.arms)
        self.eta_p, self.alpha, self.gain, self.tracking = eta_p, alpha, gain, tracking
        self.alternatives_per_round = alternatives_per_round
        self.learner = (
            AdaHedge(arms, self.replications) if eta_lambda is None else Hedge(arms, self.replications, eta_lambda)
        )
        self._priced = self.problem.signal.scaled(self.problem.relative_cost**-0.5)
        self._leader = PerturbedLeader(self.posterior.dim, self.replications)
        self.lam_G = g_optimal(self.problem.signal) if alpha is not None else None
        self._tracker = CTracking(arms, self.streams) if tracking else None

    def choose(self) -> Arm:
        """Execute lines 4 to 10, and the update of line 15, which does not depend on the result."""
        self.t += 1
        theta_hat, z_hat = self.posterior.theta_hat, self.z_hat()
        projected = self.gain == "projected"
        thetas, answers = self.alternatives.sample(
            self.posterior, z_hat, self.alternatives_per_round, self.eta_p, answers=projected
        )
        lam = per_cost(self.learner.lam, self.relative_cost)
        if self.lam_G is not None:
            gamma = self.t ** -float(self.alpha or 0.0)
            lam = (1.0 - gamma) * lam + gamma * self.lam_G
        arm = self.streams.draw(lam) if self._tracker is None else self._tracker.pick(lam)
        deviations = thetas - theta_hat[:, None, :]
        if projected:
            deviations = self._project(deviations, answers - z_hat[:, None, :])
        self.learner.update(self._gains(deviations))
        return arm

    def weigh(self) -> tuple[Array, None]:
        """Execute line 15 where measurements are actions: gains of actions are sums over components."""
        self.t += 1
        thetas, _ = self.alternatives.sample(self.posterior, self.z_hat(), self.alternatives_per_round, self.eta_p)
        scores = self._leader.scores(self.streams.normal(self.posterior.dim))
        self._leader.update(self._gains(thetas - self.posterior.theta_hat[:, None, :]))
        return scores, None

    def _gains(self, deviations: Array) -> Array:
        """Return (x @ deviation)^2 / cost in units of the noise, averaged over alternatives: (R, n, d) -> (R, K)."""
        if deviations.shape[1] == 1:
            along = self._priced.dot(deviations[:, 0]) / self.posterior.sigma[:, None]
            return along * along
        along = self._priced.dot(deviations) / self.posterior.sigma[:, None, None]
        return np.asarray((along * along).mean(axis=1))

    def _project(self, deviations: Array, y: Array) -> Array:
        """Return V^-1 y (y @ deviation) / |y|^2_{V^-1}, y = z(theta) - z_hat; all (R, n, d)."""
        q = np.stack([self.posterior.covariance_dot(y[:, k]) for k in range(y.shape[1])], axis=1)
        along, width = np.einsum("rnd,rnd->rn", y, deviations), np.einsum("rnd,rnd->rn", y, q)
        return np.asarray(q * (along / width)[:, :, None])

    def sample_answer(self, rng: int | np.random.Generator | None = None) -> Array:
        """Return the best answer under one draw from the posterior restricted to Theta (line 17)."""
        self._single("sample_answer")
        generator = as_generator(rng)
        for _ in range(1000):
            thetas, inside = draw_thetas_and_noise(self.posterior, self.problem.space, 64, generator)
            if inside.any():
                return self.problem.oracle.argmax(thetas[inside][0])
        raise SamplerCapError("no draw from the posterior was in Theta; is Theta far from the data?", 64_000)
