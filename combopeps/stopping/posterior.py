"""`PosteriorRule`: stop when the posterior error probability is at most delta.

For oracles that are not `quick`, `error_bound` bounds the error probability with few oracle calls:

    P(Alt) = P(some known answer beats z_hat) + P(no known answer does, but another one does)

The first term is bounded by posterior draws and products with the known answers, without the oracle. For the second,
the oracle is called for draws under which no known answer beats z_hat: if it finds no better answer for n of them, the
bound is ln(1/nu) / n. The known answers are fixed before the draws are made. An answer found by a draw counts as an
error, and is known from the next attempt on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, inf, log, log1p

import numpy as np

from combopeps.alternatives.base import (
    AlternativeSampler,
    AltProbability,
    SamplingTask,
    clopper_pearson,
    draw_thetas_and_noise,
)
from combopeps.alternatives.budgeted_cone import BudgetedCone, FacetUnion
from combopeps.alternatives.cone import Limits
from combopeps.alternatives.error_probability import (
    HALVINGS,
    ShiftedHalfSpaces,
    budgeted_cone,
    oracle_beats,
    over_noise,
)
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import Array
from combopeps.posterior.noise_level import MIN_DOF
from combopeps.posterior.parameter_space import RealSpace
from combopeps.stopping.base import BayesianRule, FixedConfidenceRule, Verdict, View, describe_error
from combopeps.stopping.certificates.alpha_spending import share_at

_MONTE_CARLO_SHARE = 0.1  # of delta, for the error probability of the Monte Carlo bounds
_DRAWS_PER_DELTA = 100  # posterior draws of one look, in units of 1/delta
_MAX_DRAW_FACTOR = 20  # by which the draws are increased where the noise is estimated ...
_MAX_EXTRA_ENTRIES = 2_000_000  # ... up to this number of coordinates
_MAX_DRAWN_ENTRIES = 50_000_000  # coordinates of the posterior draws of one look
_MAX_CHEAP_ENTRIES = 1_000_000  # coordinates up to which posterior draws are the fastest method with an epsilon
_MIN_COST_RATIO = 20  # factor by which posterior draws must be cheaper than half-spaces, as they are less precise
_PROPOSALS = 4000  # draws from half-spaces
_SEARCH_CALLS = 128  # oracle calls of a search for shifted half-spaces: about four for each ray
_MAX_KNOWN_ANSWERS = 4096  # passed to `ShiftedHalfSpaces`, which does not search for them again
_MAX_DRAWS = 100_000  # posterior draws for an oracle that is not quick

# `error_bound`
_STAGES = 3  # of the binomial test, each with twice the draws of the one before
_ORACLE_BATCH = 32  # draws per oracle call: attempts that fail do so after a few batches
_CALLS_IN_RUN, _CALLS_OUTSIDE_RUN = 20, 100  # oracle calls beyond those that the run affords, in units of 1/delta
_FREE_DRAWS = 400  # draws for the first term, in units of 1/delta
_MAX_PRODUCT_ENTRIES = 200_000_000  # entries of known answers multiplied with these draws
_BATCH_ENTRIES = 2_000_000  # coordinates drawn at once


class PosteriorRule(FixedConfidenceRule, BayesianRule):
    """Stop when P(Alt | data) <= delta, under the problem's prior and normal noise.

    A cheap estimate is computed first; if it is at most delta, an upper bound decides. On plain posterior draws this is
    the Clopper-Pearson bound. Its error probability takes 0.1 delta over all looks, by the number of measurements.
    Where delta is too small for plain draws, or all facets are known, draws from the half-spaces of the facets are
    accepted with probability P(Alt) / sum Phi(-b), which is bounded in the same way. This covers the facets found so
    far; the claim states if there may be others. With an epsilon, half-spaces are shifted by it
    (`combopeps.alternatives.error_probability`), so that the cost of a look does not grow with 1/delta either.

    An oracle that is not `quick` is called for far fewer draws: the probability of answers found earlier in the run is
    bounded without it, and plain draws bound the rest. Attempts wait until the run itself has called the oracle often
    enough (see `combopeps.alternatives.answer_cache`).

    Where the noise is unknown, the probability is a mean over its posterior (see `combopeps.posterior.noise_level`),
    and plain draws decide whenever enough of them are affordable. The rule does not stop before the estimate of the
    noise has four degrees of freedom.

    A Bayesian claim holds for any number of looks. It is not a frequentist guarantee: use `CertifiedRule` or
    `VerifiedRule` for one.

    Parameters
    ----------
    delta
        Posterior probability of a wrong answer.
    epsilon
        Accept an answer whose value is at most this much worse than the best.
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

    def _decide(self, view: View) -> Verdict:
        """Compute an estimate of the error probability and, if it is at most delta, an upper bound."""
        estimate = view.error_probability(self.epsilon)
        noise_known = view.posterior.dof[0] == inf
        if estimate > self.delta or view.posterior.dof[0] < MIN_DOF:
            return Verdict(False, estimate, self.delta, error_probability=estimate)
        threshold = (1.0 - _MONTE_CARLO_SHARE) * self.delta
        nu = _MONTE_CARLO_SHARE * self.delta * share_at(view.t)
        if not view.oracle.quick:
            return self._check_with_few_calls(view, estimate, threshold, nu)
        if self.epsilon > 0.0:
            bound, calls, caveat = self._with_epsilon(view, threshold, nu)
        else:
            draws = self._draws(view)
            count = view.oracle.facet_count
            max_count = _MIN_COST_RATIO * draws * view.oracle.dim / _PROPOSALS  # each proposal is checked on all facets
            all_listed = count is not None and count <= min(Limits().max_facets, max_count)
            use_plain = draws * view.oracle.dim <= _MAX_DRAWN_ENTRIES and not (all_listed and noise_known)
            method = self._bound_by_draws if use_plain else self._bound_by_half_spaces
            bound, calls, caveat = method(view, nu)
        claim = self._claim(view) + caveat
        return Verdict(bound <= threshold, bound, threshold, calls, claim, error_probability=estimate)

    def _draws(self, view: View) -> int:
        """Return the number of posterior draws of one look."""
        draws = ceil(_DRAWS_PER_DELTA / self.delta)
        if view.posterior.dof[0] == inf:
            return draws
        # Half-spaces are looser where the noise is estimated, and more draws make the Clopper-Pearson bound tighter.
        return max(draws, min(_MAX_DRAW_FACTOR * draws, _MAX_EXTRA_ENTRIES // view.oracle.dim))

    def _bound_by_draws(self, view: View, nu: float) -> tuple[float, int, str]:
        """Compute the Clopper-Pearson bound on posterior draws."""
        draws = self._draws(view)
        hits, made = view.count_worse(draws, self.epsilon)
        return clopper_pearson(hits, made, nu) if made else 1.0, draws, ""

    def _with_epsilon(self, view: View, threshold: float, nu: float) -> tuple[float, int, str]:
        """Bound by plain draws if they are cheap; else by half-spaces first, whose cost does not grow with 1/delta.

        Half-spaces of the cone give P(Alt) P(error | Alt), which suffices where P(Alt) is small. Half-spaces shifted by
        epsilon (`combopeps.alternatives.error_probability`) suffice in general, on R^d, but some may not have been
        found. Hence plain draws decide in the end where they are affordable.
        """
        entries = ceil(_DRAWS_PER_DELTA / self.delta) * view.oracle.dim
        if entries <= _MAX_CHEAP_ENTRIES:
            return self._bound_by_draws(view, nu)
        affordable = entries <= _MAX_DRAWN_ENTRIES
        share = nu / (2.0 + affordable)
        bound, calls, caveat = self._bound_by_half_spaces(view, share)
        if bound > threshold and isinstance(view.space, RealSpace):
            other = self._bound_by_shifted(view, share)
            bound, calls, caveat = other[0], calls + other[1], other[2]
            if bound > threshold:
                return bound, calls, caveat
        if affordable and (bound > threshold or caveat):
            other = self._bound_by_draws(view, share)
            return other[0], calls + other[1], other[2]
        return bound, calls, caveat

    def _bound_by_shifted(self, view: View, nu: float) -> tuple[float, int, str]:
        """Bound P(z_hat is worse by more than epsilon) over the shifted half-spaces found."""
        question, rng = view.question, view.rng
        known = view.sampler.cone_of(question).answers(_MAX_KNOWN_ANSWERS)
        try:
            half_spaces = ShiftedHalfSpaces(question, self.epsilon, known, rng)
            bound, caveat = self._bound(view, nu, lambda eta: half_spaces.survey(_PROPOSALS, rng, eta)[1])
        except NoAlternativeError:
            return 0.0, 0, ""
        return bound, half_spaces.oracle_calls, caveat

    def _check_with_few_calls(self, view: View, estimate: float, threshold: float, nu: float) -> Verdict:
        """Decide for an oracle that is not quick, with the known answers and as few oracle calls as possible."""
        posterior, caveat = view.posterior, ""
        half_spaces = isinstance(view.space, RealSpace) or posterior.is_diagonal
        is_small = 1.0 / self.delta > _MAX_DRAWS / _DRAWS_PER_DELTA  # delta is too small for draws
        if is_small and self.epsilon == 0.0 and half_spaces:
            cone = view.sampler.cone_of(view.question)
            assert isinstance(cone, BudgetedCone)
            cone.search_in_full(posterior, view.rng)
            bound, calls, caveat = self._bound_by_half_spaces(view, nu)
        elif is_small and isinstance(view.space, RealSpace):
            cone = view.sampler.cone_of(view.question)
            assert isinstance(cone, BudgetedCone)
            if not cone.memory.can_afford(_SEARCH_CALLS):
                return Verdict(False, estimate, self.delta, error_probability=estimate)
            cone.refresh()
            bound, calls, caveat = self._bound_by_shifted(view, nu)
            cone.memory.aside += calls
        else:
            bound, calls = error_bound(
                view.sampler,
                view.question,
                view.rng,
                threshold=threshold,
                nu=_MONTE_CARLO_SHARE * self.delta,
                t=view.t,
                epsilon=self.epsilon,
                delta=self.delta,
            )
        claim = self._claim(view) + caveat
        return Verdict(bound <= threshold, bound, threshold, calls, claim, error_probability=estimate)

    def _claim(self, view: View) -> str:
        wrong = describe_error(self.epsilon)
        return f"{wrong} with posterior probability at most {self.delta:g} ({self._assumptions(view)})"

    def _bound_by_half_spaces(self, view: View, nu: float) -> tuple[float, int, str]:
        """Bound P(error) = (sum Phi(-b)) P(accepted, and an error), over the half-spaces found of the cone."""
        question, calls = view.question, 0

        def estimate_at(eta: float) -> AltProbability:
            nonlocal calls
            thetas, found = view.sampler.survey(question._replace(eta=eta), _PROPOSALS, view.rng)
            if self.epsilon == 0.0:
                return found
            calls += len(thetas)
            parts = (view.oracle.argmax(thetas) - view.z_hat) * thetas
            return replace(found, accepted=int((parts.sum(axis=1) > self.epsilon).sum()))

        try:
            bound, caveat = self._bound(view, nu, estimate_at)
        except NoAlternativeError:
            proved = isinstance(view.space, RealSpace)  # opposite rays prove that there is no other answer
            return 0.0, 0, "" if proved else ", as far as a search by rays can tell"
        return bound, calls, caveat

    def _bound(self, view: View, nu: float, estimate_at: Callable[[float], AltProbability]) -> tuple[float, str]:
        """Bound the probability, over the posterior of the noise where that is estimated."""
        posterior, estimate = view.posterior, estimate_at(1.0)
        bound = estimate.upper_bound(nu)
        if posterior.dof[0] < inf:
            bound = over_noise(posterior, lambda eta: estimate_at(eta).upper_bound(nu / HALVINGS))
        unknown = f", over the facets found: an estimated share of {estimate.missing:.1%} of the rest is unknown"
        return bound, "" if estimate.complete else unknown


def error_bound(
    sampler: AlternativeSampler,
    question: SamplingTask,
    rng: np.random.Generator,
    *,
    threshold: float,
    nu: float,
    t: int,
    epsilon: float,
    delta: float,
) -> tuple[float, int]:
    """Bound the probability that z_hat is worse than the best by more than epsilon; return also the oracle calls.

    Over all looks of a run, the bound fails with probability at most nu, half of it for each term. For the first term
    nu is spent by the number t of measurements, for the second by the number of attempts, and an attempt is counted
    before its draws are made. (Outside a run attempts are not counted, and t replaces their number.) The second term is
    a binomial test in a few stages. It ends as soon as the bound is below the threshold or is unlikely to become so, or
    the oracle calls allowed are used up. If these do not suffice for the first stage, no call is made, and the bound
    is 1.
    """
    cone = budgeted_cone(sampler, question)
    assert cone is not None
    memory = cone.memory
    free, spent = (_CALLS_OUTSIDE_RUN if memory.apart else _CALLS_IN_RUN) / delta, memory.aside
    cone.refresh()
    first = _known_bound(sampler, question, cone, rng, nu / 2.0 * share_at(t), epsilon, delta)
    room = threshold - first
    if cone.complete and epsilon == 0.0:
        return first, 0
    nu = nu / 2.0 / _STAGES * share_at(t if memory.apart else memory.attempts + 1)
    rows = ceil(log(nu) / log1p(-room)) if room > 0.0 else inf
    if room <= 0.0 or not memory.can_afford(rows, free):
        return 1.0, 0
    memory.attempts += 1
    beaten_by_known, hits, made, second = FacetUnion(cone), 0, 0, 1.0
    for stage in range(_STAGES):
        draws = int(rows) * 2**stage - made
        if stage and not (memory.can_afford(draws, free) and clopper_pearson(2 * hits, 2 * made, nu) <= room):
            break
        most = int(rows) * 2 ** (_STAGES - 1)
        for thetas in _draws(question, draws, rng):
            made += len(thetas)
            survived = thetas[~beaten_by_known(thetas, epsilon)]
            for begin in range(0, len(survived), _ORACLE_BATCH):
                hits += int(oracle_beats(cone, survived[begin : begin + _ORACLE_BATCH], epsilon).sum())
                if clopper_pearson(hits, most, nu) > room:
                    return 1.0, memory.aside - spent
        second = clopper_pearson(hits, made, nu) if made else 1.0
        if second <= room:
            break
    return min(1.0, first + second), memory.aside - spent


def _known_bound(
    sampler: AlternativeSampler,
    question: SamplingTask,
    cone: BudgetedCone,
    rng: np.random.Generator,
    nu: float,
    epsilon: float,
    delta: float,
) -> float:
    """Bound the first term without oracle calls: by half-spaces where these are exact, else by plain draws."""
    posterior, oracle, z_hat, space, _ = question
    half_spaces = isinstance(space, RealSpace) or posterior.is_diagonal
    if epsilon == 0.0 and half_spaces and posterior.dof[0] == inf:
        try:
            return sampler.probability(posterior, oracle, z_hat, rng, draws=_PROPOSALS, space=space).upper_bound(nu)
        except NoAlternativeError:
            return 0.0
    draws = ceil(_FREE_DRAWS / delta)
    draws = max(_FREE_DRAWS, min(draws, int(_MAX_PRODUCT_ENTRIES / max(1.0, cone.size * cone.entries))))
    beaten_by_known, hits, made = FacetUnion(cone), 0, 0
    for thetas in _draws(question, draws, rng):
        hits, made = hits + int(beaten_by_known(thetas, epsilon).sum()), made + len(thetas)
    return clopper_pearson(hits, made, nu) if made else 1.0


def _draws(question: SamplingTask, draws: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield posterior draws in Theta, in batches."""
    per_batch = max(1, _BATCH_ENTRIES // question.oracle.dim)
    for begin in range(0, draws, per_batch):
        thetas, inside = draw_thetas_and_noise(question.posterior, question.space, min(per_batch, draws - begin), rng)
        yield thetas[inside]
