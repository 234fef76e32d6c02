"""TopTwo: draw a challenger of the current answer, then an arm by its information about the comparison.

    y = z_hat - z(theta_t),   q = V^-1 y,   p_x ~ n_x (x @ q)^2 / cost_x,   n_x = 1 + pulls of x

p_x cost_x is the share of arm x in the information about the comparison: n_x dC/dn_x for C = gap^2 / (2 |y|^2_{V^-1}).
Where costs differ, an arm that is parallel to one with more information per cost is never chosen: the shares alone
would abandon it slowly. The rule satisfies the optimality conditions of tau* in the limit. Optimality is proved for
Gaussian best-arm identification (You, Qin, Wang, Yang); for combinatorial sets it is supported by simulations only.
"""

from __future__ import annotations

import numpy as np

from combopeps.actions import Mask
from combopeps.oracles.base import Array
from combopeps.policies.base import Arm, Policy

# Challengers per round with actions, where the best action is hard to find.
_MIN_CHALLENGERS, _MAX_CHALLENGERS = 2, 32
_MAX_CHALLENGER_ENTRIES = 8_000  # memory of their answers, between these limits
_CHALLENGER_INTERVAL = 8  # actions between two sampled challengers where rivals are listed


class TopTwo(Policy):
    """Top-two sampling with information-directed selection of the arm; no parameters to tune.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> identify(TopKOracle(3, k=1), [0.0, 3.0, 1.0].__getitem__, policy="top-two", budget=30).answer
    {1}
    """

    def choose(self) -> Arm:
        """Draw one challenger and one arm per replication."""
        z_hat = self.z_hat()
        _, challenger = self.alternatives.sample(self.posterior, z_hat, 1, answers=True)
        along = self.problem.signal.dot(self.posterior.covariance_dot(z_hat - challenger[:, 0]))
        share = (1.0 + self.weights) * along * along
        if self.relative_cost is not None:
            share *= self.problem.worth
        return self.streams.draw(share)

    def weigh(self) -> tuple[Array, Mask | None]:
        """Return gains of components by `weigh_rivals`."""
        return weigh_rivals(self)


def weigh_rivals(policy: Policy) -> tuple[Array, Mask | None]:
    """Return the information gain of one result of every component, averaged over rivals of the current answer, (R, d).

    Rivals are the known facets if the best action can be computed exactly; otherwise sampled challengers, which are
    returned too, since they may be good actions themselves.
    """
    z_hat, posterior = policy.z_hat(), policy.posterior
    if policy._action_set.finds_best:
        challenge = policy.actions.item(0) % _CHALLENGER_INTERVAL == 0
        return posterior.narrowing(policy.alternatives.information(posterior, z_hat, challenge=challenge)), None
    count = max(_MIN_CHALLENGERS, min(_MAX_CHALLENGERS, _MAX_CHALLENGER_ENTRIES // posterior.dim))
    _, answers = policy.alternatives.sample(posterior, z_hat, count, answers=True)
    y = z_hat[:, None] - answers
    along = posterior.spread[:, None] * y
    gains = np.einsum("rmd,rm->rd", along * along, 1.0 / np.einsum("rmd,rmd->rm", along, y)) / policy.problem.noise**2
    return gains, np.concatenate([z_hat[:, None], answers], axis=1) != 0.0
