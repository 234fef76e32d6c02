"""The risk of an answer where every row of the oracle counts: answers seen before tell most of it for free.

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
from combopeps.risk.base import Doubt, most_frequent, over_noise
from combopeps.samplers.base import AlternativeSampler, Question, sample_posterior

_FEW, _MANY, _ENOUGH = 64, 400, 20  # plain draws: a first batch, a second one, and disagreeing ones that are enough
_NUMBERS = 2_000_000  # coordinates drawn at once
# Draws that the oracle is asked about for an estimate: in a run; where what is known leaves so little doubt that a rule
# may act on it; and apart from a run.
_PILOT, _CLOSE_PILOT, _LONG_PILOT, _CLOSE = 4, 16, 64, 0.25
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
    share, found = _pilot(cone, thetas, lost, 0.0)
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
    return known + (1.0 - known) * _pilot(cone, thetas, worse, epsilon)[0]


def _pilot(cone: SparingCone, thetas: Array, lost: NDArray[np.bool_], epsilon: float) -> tuple[float, Array]:
    """Of draws that no known answer has won: the share that another one wins, and those; 0 if rows do not reach."""
    survived, rows = thetas[~lost], _LONG_PILOT if cone.memory.apart else _PILOT
    if rows == _PILOT and lost.mean() <= _CLOSE and cone.memory.affords(_CLOSE_PILOT):
        rows = _CLOSE_PILOT
    rows = min(len(survived), rows)
    if cone.complete or not rows or not cone.memory.affords(rows):
        return 0.0, survived[:0]
    better, answers = ask_better(cone, survived[:rows], epsilon)
    return float(better.mean()), answers[better]


def ask_better(cone: SparingCone, thetas: Array, epsilon: float) -> tuple[NDArray[np.bool_], Array]:
    """Is the oracle's answer better than z_hat by over epsilon? And the answers."""
    answers = cone.memory.ask(thetas, aside=True)
    parts = (answers - cone.z_hat) * thetas
    return np.asarray(parts.sum(axis=1) > epsilon + 1e-13 * np.abs(parts).sum(axis=1)), answers


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
