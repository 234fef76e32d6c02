"""One look at a run: what a stopping rule gets to see of a policy."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from combopeps.belief import GaussianBelief, flat_belief
from combopeps.policies.base import Policy
from combopeps.risk import Doubt
from combopeps.stopping.base import Situation


def look_at(policy: Policy, rng: np.random.Generator) -> Situation:
    """The moment at which a policy stands, under its belief and (`without_prior`) under its measurements alone."""
    data, problem, samples = policy.measurements(), policy.problem, policy.samples

    def seen(belief: GaussianBelief) -> Situation:
        z_hat = policy.z_hat(belief)[0]

        @lru_cache(maxsize=1)
        def doubt() -> Doubt:
            return policy.doubt(z_hat, samples, belief)

        at = policy.alternatives.at
        return Situation(belief, problem.oracle, z_hat, problem.space, data, doubt, rng, flat, at)

    @lru_cache(maxsize=1)
    def flat() -> Situation | None:
        belief = flat_belief(data)
        return None if belief is None else seen(belief)

    return seen(policy.belief)
