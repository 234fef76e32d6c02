"""`PosteriorRule`: the posterior probability of being wrong is at most delta.

`confirm`: an upper bound of the risk that spares the oracle.

    P(Alt) = P(a known answer beats z_hat) + P(no known answer does, but another one)

The first term is bounded by draws and products, without the oracle. For the second it is asked about draws under which
z_hat has survived: with no hit among n of them the bound is ln(1/nu) / n. What is known is fixed before they are drawn;
an answer that they show is a hit, and is known from the next attempt on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import ceil, inf, log, log1p

import numpy as np

from combopeps.alternatives.base import AlternativeSampler, AltProbability, Question, clopper_pearson, sample_posterior
from combopeps.alternatives.budgeted_cone import Behind, SparingCone
from combopeps.alternatives.cone import Limits
from combopeps.alternatives.error_probability import HALVINGS, ShiftedHalfSpaces, ask_better, over_noise, sparing_cone
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import Array
from combopeps.posterior.noise_level import ENOUGH
from combopeps.posterior.parameter_space import RealSpace
from combopeps.stopping.base import DeltaRule, Verdict, View, wrong_in_words
from combopeps.stopping.certificates.alpha_spending import share_at

_STAGES = 3  # of the second bound, each with twice the draws of the one before
_CHUNK = 32  # rows asked for at once: an attempt that fails, fails soon
_ONCE, _APART = 20, 100  # rows for claims beyond those that a run affords, and apart from a run; times 1/delta
_FREE = 400  # draws for the first bound, times 1/delta
_WORK = 200_000_000  # entries of facets that they are multiplied with
_NUMBERS = 2_000_000  # coordinates drawn at once


def confirm(
    sampler: AlternativeSampler,
    question: Question,
    rng: np.random.Generator,
    *,
    threshold: float,
    nu: float,
    t: int,
    epsilon: float,
    delta: float,
) -> tuple[float, int]:
    """An upper bound of the probability that z_hat is worse than the best by over epsilon, and rows asked for it.

    Over all looks at a run together it fails with probability at most nu, half of it for each term. For the first term
    that is spent by the number t of measurements, for the second by attempts, each of which is decided on before its
    draws are made. (Apart from a run nobody counts attempts, and t stands for them.) The second term is a binomial test
    in a few stages. It ends as soon as the bound is below the threshold, or can hardly get there, or the rows are used
    up. Where they do not even suffice for the first stage nothing is asked, and the bound is 1.
    """
    cone = sparing_cone(sampler, question)
    assert cone is not None
    memory = cone.memory
    free, spent = (_APART if memory.apart else _ONCE) / delta, memory.aside
    cone.refresh()
    first = _known(sampler, question, cone, rng, nu / 2.0 * share_at(t), epsilon, delta)
    room = threshold - first
    if cone.complete and epsilon == 0.0:
        return first, 0
    nu = nu / 2.0 / _STAGES * share_at(t if memory.apart else memory.attempts + 1)
    rows = ceil(log(nu) / log1p(-room)) if room > 0.0 else inf
    if room <= 0.0 or not memory.affords(rows, free):
        return 1.0, 0
    memory.attempts += 1
    known, hits, made, second = Behind(cone), 0, 0, 1.0
    for stage in range(_STAGES):
        draws = int(rows) * 2**stage - made
        if stage and not (memory.affords(draws, free) and clopper_pearson(2 * hits, 2 * made, nu) <= room):
            break
        most = int(rows) * 2 ** (_STAGES - 1)
        for thetas in _draws(question, draws, rng):
            made += len(thetas)
            survived = thetas[~known(thetas, epsilon)]
            for begin in range(0, len(survived), _CHUNK):
                hits += int(ask_better(cone, survived[begin : begin + _CHUNK], epsilon).sum())
                if clopper_pearson(hits, most, nu) > room:
                    return 1.0, memory.aside - spent
        second = clopper_pearson(hits, made, nu) if made else 1.0
        if second <= room:
            break
    return min(1.0, first + second), memory.aside - spent


def _known(
    sampler: AlternativeSampler,
    question: Question,
    cone: SparingCone,
    rng: np.random.Generator,
    nu: float,
    epsilon: float,
    delta: float,
) -> float:
    """An upper bound of the first term, without a row: behind half-spaces where that is exact, else by plain draws."""
    belief, oracle, z_hat, space, _ = question
    half_spaces = isinstance(space, RealSpace) or belief.is_diagonal
    if epsilon == 0.0 and half_spaces and belief.dof[0] == inf:
        try:
            return sampler.probability(belief, oracle, z_hat, rng, draws=_PROPOSALS, space=space).upper_bound(nu)
        except NoAlternativeError:
            return 0.0
    draws = ceil(_FREE / delta)
    draws = max(_FREE, min(draws, int(_WORK / max(1.0, cone.size * cone.entries))))
    behind, hits, made = Behind(cone), 0, 0
    for thetas in _draws(question, draws, rng):
        hits, made = hits + int(behind(thetas, epsilon).sum()), made + len(thetas)
    return clopper_pearson(hits, made, nu) if made else 1.0


def _draws(question: Question, draws: int, rng: np.random.Generator) -> Iterator[Array]:
    """Posterior draws in Theta, some at a time."""
    per_batch = max(1, _NUMBERS // question.oracle.dim)
    for begin in range(0, draws, per_batch):
        thetas, inside = sample_posterior(question.belief, question.space, min(per_batch, draws - begin), rng)
        yield thetas[inside]


_MONTE_CARLO = 0.1  # share of delta for errors of the simulation
_DRAWS_PER_DELTA = 100  # plain draws, in units of 1/delta
_MORE, _AFFORDED = 20, 2_000_000  # times as many where the noise is estimated, as far as so many coordinates allow
_MOST_NUMBERS = 50_000_000  # coordinates drawn at most in one look
_FEW_NUMBERS = 1_000_000  # up to which plain draws are the quickest way with an epsilon
_ROWS_OF_A_SEARCH = 128  # for shifted half-spaces, by an oracle that is not quick: about four for each ray
_MOST_KNOWN = 4096  # answers that need no search
_MOST_DRAWS = 100_000  # of them, by an oracle that is not quick
_MUCH_CHEAPER = 20  # plain draws, which are less precise, must be by this factor
_PROPOSALS = 4000  # behind half-spaces, where delta is too small for plain draws


class PosteriorRule(DeltaRule):
    """Stop when P(Alt | data) <= delta, under the problem's prior and normal noise.

    A cheap estimate comes first; where it says yes, an upper bound decides. On plain posterior draws it is Clopper and
    Pearson's, and 0.1 delta is kept for the cases in which it fails, spent by the number of measurements. Where delta
    is too small for plain draws, or all facets are known, draws behind half-spaces are accepted with probability
    P(Alt) / sum Phi(-b): the same bound, on that probability. It covers the facets found so far; the claim says if
    there may be others. With an epsilon, half-spaces are shifted by it (`combopeps.alternatives.error_probability`):
    the cost of a look
    does not grow with 1/delta either.

    An oracle that does not promise to be `quick` is asked about far fewer draws: answers that the run has seen tell how
    probable they are without it, and plain draws bound what is left. Attempts wait until the run has asked for enough
    rows to choose by (see `combopeps.alternatives.answer_cache`).

    Where the noise is unknown, the probability is a mean over its posterior (see `combopeps.posterior.noise_level`),
    and plain
    draws decide whenever there can be enough of them. Before it has four degrees of freedom the rule does not stop.

    Where the prior is estimated, the claim has to hold under two estimates of it (see
    `combopeps.posterior.HierarchicalPrior`): one alone makes claims too sure, depending on the set of answers.

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

    def check(self, view: View) -> Verdict:
        """An estimate, and if that says yes an upper bound at this moment's share of the Monte Carlo error."""
        self.first_look(view)
        found = self._decide(view)
        second = view.under_second_prior() if found.stop else None
        if second is None:
            return found
        if not np.array_equal(second.z_hat, view.z_hat):
            return replace(found, stop=False, statistic=1.0)
        other = self._decide(second)
        calls = found.oracle_calls + other.oracle_calls
        return replace(
            found, stop=other.stop, statistic=max(found.statistic, other.statistic), oracle_calls=calls
        )  # fmt: skip

    def _decide(self, view: View) -> Verdict:
        """Whether the claim holds under the belief of this view."""
        estimate = view.risk(self.epsilon)
        noise_known = view.belief.dof[0] == inf
        if estimate > self.delta or view.belief.dof[0] < ENOUGH:
            return Verdict(False, estimate, self.delta, risk=estimate)
        threshold = (1.0 - _MONTE_CARLO) * self.delta
        nu = _MONTE_CARLO * self.delta * share_at(view.t)
        if not view.oracle.quick:
            return self._sparingly(view, estimate, threshold, nu)
        if self.epsilon > 0.0:
            bound, calls, caveat = self._with_epsilon(view, threshold, nu)
        else:
            draws = self._draws(view)
            count = view.oracle.facet_count
            few = _MUCH_CHEAPER * draws * view.oracle.dim / _PROPOSALS  # facets, to be looked at in each proposal
            listed = count is not None and count <= min(Limits().max_facets, few)
            plain = draws * view.oracle.dim <= _MOST_NUMBERS and not (listed and noise_known)
            find = self._plain if plain else self._behind_half_spaces
            bound, calls, caveat = find(view, nu)
        claim = self._claim(view) + caveat
        return Verdict(bound <= threshold, bound, threshold, calls, claim, risk=estimate)

    def _draws(self, view: View) -> int:
        """Plain draws of one look."""
        draws = ceil(_DRAWS_PER_DELTA / self.delta)
        if view.belief.dof[0] == inf:
            return draws
        # Half-spaces are less sharp where the noise is estimated: more draws take less of delta for their own error.
        return max(draws, min(_MORE * draws, _AFFORDED // view.oracle.dim))

    def _plain(self, view: View, nu: float) -> tuple[float, int, str]:
        """Clopper and Pearson's bound, by plain draws."""
        draws = self._draws(view)
        hits, made = view.count_worse(draws, self.epsilon)
        return clopper_pearson(hits, made, nu) if made else 1.0, draws, ""

    def _with_epsilon(self, view: View, threshold: float, nu: float) -> tuple[float, int, str]:
        """By plain draws where they are few; else by half-spaces first, so that the cost does not grow with 1/delta.

        Half-spaces of the cone give P(Alt) P(error | Alt), which suffices where P(Alt) is small. Half-spaces shifted by
        epsilon (`combopeps.alternatives.error_probability`) suffice in general, on R^d; those that were found may not
        be all there are.
        So where plain draws are affordable they decide, when half-spaces have said yes.
        """
        numbers = ceil(_DRAWS_PER_DELTA / self.delta) * view.oracle.dim
        if numbers <= _FEW_NUMBERS:
            return self._plain(view, nu)
        affordable = numbers <= _MOST_NUMBERS
        share = nu / (2.0 + affordable)
        bound, calls, caveat = self._behind_half_spaces(view, share)
        if bound > threshold and isinstance(view.space, RealSpace):
            other = self._behind_shifted(view, share)
            bound, calls, caveat = other[0], calls + other[1], other[2]
            if bound > threshold:
                return bound, calls, caveat
        if affordable and (bound > threshold or caveat):
            other = self._plain(view, share)
            return other[0], calls + other[1], other[2]
        return bound, calls, caveat

    def _behind_shifted(self, view: View, nu: float) -> tuple[float, int, str]:
        """An upper bound of P(worse by over epsilon), over the half-spaces found."""
        question, rng = view.question, view.rng
        known = view.sampler.cone_of(question).answers(_MOST_KNOWN)
        try:
            half_spaces = ShiftedHalfSpaces(question, self.epsilon, known, rng)
            bound, _, caveat = self._bound(view, nu, lambda eta: half_spaces.survey(_PROPOSALS, rng, eta)[1])
        except NoAlternativeError:
            return 0.0, 0, ""
        return bound, half_spaces.oracle_calls, caveat

    def _sparingly(self, view: View, estimate: float, threshold: float, nu: float) -> Verdict:
        """By what is known, and as few rows of the oracle as it takes: see `combopeps.stopping.posterior`."""
        belief, caveat = view.belief, ""
        half_spaces = isinstance(view.space, RealSpace) or belief.is_diagonal
        small = 1.0 / self.delta > _MOST_DRAWS / _DRAWS_PER_DELTA
        if small and self.epsilon == 0.0 and half_spaces:
            cone = view.sampler.cone_of(view.question)
            assert isinstance(cone, SparingCone)
            cone.explore_in_full(belief, view.rng)
            bound, calls, caveat = self._behind_half_spaces(view, nu)
        elif small and isinstance(view.space, RealSpace):
            cone = view.sampler.cone_of(view.question)
            assert isinstance(cone, SparingCone)
            if not cone.memory.affords(_ROWS_OF_A_SEARCH):
                return Verdict(False, estimate, self.delta, risk=estimate)
            cone.refresh()
            bound, calls, caveat = self._behind_shifted(view, nu)
            cone.memory.aside += calls
        else:
            bound, calls = confirm(
                view.sampler,
                view.question,
                view.rng,
                threshold=threshold,
                nu=_MONTE_CARLO * self.delta,
                t=view.t,
                epsilon=self.epsilon,
                delta=self.delta,
            )
        claim = self._claim(view) + caveat
        return Verdict(bound <= threshold, bound, threshold, calls, claim, risk=estimate)

    def _claim(self, view: View) -> str:
        belief, noise = view.belief, ""
        if belief.dof[0] < inf:
            noise = f", noise estimated from the data: {belief.sigma[0]:.3g}, {belief.dof[0]:.0f} degrees of freedom"
        return (
            f"{wrong_in_words(self.epsilon)} with posterior probability at most {self.delta:g} "
            f"(Bayesian, {belief.prior_in_words}{noise})"
        )

    def _behind_half_spaces(self, view: View, nu: float) -> tuple[float, int, str]:
        """P(error) = (sum Phi(-b)) P(accepted, and an error): over the half-spaces of the cone that were found."""
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
            bound, _, caveat = self._bound(view, nu, estimate_at)
        except NoAlternativeError:
            proved = isinstance(view.space, RealSpace)  # opposite rays: there is no other answer
            return 0.0, 0, "" if proved else ", as far as a search by rays can tell"
        return bound, calls, caveat

    def _bound(self, view: View, nu: float, estimate_at: Callable[[float], AltProbability]) -> tuple[float, int, str]:
        """From proposals at some sizes of the noise."""
        belief, estimate = view.belief, estimate_at(1.0)
        bound = estimate.upper_bound(nu)
        if belief.dof[0] < inf:
            bound = over_noise(belief, lambda eta: estimate_at(eta).upper_bound(nu / HALVINGS))
        unknown = f", over the facets found: an estimated share of {estimate.missing:.1%} of the rest is unknown"
        return bound, 0, "" if estimate.complete else unknown
