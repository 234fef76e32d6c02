"""A rough estimate of the error probability, for looks of stopping rules; and counts of plain draws.

Where the noise was estimated, it counts as unknown: every probability is a mean over its posterior. Numbers that are
displayed come from `combopeps.risk.ranking`. Where every row of the oracle counts, known answers tell most of it:

    P(Alt) = P(a known answer beats z_hat) + P(no known answer does, but another one)

The first term takes draws and products. For the second the oracle is asked about draws under which z_hat has survived:
about a few for an estimate (here), about as many as it takes for a claim (`stopping.confirm`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, isfinite, log

import numpy as np
from numpy.typing import NDArray

from combopeps.belief import GaussianBelief
from combopeps.cone.sparing import SparingCone
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import Array, strictly_better
from combopeps.oracles.watch import Watch
from combopeps.samplers.base import AlternativeSampler, Question, sample_posterior
from combopeps.validation import check_real

HALVINGS = 60  # of the posterior of the noise
_REST = 0.02  # of the mean over it: what lies beyond is counted as 1
_FEW, _MANY = 64, 400  # plain draws: a first batch, and a second one
_ENOUGH = 20  # disagreeing draws that are enough to trust them
_NUMBERS = 2_000_000  # coordinates drawn at most
_WITH_EPSILON, _SOME = 256, 8  # draws with an epsilon, and errors among them that are enough to trust them
_RARE = log(0.1)  # ln P(Alt) below which draws from Alt are the better ones
_BATCH = 1_000_000  # coordinates drawn at once
# Draws that the oracle is asked about for an estimate: in a run; where what is known leaves so little doubt that a rule
# may act on it; and apart from a run.
_PILOT, _CLOSE_PILOT, _LONG_PILOT, _CLOSE = 4, 16, 64, 0.25


def over_noise(belief: GaussianBelief, probability: Callable[[float], float]) -> float:
    """The mean over the size of the noise (of a belief with one replication), or a little more than that.

    `probability(eta)` is for a covariance divided by eta: it grows with the noise, so that the worst of each half,
    quarter, eighth, ... of the posterior can stand for all of it.
    """
    from scipy.stats import chi2

    dof, total, rest = belief.dof.item(0), 0.0, 1.0
    if dof == np.inf:
        return probability(1.0)
    for _ in range(HALVINGS):
        rest /= 2.0
        total += rest * probability(float(chi2.ppf(rest, dof)) / dof)
        if rest <= _REST * total:
            break
    return total + rest


def packed(z: Array) -> bytes:
    """An answer by its entries that are not 0, which are few as a rule."""
    chosen = np.flatnonzero(z)
    return chosen.tobytes() + z[chosen].tobytes()


def unpacked(key: bytes, dim: int) -> Array:
    """The answer again."""
    z, half = np.zeros(dim), len(key) // 2
    z[np.frombuffer(key[:half], dtype=np.intp)] = np.frombuffer(key[half:], dtype=np.float64)
    return z


def check_epsilon(epsilon: float) -> None:
    """Refuse what no answer can be worse by."""
    check_real("epsilon", epsilon, 0.0, np.finfo(float).max, "a number that is finite and not negative")


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
    cone = sparing_cone(sampler, question)
    if cone is not None and epsilon > 0.0:
        return _known_chance_worse(question, cone, rng, _WITH_EPSILON, epsilon)
    if cone is not None:
        return _known_chance_wrong(sampler, question, cone, rng)
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
        found = oracle.best_answers(thetas)
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
        y = oracle.best_answers(thetas) - z_hat
        gain = np.einsum("bd,bd->b", y, thetas)
        rounding = 1e-13 * np.einsum("bd,bd->b", np.abs(y), np.abs(thetas))
        hits += int((gain > epsilon + rounding).sum())
        made += len(thetas)
    return hits, made


def sparing_cone(sampler: AlternativeSampler, question: Question) -> SparingCone | None:
    """The run's own cone of the answer, if the oracle is to be spared; None if it is quick."""
    cone = None if question.oracle.quick else sampler.cone_of(question)
    return cone if isinstance(cone, SparingCone) else None


def _known_chance_wrong(
    sampler: AlternativeSampler, question: Question, cone: SparingCone, rng: np.random.Generator
) -> float:
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


def _known_chance_worse(
    question: Question, cone: SparingCone, rng: np.random.Generator, draws: int, epsilon: float
) -> float:
    """As `_known_chance_wrong`, of being worse than the best by over epsilon; 1 if no draw is in Theta."""
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
