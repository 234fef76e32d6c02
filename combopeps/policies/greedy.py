"""GreedyInformation: the arm that tells most about all rivals of the current answer together.

    gain_x = sum_f Phi(-b_f) (x' V^-1 y_f)^2 / (|y_f|^2_{V^-1} (1 + |x|^2_{V^-1})),   x_t = argmax_x gain_x / cost_x
    y_f = z_f - z_hat,   b_f = -y_f @ theta_hat / |y_f|_{V^-1}

By the formula of Sherman and Morrison the fraction is the share of |y_f|^2_{V^-1}, the uncertainty about the comparison
with rival f, that one measurement of x takes away; Phi(-b_f) is the probability that the rival is better. For one arm
per component with n_x measurements (the prior counted) it is y_fx^2 / (|y_f|^2_{V^-1} n_x (n_x + 1)).

TopTwo draws one rival and then an arm. Here nothing is drawn where the rivals can be listed: the average over all of
them is what makes the greedy choice safe, and the greedy choice is what saves samples. Nothing is proved; measured.
"""

from __future__ import annotations

import numpy as np

from combopeps.actions import Mask
from combopeps.oracles.base import Array
from combopeps.policies.base import Arm, Policy
from combopeps.policies.top_two import weigh_rivals

_TIED = 1e-9  # relative: what rounding may tell apart


class GreedyInformation(Policy):
    """The largest gain in information, averaged over the rivals of the current answer; nothing to tune.

    Rivals are the facets of the answer's cone: all of them where the oracle lists them and they are few, elsewhere
    those found so far, and the best answer under an alternative that is drawn in every round. Where measurements are
    actions it is `TopTwo`.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> identify(TopKOracle(3, k=1), [0.0, 3.0, 1.0].__getitem__, policy="greedy", budget=30).answer
    {1}
    """

    def choose(self) -> Arm:
        """The arm with the largest gain; ties are broken at random."""
        gain = self.belief.narrowing(self.alternatives.information(self.belief, self.z_hat()))
        if self.relative_cost is not None:
            gain *= self.problem.worth
        best = gain >= (1.0 - _TIED) * gain.max(axis=1, keepdims=True)
        return self.streams.draw(best.astype(np.float64))

    def weigh(self) -> tuple[Array, Mask | None]:
        """As `TopTwo`."""
        return weigh_rivals(self)
