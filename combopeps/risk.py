"""How probable is it that the current answer is wrong?"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import exp

import numpy as np

from combopeps.belief.base import GaussianBelief
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import ArgmaxOracle, Array, strictly_better
from combopeps.oracles.watch import Watch
from combopeps.samplers.base import AlternativeSampler, sample_belief
from combopeps.space import ParameterSpace

_FEW, _MANY = 64, 400  # plain draws: a first batch, and a second one
_ENOUGH = 20  # disagreeing draws that are enough to trust them
_NUMBERS = 2_000_000  # coordinates drawn at most


@dataclass(frozen=True)
class Doubt:
    """Posterior probability of Alt, and the answer that is best most often there (None: no alternative exists)."""

    probability: float
    runner_up: Array | None


def doubt_about(
    sampler: AlternativeSampler,
    belief: GaussianBelief,
    oracle: ArgmaxOracle,
    z_hat: Array,
    space: ParameterSpace,
    rng: np.random.Generator,
    watch: Watch | None = None,
) -> Doubt:
    """By plain draws while enough of them disagree with z_hat, by the sampler of alternatives when it gets small."""
    most = max(_FEW, min(_MANY, _NUMBERS // oracle.dim))
    answers, wrong = np.empty((0, oracle.dim)), np.empty(0, dtype=bool)
    for draws, first in ((_ENOUGH, True), (_FEW - _ENOUGH, False), (most, True)):
        thetas, inside = sample_belief(belief, space, draws, rng)
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
            return Doubt(float(wrong.mean()), _most_frequent(answers[wrong]))
    try:
        estimate = sampler.probability(belief, oracle, z_hat, rng, draws=most, space=space)
        rivals = sampler.sample(belief, oracle, z_hat, 16, rng, space=space).answers
    except NoAlternativeError:
        return Doubt(0.0, None)
    return Doubt(min(1.0, exp(estimate.log_probability)), _most_frequent(rivals))


def _most_frequent(answers: Array) -> Array:
    counts = Counter(answer.tobytes() for answer in answers)
    return np.frombuffer(counts.most_common(1)[0][0], dtype=np.float64).copy()
