"""How probable is it that the current answer is wrong?"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import numpy as np

from combopeps.belief.base import GaussianBelief
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import ArgmaxOracle, Array, strictly_better
from combopeps.samplers.base import sample_belief
from combopeps.samplers.halfspace import HalfSpaceSampler
from combopeps.space import ParameterSpace

_DRAWS = 400
_ENOUGH = 20  # hits that make plain draws good enough


@dataclass(frozen=True)
class Doubt:
    """Posterior probability of Alt, and the answer that is best most often there (None: no alternative exists)."""

    probability: float
    runner_up: Array | None


def error_probability(
    belief: GaussianBelief, oracle: ArgmaxOracle, z_hat: Array, space: ParameterSpace, rng: np.random.Generator
) -> Doubt:
    """By plain draws while enough of them disagree with z_hat, by half-spaces when it gets small."""
    thetas, inside = sample_belief(belief, space, _DRAWS, rng)
    thetas = thetas[inside]
    answers = oracle.argmax(thetas)
    wrong = strictly_better(answers, z_hat, thetas)
    if wrong.sum() >= _ENOUGH:
        return Doubt(float(wrong.mean()), _most_frequent(answers[wrong]))
    try:
        sampler = HalfSpaceSampler()
        estimate = sampler.probability(belief, oracle, z_hat, rng, draws=_DRAWS, space=space)
        rivals = sampler.sample(belief, oracle, z_hat, 32, rng, space=space).answers
    except NoAlternativeError:
        return Doubt(0.0, None)
    return Doubt(min(1.0, exp(estimate.log_probability)), _most_frequent(rivals))


def _most_frequent(answers: Array) -> Array:
    values, counts = np.unique(answers, axis=0, return_counts=True)
    return np.asarray(values[counts.argmax()])
