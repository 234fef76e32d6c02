"""GreedyInformation: the arm with the largest information gain, averaged over the rivals of the current answer.

    gain_x = sum_f Phi(-b_f) (x' V^-1 y_f)^2 / (|y_f|^2_{V^-1} (1 + |x|^2_{V^-1})),   x_t = argmax_x gain_x / cost_x
    y_f = z_f - z_hat,   b_f = -y_f @ theta_hat / |y_f|_{V^-1}

By the Sherman-Morrison formula the fraction is the relative reduction of |y_f|^2_{V^-1}, the variance of the comparison
with rival f, by one measurement of x; Phi(-b_f) is the posterior probability that the rival is better. For one arm per
component with n_x measurements (including the prior) the fraction is y_fx^2 / (|y_f|^2_{V^-1} n_x (n_x + 1)).

TopTwo draws one rival and then an arm. Here nothing is drawn where the rivals can be listed: the average over all
rivals ensures that no rival is neglected, and the greedy choice saves samples. There is no proof of optimality; the
evidence is from simulations.
"""

from __future__ import annotations

import numpy as np

from combopeps.actions import Mask
from combopeps.oracles.base import Array
from combopeps.policies.base import Arm, Policy
from combopeps.policies.top_two import weigh_rivals

_TIE_TOLERANCE = 1e-9  # relative difference of gains that rounding may cause


class GreedyInformation(Policy):
    """Maximise the information gain, averaged over the rivals of the current answer; no parameters to tune.

    Rivals are the facets of the answer's cone: all of them if the oracle lists them and they are few; otherwise those
    found so far, and the best answer under an alternative drawn in every round. Where measurements are actions, the
    policy is the same as `TopTwo`.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> identify(TopKOracle(3, k=1), [0.0, 3.0, 1.0].__getitem__, policy="greedy", budget=30).answer
    {1}
    """

    def choose(self) -> Arm:
        """Return the arm with the largest gain; ties are broken at random."""
        gain = self.posterior.narrowing(self.alternatives.information(self.posterior, self.z_hat()))
        if self.relative_cost is not None:
            gain *= self.problem.worth
        best = gain >= (1.0 - _TIE_TOLERANCE) * gain.max(axis=1, keepdims=True)
        return self.streams.draw(best.astype(np.float64))

    def weigh(self) -> tuple[Array, Mask | None]:
        """Return gains of components by `weigh_rivals`, as `TopTwo`."""
        return weigh_rivals(self)
