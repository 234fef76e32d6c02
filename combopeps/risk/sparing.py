"""The risk of an answer where every row of the oracle counts: answers seen before tell most of it for free.

    P(Alt) = P(a known answer beats z_hat) + P(no known answer does, but another one)

The first term takes draws and products. It alone says "not yet" for most of a run. For the second the oracle is asked
about draws under which z_hat has survived: about a few for an estimate, and for a claim about as many as it takes, with
no hit among them n rows bound it by ln(1/nu) / n.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, exp, inf, log, log1p

import numpy as np

from combopeps.cone.sparing import Behind, SparingCone
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import Array
from combopeps.risk.base import Doubt, most_frequent, over_noise
from combopeps.samplers.base import AlternativeSampler, Question, clopper_pearson, sample_posterior
from combopeps.space import RealSpace

_FEW, _MANY, _ENOUGH = 64, 400, 20  # plain draws: a first batch, a second one, and disagreeing ones that are enough
_NUMBERS = 2_000_000  # coordinates drawn at once
_PILOT, _LONG_PILOT = 8, 64  # draws that the oracle is asked about for an estimate: in a run, and apart from one
_STAGES = 4  # of a claim, each with twice the draws of the one before
_CHUNK = 32  # rows asked for at once: a claim that fails, fails soon
_ONCE, _APART = 20, 100  # rows that claims may cost in a run beyond those it affords, and apart from one, times 1/delta
_FREE = 400  # draws that cost no row, for the first term, times 1/delta
_WORK = 200_000_000  # entries of facets that they are multiplied with
_PROPOSALS = 4000  # behind half-spaces
_BATCH, _ROWS = 64, 512  # rows in search of unknown answers that lead, at once and in all


def sparing_cone(sampler: AlternativeSampler, question: Question) -> SparingCone | None:
    """The run's own cone of the answer, if the oracle is to be spared; None if it is quick."""
    cone = None if question.oracle.quick else sampler.cone_of(question)
    return cone if isinstance(cone, SparingCone) else None


def doubt(sampler: AlternativeSampler, question: Question, cone: SparingCone, rng: np.random.Generator) -> Doubt:
    """An unbiased estimate of P(Alt), and the known answer that is best most often there."""
    belief, oracle, z_hat, space, _ = question
    cone.refresh()
    thetas, lost = np.empty((0, oracle.dim)), np.empty(0, dtype=bool)
    for draws in (_FEW, max(_FEW, min(_MANY, _NUMBERS // oracle.dim))):
        if lost.sum() < _ENOUGH:
            thetas, inside = sample_posterior(belief, space, draws, rng)
            thetas = thetas[inside]
            lost = cone.behind(thetas)
    share, found = _pilot(cone, thetas[~lost], 0.0)
    if lost.sum() >= _ENOUGH:
        known, there = float(lost.mean()), thetas[lost]
    else:
        try:
            there, _ = sampler.survey(question, _MANY, rng)
            known = over_noise(belief, lambda eta: exp(_log_probability(sampler, question, rng, eta)))
        except NoAlternativeError:
            return Doubt(share, most_frequent(found) if len(found) else None)
    rivals = cone.memory.best(there) if len(there) else found
    rivals = rivals[(rivals != z_hat).any(axis=1)]
    known = min(1.0, known)
    return Doubt(known + (1.0 - known) * share, most_frequent(rivals) if len(rivals) else None)


def _log_probability(sampler: AlternativeSampler, question: Question, rng: np.random.Generator, eta: float) -> float:
    """Of the first term."""
    belief, oracle, z_hat, space, _ = question
    return sampler.probability(belief, oracle, z_hat, rng, draws=_MANY, space=space, eta=eta).log_probability


def chance_worse(question: Question, cone: SparingCone, rng: np.random.Generator, draws: int, epsilon: float) -> float:
    """An estimate of the probability that z_hat is worse than the best by over epsilon; 1 if no draw is in Theta."""
    cone.refresh()
    thetas, inside = sample_posterior(question.belief, question.space, draws, rng)
    thetas = thetas[inside]
    if not len(thetas):
        return 1.0
    worse = cone.behind(thetas, epsilon)
    known = float(worse.mean())
    return known + (1.0 - known) * _pilot(cone, thetas[~worse], epsilon)[0]


def _pilot(cone: SparingCone, survived: Array, epsilon: float) -> tuple[float, Array]:
    """The share of a few of these thetas under which an unknown answer is better, as far as rows afford it; and those."""
    rows = min(len(survived), _LONG_PILOT if cone.memory.apart else _PILOT)
    if cone.complete or not rows or not cone.memory.affords(rows):
        return 0.0, survived[:0]
    better, answers = _ask(cone, survived[:rows], epsilon)
    return float(better.mean()), answers[better]


def _ask(cone: SparingCone, thetas: Array, epsilon: float) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], Array]:
    """Is the oracle's answer better than z_hat by over epsilon? And the answers."""
    answers = cone.memory.ask(thetas, aside=True)
    parts = (answers - cone.z_hat) * thetas
    return parts.sum(axis=1) > epsilon + 1e-13 * np.abs(parts).sum(axis=1), answers


def confirm(
    sampler: AlternativeSampler,
    question: Question,
    rng: np.random.Generator,
    *,
    threshold: float,
    nu: float,
    epsilon: float,
    delta: float,
) -> tuple[float, int]:
    """An upper bound of the probability that z_hat is worse than the best by over epsilon, and rows asked for it.

    It fails with probability at most nu. The second term is a binomial test in four stages, each with its share of nu;
    it ends as soon as the bound is below the threshold, or can hardly get there, or the rows are used up. Where they
    do not even reach for the first stage nothing is asked, and the bound is 1.
    """
    cone = sparing_cone(sampler, question)
    assert cone is not None
    memory, nu = cone.memory, nu / (1 + _STAGES)
    free, spent = (_APART if memory.apart else _ONCE) / delta, memory.aside
    cone.refresh()
    first = _known(sampler, question, cone, rng, nu, epsilon, delta)
    room = threshold - first
    if cone.complete and epsilon == 0.0:
        return first, 0
    rows = ceil(log(nu) / log1p(-room)) if room > 0.0 else inf
    if room <= 0.0 or not memory.affords(rows, free):
        return 1.0, 0
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
                hits += int(_ask(cone, survived[begin : begin + _CHUNK], epsilon)[0].sum())
                if clopper_pearson(hits, most, nu) > room:
                    return 1.0, memory.aside - spent
        second = clopper_pearson(hits, made, nu) if made else 1.0
        if second <= room:
            break
    return min(1.0, first + second), memory.aside - spent


def _draws(question: Question, draws: int, rng: np.random.Generator) -> Iterator[Array]:
    """Posterior draws in Theta, some at a time."""
    per_batch = max(1, _NUMBERS // question.oracle.dim)
    for begin in range(0, draws, per_batch):
        thetas, inside = sample_posterior(question.belief, question.space, min(per_batch, draws - begin), rng)
        yield thetas[inside]


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


def best_known(cone: SparingCone, thetas: Array) -> Array:
    """The best answer under each theta, as far as is known: the oracle is asked until it tells hardly anything new."""
    memory, asked = cone.memory, 0
    while asked < min(_ROWS, len(thetas)):
        before = memory.since(0)[1]
        memory.ask(thetas[asked : asked + _BATCH], aside=True)
        asked += _BATCH
        if memory.since(before)[1] - before <= 1:
            break
    return memory.best(thetas)
