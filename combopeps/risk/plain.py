"""How probable is it that the current answer is wrong, or worse than the best by over epsilon, and who leads then?

Where the noise was estimated, it counts as unknown: every probability is a mean over its posterior.
"""

from __future__ import annotations

from collections import Counter
from math import exp, isfinite, nan

import numpy as np

from combopeps.cone.sparing import SparingCone
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import Array, strictly_better
from combopeps.oracles.watch import Watch
from combopeps.risk import by_memory
from combopeps.risk.base import Doubt, most_frequent, over_noise, packed, unpacked
from combopeps.samplers.base import AlternativeSampler, Question, past_rounding, sample_posterior

_FEW, _MANY = 64, 400  # plain draws: a first batch, and a second one
_ENOUGH = 20  # disagreeing draws that are enough to trust them
_NUMBERS = 2_000_000  # coordinates drawn at most
_ROUGH = 256  # draws of an estimate with an epsilon
_BATCH = 1_000_000  # coordinates drawn at once
_CROWD, _FEWEST = 4096, 256  # draws in search of the leading answers: so many if they are small, and at least so many
_COORDINATES = 20_000_000  # of those draws, in between
_OPEN = 1 / 40  # share of them that must disagree with z_hat to tell how probable its rivals are


def doubt_about(
    sampler: AlternativeSampler, question: Question, rng: np.random.Generator, watch: Watch | None = None
) -> Doubt:
    """By plain draws while enough of them disagree with z_hat, by the sampler of alternatives when it gets small."""
    cone = by_memory.sparing_cone(sampler, question)
    if cone is not None:
        return by_memory.doubt(sampler, question, cone, rng)
    belief, oracle, z_hat, space, _ = question
    most = max(_FEW, min(_MANY, _NUMBERS // oracle.dim))
    answers, wrong = np.empty((0, oracle.dim)), np.empty(0, dtype=bool)
    for draws, first in ((_ENOUGH, True), (_FEW - _ENOUGH, False), (most, True)):
        thetas, inside = sample_posterior(belief, space, draws, rng)
        thetas = thetas[inside]
        found = oracle.argmax(thetas)
        if watch is not None:
            watch.see(thetas, found)
        beaten = strictly_better(found, z_hat, thetas)
        if first:
            answers, wrong = found, beaten
        else:  # the rest of a batch that began with a few: early on all of those disagree, and cost a third
            answers, wrong = np.concatenate([answers, found]), np.concatenate([wrong, beaten])
        if wrong.sum() >= _ENOUGH:
            return Doubt(float(wrong.mean()), most_frequent(answers[wrong]))
    try:
        probability = over_noise(
            belief,
            lambda eta: exp(
                sampler.probability(belief, oracle, z_hat, rng, draws=most, space=space, eta=eta).log_probability
            ),
        )
        rivals = sampler.rivals(question, 16, rng)
    except NoAlternativeError:
        return Doubt(0.0, None)
    return Doubt(min(1.0, probability), most_frequent(rivals))


def chance_worse(sampler: AlternativeSampler, question: Question, rng: np.random.Generator, epsilon: float) -> float:
    """An estimate of the probability that z_hat is worse than the best by over epsilon; 1 if no draw is in Theta."""
    cone = by_memory.sparing_cone(sampler, question)
    if cone is not None:
        return by_memory.chance_worse(question, cone, rng, _ROUGH, epsilon)
    hits, draws = count_worse(question, rng, _ROUGH, epsilon)
    return hits / draws if draws else 1.0


def count_worse(question: Question, rng: np.random.Generator, draws: int, epsilon: float) -> tuple[int, int]:
    """Draws from the belief under which z_hat is worse than the best by over epsilon, and all that are in Theta."""
    belief, oracle, z_hat, space, _ = question
    hits = made = 0
    per_batch = max(1, _BATCH // oracle.dim)
    for begin in range(0, draws, per_batch):
        thetas, inside = sample_posterior(belief, space, min(per_batch, draws - begin), rng)
        thetas = thetas[inside]
        y = oracle.argmax(thetas) - z_hat
        gain = np.einsum("bd,bd->b", y, thetas)
        rounding = 1e-13 * np.einsum("bd,bd->b", np.abs(y), np.abs(thetas))
        hits += int((gain > epsilon + rounding).sum())
        made += len(thetas)
    return hits, made


def leading(
    sampler: AlternativeSampler, question: Question, n: int, rng: np.random.Generator
) -> list[tuple[Array, float]]:
    """The n most probable answers with their posterior probabilities, in decreasing order.

        P(z) = share of draws under which z is best,   or   P(Alt(z_hat)) P(z | Alt(z_hat))   for z != z_hat

    the latter by draws behind the facets of z_hat, where hardly any plain draw disagrees with it. Estimates; NaN if no
    draw tells anything. Where the oracle is not quick, draws go to the best answer known by then (`best_known`).
    """
    cone = by_memory.sparing_cone(sampler, question)
    belief, oracle, z_hat, space, _ = question
    draws = max(_FEWEST, min(_CROWD, _COORDINATES // oracle.dim))
    seen, per_batch = Counter[bytes](), max(1, _BATCH // oracle.dim)
    for begin in range(0, draws, per_batch):
        thetas, inside = sample_posterior(belief, space, min(per_batch, draws - begin), rng)
        thetas = thetas[inside]
        seen.update(map(packed, oracle.argmax(thetas) if cone is None else by_memory.best_known(cone, thetas)))
    made, best = seen.total(), packed(z_hat)
    found = {key: count / made for key, count in seen.items()}
    if made - seen[best] <= _OPEN * made:
        found = _behind(question, cone, draws, rng) or found or {best: nan}
    order = sorted(found.items(), key=lambda item: -item[1])[:n]
    return [(unpacked(key, oracle.dim), p) for key, p in order]


def _behind(question: Question, cone: SparingCone | None, draws: int, rng: np.random.Generator) -> dict[bytes, float]:
    """z_hat and its rivals with their probabilities, by draws from Alt alone; empty if there are none."""
    belief, oracle, z_hat, space, _ = question
    usual = AlternativeSampler.usual()
    usual.cone = cone
    try:
        thetas, estimate = usual.survey(question, draws, rng)
    except NoAlternativeError:
        return {packed(z_hat): 1.0}
    except SamplerCapError:
        return {}
    if not len(thetas) or not isfinite(estimate.log_probability):
        return {}
    answers = oracle.argmax(thetas) if cone is None else by_memory.best_known(cone, thetas)
    past_rounding(oracle, z_hat, belief.theta_hat[0], space, thetas, answers)
    rivals, best = Counter(map(packed, answers)), packed(z_hat)
    del rivals[best]
    wrong = min(1.0, exp(estimate.log_probability))
    return {best: 1.0 - wrong, **{key: wrong * count / rivals.total() for key, count in rivals.items()}}
