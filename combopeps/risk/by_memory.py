"""A rough estimate of the error probability where every row of the oracle counts: known answers tell most of it.

    P(Alt) = P(a known answer beats z_hat) + P(no known answer does, but another one)

The first term takes draws and products. For the second the oracle is asked about draws under which z_hat has survived:
about a few for an estimate (here), about as many as it takes for a claim (`stopping.confirm`).
"""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from combopeps.cone.sparing import SparingCone
from combopeps.errors import NoAlternativeError
from combopeps.oracles.base import Array
from combopeps.risk.base import over_noise
from combopeps.samplers.base import AlternativeSampler, Question, sample_posterior

_FEW, _MANY, _ENOUGH = 64, 400, 20  # plain draws: a first batch, a second one, and disagreeing ones that are enough
_NUMBERS = 2_000_000  # coordinates drawn at once
# Draws that the oracle is asked about for an estimate: in a run; where what is known leaves so little doubt that a rule
# may act on it; and apart from a run.
_PILOT, _CLOSE_PILOT, _LONG_PILOT, _CLOSE = 4, 16, 64, 0.25


def sparing_cone(sampler: AlternativeSampler, question: Question) -> SparingCone | None:
    """The run's own cone of the answer, if the oracle is to be spared; None if it is quick."""
    cone = None if question.oracle.quick else sampler.cone_of(question)
    return cone if isinstance(cone, SparingCone) else None


def chance_wrong(sampler: AlternativeSampler, question: Question, cone: SparingCone, rng: np.random.Generator) -> float:
    """An estimate of P(Alt); of its first term alone, if there are no rows left for the second."""
    belief, oracle, _, space, _ = question
    cone.refresh()
    thetas, lost = np.empty((0, oracle.dim)), np.empty(0, dtype=bool)
    for draws in (_FEW, max(_FEW, min(_MANY, _NUMBERS // oracle.dim))):
        if lost.sum() < _ENOUGH:
            thetas, inside = sample_posterior(belief, space, draws, rng)
            thetas = thetas[inside]
            lost = cone.behind(thetas)
    share = _pilot(cone, thetas, lost, 0.0)
    if lost.sum() >= _ENOUGH:
        known = float(lost.mean())
    else:
        try:
            known = min(1.0, over_noise(belief, lambda eta: exp(_log_probability(sampler, question, rng, eta))))
        except NoAlternativeError:
            return share
    return known + (1.0 - known) * share


def _log_probability(sampler: AlternativeSampler, question: Question, rng: np.random.Generator, eta: float) -> float:
    """Of the first term."""
    belief, oracle, z_hat, space, _ = question
    return sampler.probability(belief, oracle, z_hat, rng, draws=_MANY, space=space, eta=eta).log_probability


def chance_worse(question: Question, cone: SparingCone, rng: np.random.Generator, draws: int, epsilon: float) -> float:
    """As `chance_wrong`, of being worse than the best by over epsilon; 1 if no draw is in Theta."""
    cone.refresh()
    thetas, inside = sample_posterior(question.belief, question.space, draws, rng)
    thetas = thetas[inside]
    if not len(thetas):
        return 1.0
    worse = cone.behind(thetas, epsilon)
    known = float(worse.mean())
    return known + (1.0 - known) * _pilot(cone, thetas, worse, epsilon)


def _pilot(cone: SparingCone, thetas: Array, lost: NDArray[np.bool_], epsilon: float) -> float:
    """Of draws that no known answer has won: the share that another one wins; 0 if rows do not reach."""
    survived, rows = thetas[~lost], _LONG_PILOT if cone.memory.apart else _PILOT
    if rows == _PILOT and lost.mean() <= _CLOSE and cone.memory.affords(_CLOSE_PILOT):
        rows = _CLOSE_PILOT
    rows = min(len(survived), rows)
    known = cone.complete and epsilon == 0.0  # facets tell who is best, not by how much
    if known or not rows or not cone.memory.affords(rows):
        return 0.0
    return float(ask_better(cone, survived[:rows], epsilon).mean())


def ask_better(cone: SparingCone, thetas: Array, epsilon: float) -> NDArray[np.bool_]:
    """Is the oracle's answer better than z_hat by over epsilon?"""
    answers = cone.memory.ask(thetas, aside=True)
    parts = (answers - cone.z_hat) * thetas
    return np.asarray(parts.sum(axis=1) > epsilon + 1e-13 * np.abs(parts).sum(axis=1))
