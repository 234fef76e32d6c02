"""Default sampler: rejection while it is cheap, half-spaces otherwise, and few oracle calls for slow oracles.

With s = sum_f Phi(-b_f), rejection takes 1/P draws per alternative, each with d normals and an argmax (counted as 2 d
normals), and Karp and Luby's method s/P proposals, each with d normals and the evaluation of some facets, whose entries
cost a quarter of a normal each (measured, 120 to 2,200 entries). Half-spaces are cheaper as soon as

    s (d + entries of those facets / 4) < 3 d.

In a box, the facets that contain the component measured last also have to be tilted anew: entries^2 / d of a facet's,
on average, each of which costs three normals.

For an oracle that is not `quick`, `sample_with_few_calls` uses two oracle calls per alternative. A plain draw under
which a known answer beats z_hat is an alternative, and one call gives the best answer there. If there is none among a
few dozen draws, P(Alt) is small, and draws come from the known half-spaces. One of the draws under which no known
answer beats z_hat is passed to the oracle too, which is how unknown answers are found. Exact on the union of the
half-spaces known so far, as `HalfSpaceSampler` is.
"""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives.base import (
    Alternatives,
    AlternativeSampler,
    AltProbability,
    SamplingStats,
    SamplingTask,
    draw_thetas,
)
from combopeps.alternatives.budgeted_cone import BudgetedCone
from combopeps.alternatives.cone import Cone
from combopeps.alternatives.half_space import HalfSpaceSampler
from combopeps.alternatives.rejection import RejectionSampler
from combopeps.oracles.base import Array, strictly_better
from combopeps.posterior.parameter_space import RealSpace
from combopeps.utils.validation import check_count, check_kind

_FIRST_DRAWS, _MAX_DRAWS = 4, 64  # plain draws per alternative, for an oracle that is not quick
_MIN_LOG_PROBABILITY = log(1 / 16)  # ln P(Alt) from which on plain draws are tried again
_SHORT_LIST = 256  # closed-form facets up to this number are cheaper than any rejection
_TILT_COST = 3.0  # normals that take as long as an entry of a facet tilted anew
_PAUSE = 8  # calls between two comparisons of the costs, after half-spaces were found to cost more
_FORCED_CALLS = 32  # calls by half-spaces after rejection has failed: in a box s may exceed P(Alt) by far


def sample_with_few_calls(
    question: SamplingTask, n: int, rng: np.random.Generator, cone: BudgetedCone, half_space: HalfSpaceSampler
) -> Alternatives:
    """Draw n alternatives with few oracle calls; see the module."""
    memory, calls_before = cone.memory, cone.memory.chosen + cone.memory.aside
    thetas, answers, draws = _no_alternatives(cone)
    if cone.has_other_answers and not cone.is_rare:
        thetas, answers, draws = _plain_draws(question, n, rng, cone)
    if len(thetas) == n:
        calls = memory.chosen + memory.aside - calls_before
        return Alternatives(thetas, answers, SamplingStats(draws, calls, cone.size))
    rest = half_space._sample(question, n - len(thetas), rng)
    cone.is_rare = not rest.account.log_probability > _MIN_LOG_PROBABILITY
    calls = memory.chosen + memory.aside - calls_before
    account = SamplingStats(draws + rest.account.draws, calls, cone.size, rest.account.log_probability)
    return Alternatives(np.concatenate([thetas, rest.thetas]), np.concatenate([answers, rest.answers]), account)


def _beaten_mask(cone: BudgetedCone, thetas: Array, most: int) -> NDArray[np.bool_]:
    """Return under which thetas a known answer beats z_hat; at most `most` need to be found.

    While little is known, answers change often: where recent answers beat z_hat under the first draws, no facets are
    added for a new answer.
    """
    if not cone.complete and len(thetas) and cone.all_beaten_by_recent(thetas[:most]):
        return np.arange(len(thetas)) < most
    cone.refresh()
    return cone.beaten_by_known(thetas)


def _no_alternatives(cone: BudgetedCone) -> tuple[Array, Array, int]:
    """Return no alternatives, no answers and zero draws."""
    return np.empty((0, len(cone.z_hat))), np.empty((0, len(cone.z_hat))), 0


def _plain_draws(
    question: SamplingTask, n: int, rng: np.random.Generator, cone: BudgetedCone
) -> tuple[Array, Array, int]:
    """Return up to n alternatives among plain draws, their best answers, and the number of draws."""
    posterior, _, z_hat, space, eta = question
    found, answers, draws = _no_alternatives(cone)
    batch = _FIRST_DRAWS * n
    while len(found) < n and draws < _MAX_DRAWS * n:
        thetas, inside = draw_thetas(posterior, space, min(batch, _MAX_DRAWS * n - draws), rng, eta)
        draws, batch, thetas = draws + len(thetas), 4 * batch, thetas[inside]
        beaten = _beaten_mask(cone, thetas, n - len(found))
        still = (~beaten[: n - len(found)]).nonzero()[0]  # at most as many oracle calls as alternatives are missing
        if draws <= _FIRST_DRAWS * n and len(still) and cone.memory.can_afford(len(still)):
            best = cone.memory.ask(thetas[still], aside=True)
            new = strictly_better(best, z_hat, thetas[still])
            found, answers = np.concatenate([found, thetas[still[new]]]), np.concatenate([answers, best[new]])
        chosen = thetas[beaten.nonzero()[0][: n - len(found)]]
        best = cone.memory.ask(chosen, aside=False)
        found, answers = np.concatenate([found, chosen]), np.concatenate([answers, best])
    return found, answers, draws


class AutoSampler(AlternativeSampler):
    """The default sampler: exact wherever `HalfSpaceSampler` is, at the cost of the cheaper of two methods.

    A new answer begins with rejection. When that fails `tries` times in a row, P(Alt) is small: facets are searched,
    and half-spaces take over as long as the answer stays. The alternatives that rejection has found are starting points
    of that search. An oracle that is not `quick` is called rarely: see `combopeps.alternatives.auto`.

    Parameters
    ----------
    tries
        Draws that rejection may use per alternative.
    half_space
        The sampler that takes over.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> from combopeps.posterior import Arms, GaussianPosterior
    >>> oracle = TopKOracle(6, k=2)
    >>> posterior = GaussianPosterior.start(Arms.of(oracle))
    >>> AutoSampler().sample(posterior, oracle, oracle.argmax(posterior.theta_hat[0]), n=2, rng=0).thetas.shape
    (2, 6)
    """

    def __init__(self, *, tries: int = 64, half_space: HalfSpaceSampler | None = None) -> None:
        check_count("tries", tries)
        if half_space is not None:
            check_kind("half_space", half_space, HalfSpaceSampler)
        self.tries = tries
        self.half_space = half_space or HalfSpaceSampler(max_rays=512)
        self._rejection = RejectionSampler()
        self._pause = 0  # calls until half-spaces are considered again
        self._forced = 0  # calls for which they are used whatever their cost

    def _sample(self, question: SamplingTask, n: int, rng: np.random.Generator) -> Alternatives:
        posterior, oracle, _, _, eta = question
        limits, count = self.half_space.limits, oracle.facet_count
        cone = self.cone_of(question)
        self.half_space.cone = cone
        if count is not None and count <= _SHORT_LIST and limits.closed_form:
            return self.half_space._sample(question, n, rng)
        if isinstance(cone, BudgetedCone):
            return sample_with_few_calls(question, n, rng, cone, self.half_space)
        self._pause = max(0, self._pause - 1)
        if cone.explored and self._pause == 0:
            cone.sync(posterior, eta)
            self._forced = max(0, self._forced - 1)
            if self._forced or _half_spaces_are_cheaper(posterior.dim, cone):
                cone.extend(posterior, eta, rng, limits)
                return self.half_space.draw(posterior, n, rng, eta, cone)
            self._pause = _PAUSE
        thetas, answers, draws, inside, hits, calls = self._rejection.search(question, n, rng, cap=self.tries * n)
        if count is None or count > limits.max_facets or not limits.closed_form:
            cone.remember_alternatives(thetas)
        if len(thetas) == n:
            account = SamplingStats(draws, calls, log_probability=log(hits / inside))
            return Alternatives(thetas, answers, account)
        self._pause, self._forced = 0, _FORCED_CALLS
        rest = self.half_space._sample(question, n - len(thetas), rng)
        draws, calls = draws + rest.account.draws, calls + rest.account.oracle_calls
        account = replace(rest.account, draws=draws, oracle_calls=calls)
        return Alternatives(np.concatenate([thetas, rest.thetas]), np.concatenate([answers, rest.answers]), account)

    def _probability(self, question: SamplingTask, draws: int, rng: np.random.Generator) -> AltProbability:
        return self.survey(question, draws, rng)[1]

    def survey(self, question: SamplingTask, draws: int, rng: np.random.Generator) -> tuple[Array, AltProbability]:
        """Draw from the known half-spaces, and estimate P(Alt) by the proposals."""
        self.half_space.cone = self.cone_of(question)
        return self.half_space.survey(question, draws, rng)


def _half_spaces_are_cheaper(dim: int, cone: Cone) -> bool:
    """Return whether half-spaces are cheaper than rejection: the inequality of the module, in logarithms."""
    work = dim + cone.entries * (cone.evaluated_per_draw or cone.size) / 4
    if not isinstance(cone.space, RealSpace):
        work += _TILT_COST * cone.size * cone.entries**2 / dim
    return cone.log_mass + log(work) < log(3 * dim)
