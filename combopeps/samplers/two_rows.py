"""Alternatives for two rows of the oracle: what answers seen before tell for free comes first.

A plain draw under which one of them beats z_hat is an alternative, and one row says which answer is best there. Where
none of a few dozen is, P(Alt) is small, and draws come from behind the facets. Of the draws that no known answer turned
into alternatives one is asked about, while there are any: that is how unknown answers are met where they matter.
Exact on the union of the half-spaces known so far, as `HalfSpaceSampler` is.
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from combopeps.cone.sparing import SparingCone
from combopeps.oracles.base import Array, strictly_better
from combopeps.samplers.base import Account, Alternatives, Question, sample_belief
from combopeps.samplers.halfspace import HalfSpaceSampler

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
