"""The one look at a run: what a stopping rule sees at this moment, what it says, and about which answer.

situation = belief, measurements, z_hat    verdict = rule.check(situation)    P(z) = P(z is the best | data)

`identify` and campaigns look in the same way. A look has a seed of its own, so that it takes no random numbers from the
run; what it finds out about the cone of z_hat, the run keeps.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from combopeps.belief import GaussianBelief, flat_belief
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import Array
from combopeps.policies.base import Policy
from combopeps.policies.recommendation import LEADERS, Recommendation, recommendation_of
from combopeps.risk import Ranking
from combopeps.stopping.base import Situation, StoppingRule, Verdict
from combopeps.streams import named

_DRAWS = 64
_APART = 2.0  # standard deviations
_KNOWN = 0.1  # of the prior's uncertainty: a comparison that is known less well was not tried hard enough


class View:
    """A run as it stands now; its policy must not learn more while the view is in use.

    The seed is that of this look alone: `policy.streams.named(0, "look", policy.samples)`, say. The `situation` is what
    rules get to see: under the policy's belief, and (`without_prior`) under its measurements alone.
    """

    def __init__(self, policy: Policy, seed: int | np.random.SeedSequence) -> None:
        self.policy, self._seed = policy, seed
        self._rankings = dict[tuple[bytes, float], Ranking]()
        data, problem = policy.measurements(), policy.problem
        rng = np.random.default_rng(seed)

        def seen(belief: GaussianBelief) -> Situation:
            z_hat = policy.z_hat(belief)[0]

            @lru_cache(maxsize=1)
            def doubt() -> float:
                return policy.doubt(z_hat, self._generator("doubt"), belief)

            at, made = policy.alternatives.at, policy.actions_made
            return Situation(belief, problem.oracle, z_hat, problem.space, data, doubt, rng, flat, at, made, second)

        @lru_cache(maxsize=1)
        def second() -> Situation | None:
            belief = policy.second_belief()
            return None if belief is None else seen(belief)

        @lru_cache(maxsize=1)
        def flat() -> Situation | None:
            belief = flat_belief(data)
            if belief is None:
                return None
            belief.sigma, belief.dof = policy.belief.sigma, policy.belief.dof
            return seen(belief)

        self.situation = seen(policy.belief)

    def check(self, rule: StoppingRule) -> Verdict:
        """The rule's verdict, with the answer it is about; its claim, if there is one, has passed the guards."""
        rule.check_problem(self.policy.problem, self.policy.noise_estimate)
        found, z_hat = self.policy.alone(lambda: rule.check(self.situation)), self.situation.z_hat
        if not found.stop:
            return replace(found, claim="", z=z_hat)
        certified = z_hat if found.z is None else found.z  # it need not be what the prior prefers
        return replace(found, claim=self.policy.ask_tell.qualify(found.claim, not rule.proves), z=certified)

    def recommend(self, z: Array | None = None, epsilon: float = 0.0, n: int = LEADERS) -> Recommendation:
        """The current answer (or z), the most probable other one, and the probability of an error by over epsilon.

        All from one set of draws, whichever rule has looked, with up to n leading answers.
        """
        z = self.situation.z_hat if z is None else z
        key = z.tobytes(), epsilon
        if key not in self._rankings:
            self._rankings[key] = self.policy.rank(self._generator("ranking"), epsilon=epsilon, z=z, own_cone=True)
        return recommendation_of(self.situation.oracle, self._rankings[key], n)

    def rough_error_probability(self, epsilon: float = 0.0) -> float:
        """Of the current answer, from some hundred draws."""
        now = self.situation
        return now.doubt() if epsilon == 0.0 else replace(now, rng=np.random.default_rng(self._seed)).risk(epsilon)

    def tied(self) -> list[Any]:
        """Answers that the measurements do not tell from the current one."""
        return self.policy.alone(lambda: tied_answers(self.policy, self._generator("ties")))

    @property
    def pulls(self) -> dict[Hashable, int]:
        """How often each arm was measured, by label."""
        policy = self.policy
        return {label: int(n) for label, n in zip(policy.problem.arms.labels, policy.pulls[0], strict=True)}

    def _generator(self, name: str) -> np.random.Generator:
        return np.random.default_rng(named(self._seed, name))


def tied_answers(policy: Policy, rng: np.random.Generator) -> list[Any]:
    """Rivals whose gap to the current answer is within two standard deviations, although it is known well.

    Known well: to a tenth of what the prior allowed, or one measurement where the prior is estimated. Short runs have
    no ties, they are just short.
    """
    belief, oracle, z_hat = policy.belief, policy.problem.oracle, policy.z_hat()[0]
    try:
        sampler = policy.alternatives.at(z_hat)
        rivals = sampler.sample(belief, oracle, z_hat, _DRAWS, rng, space=policy.problem.space)
    except (NoAlternativeError, SamplerCapError):
        return []
    tied, before = [], belief.prior_std
    if belief.prior is not None:  # which is narrow where components are nearly equal
        before = np.maximum(before, belief.sigma.item(0) * float(np.median(policy.problem.noise)))
    for z in np.unique(rivals.answers, axis=0):
        y = z - z_hat
        width = float(y @ belief.covariance_dot(y[None])[0]) ** 0.5
        prior_width = float(np.linalg.norm(y * before))
        if abs(float(y @ belief.theta_hat[0])) <= _APART * width and width <= _KNOWN * prior_width:
            tied.append(oracle.decode(z))
    return tied
