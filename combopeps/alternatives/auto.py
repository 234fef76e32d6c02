"""Rejection while it is cheap, half-spaces after.

With s = sum_f Phi(-b_f), rejection takes 1/P draws for an alternative, each with d normals and an argmax (counted as
2 d more), and Karp and Luby's method s/P proposals, each with d normals and a look at some facets, whose entries take a
quarter of the time of a normal each (measured, 120 to 2,200 entries). So half-spaces are the cheaper way as soon as

    s (d + entries of those facets / 4) < 3 d.

In a box, the facets that hold the component measured last have to be tilted anew: entries^2 / d of a facet's, on
average, each of which takes the time of three normals.

Alternatives for two rows of the oracle: what answers seen before tell for free comes first.

A plain draw under which one of them beats z_hat is an alternative, and one row says which answer is best there. Where
none of a few dozen is, P(Alt) is small, and draws come from behind the facets. Of the draws that no known answer turned
into alternatives one is asked about, while there are any: that is how unknown answers are met where they matter.
Exact on the union of the half-spaces known so far, as `HalfSpaceSampler` is.
"""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives.base import (
    Account,
    Alternatives,
    AlternativeSampler,
    AltProbability,
    Question,
    sample_belief,
)
from combopeps.alternatives.budgeted_cone import SparingCone
from combopeps.alternatives.cone import Cone
from combopeps.alternatives.half_space import HalfSpaceSampler
from combopeps.alternatives.rejection import RejectionSampler
from combopeps.oracles.base import Array, strictly_better
from combopeps.posterior.parameter_space import RealSpace
from combopeps.utils.validation import check_count, check_kind

_FIRST, _TRIES = 4, 64  # plain draws for one alternative: in a first batch, and at most
_OFTEN = log(1 / 16)  # P(Alt) from which on plain draws are tried again


def sample_sparingly(
    question: Question, n: int, rng: np.random.Generator, cone: SparingCone, half_space: HalfSpaceSampler
) -> Alternatives:
    """n alternatives, with their best answers and the account."""
    memory, spent = cone.memory, cone.memory.chosen + cone.memory.aside
    thetas, answers, draws = _plain(question, n, rng, cone) if cone.has_rivals and not cone.rare else _none(cone)
    if len(thetas) == n:
        calls = memory.chosen + memory.aside - spent
        return Alternatives(thetas, answers, Account(draws, calls, cone.size))
    rest = half_space._sample(question, n - len(thetas), rng)
    cone.rare = not rest.account.log_probability > _OFTEN
    calls = memory.chosen + memory.aside - spent
    account = Account(draws + rest.account.draws, calls, cone.size, rest.account.log_probability)
    return Alternatives(np.concatenate([thetas, rest.thetas]), np.concatenate([answers, rest.answers]), account)


def _lost(cone: SparingCone, thetas: Array, most: int) -> NDArray[np.bool_]:
    """Under which thetas a known answer beats z_hat; nobody needs to know of more than so many.

    Answers come and go while little is known: where the first draws will do, no facet of a new one is listed.
    """
    if not cone.complete and len(thetas) and cone.plainly_behind(thetas[:most]):
        return np.arange(len(thetas)) < most
    cone.refresh()
    return cone.behind(thetas)


def _none(cone: SparingCone) -> tuple[Array, Array, int]:
    return np.empty((0, len(cone.z_hat))), np.empty((0, len(cone.z_hat))), 0


def _plain(question: Question, n: int, rng: np.random.Generator, cone: SparingCone) -> tuple[Array, Array, int]:
    """Up to n alternatives among plain draws, their best answers, and how many were drawn."""
    belief, _, z_hat, space, eta = question
    found, answers, draws = _none(cone)
    batch = _FIRST * n
    while len(found) < n and draws < _TRIES * n:
        thetas, inside = sample_belief(belief, space, min(batch, _TRIES * n - draws), rng, eta)
        draws, batch, thetas = draws + len(thetas), 4 * batch, thetas[inside]
        lost = _lost(cone, thetas, n - len(found))
        still = (~lost[: n - len(found)]).nonzero()[0]  # as many as are asked about at most
        if draws <= _FIRST * n and len(still) and cone.memory.affords(len(still)):
            best = cone.memory.ask(thetas[still], aside=True)
            new = strictly_better(best, z_hat, thetas[still])
            found, answers = np.concatenate([found, thetas[still[new]]]), np.concatenate([answers, best[new]])
        chosen = thetas[lost.nonzero()[0][: n - len(found)]]
        best = cone.memory.ask(chosen, aside=False)
        found, answers = np.concatenate([found, chosen]), np.concatenate([answers, best])
    return found, answers, draws


_SHORT_LIST = 256  # closed-form facets up to this number are cheaper than any rejection
_CARRIED = 3.0  # normals
_PAUSE = 8  # calls after half-spaces were found not to pay, until that is worked out again
_TRUST = 32  # calls after rejection has failed, whatever s is: in a box it may be far more than P(Alt)


class AutoSampler(AlternativeSampler):
    """The default sampler: exact wherever `HalfSpaceSampler` is, and never slow.

    A new answer begins with rejection. When that fails `tries` times in a row, P(Alt) is small: facets are looked
    for, and half-spaces take over as long as the answer stays. Facets on the way to what rejection has found are
    kept for that moment. An oracle that is not `quick` is asked as rarely as can be: see `combopeps.alternatives.auto`.

    Parameters
    ----------
    tries
        Draws that rejection may spend on one alternative.
    half_space
        The sampler that takes over.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> from combopeps.posterior import Arms, GaussianBelief
    >>> oracle = TopKOracle(6, k=2)
    >>> belief = GaussianBelief.start(Arms.of(oracle))
    >>> AutoSampler().sample(belief, oracle, oracle.argmax(belief.theta_hat[0]), n=2, rng=0).thetas.shape
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
        self._trusted = 0  # calls that they are sure to be used

    def _sample(self, question: Question, n: int, rng: np.random.Generator) -> Alternatives:
        belief, oracle, _, _, eta = question
        limits, count = self.half_space.limits, oracle.facet_count
        cone = self.cone_of(question)
        self.half_space.cone = cone
        if count is not None and count <= _SHORT_LIST and limits.closed_form:
            return self.half_space._sample(question, n, rng)
        if isinstance(cone, SparingCone):
            return sample_sparingly(question, n, rng, cone, self.half_space)
        self._pause = max(0, self._pause - 1)
        if cone.explored and self._pause == 0:
            cone.sync(belief, eta)
            self._trusted = max(0, self._trusted - 1)
            if self._trusted or _half_spaces_pay(belief.dim, cone):
                cone.extend(belief, eta, rng, limits)
                return self.half_space.draw(belief, n, rng, eta, cone)
            self._pause = _PAUSE
        thetas, answers, draws, inside, hits, calls = self._rejection.search(question, n, rng, cap=self.tries * n)
        if count is None or count > limits.max_facets or not limits.closed_form:
            cone.remember(thetas)
        if len(thetas) == n:
            account = Account(draws, calls, log_probability=log(hits / inside))
            return Alternatives(thetas, answers, account)
        self._pause, self._trusted = 0, _TRUST
        rest = self.half_space._sample(question, n - len(thetas), rng)
        draws, calls = draws + rest.account.draws, calls + rest.account.oracle_calls
        account = replace(rest.account, draws=draws, oracle_calls=calls)
        return Alternatives(np.concatenate([thetas, rest.thetas]), np.concatenate([answers, rest.answers]), account)

    def _probability(self, question: Question, draws: int, rng: np.random.Generator) -> AltProbability:
        return self.survey(question, draws, rng)[1]

    def survey(self, question: Question, draws: int, rng: np.random.Generator) -> tuple[Array, AltProbability]:
        """By half-spaces."""
        self.half_space.cone = self.cone_of(question)
        return self.half_space.survey(question, draws, rng)


def _half_spaces_pay(dim: int, cone: Cone) -> bool:
    """The inequality above, in logarithms."""
    work = dim + cone.entries * (cone.looks or cone.size) / 4
    if not isinstance(cone.space, RealSpace):
        work += _CARRIED * cone.size * cone.entries**2 / dim
    return cone.log_mass + log(work) < log(3 * dim)
