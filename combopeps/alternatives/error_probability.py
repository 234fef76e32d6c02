"""Estimates of the error probability of an answer, for the checks of stopping rules.

The answer z_hat is wrong if another one is better, or better by over epsilon:

    P(error) = P(max_z (z - z_hat) @ theta > epsilon | data)

Where the noise level was estimated, every probability is a mean over its posterior (`over_noise`). Numbers that are
displayed come from `combopeps.alternatives.answer_probabilities` instead.

**Oracles that are not `quick`.** Known answers account for most of P(Alt):

    P(Alt) = P(a known answer beats z_hat) + P(no known answer beats z_hat, but an unknown one does)

The first term takes draws and products. For the second the oracle is called for draws under which z_hat survives the
known answers: for a few of them here, for as many as a claim needs in `combopeps.stopping.posterior`.

**Improbable errors by over epsilon** (`ShiftedHalfSpaces`). The set

    E = {theta : max_z (z - z_hat) @ theta > epsilon} = union over z != z_hat of {(z - z_hat) @ theta - epsilon > 0}

is the complement of a polyhedron around theta_hat, as Alt(z_hat) is for epsilon = 0. With one more coordinate, theta' =
(theta, 1), z' = (z, -epsilon) and z_hat' = (z_hat, 0), it is the set of alternatives of z_hat' in a set Z' with an
argmax of its own (`ShiftedOracle`): rays find the half-spaces that matter, and the method of Karp and Luby draws from
their union. Facets of the cone of z_hat are not enough: an answer may be worse by over epsilon than one that differs
from it in several exchanges, each of which gains less.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import exp, isfinite, log

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives.base import AlternativeSampler, AltProbability, SamplingTask, draw_thetas_and_noise
from combopeps.alternatives.budgeted_cone import BudgetedCone
from combopeps.alternatives.cone import Cone, Limits
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse, strictly_better
from combopeps.oracles.runtime_checks import ConsistencyCheck
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import DensePosterior, DiagonalPosterior, GaussianPosterior, Normal
from combopeps.posterior.noise_level import chi_square_quantile
from combopeps.utils.validation import check_real

HALVINGS = 60  # of the posterior of the noise, at most
_MAX_REMAINDER = 0.02  # of the mean over that posterior: the last part, whose probability is counted as 1

# Plain draws: a first batch, a second one, and the number of disagreeing draws that makes them precise enough.
_FIRST_DRAWS, _MORE_DRAWS, _ENOUGH_WRONG = 64, 400, 20
_EPSILON_DRAWS, _ENOUGH_WORSE = 256, 8  # the same for errors by over epsilon, in one batch
_RARE = log(0.1)  # ln P(Alt) below which draws from Alt are more precise
_MAX_COORDINATES = 2_000_000  # of a batch of _MORE_DRAWS
_BATCH_COORDINATES = 1_000_000  # of a batch of `count_worse`

# Oracle calls of one estimate, for oracles that are not quick: within a run; within a run where the probability of the
# first term is below _NEAR_STOP, so that a rule may stop; and outside of a run.
_PILOT_ROWS, _PILOT_ROWS_NEAR_STOP, _PILOT_ROWS_OUTSIDE, _NEAR_STOP = 4, 16, 64, 0.25
_MAX_RAYS, _MAX_RAYS_SLOW = 1024, 32  # of the search for shifted half-spaces: by a quick oracle, and by others


def rough_error_probability(
    sampler: AlternativeSampler,
    question: SamplingTask,
    rng: np.random.Generator,
    epsilon: float = 0.0,
    watch: ConsistencyCheck | None = None,
) -> float:
    """Estimate, from some hundred draws, the probability that the answer is worse than the best by over epsilon.

    By plain draws as long as enough of them disagree with z_hat, by the sampler of alternatives below that. Returns 1
    if no draw is in Theta. An oracle that is not quick is called for a few thetas at most; once its budget is used up,
    the estimate is a lower bound.
    """
    cone = budgeted_cone(sampler, question)
    if cone is not None and epsilon > 0.0:
        return _epsilon_error_by_cache(question, cone, rng, _EPSILON_DRAWS, epsilon)
    if cone is not None:
        return _error_by_cache(sampler, question, cone, rng)
    if epsilon > 0.0:
        return _epsilon_error_by_oracle(sampler, question, rng, epsilon)
    return _error_by_oracle(sampler, question, rng, watch)


def _error_by_oracle(
    sampler: AlternativeSampler, question: SamplingTask, rng: np.random.Generator, watch: ConsistencyCheck | None
) -> float:
    """Estimate P(Alt) by calling the oracle for every draw."""
    posterior, oracle, z_hat, space, _ = question
    most = max(_FIRST_DRAWS, min(_MORE_DRAWS, _MAX_COORDINATES // oracle.dim))
    wrong = np.empty(0, dtype=bool)
    for draws, first in ((_ENOUGH_WRONG, True), (_FIRST_DRAWS - _ENOUGH_WRONG, False), (most, True)):
        thetas, inside = draw_thetas_and_noise(posterior, space, draws, rng)
        thetas = thetas[inside]
        found = oracle.argmax_unchecked(thetas)
        if watch is not None:
            watch.see(thetas, found)
        beaten = strictly_better(found, z_hat, thetas)
        # The two small batches are pooled: early in a run all 20 draws of the first disagree, which saves the second.
        wrong = beaten if first else np.concatenate([wrong, beaten])
        if wrong.sum() >= _ENOUGH_WRONG:
            return float(wrong.mean())
    try:
        return _by_sampler(sampler, question, rng, most)
    except NoAlternativeError:
        return 0.0


def _epsilon_error_by_oracle(
    sampler: AlternativeSampler, question: SamplingTask, rng: np.random.Generator, epsilon: float
) -> float:
    """Estimate the probability of an error by over epsilon; by draws from Alt where P(Alt) is small."""
    hits, draws = count_worse(question, rng, _EPSILON_DRAWS, epsilon)
    if not draws:
        return 1.0
    if hits >= _ENOUGH_WORSE or question.posterior.dof[0] < np.inf:
        return hits / draws
    try:
        thetas, found = sampler.survey(question, _MORE_DRAWS, rng)
    except NoAlternativeError:
        return 0.0
    except SamplerCapError:
        return hits / draws
    if not len(thetas) or not isfinite(found.log_probability) or found.log_probability > _RARE:
        return hits / draws
    y = question.oracle.argmax_unchecked(thetas) - question.z_hat
    return exp(found.log_probability) * float((np.einsum("bd,bd->b", y, thetas) > epsilon).mean())


def count_worse(question: SamplingTask, rng: np.random.Generator, draws: int, epsilon: float) -> tuple[int, int]:
    """Count posterior draws with z_hat worse than the best by over epsilon, and all draws in Theta."""
    posterior, oracle, z_hat, space, _ = question
    hits = made = 0
    per_batch = max(1, _BATCH_COORDINATES // oracle.dim)
    for begin in range(0, draws, per_batch):
        thetas, inside = draw_thetas_and_noise(posterior, space, min(per_batch, draws - begin), rng)
        if not inside.all():
            thetas = thetas[inside]
        y = oracle.argmax_unchecked(thetas) - z_hat
        gain = np.einsum("bd,bd->b", y, thetas)
        worse = np.flatnonzero(gain > epsilon)
        rounding = 1e-13 * np.einsum("bd,bd->b", np.abs(y[worse]), np.abs(thetas[worse]))
        hits += int((gain[worse] > epsilon + rounding).sum())
        made += len(thetas)
    return hits, made


def _error_by_cache(
    sampler: AlternativeSampler, question: SamplingTask, cone: BudgetedCone, rng: np.random.Generator
) -> float:
    """Estimate P(Alt) with few oracle calls; the first term alone if the budget of calls is used up."""
    posterior, oracle, _, space, _ = question
    cone.refresh()
    thetas, beaten = np.empty((0, oracle.dim)), np.empty(0, dtype=bool)
    for draws in (_FIRST_DRAWS, max(_FIRST_DRAWS, min(_MORE_DRAWS, _MAX_COORDINATES // oracle.dim))):
        if beaten.sum() < _ENOUGH_WRONG:
            thetas, inside = draw_thetas_and_noise(posterior, space, draws, rng)
            thetas = thetas[inside]
            beaten = cone.beaten_by_known(thetas)
    unknown = _share_of_unknown(cone, thetas, beaten, 0.0)
    if beaten.sum() >= _ENOUGH_WRONG:
        known = float(beaten.mean())
    else:
        try:
            known = _by_sampler(sampler, question, rng, _MORE_DRAWS)
        except NoAlternativeError:
            return unknown
    return known + (1.0 - known) * unknown


def _by_sampler(sampler: AlternativeSampler, question: SamplingTask, rng: np.random.Generator, draws: int) -> float:
    """Estimate P(Alt) by the sampler of alternatives, as a mean over the noise level."""
    posterior, oracle, z_hat, space, _ = question

    def probability(eta: float) -> float:
        found = sampler.probability(posterior, oracle, z_hat, rng, draws=draws, space=space, eta=eta)
        return exp(found.log_probability)

    return min(1.0, over_noise(posterior, probability))


def _epsilon_error_by_cache(
    question: SamplingTask, cone: BudgetedCone, rng: np.random.Generator, draws: int, epsilon: float
) -> float:
    """Estimate the probability of an error by over epsilon with few oracle calls; 1 if no draw is in Theta."""
    cone.refresh()
    thetas, inside = draw_thetas_and_noise(question.posterior, question.space, draws, rng)
    thetas = thetas[inside]
    if not len(thetas):
        return 1.0
    worse = cone.beaten_by_known(thetas, epsilon)
    known = float(worse.mean())
    return known + (1.0 - known) * _share_of_unknown(cone, thetas, worse, epsilon)


def _share_of_unknown(cone: BudgetedCone, thetas: Array, beaten: NDArray[np.bool_], epsilon: float) -> float:
    """Estimate, for draws that no known answer wins, the share that an unknown one wins.

    Returns 0 if the budget of oracle calls is used up.
    """
    survived, rows = thetas[~beaten], _PILOT_ROWS_OUTSIDE if cone.memory.apart else _PILOT_ROWS
    if rows == _PILOT_ROWS and beaten.mean() <= _NEAR_STOP and cone.memory.can_afford(_PILOT_ROWS_NEAR_STOP):
        rows = _PILOT_ROWS_NEAR_STOP
    rows = min(len(survived), rows)
    known = cone.complete and epsilon == 0.0  # facets decide which answer is best, not by how much
    if known or not rows or not cone.memory.can_afford(rows):
        return 0.0
    return float(oracle_beats(cone, survived[:rows], epsilon).mean())


def oracle_beats(cone: BudgetedCone, thetas: Array, epsilon: float) -> NDArray[np.bool_]:
    """Return whether the oracle's answer is better than z_hat by over epsilon, for each theta."""
    answers = cone.memory.ask(thetas, aside=True)
    parts = (answers - cone.z_hat) * thetas
    return np.asarray(parts.sum(axis=1) > epsilon + 1e-13 * np.abs(parts).sum(axis=1))


def budgeted_cone(sampler: AlternativeSampler, question: SamplingTask) -> BudgetedCone | None:
    """Return the run's cone of the answer if oracle calls are limited; None if the oracle is quick."""
    cone = None if question.oracle.quick else sampler.cone_of(question)
    return cone if isinstance(cone, BudgetedCone) else None


class ShiftedOracle(ArgmaxOracle):
    """The oracle of the set Z' of the module.

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
        answers = self.lift(self.oracle.argmax_unchecked(inner))
        gain = ((answers - self.z_hat)[:, :-1] * inner).sum(axis=1)
        answers[gain <= self.epsilon * np.maximum(thetas[:, -1], 0.0)] = self.z_hat
        return answers

    def lift(self, answers: Array) -> Array:
        """Return the same answers in Z', (B, d) -> (B, d + 1)."""
        lifted = np.column_stack([answers, np.full(len(answers), -self.epsilon)])
        lifted[(answers == self.z_hat[:-1]).all(axis=1)] = self.z_hat
        return lifted

    def facets(self, z: object) -> Sparse | None:
        """Return every other answer, if the oracle lists all of them as facets."""
        rows = None if self.facet_count is None else self.oracle.facets(self.z_hat[:-1])
        if rows is None:
            return None
        return as_sparse(np.pad(rows.toarray(), ((0, 0), (0, 1)), constant_values=-self.epsilon))

    @property
    def facet_count(self) -> int | None:
        """|Z| - 1 if the oracle lists so many facets; neighbours alone are not enough."""
        size, count = self.oracle.log_cardinality, self.oracle.facet_count
        listed = count is not None and size is not None and size.exact and count + 1 == round(exp(min(size, 30.0)))
        return count if listed else None


class ShiftedHalfSpaces:
    """The set E of one question on R^d: half-spaces searched once, then draws from their union at any noise level.

    Parameters
    ----------
    question
        Posterior, oracle, answer; Theta must be R^d.
    epsilon
        Positive.
    known
        Known answers, (n, d): their half-spaces need no search.
    rng
        For the search by up to 1,024 rays and by forced deviations; by 32 rays alone if the oracle is not quick.

    Attributes
    ----------
    oracle_calls
        Thetas passed to the oracle by the search.
    """

    def __init__(self, question: SamplingTask, epsilon: float, known: Array, rng: np.random.Generator) -> None:
        oracle = ShiftedOracle(question.oracle, question.z_hat, epsilon)
        self._sampler = AlternativeSampler.make_default()
        posterior = _lift_posterior(question.posterior, Arms.of(oracle))
        self._question = SamplingTask(posterior, oracle, oracle.z_hat, question.space, question.eta)
        self._cone = Cone(oracle, oracle.z_hat, question.space)
        self._cone.add(oracle.lift(known))
        self._sampler.cone = self._cone
        if question.oracle.quick:
            self._cone.prepare(posterior, 1.0, rng, Limits(max_rays=_MAX_RAYS))
        else:
            self._cone.search(posterior, rng, rays=_MAX_RAYS_SLOW)

    @property
    def oracle_calls(self) -> int:
        return self._cone.oracle_calls

    def survey(self, draws: int, rng: np.random.Generator, eta: float = 1.0) -> tuple[Array, AltProbability]:
        """Draw from E by `draws` proposals, (n, d), and estimate P(E) by them, for known half-spaces."""
        thetas, found = self._sampler.survey(self._question._replace(eta=eta), draws, rng)
        return np.ascontiguousarray(thetas[:, :-1]), found


def _lift_posterior(posterior: GaussianPosterior, arms: Arms) -> GaussianPosterior:
    """Return N(theta_hat, V^-1) with one more coordinate that is 1."""
    theta, spread = np.append(posterior.theta_hat[0], 1.0), posterior.spread[0]
    if posterior.is_diagonal:
        lifted: GaussianPosterior = DiagonalPosterior(arms)
        lifted.become(Normal(theta, np.append(spread, 0.0)))
    else:
        lifted = DensePosterior(arms)
        lifted.become(Normal(theta, np.pad(spread, ((0, 1), (0, 1)))))
    return lifted


def over_noise(posterior: GaussianPosterior, probability: Callable[[float], float]) -> float:
    """Return the mean of a probability over the posterior of the noise level, or slightly more; R = 1.

    `probability(eta)` is for a covariance divided by eta. It increases with the noise, so that its maximum over each
    half, quarter, eighth, ... of the posterior bounds it there.
    """
    dof, total, rest = posterior.dof.item(0), 0.0, 1.0
    if dof == np.inf:
        return probability(1.0)
    for _ in range(HALVINGS):
        rest /= 2.0
        total += rest * probability(float(chi_square_quantile(rest, dof)) / dof)
        if rest <= _MAX_REMAINDER * total:
            break
    return total + rest


def answer_key(z: Array) -> bytes:
    """Return a key of an answer: the indices and values of its nonzero entries."""
    chosen = np.flatnonzero(z)
    return chosen.tobytes() + z[chosen].tobytes()


def answer_of_key(key: bytes, dim: int) -> Array:
    """Return the answer of a key."""
    z = np.zeros(dim)
    _, components, entries = entries_of_keys([key])
    z[components] = entries
    return z


def entries_of_keys(keys: Collection[bytes]) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Return the numbers of nonzero entries of the answers of keys, and their indices and values, one after another."""
    sizes = np.array([len(key) // 16 for key in keys], dtype=np.intp)
    components = np.frombuffer(b"".join(key[: len(key) // 2] for key in keys), dtype=np.intp)
    return sizes, components, np.frombuffer(b"".join(key[len(key) // 2 :] for key in keys), dtype=np.float64)


def check_epsilon(epsilon: float) -> None:
    """Validate epsilon: finite and not negative."""
    check_real("epsilon", epsilon, 0.0, np.finfo(float).max, "a number that is finite and not negative")
