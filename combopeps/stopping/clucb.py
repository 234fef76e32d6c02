"""`ClucbRule`: the stopping test of CLUCB, for the measurements of any policy.

    w~(M~_t) - w~(M_t) <= epsilon

w~ are the weights within the confidence radii that are worst for the current answer M_t, and M~_t is the best answer
under w~. With probability 1 - delta, all means are within their radii at all times, for any choice of arms. The radii
rest on a union bound over components and times, which is far from tight (docs/results/stopping/samples.md).
"""

from __future__ import annotations

from combopeps.policies.baselines.clucb import check_unit_arms, confidence_sets
from combopeps.stopping.base import FixedConfidenceRule, Verdict, View
from combopeps.stopping.certificates.glr import require_identifiability


class ClucbRule(FixedConfidenceRule):
    """Stop when no answer beats the current one under any weights within the confidence radii.

    For answers that are sets of components, and arms that measure one component each, as for CLUCB itself. The rule
    uses the measurements alone, without a prior, and requests every arm once.

    Parameters
    ----------
    delta
        Bound on the probability of a wrong answer, for normal (or sub-Gaussian) noise of the stated size.
    epsilon
        Accept an answer whose value is at most this much worse than the best.
    ratio
        Factor between the times of looks.

    Examples
    --------
    >>> import numpy as np
    >>> from combopeps import Problem, TopKOracle, identify
    >>> truth, noise = {"a": 0.1, "b": 4.0, "c": 1.0}, np.random.default_rng(0)
    >>> items = Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0)
    >>> result = identify(items, lambda x: truth[x] + noise.normal(), policy="clucb", stopping="clucb")
    >>> result.answer, result.stop_reason
    ({'b'}, 'clucb')
    >>> print(result.claim)
    the answer is not the best with probability at most 0.05, for every theta (frequentist, any sampling, any time)
    """

    name = "clucb"
    requires_noise_std = proves = True
    requests_measurements = True

    @property
    def claim(self) -> str:
        """Text of the claim."""
        return self._frequentist_claim("any sampling, any time")

    def check(self, view: View) -> Verdict:
        """Test the current answer, with two oracle calls."""
        data = view.data
        if self.first_look(view):
            check_unit_arms(data.arms, 'use stopping="certified"')
            require_identifiability(view.oracle, data.arms, view.z_hat, 0.0)
        if not data.complete:
            return Verdict(False, requested_arms=data.missing)
        oracle, space, weights, totals = view.oracle, view.space, data.weights[None], data.totals[None]
        found = confidence_sets(oracle, space, data.arms, data.samples, weights, totals, delta=self.delta)
        lead = float(found.lead[0])
        return Verdict(lead <= self.epsilon, lead, self.epsilon, 2, self.claim, z=found.M[0])
