"""A rough estimate of the error probability, for looks of stopping rules; and counts of plain draws.

Where the noise was estimated, it counts as unknown: every probability is a mean over its posterior. Numbers that are
displayed come from `combopeps.risk.ranking`.
"""

from __future__ import annotations

from math import exp, isfinite, log

import numpy as np

from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import strictly_better
from combopeps.oracles.watch import Watch
from combopeps.risk import by_memory
from combopeps.risk.base import over_noise
from combopeps.samplers.base import AlternativeSampler, Question, sample_posterior

_FEW, _MANY = 64, 400  # plain draws: a first batch, and a second one
_ENOUGH = 20  # disagreeing draws that are enough to trust them
_NUMBERS = 2_000_000  # coordinates drawn at most
_WITH_EPSILON, _SOME = 256, 8  # draws with an epsilon, and errors among them that are enough to trust them
_RARE = log(0.1)  # ln P(Alt) below which draws from Alt are the better ones
_BATCH = 1_000_000  # coordinates drawn at once


def rough_error_probability(
    sampler: AlternativeSampler,
    question: Question,
    rng: np.random.Generator,
    epsilon: float = 0.0,
    watch: Watch | None = None,
) -> float:
    """Estimate, from some hundred draws, the probability that the answer is worse than the best by over epsilon.

    1 if no draw is in Theta. By plain draws while enough of them disagree with z_hat, by the sampler of alternatives
    below that. Of an oracle that is not quick, a few rows are asked for at most: where there are none left it is a
    lower bound.
    """
    cone = by_memory.sparing_cone(sampler, question)
    if cone is not None and epsilon > 0.0:
        return by_memory.chance_worse(question, cone, rng, _WITH_EPSILON, epsilon)
    if cone is not None:
        return by_memory.chance_wrong(sampler, question, cone, rng)
    return (
        _chance_worse(sampler, question, rng, epsilon)
        if epsilon > 0.0
        else _chance_wrong(sampler, question, rng, watch)
    )


def _chance_wrong(
    sampler: AlternativeSampler, question: Question, rng: np.random.Generator, watch: Watch | None
) -> float:
    belief, oracle, z_hat, space, _ = question
    most = max(_FEW, min(_MANY, _NUMBERS // oracle.dim))
    wrong = np.empty(0, dtype=bool)
    for draws, first in ((_ENOUGH, True), (_FEW - _ENOUGH, False), (most, True)):
        thetas, inside = sample_posterior(belief, space, draws, rng)
        thetas = thetas[inside]
        found = oracle.argmax(thetas)
        if watch is not None:
            watch.see(thetas, found)
        beaten = strictly_better(found, z_hat, thetas)
        # The second batch completes the first: early on all draws of that disagree, and cost a third.
        wrong = beaten if first else np.concatenate([wrong, beaten])
        if wrong.sum() >= _ENOUGH:
            return float(wrong.mean())
    try:
        probability = over_noise(
            belief,
            lambda eta: exp(
                sampler.probability(belief, oracle, z_hat, rng, draws=most, space=space, eta=eta).log_probability
            ),
        )
    except NoAlternativeError:
        return 0.0
    return min(1.0, probability)


def _chance_worse(sampler: AlternativeSampler, question: Question, rng: np.random.Generator, epsilon: float) -> float:
    """P(Alt) P(worse by over epsilon | Alt) where P(Alt) is so small that plain draws tell less."""
    hits, draws = count_worse(question, rng, _WITH_EPSILON, epsilon)
    if not draws:
        return 1.0
    if hits >= _SOME or question.belief.dof[0] < np.inf:
        return hits / draws
    try:
        thetas, found = sampler.survey(question, _MANY, rng)
    except NoAlternativeError:
        return 0.0
    except SamplerCapError:
        return hits / draws
    if not len(thetas) or not isfinite(found.log_probability) or found.log_probability > _RARE:
        return hits / draws
    y = question.oracle.argmax(thetas) - question.z_hat
    return exp(found.log_probability) * float((np.einsum("bd,bd->b", y, thetas) > epsilon).mean())


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
