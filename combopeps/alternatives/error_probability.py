"""A rough estimate of the error probability, for looks of stopping rules; and counts of plain draws.

Where the noise was estimated, it counts as unknown: every probability is a mean over its posterior. Numbers that are
displayed come from `combopeps.alternatives.ranking`. Where every row of the oracle counts, known answers tell most of
it:

    P(Alt) = P(a known answer beats z_hat) + P(no known answer does, but another one)

The first term takes draws and products. For the second the oracle is asked about draws under which z_hat has survived:
about a few for an estimate (here), about as many as it takes for a claim (`stopping.confirm`).

Draws under which an answer is worse than the best by over epsilon, however improbable that is.

    E = {theta : max_z (z - z_hat) @ theta > epsilon} = union over z != z_hat of {(z - z_hat) @ theta - epsilon > 0}

Its complement is a polyhedron around theta_hat, as the cone of z_hat is for epsilon = 0. With one more coordinate,
theta' = (theta, 1) and z' = (z, -epsilon), z_hat' = (z_hat, 0), it is that cone: E is the set of alternatives of z_hat'
in a set Z' with an argmax of its own. So rays find the half-spaces that matter and Karp and Luby's method draws behind
them. Facets of the cone of z_hat are not enough: an answer may be worse by over epsilon than one that differs from it
in several exchanges, each of which gains less.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, isfinite, log

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives.base import AlternativeSampler, AltProbability, Question, sample_posterior
from combopeps.alternatives.budgeted_cone import SparingCone
from combopeps.alternatives.cone import Cone, Limits
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse, strictly_better
from combopeps.oracles.validation import Watch
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import DenseBelief, DiagonalBelief, GaussianBelief
from combopeps.posterior.normal import Normal
from combopeps.utils.validation import check_real

HALVINGS = 60  # of the posterior of the noise
_REST = 0.02  # of the mean over it: what lies beyond is counted as 1
_FIRST_DRAWS, _MORE_DRAWS = 64, 400  # plain draws: a first batch, and a second one
_ENOUGH_WRONG = 20  # disagreeing draws that are enough to trust them
_MAX_COORDINATES = 2_000_000  # coordinates drawn at most
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
    most = max(_FIRST_DRAWS, min(_MORE_DRAWS, _MAX_COORDINATES // oracle.dim))
    wrong = np.empty(0, dtype=bool)
    for draws, first in ((_ENOUGH_WRONG, True), (_FIRST_DRAWS - _ENOUGH_WRONG, False), (most, True)):
        thetas, inside = sample_posterior(belief, space, draws, rng)
        thetas = thetas[inside]
        found = oracle.best_answers(thetas)
        if watch is not None:
            watch.see(thetas, found)
        beaten = strictly_better(found, z_hat, thetas)
        # The second batch completes the first: early on all draws of that disagree, and cost a third.
        wrong = beaten if first else np.concatenate([wrong, beaten])
        if wrong.sum() >= _ENOUGH_WRONG:
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
        thetas, found = sampler.survey(question, _MORE_DRAWS, rng)
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
    for draws in (_FIRST_DRAWS, max(_FIRST_DRAWS, min(_MORE_DRAWS, _MAX_COORDINATES // oracle.dim))):
        if lost.sum() < _ENOUGH_WRONG:
            thetas, inside = sample_posterior(belief, space, draws, rng)
            thetas = thetas[inside]
            lost = cone.behind(thetas)
    share = _pilot(cone, thetas, lost, 0.0)
    if lost.sum() >= _ENOUGH_WRONG:
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
    return sampler.probability(belief, oracle, z_hat, rng, draws=_MORE_DRAWS, space=space, eta=eta).log_probability


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


_RAYS, _FEW_RAYS = 1024, 32  # in search of half-spaces: by an oracle that is quick, and by others


class ShiftedOracle(ArgmaxOracle):
    """Z' of the module's docstring.

    Parameters
    ----------
    oracle
        Z, on all of R^d.
    z_hat
        The answer that may be worse by epsilon.
    epsilon
        Positive.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> oracle = ShiftedOracle(TopKOracle(3, k=1), np.array([1.0, 0.0, 0.0]), 0.5)
    >>> oracle.argmax([1.0, 1.4, 0.0, 1.0]), oracle.argmax([1.0, 1.6, 0.0, 1.0])
    (array([1., 0., 0., 0.]), array([ 0. ,  1. ,  0. , -0.5]))
    """

    quick = True

    def __init__(self, oracle: ArgmaxOracle, z_hat: Array, epsilon: float) -> None:
        super().__init__(range(oracle.dim + 1))
        self.oracle, self.z_hat, self.epsilon, self.unit = oracle, np.append(z_hat, 0.0), epsilon, oracle.unit

    def _argmax_batch(self, thetas: Array) -> Array:
        inner = np.ascontiguousarray(thetas[:, :-1])
        answers = self.lifted(self.oracle.best_answers(inner))
        gain = ((answers - self.z_hat)[:, :-1] * inner).sum(axis=1)
        answers[gain <= self.epsilon * np.maximum(thetas[:, -1], 0.0)] = self.z_hat
        return answers

    def lifted(self, answers: Array) -> Array:
        """The same answers in Z', (B, d) -> (B, d + 1)."""
        lifted = np.column_stack([answers, np.full(len(answers), -self.epsilon)])
        lifted[(answers == self.z_hat[:-1]).all(axis=1)] = self.z_hat
        return lifted

    def facets(self, z: object) -> Sparse | None:
        """Every other answer, where the oracle lists all of them as facets."""
        rows = None if self.facet_count is None else self.oracle.facets(self.z_hat[:-1])
        return (
            None if rows is None else as_sparse(np.pad(rows.toarray(), ((0, 0), (0, 1)), constant_values=-self.epsilon))
        )

    @property
    def facet_count(self) -> int | None:
        """|Z| - 1, if that is how many facets the oracle lists; neighbours alone are not enough."""
        size, count = self.oracle.log_cardinality, self.oracle.facet_count
        listed = count is not None and size is not None and size.exact and count + 1 == round(exp(min(size, 30.0)))
        return count if listed else None


class ShiftedHalfSpaces:
    """E of one question on R^d: half-spaces found once, then draws behind them, at any size of the noise.

    Parameters
    ----------
    question
        Belief, oracle, answer; Theta must be R^d.
    epsilon
        Positive.
    known
        Answers that are known already, (n, d): each has a half-space without a search.
    rng
        For the search, by up to 1,024 rays, and forced deviations from the answer; where the oracle is not quick, by 32
        rays alone.

    Attributes
    ----------
    oracle_calls
        Spent on the search.
    """

    def __init__(self, question: Question, epsilon: float, known: Array, rng: np.random.Generator) -> None:
        oracle = ShiftedOracle(question.oracle, question.z_hat, epsilon)
        self._sampler = AlternativeSampler.usual()
        belief = _lifted(question.belief, Arms.of(oracle))
        self._question = Question(belief, oracle, oracle.z_hat, question.space, question.eta)
        self._cone = Cone(oracle, oracle.z_hat, question.space)
        self._cone.add(oracle.lifted(known))
        self._sampler.cone = self._cone
        if question.oracle.quick:
            self._cone.prepare(belief, 1.0, rng, Limits(max_rays=_RAYS))
        else:
            self._cone.search(belief, rng, rays=_FEW_RAYS)

    @property
    def oracle_calls(self) -> int:
        return self._cone.oracle_calls

    def survey(self, draws: int, rng: np.random.Generator, eta: float = 1.0) -> tuple[Array, AltProbability]:
        """Draws from E among so many proposals, (n, d), and P(E) as these say it: of the half-spaces known so far."""
        thetas, found = self._sampler.survey(self._question._replace(eta=eta), draws, rng)
        return np.ascontiguousarray(thetas[:, :-1]), found


def _lifted(belief: GaussianBelief, arms: Arms) -> GaussianBelief:
    """N(theta_hat, V^-1) with one more coordinate that is 1."""
    theta, spread = np.append(belief.theta_hat[0], 1.0), belief.spread[0]
    if belief.is_diagonal:
        lifted: GaussianBelief = DiagonalBelief(arms)
        lifted.become(Normal(theta, np.append(spread, 0.0)))
    else:
        lifted = DenseBelief(arms)
        lifted.become(Normal(theta, np.pad(spread, ((0, 1), (0, 1)))))
    return lifted
