"""TopTwo: the current answer, a sampled challenger, and the arm that tells the two apart.

    y = z_hat - z(theta_t),   q = V^-1 y,   p_x ~ n_x (x @ q)^2 / cost_x,   n_x = 1 + pulls of x

p_x cost_x is the share of arm x in the information about the comparison: n_x dC/dn_x for C = gap^2 / (2 |y|^2_{V^-1}).
Where costs differ, an arm along the same line as one that tells more per cost is never chosen: the shares alone would
leave it slowly. The rule satisfies the optimality conditions of tau* in the limit. Optimality is proved for Gaussian
best-arm identification (You, Qin, Wang, Yang); here it is motivated by that, and measured.
"""

from __future__ import annotations

import numpy as np

from combopeps.actions import Mask
from combopeps.oracles.base import Array
from combopeps.policies.base import Arm, Policy

_FEWEST, _MOST = 2, 32  # challengers in a round with actions, where the best one is hard to find
_ENTRIES = 8_000  # of their answers, in between
_PAUSE = 8  # actions from one challenger to the next where known rivals are weighed: each shows many components


class TopTwo(Policy):
    """Information-directed choice between the current answer and one alternative; nothing to tune.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> identify(TopKOracle(3, k=1), [0.0, 3.0, 1.0].__getitem__, policy="top-two", budget=30).answer
    {1}
    """

    def choose(self) -> Arm:
        """One challenger per replication."""
        z_hat = self.z_hat()
        _, challenger = self.alternatives.sample(self.belief, z_hat, 1, answers=True)
        along = self.problem.signal.dot(self.belief.covariance_dot(z_hat - challenger[:, 0]))
        share = (1.0 + self.weights) * along * along
        if self.relative_cost is not None:
            share *= self.problem.worth
        return self.streams.draw(share)

    def weigh(self) -> tuple[Array, Mask | None]:
        """By all known rivals, or by several challengers per replication."""
        return weigh_rivals(self)


def weigh_rivals(policy: Policy) -> tuple[Array, Mask | None]:
    """How much one more result of every component tells about the rivals of the answer, averaged over them, (R, d).

    Where the best action is hard to find, over some that are drawn: these may be actions themselves.
    """
    z_hat, belief = policy.z_hat(), policy.belief
    if policy._action_set.finds_best:
        challenge = policy.actions.item(0) % _PAUSE == 0
        return belief.narrowing(policy.alternatives.information(belief, z_hat, challenge=challenge)), None
    _, answers = policy.alternatives.sample(
        belief, z_hat, max(_FEWEST, min(_MOST, _ENTRIES // belief.dim)), answers=True
    )
    y = z_hat[:, None] - answers
    along = belief.spread[:, None] * y
    gains = np.einsum("rmd,rm->rd", along * along, 1.0 / np.einsum("rmd,rmd->rm", along, y)) / policy.problem.noise**2
    return gains, np.concatenate([z_hat[:, None], answers], axis=1) != 0.0
