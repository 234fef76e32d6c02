"""`PosteriorRule`: the posterior probability of being wrong is at most delta."""

from __future__ import annotations

from math import ceil, inf

from combopeps.belief.level import ENOUGH
from combopeps.certificates.spending import share_at
from combopeps.cone import Limits
from combopeps.cone.sparing import SparingCone
from combopeps.errors import NoAlternativeError
from combopeps.risk import HALVINGS, over_noise
from combopeps.samplers.base import AltProbability, clopper_pearson
from combopeps.space import RealSpace
from combopeps.stopping.base import DeltaRule, Situation, Verdict, wrong_in_words
from combopeps.stopping.confirm import confirm

_MONTE_CARLO = 0.1  # share of delta for errors of the simulation
_DRAWS_PER_DELTA = 100  # plain draws, in units of 1/delta
_MORE, _AFFORDED = 20, 2_000_000  # times as many where the noise is estimated, as far as so many coordinates allow
_MOST_NUMBERS = 50_000_000  # coordinates drawn at most in one look
_MOST_DRAWS = 100_000  # of them, by an oracle that is not quick
_MUCH_CHEAPER = 20  # plain draws, which are less precise, must be by this factor
_PROPOSALS = 4000  # behind half-spaces, where delta is too small for plain draws


class PosteriorRule(DeltaRule):
    """Stop when P(Alt | data) <= delta, under the problem's prior and normal noise.

    A cheap estimate comes first; where it says yes, an upper bound decides. On plain posterior draws it is Clopper and
    Pearson's, and 0.1 delta is kept for the cases in which it fails, spent by the number of measurements. Where delta
    is too small for plain draws, or all facets are known, draws behind half-spaces are accepted with probability
    P(Alt) / sum Phi(-b): the same bound, on that probability. It covers the facets found so far; the claim says if
    there may be others.

    An oracle that does not promise to be `quick` is asked about far fewer draws: answers that the run has seen tell how
    probable they are without it, and plain draws bound what is left. Attempts wait until the run has asked for enough
    rows to choose by (see `combopeps.cone.memory`).

    Where the noise is unknown, the probability is a mean over its posterior (see `combopeps.belief.level`), and plain
    draws decide whenever there can be enough of them. Before it has four degrees of freedom the rule does not stop.

    Looking often costs nothing in a Bayesian claim. It is no frequentist guarantee: use `CertifiedRule` or
    `VerifiedRule` for that.

    Parameters
    ----------
    delta
        Posterior probability of a wrong answer.
    epsilon
        Accept an answer that is at most so much worse than the best.
    ratio
        Factor between the times of looks.

    Examples
    --------
    >>> import numpy as np
    >>> from combopeps import Problem, TopKOracle, identify
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.0}, np.random.default_rng(0)
    >>> items = Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    >>> result = identify(items, lambda x: truth[x] + noise.normal(), delta=0.1)
    >>> print(result.claim)
    the answer is not the best with posterior probability at most 0.1 (Bayesian, prior N(0, 1) in every component)
    """

    name = "posterior"

    def check(self, situation: Situation) -> Verdict:
        """An estimate, and if that says yes an upper bound at this moment's share of the Monte Carlo error."""
        self.first_look(situation)
        estimate = situation.risk(self.epsilon)
        noise_known = situation.belief.dof[0] == inf
        if estimate > self.delta or situation.belief.dof[0] < ENOUGH:
            return Verdict(False, estimate, self.delta, risk=estimate)
        threshold = (1.0 - _MONTE_CARLO) * self.delta
        nu = _MONTE_CARLO * self.delta * share_at(situation.t)
        if not situation.oracle.quick:
            return self._sparingly(situation, estimate, threshold, nu)
        draws = ceil(_DRAWS_PER_DELTA / self.delta)
        if not noise_known:  # half-spaces are less sharp there: more draws take less of delta for their own error
            draws = max(draws, min(_MORE * draws, _AFFORDED // situation.oracle.dim))
        count = situation.oracle.facet_count
        few = _MUCH_CHEAPER * draws * situation.oracle.dim / _PROPOSALS  # facets, to be looked at in each proposal
        listed = count is not None and count <= min(Limits().max_facets, few)
        plain = draws * situation.oracle.dim <= _MOST_NUMBERS and not (listed and noise_known)
        if self.epsilon > 0.0 or plain:
            hits, made = situation.count_worse(draws, self.epsilon)
            bound, calls, caveat = clopper_pearson(hits, made, nu) if made else 1.0, draws, ""
        else:
            bound, calls, caveat = self._behind_half_spaces(situation, nu)
        claim = self._claim(situation) + caveat
        return Verdict(bound <= threshold, bound, threshold, calls, claim, risk=estimate)

    def _sparingly(self, situation: Situation, estimate: float, threshold: float, nu: float) -> Verdict:
        """By what is known, and as few rows of the oracle as it takes: see `combopeps.stopping.confirm`."""
        belief, caveat = situation.belief, ""
        half_spaces = isinstance(situation.space, RealSpace) or belief.is_diagonal
        if 1.0 / self.delta > _MOST_DRAWS / _DRAWS_PER_DELTA and self.epsilon == 0.0 and half_spaces:
            cone = situation.sampler.cone_of(situation.question)
            assert isinstance(cone, SparingCone)
            cone.explore_in_full(belief, situation.rng)
            bound, calls, caveat = self._behind_half_spaces(situation, nu)
        else:
            bound, calls = confirm(
                situation.sampler,
                situation.question,
                situation.rng,
                threshold=threshold,
                nu=_MONTE_CARLO * self.delta,
                t=situation.t,
                epsilon=self.epsilon,
                delta=self.delta,
            )
        claim = self._claim(situation) + caveat
        return Verdict(bound <= threshold, bound, threshold, calls, claim, risk=estimate)

    def _claim(self, situation: Situation) -> str:
        belief, noise = situation.belief, ""
        if belief.dof[0] < inf:
            noise = f", noise estimated from the data: {belief.sigma[0]:.3g}, {belief.dof[0]:.0f} degrees of freedom"
        return (
            f"{wrong_in_words(self.epsilon)} with posterior probability at most {self.delta:g} "
            f"(Bayesian, {belief.prior_in_words}{noise})"
        )

    def _behind_half_spaces(self, situation: Situation, nu: float) -> tuple[float, int, str]:
        """P(Alt) = (sum Phi(-b)) P(accepted)."""
        belief, oracle, rng = situation.belief, situation.oracle, situation.rng
        nu = nu if belief.dof[0] == inf else nu / HALVINGS

        def estimate_at(eta: float) -> AltProbability:
            return situation.sampler.probability(
                belief, oracle, situation.z_hat, rng, draws=_PROPOSALS, space=situation.space, eta=eta
            )

        try:
            estimate = estimate_at(1.0)
            bound = estimate.upper_bound(nu)
            if belief.dof[0] < inf:
                bound = over_noise(belief, lambda eta: estimate_at(eta).upper_bound(nu))
        except NoAlternativeError:
            proved = isinstance(situation.space, RealSpace)  # opposite rays: there is no other answer
            return 0.0, 0, "" if proved else ", as far as a search by rays can tell"
        unknown = f", over the facets found: an estimated share of {estimate.missing:.1%} of the rest is unknown"
        return bound, 0, "" if estimate.complete else unknown
