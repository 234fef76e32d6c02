"""Posterior probabilities of answers, and of an error, from one set of draws.

    P(z) = P(z is best | data),   P(error) = P(loss > epsilon | data),   loss = max_z' z' @ theta - z @ theta

together with the expected loss E[loss | data] of choosing z now.

All displayed numbers about an answer come from here, so that they agree: with epsilon = 0 the error probability is
1 - P(z), the runner-up is the most probable other answer, and P(component i is in the best answer) is the sum of P(z)
over the answers that contain i. Each estimate has a 95 % interval of its Monte Carlo error.

Where few plain draws disagree with z, draws from Alt(z) replace them (Karp and Luby's method, from the facets of its
cone), with P(z') = P(Alt) P(z' is best | Alt). Where few show an error by over epsilon, P(error) is that of half-spaces
shifted by epsilon (`combopeps.alternatives.error_probability`). An oracle that is not `quick` is called for some draws
only:

    P(z') = sum_g P(g) [ r_g P(z' is the best known answer | g) + P(z' is best, and was not known | g) ]

over the two groups g of draws, under which z is, or is not, the best known answer. r_g is the share of calls that
confirm the best known answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from math import exp, hypot, inf, isfinite, isnan, nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives.base import (
    AlternativeSampler,
    AltProbability,
    SamplingTask,
    draw_thetas_and_noise,
    move_off_boundary,
)
from combopeps.alternatives.budgeted_cone import BudgetedCone, FacetUnion
from combopeps.alternatives.error_probability import (
    ShiftedHalfSpaces,
    answer_key,
    answer_of_key,
    budgeted_cone,
    entries_of_keys,
)
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import Array
from combopeps.oracles.runtime_checks import ConsistencyCheck
from combopeps.posterior.noise_level import chi_square_quantile
from combopeps.posterior.parameter_space import RealSpace
from combopeps.utils.formatting import Proportion

Interval = tuple[float, float]

_MAX_DRAWS, _MIN_DRAWS = 2048, 128  # the standard error of a share is below 0.011, and 0.044
_MAX_COORDINATES = 2_000_000  # of all draws, between these two numbers of draws
_BATCH_COORDINATES = 1_000_000  # drawn at once
_EARLY_DRAWS, _EARLY_SHARE = 256, 0.25  # draws, if a larger share of the first batch disagrees with the answer
_MIN_WRONG, _MIN_WRONG_SHARE = 20, 1 / 40  # disagreeing draws from which on plain draws are precise enough
_MAX_KNOWN = 512  # answers whose half-spaces are shifted without a search
_ROWS_PER_BATCH, _MAX_BATCHES = 64, 4  # of calls of an oracle that is not quick
_FEW_NEW, _MANY_NEW = 0.05, 0.95  # share of unknown answers in a batch, below or above which batches end
_KNOWN_LOSS_DRAWS = 256
_MAX_PRODUCTS = 1_000_000_000  # of draws with known answers
_MAX_SCORES = 4_000_000  # at once
_MAX_HALVINGS, _MAX_REMAINDER = 60, 0.01  # of the posterior of the noise; share of the mean that may be left out
_NODES = 0.5 - 12**-0.5, 0.5 + 12**-0.5  # of the Gauss-Legendre rule with two points on [0, 1]
_MIN_LOG_PROBABILITY = -690.0  # 1e-300
_Z = 1.959963984540054  # standard normal quantile of two-sided 95 %


@dataclass(frozen=True)
class Ranked:
    """An answer, and the posterior probability that it is best."""

    z: Array
    probability: float
    interval: Interval


class Estimate(NamedTuple):
    """An estimate, and the standard error of its Monte Carlo error; NaN for both if no draw is in Theta."""

    mean: float
    error: float

    @property
    def interval(self) -> Interval:
        """95 % interval of a quantity that is not negative."""
        return (0.0, inf) if isnan(self.error) else (max(0.0, self.mean - _Z * self.error), self.mean + _Z * self.error)

    @classmethod
    def of_mean(cls, total: float, squares: float, n: int) -> Estimate:
        """Return the mean of n draws, given their sum and the sum of their squares."""
        mean = total / n
        return cls(mean, sqrt(max(0.0, squares / n - mean * mean) / n))

    def plus(self, other: Estimate) -> Estimate:
        """Return the sum with an independent estimate."""
        return Estimate(self.mean + other.mean, hypot(self.error, other.error))


@dataclass(frozen=True)
class Ranking:
    """Estimates for an answer z from one set of draws.

    Attributes
    ----------
    z
        The answer.
    error_probability, interval
        Estimated P(error), and a 95 % interval of its Monte Carlo error. NaN, and (0, 1), if no draw is in Theta.
    loss
        Estimated E[loss], with its standard error.
    best, wrong_interval
        P(z') with its standard error, by `answer_key`, the most probable first; and the interval of 1 - P(z).
    """

    z: Array
    error_probability: float
    interval: Interval
    loss: Estimate
    best: dict[bytes, tuple[float, float]] = field(repr=False)
    wrong_interval: Interval = field(repr=False)

    def top(self, n: int) -> list[Ranked]:
        """Return the n most probable answers, in decreasing order."""
        own = answer_key(self.z)
        return [
            Ranked(
                answer_of_key(key, len(self.z)),
                p,
                (1.0 - self.wrong_interval[1], 1.0 - self.wrong_interval[0]) if key == own else _logit_interval(p, std),
            )
            for key, (p, std) in islice(self.best.items(), n)
        ]

    @property
    def probability(self) -> float:
        """P(z)."""
        return self.best.get(answer_key(self.z), (0.0, 0.0))[0]

    @property
    def inclusion(self) -> Array:
        """P(component is in the best answer), (d,)."""
        sizes, components, _ = entries_of_keys(self.best)
        shares = np.repeat([p for p, _ in self.best.values()], sizes)
        return np.clip(np.bincount(components, shares, minlength=len(self.z)), 0.0, 1.0)

    @property
    def runner_up(self) -> Array | None:
        """The most probable answer other than z; None if no draw has another best answer."""
        own = answer_key(self.z)
        other = next((key for key in self.best if key != own), None)
        return None if other is None else answer_of_key(other, len(self.z))

    def ordered(self, theta_hat: Array) -> Ranking:
        """Return the ranking with answers in decreasing order of P(z'); of equally probable ones the better first."""
        sizes, components, entries = entries_of_keys(self.best)
        ends = np.cumsum(sizes)
        sums = np.concatenate([[0.0], np.cumsum(entries * theta_hat[components])])
        order = np.lexsort((sums[ends - sizes] - sums[ends], [-p for p, _ in self.best.values()]))
        items = list(self.best.items())
        return replace(self, best=dict(items[i] for i in order.tolist()))


def rank_answers(
    sampler: AlternativeSampler,
    question: SamplingTask,
    rng: np.random.Generator,
    epsilon: float = 0.0,
    watch: ConsistencyCheck | None = None,
) -> Ranking:
    """Estimate P(error) of the question's answer, and P(z') of every answer that is best under some draw.

    Uses 2,048 draws; 256 if more than a quarter of the first 128 disagree with the answer; fewer above 976 components,
    128 at least. An oracle that is not quick is called for 64 to 256 draws.
    """
    cone = budgeted_cone(sampler, question)
    if cone is None:
        found = _by_oracle(sampler, question, rng, epsilon, watch)
    else:
        found = _by_known_answers(sampler, question, cone, rng, epsilon)
    return found.ordered(question.posterior.theta_hat[0])


def _draw_count(dim: int) -> int:
    return max(_MIN_DRAWS, min(_MAX_DRAWS, _MAX_COORDINATES // dim))


def _draws(question: SamplingTask, n: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield posterior draws in Theta, in batches that double: the first are small, for early stops and compilation."""
    most, made = max(1, _BATCH_COORDINATES // question.oracle.dim), 0
    while made < n:
        thetas, inside = draw_thetas_and_noise(
            question.posterior, question.space, min(max(made, _MIN_DRAWS), most, n - made), rng
        )
        made += len(thetas)
        yield thetas[inside]


def _gains_over(answers: Array, z: Array, thetas: Array) -> Array:
    """Return (z' - z) @ theta, row by row; 0 if it is below rounding."""
    parts = (answers - z) * thetas
    gain = parts.sum(axis=1)
    return np.asarray(np.where(gain > 1e-13 * np.abs(parts).sum(axis=1), gain, 0.0))


def _by_oracle(
    sampler: AlternativeSampler,
    question: SamplingTask,
    rng: np.random.Generator,
    epsilon: float,
    watch: ConsistencyCheck | None,
) -> Ranking:
    """Rank by calling the oracle for every draw."""
    oracle, z = question.oracle, question.z_hat
    n, own = _draw_count(oracle.dim), answer_key(z)
    enough = max(_MIN_WRONG, _MIN_WRONG_SHARE * n)
    counts, made, errors, early = Counter[bytes](), 0, 0, False
    losses = squares = 0.0
    beaten: list[tuple[Array, Array]] = []  # draws under which z is not best, while they are few
    for thetas in _draws(question, n, rng):
        answers = oracle.argmax(thetas)
        if watch is not None:
            watch.see(thetas, answers)
        gain = _gains_over(answers, z, thetas)
        is_beaten = gain > 0.0
        counts.update(map(answer_key, answers[is_beaten]))
        made, errors = made + len(thetas), errors + int((gain > epsilon).sum())
        losses, squares = losses + float(gain.sum()), squares + float(gain @ gain)
        if counts.total() < enough:
            beaten.append((thetas[is_beaten], answers[is_beaten]))
        early = early or (made <= _MIN_DRAWS and counts.total() > _EARLY_SHARE * made)
        if early and made >= _EARLY_DRAWS:
            break
    wrong = counts.total()
    found = _by_half_spaces(sampler, question, rng, epsilon, n, beaten, made) if wrong < enough else None
    if found is None and not made:
        return _unknown(z)
    if found is None:
        counts[own] = made - wrong
        best = {key: _proportion(count, made) for key, count in counts.items() if count}
        loss = Estimate.of_mean(losses, squares, made) if wrong else Estimate(0.0, nan)
        found = Ranking(z, errors / made, _wilson(errors, made), loss, best, _wilson(wrong, made))
    if epsilon > 0.0 and errors < enough and isinstance(question.space, RealSpace):
        return _with_rare_errors(question, rng, epsilon, found, _wilson(errors, made)[0])
    return found


def _with_rare_errors(
    question: SamplingTask, rng: np.random.Generator, epsilon: float, found: Ranking, least: float
) -> Ranking:
    """Replace P(error) by an estimate from draws of shifted half-spaces, if that is consistent.

    `least` is a lower bound of P(error) by plain draws.
    """
    top = found.ordered(question.posterior.theta_hat[0]).top(_MAX_KNOWN)
    known = np.array([one.z for one in top]).reshape(-1, question.oracle.dim)
    try:
        half_spaces = ShiftedHalfSpaces(question, epsilon, known, rng)

        def survey(at: SamplingTask, n: int) -> tuple[Array, AltProbability]:
            return half_spaces.survey(n, rng, at.eta)

        parts = _draw_strata(survey, question, _draw_count(question.oracle.dim))
    except NoAlternativeError:
        return found
    if parts is None:
        return found
    total, error = _weighted_mean(parts)
    low, high = total * exp(-_Z * error), total * exp(_Z * error)
    if high < least or low > found.wrong_interval[1]:  # half-spaces are missing, or too few draws
        return found
    wrong = 1.0 - found.probability
    return replace(found, error_probability=min(total, wrong), interval=(min(low, wrong), min(1.0, high)))


@dataclass(frozen=True)
class _Stratum:
    """Draws from Alt at one noise level: its weight, P(Alt) with its relative standard error, and the draws."""

    weight: float
    probability: float
    relative_error: float
    thetas: Array


Survey = Callable[[SamplingTask, int], tuple[Array, AltProbability]]


def _draw_strata(survey: Survey, question: SamplingTask, n: int) -> list[_Stratum] | None:
    """Draw from a set such as Alt at several noise levels if the noise is unknown; None if the draws give no estimate.

    P(Alt) increases fast with the noise: halves, quarters, eighths, ... of the posterior of the noise level are
    integrated one by one, until the remainder is negligible.
    """
    dof = question.posterior.dof.item(0)
    if dof == np.inf:
        found = _draw_stratum(survey, question, n, 1.0)
        return None if found is None else [found]
    strata, total, rest = list[_Stratum](), 0.0, 1.0
    for _ in range(_MAX_HALVINGS):
        for node in _NODES:
            eta = float(chi_square_quantile(rest * (1.0 - 0.5 * node), dof)) / dof
            found = _draw_stratum(survey, question._replace(eta=eta), max(_MIN_DRAWS, n // 16), rest / 4.0)
            if found is None:
                return None
            strata.append(found)
            total += found.weight * found.probability
        rest /= 2.0
        if rest * strata[-1].probability <= _MAX_REMAINDER * total:
            break
    return strata


def _draw_stratum(survey: Survey, question: SamplingTask, n: int, weight: float) -> _Stratum | None:
    try:
        thetas, found = survey(question, n)
    except SamplerCapError:
        return None
    if not len(thetas) or not isfinite(found.log_probability):
        return None
    probability = exp(min(0.0, max(_MIN_LOG_PROBABILITY, found.log_probability)))
    return _Stratum(weight, probability, found.relative_error, thetas)


@dataclass(frozen=True)
class _RareEstimate:
    """Estimates from draws of Alt where P(Alt) is small.

    P(Alt) with its relative standard error, P(error | Alt) with the number of draws, P(z') of the other answers, and
    E[loss].
    """

    probability: float
    relative_error: float
    errors: float
    draws: int
    best: dict[bytes, tuple[float, float]]
    loss: Estimate

    @property
    def interval(self) -> Interval:
        """95 % interval of P(Alt)."""
        spread = exp(_Z * self.relative_error)
        return self.probability / spread, min(1.0, self.probability * spread)


def _weighted_mean(parts: list[_Stratum]) -> tuple[float, float]:
    """Return the probability over all noise levels, and its relative standard error."""
    total = sum(part.weight * part.probability for part in parts)
    return total, hypot(*(part.weight * part.probability * part.relative_error for part in parts)) / total


def _combine_strata(parts: list[_Stratum], winners: list[tuple[Array, Array]], epsilon: float) -> _RareEstimate | None:
    """Combine draws of all noise levels, given their best answers and how much better than z these are."""
    total, error = _weighted_mean(parts)
    best, squares, errors, draws = defaultdict[bytes, float](float), defaultdict[bytes, float](float), 0.0, 0
    loss = Estimate(0.0, 0.0)
    for part, (answers, gain) in zip(parts, winners, strict=True):
        if not len(answers):
            continue
        each = part.weight * part.probability / total / len(answers)
        draws += len(answers)
        errors += each * float((gain > epsilon).sum())
        mean, std = float(gain.mean()), float(gain.std()) / len(gain) ** 0.5
        scale = part.weight * part.probability
        loss = loss.plus(Estimate(scale * mean, scale * hypot(std, mean * part.relative_error)))
        for key, count in Counter(map(answer_key, answers)).items():
            best[key] += each * count
            squares[key] += each * each * count
    if not draws:
        return None
    found = {key: (total * p, total * hypot(squares[key] ** 0.5, p * error)) for key, p in best.items()}
    return _RareEstimate(min(1.0, total), error, min(1.0, errors), draws, found, loss)


def _by_half_spaces(
    sampler: AlternativeSampler,
    question: SamplingTask,
    rng: np.random.Generator,
    epsilon: float,
    n: int,
    beaten: list[tuple[Array, Array]],
    made: int,
) -> Ranking | None:
    """Rank by draws from the known half-spaces, and by the plain draws outside of them; None if the former fail."""
    posterior, oracle, z, space, _ = question
    try:
        parts = _draw_strata(lambda at, draws: sampler.survey(at, draws, rng), question, n)
    except NoAlternativeError:
        return None if sum(len(thetas) for thetas, _ in beaten) else _only_answer(z)
    if parts is None:
        return None
    winners = list[tuple[Array, Array]]()
    for part in parts:
        answers = oracle.argmax(part.thetas)
        move_off_boundary(oracle, z, posterior.theta_hat[0], space, part.thetas, answers)
        other = (answers != z).any(axis=1)
        winners.append((answers[other], _gains_over(answers, z, part.thetas)[other]))
    found = _combine_strata(parts, winners, epsilon)
    if found is None:
        return None
    missed, missed_errors, unknown, loss = Counter[bytes](), 0, 0, found.loss
    cone = sampler.cone_of(question)
    if not cone.complete:  # add the plain draws that lie in none of the known half-spaces
        in_known = FacetUnion(cone)
        for thetas, answers in beaten:
            new = ~in_known(thetas)
            gain = _gains_over(answers, z, thetas)[new]
            missed.update(map(answer_key, answers[new]))
            missed_errors += int((gain > epsilon).sum())
            loss = loss.plus(Estimate(float(gain.sum()) / made, float(gain @ gain) ** 0.5 / made))
        unknown = missed.total()
    best = dict(found.best)
    for key, count in missed.items():
        p, std = best.get(key, (0.0, 0.0))
        more, std_more = _proportion(count, made)
        best[key] = p + more, hypot(std, std_more)
    low, high = found.interval
    wrong = _add_share((found.probability, (low, high)), unknown, made)
    inner = _wilson(found.errors * found.draws, found.draws) if epsilon > 0.0 else (1.0, 1.0)
    error = _add_share((found.probability * found.errors, (low * inner[0], high * inner[1])), missed_errors, made)
    best[answer_key(z)] = 1.0 - wrong[0], nan  # its interval is `wrong_interval`, mirrored
    return Ranking(z, *(error if epsilon > 0.0 else wrong), loss, best, wrong[1])


def _add_share(known: tuple[float, Interval], hits: int, draws: int) -> tuple[float, Interval]:
    """Add the share of `hits` in other draws to a probability and its interval."""
    p, (low, high) = known
    if not hits:
        return p, (low, high)
    more = _wilson(hits, draws)
    return min(1.0, p + hits / draws), (low + more[0], min(1.0, high + more[1]))


def _only_answer(z: Array) -> Ranking:
    """Return the ranking of the only answer."""
    return Ranking(z, 0.0, (0.0, 0.0), Estimate(0.0, 0.0), {answer_key(z): (1.0, 0.0)}, (0.0, 0.0))


def _unknown(z: Array) -> Ranking:
    """Return the ranking of an answer if no draw is in Theta."""
    return Ranking(z, nan, (0.0, 1.0), Estimate(nan, nan), {answer_key(z): (nan, nan)}, (0.0, 1.0))


@dataclass(frozen=True)
class _Scored:
    """Draws with their best known answers: indices in `known`, and how much better than z these are."""

    known: Array
    winner: NDArray[np.intp]
    gain: Array


def _score(cone: BudgetedCone, thetas: Array) -> _Scored:
    """Find the best known answer under each draw; z itself, with gain 0, where none beats it."""
    z = cone.z_hat
    known = cone.memory.since(0)[0]
    own = int((known == z).all(axis=1).argmax())
    winner, gain = np.empty(len(thetas), dtype=np.intp), np.empty(len(thetas))
    per_block = max(1, _MAX_SCORES // len(known))
    for begin in range(0, len(thetas), per_block):
        block = thetas[begin : begin + per_block]
        scores = block @ known.T
        winner[begin : begin + per_block] = best = scores.argmax(axis=1)
        gain[begin : begin + per_block] = scores[np.arange(len(block)), best] - scores[:, own]
    # Gains are differences of two scores: below the rounding error of these they count as 0.
    rounding = 1e-13 * np.abs(thetas).sum(axis=1) * np.abs(known - z).max(initial=0.0)
    gain = np.where(gain > rounding, gain, 0.0)
    return _Scored(known, np.where(gain > 0.0, winner, own), gain)


def _by_known_answers(
    sampler: AlternativeSampler, question: SamplingTask, cone: BudgetedCone, rng: np.random.Generator, epsilon: float
) -> Ranking:
    """Rank with few oracle calls: for batches of draws, until a batch hardly shows unknown answers.

    Answers of one batch are known to the next. Only the last batch enters the estimate, so that the set of known
    answers is independent of its draws.
    """
    z, memory, dim = question.z_hat, cone.memory, question.oracle.dim
    memory.note(z[None])
    cone.refresh()
    most = max(256, _MAX_PRODUCTS // (dim * len(memory.since(0)[0])))
    thetas = np.concatenate([*_draws(question, min(_draw_count(dim), most), rng)])
    if not len(thetas):
        return _unknown(z)
    is_unused = np.ones(len(thetas), dtype=bool)
    for _ in range(_MAX_BATCHES):
        scored = _score(cone, thetas)
        rows = _choose_rows(scored.gain > 0.0, is_unused)
        is_unused[rows] = False
        calls = _OracleCalls.of(cone, thetas, rows, scored)
        if not _FEW_NEW < calls.new.mean() < _MANY_NEW or not is_unused.any():
            break
    if (scored.gain > 0.0).sum() < max(_MIN_WRONG, _MIN_WRONG_SHARE * len(thetas)):
        rare = _by_known_half_spaces(sampler, question, cone, rng, epsilon, scored, calls)
        if rare is not None:
            return rare
    return _combine_calls(z, scored, calls, epsilon)


def known_loss(question: SamplingTask, cone: BudgetedCone, rng: np.random.Generator) -> float:
    """Return the expected loss of z against the answers that the run has seen, without oracle calls: a lower bound."""
    cone.memory.note(question.z_hat[None])
    cone.refresh()
    thetas = np.concatenate([*_draws(question, min(_KNOWN_LOSS_DRAWS, _draw_count(question.oracle.dim)), rng)])
    return float(_score(cone, thetas).gain.mean()) if len(thetas) else nan


def _choose_rows(beaten: NDArray[np.bool_], is_unused: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Choose half of a batch where z is the best known answer, half where it is not.

    If one group has too few draws left, the other one fills the batch. Draws are in random order, so that the first of
    a group are a random sample of it.
    """
    inside, outside = np.flatnonzero(is_unused & ~beaten), np.flatnonzero(is_unused & beaten)
    half = _ROWS_PER_BATCH // 2
    first = inside[: max(half, _ROWS_PER_BATCH - len(outside))]
    return np.concatenate([first, outside[: _ROWS_PER_BATCH - len(first)]])


@dataclass(frozen=True)
class _OracleCalls:
    """Draws for which the oracle was called.

    `rows` are their indices, `answers` the oracle's, `gain` how much better than z these are, `new` which were unknown.
    """

    rows: NDArray[np.intp]
    answers: Array
    gain: Array
    new: NDArray[np.bool_]

    @classmethod
    def of(cls, cone: BudgetedCone, thetas: Array, rows: NDArray[np.intp], scored: _Scored) -> _OracleCalls:
        answers, at = cone.memory.ask(thetas[rows], aside=True), thetas[rows]
        parts = (answers - scored.known[scored.winner[rows]]) * at
        new = parts.sum(axis=1) > 1e-13 * np.abs(parts).sum(axis=1)
        gain = np.where(new, _gains_over(answers, cone.z_hat, at), scored.gain[rows])
        return cls(rows, answers, gain, np.asarray(new))


def _combine_calls(z: Array, scored: _Scored, calls: _OracleCalls, epsilon: float) -> Ranking:
    """Return the shares of known answers among all draws, corrected by the oracle calls."""
    n, beaten, best = len(scored.gain), scored.gain > 0.0, dict[bytes, tuple[float, float]]()
    # The shares of known answers are means over all draws, their corrections over the calls alone.
    precision = n if not calls.new.any() else len(calls.rows)
    weights = defaultdict[bytes, float](float)
    for group in (beaten, ~beaten):
        share, inside = float(group.mean()), group[calls.rows]
        confirmed = 1.0 - float(calls.new[inside].mean()) if inside.any() else 1.0
        for number, count in Counter(scored.winner[group].tolist()).items():
            weights[answer_key(scored.known[number])] += confirmed * count / n
        for answer in calls.answers[inside & calls.new]:
            weights[answer_key(answer)] += share / int(inside.sum())
    for key, p in weights.items():
        if p > 0.0:
            best[key] = p, (p * max(0.0, 1.0 - p) / precision) ** 0.5
    wrong = _stratified_error(scored, calls, 0.0)
    error = wrong if epsilon == 0.0 else _stratified_error(scored, calls, epsilon)
    return Ranking(z, *error, _expected_loss(scored, calls), best, wrong[1])


def _expected_loss(scored: _Scored, calls: _OracleCalls) -> Estimate:
    """Return the mean gain of known answers over all draws, plus what unknown answers add in the oracle calls."""
    gain, beaten = scored.gain, scored.gain > 0.0
    loss = Estimate.of_mean(float(gain.sum()), float(gain @ gain), len(gain))
    more = calls.gain - gain[calls.rows]
    for group in (beaten, ~beaten):
        added, share = more[group[calls.rows]], float(group.mean())
        if len(added):
            loss = loss.plus(Estimate(share * float(added.mean()), share * float(added.std()) / len(added) ** 0.5))
    return loss


def _stratified_error(scored: _Scored, calls: _OracleCalls, epsilon: float) -> tuple[float, Interval]:
    """Return 1 - P(no known answer is better by over epsilon) P(no other answer is | that), and its interval.

    Draws under which no known answer is better by over epsilon form two strata: a known answer beats z by less, or none
    beats it. The oracle calls of each stratum are weighted by the share of its draws.
    """
    survives = scored.gain <= epsilon
    n, survival = len(survives), float(survives.mean())
    inside = survives[calls.rows]
    if not survival:
        return 1.0, _wilson(n, n)
    groups = [group for group in (survives & (scored.gain > 0.0), scored.gain == 0.0) if group[calls.rows].any()]
    total = sum(float(group.mean()) for group in groups)
    worse = calls.gain > epsilon
    share = sum(float(group.mean()) / total * float(worse[group[calls.rows]].mean()) for group in groups)
    low, high = _wilson(share * inside.sum(), int(inside.sum()))
    least, most = _wilson(int(survives.sum()), n)
    return 1.0 - survival * (1.0 - share), (1.0 - most * (1.0 - low), 1.0 - least * (1.0 - high))


def _by_known_half_spaces(
    sampler: AlternativeSampler,
    question: SamplingTask,
    cone: BudgetedCone,
    rng: np.random.Generator,
    epsilon: float,
    scored: _Scored,
    calls: _OracleCalls,
) -> Ranking | None:
    """Rank by draws from the half-spaces of known answers, and the share of other draws that unknown ones win."""
    z, inside = question.z_hat, scored.gain[calls.rows] == 0.0
    new, rows = calls.new & inside, int(inside.sum())
    parts, known = None, _RareEstimate(0.0, 0.0, 0.0, 1, {}, Estimate(0.0, 0.0))
    try:
        n = _draw_count(question.oracle.dim)
        parts = _draw_strata(lambda at, draws: sampler.survey(at, draws, rng), question, n)
    except NoAlternativeError:
        if not new.any():
            return _only_answer(z)
    else:
        if parts is None:
            return None
        winners = list[tuple[Array, Array]]()
        for part in parts:
            among = _score(cone, part.thetas)
            other = among.gain > 0.0
            winners.append((among.known[among.winner[other]], among.gain[other]))
        found = _combine_strata(parts, winners, epsilon)
        if found is None:
            return None
        known = found
    unknown, worse = float(new.sum()) / max(1, rows), float((calls.gain[new] > epsilon).sum()) / max(1, rows)
    rest = 1.0 - known.probability
    best = dict(known.best)
    for answer in calls.answers[new]:
        p, std = best.get(answer_key(answer), (0.0, 0.0))
        best[answer_key(answer)] = p + rest / rows, hypot(std, rest / rows)
    low, high = known.interval

    def added(share_known: float, bounds: Interval, share: float) -> tuple[float, Interval]:
        more = (0.0, 0.0) if cone.complete else _wilson(share * rows, rows)
        p = known.probability * share_known + rest * share
        return min(1.0, p), (low * bounds[0] + rest * more[0], min(1.0, high * bounds[1] + rest * more[1]))

    wrong = added(1.0, (1.0, 1.0), unknown)
    error = wrong
    if epsilon > 0.0:
        error = added(known.errors, _wilson(known.errors * known.draws, known.draws), worse)
    best[answer_key(z)] = 1.0 - wrong[0], nan  # its interval is `wrong_interval`, mirrored
    gain = calls.gain[new]
    added_loss = Estimate(rest * float(gain.sum()) / max(1, rows), rest * float(gain @ gain) ** 0.5 / max(1, rows))
    return Ranking(z, *error, known.loss.plus(added_loss), best, wrong[1])


def _proportion(count: int, draws: int) -> tuple[float, float]:
    """Return a share of draws, and its standard error."""
    p = count / draws
    return p, (p * (1.0 - p) / draws) ** 0.5


def _wilson(hits: float, draws: int) -> Interval:
    """Return Wilson's 95 % interval; (0, 1) if there are no draws."""
    found = Proportion.of(float(hits), draws)
    return found.low, found.high


def _logit_interval(p: float, std: float) -> Interval:
    """Return a 95 % interval of a probability, normal on the scale of ln p / (1 - p)."""
    if not 0.0 < p < 1.0:
        return (p, p) if p == p else (0.0, 1.0)
    factor = exp(min(700.0, _Z * std / (p * (1.0 - p))))
    return p / (p + (1.0 - p) * factor), p * factor / (p * factor + 1.0 - p)
