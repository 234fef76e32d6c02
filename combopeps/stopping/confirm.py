"""`confirm`: an upper bound of the risk that spares the oracle.

    P(Alt) = P(a known answer beats z_hat) + P(no known answer does, but another one)

The first term is bounded by draws and products, without the oracle. For the second it is asked about draws under which
z_hat has survived: with no hit among n of them the bound is ln(1/nu) / n. What is known is fixed before they are drawn;
an answer that they show is a hit, and is known from the next attempt on.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, log, log1p

import numpy as np

from combopeps.certificates.spending import share_at
from combopeps.cone.sparing import Behind, SparingCone
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import Array
from combopeps.risk.estimate import ask_better, sparing_cone
from combopeps.samplers.base import AlternativeSampler, Question, clopper_pearson, sample_posterior
from combopeps.space import RealSpace

_STAGES = 3  # of the second bound, each with twice the draws of the one before
_CHUNK = 32  # rows asked for at once: an attempt that fails, fails soon
_ONCE, _APART = 20, 100  # rows for claims beyond those that a run affords, and apart from a run; times 1/delta
_FREE = 400  # draws for the first bound, times 1/delta
_WORK = 200_000_000  # entries of facets that they are multiplied with
_PROPOSALS = 4000  # behind half-spaces
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
