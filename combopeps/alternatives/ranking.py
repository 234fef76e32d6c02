"""Posterior probabilities of answers, and of an error, from one set of draws.

    P(z) = P(z is best | data),   P(error) = P(max_z' z' @ theta - z @ theta > epsilon | data)

Every number that is displayed about an answer comes from here: with epsilon = 0 the error probability is 1 - P(z), and
the runner-up is the most probable other answer. Each estimate carries a 95 % interval of its Monte Carlo error. Where
few plain draws disagree with z, draws from Alt(z) take their place (Karp and Luby's method behind the facets of its
cone), with P(z') = P(Alt) P(z' is best | Alt). Where few show an error by over epsilon, P(error) is that of half-spaces
shifted by epsilon (`combopeps.alternatives.error_probability`). An oracle that is not `quick` is asked about some
draws only:

    P(z') = sum_g P(g) [ r_g P(z' is the best known answer | g) + P(z' is best, and was not the best known | g) ]

over the groups g of draws under which z is, or is not, the best known answer. r_g is the share of asked draws whose
best known answer was confirmed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import exp, hypot, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives.base import AlternativeSampler, AltProbability, Question, past_rounding, sample_posterior
from combopeps.alternatives.budgeted_cone import Behind, SparingCone
from combopeps.alternatives.error_probability import ShiftedHalfSpaces, packed, sparing_cone, unpacked
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import Array
from combopeps.oracles.validation import Watch
from combopeps.posterior.parameter_space import RealSpace
from combopeps.utils.formatting import Share

Interval = tuple[float, float]

_DRAWS, _FEWEST_DRAWS = 2048, 128  # the standard error of a share is below 0.011, and 0.044
_EARLY, _DOUBTFUL = 256, 0.25  # draws where more than this share of the first batch disagrees with the answer
_COORDINATES = 2_000_000  # of all draws, between these two numbers of draws
_BATCH = 1_000_000  # coordinates drawn at once
_ENOUGH, _OPEN = 20, 1 / 40  # disagreeing draws, and their share of all, from which on plain draws are precise enough
_KNOWN = 512  # answers whose half-spaces need no search
_ROWS, _BATCHES = 64, 4  # rows of an oracle that is not quick: in one batch, and batches at most
_CONFIRMED, _SCATTERED = 0.05, 0.95  # share of new answers in a batch at which more batches would not pay
_PRODUCTS = 1_000_000_000  # of draws with known answers
_BLOCK = 4_000_000  # scores at once
_STRATA, _REST = 60, 0.01  # halves of the posterior of the noise at most; the part of the mean that may be left out
_NODES = 0.5 - 12**-0.5, 0.5 + 12**-0.5  # of Gauss's rule with two points
_LEAST = -690.0  # ln of a probability: 1e-300
_Z = 1.959963984540054  # 95 %


@dataclass(frozen=True)
class Ranked:
    """An answer, and the posterior probability that it is best."""

    z: Array
    probability: float
    interval: Interval


@dataclass(frozen=True)
class Ranking:
    """What one set of draws says about an answer z.

    Attributes
    ----------
    z
        The answer in question.
    error_probability, interval
        Estimated P(error), and a 95 % interval of its Monte Carlo error. NaN, and (0, 1), if no draw fell into Theta.
    best, wrong_interval
        P(z') with its standard error, by packed answer; and the interval of 1 - P(z).
    """

    z: Array
    error_probability: float
    interval: Interval
    best: dict[bytes, tuple[float, float]] = field(repr=False)
    wrong_interval: Interval = field(repr=False)

    def top(self, n: int) -> list[Ranked]:
        """The n most probable answers, in decreasing order."""
        own = packed(self.z)
        return [
            Ranked(
                unpacked(key, len(self.z)),
                p,
                (1.0 - self.wrong_interval[1], 1.0 - self.wrong_interval[0]) if key == own else _logit_interval(p, std),
            )
            for key, (p, std) in self._ordered()[:n]
        ]

    @property
    def probability(self) -> float:
        """P(z)."""
        return self.best.get(packed(self.z), (0.0, 0.0))[0]

    @property
    def runner_up(self) -> Array | None:
        """The most probable answer other than z; None if no draw showed one."""
        own = packed(self.z)
        rival = next((key for key, _ in self._ordered() if key != own), None)
        return None if rival is None else unpacked(rival, len(self.z))

    def _ordered(self) -> list[tuple[bytes, tuple[float, float]]]:
        return sorted(self.best.items(), key=lambda item: -item[1][0])


def rank_answers(
    sampler: AlternativeSampler,
    question: Question,
    rng: np.random.Generator,
    epsilon: float = 0.0,
    watch: Watch | None = None,
) -> Ranking:
    """Estimate P(error) of the question's answer, and P(z') of every answer that a draw showed.

    2,048 draws; 256 where more than a quarter of the first 128 disagree with the answer; fewer above 976 components,
    128 at least. Of an oracle that is not quick, 64 to 256 rows.
    """
    cone = sparing_cone(sampler, question)
    if cone is None:
        return _by_oracle(sampler, question, rng, epsilon, watch)
    return _by_known_answers(sampler, question, cone, rng, epsilon)


def _draw_count(dim: int) -> int:
    return max(_FEWEST_DRAWS, min(_DRAWS, _COORDINATES // dim))


def _draws(question: Question, n: int, rng: np.random.Generator) -> Iterator[Array]:
    """Posterior draws in Theta, in batches that double: kernels that are not compiled yet begin with little work."""
    most, made = max(1, _BATCH // question.oracle.dim), 0
    while made < n:
        thetas, inside = sample_posterior(
            question.belief, question.space, min(max(made, _FEWEST_DRAWS), most, n - made), rng
        )
        made += len(thetas)
        yield thetas[inside]


def _gains(answers: Array, z: Array, thetas: Array) -> Array:
    """(z' - z) @ theta, row by row; 0 where that is rounding."""
    parts = (answers - z) * thetas
    gain = parts.sum(axis=1)
    return np.asarray(np.where(gain > 1e-13 * np.abs(parts).sum(axis=1), gain, 0.0))


def _by_oracle(
    sampler: AlternativeSampler, question: Question, rng: np.random.Generator, epsilon: float, watch: Watch | None
) -> Ranking:
    """The oracle is asked about every draw."""
    oracle, z = question.oracle, question.z_hat
    n, own = _draw_count(oracle.dim), packed(z)
    enough = max(_ENOUGH, _OPEN * n)
    seen, made, errors, early = Counter[bytes](), 0, 0, False
    beaten: list[tuple[Array, Array]] = []  # draws under which z is not best, while they are few
    for thetas in _draws(question, n, rng):
        answers = oracle.argmax(thetas)
        if watch is not None:
            watch.see(thetas, answers)
        gain = _gains(answers, z, thetas)
        lost = gain > 0.0
        seen.update(map(packed, answers[lost]))
        made, errors = made + len(thetas), errors + int((gain > epsilon).sum())
        if seen.total() < enough:
            beaten.append((thetas[lost], answers[lost]))
        early = early or (made <= _FEWEST_DRAWS and seen.total() > _DOUBTFUL * made)
        if early and made >= _EARLY:
            break
    wrong = seen.total()
    found = _behind_facets(sampler, question, rng, epsilon, n, beaten, made) if wrong < enough else None
    if found is None and not made:
        return Ranking(z, nan, (0.0, 1.0), {own: (nan, nan)}, (0.0, 1.0))
    if found is None:
        seen[own] = made - wrong
        best = {key: _share(count, made) for key, count in seen.items() if count}
        found = Ranking(z, errors / made, _wilson(errors, made), best, _wilson(wrong, made))
    if epsilon > 0.0 and errors < enough and isinstance(question.space, RealSpace):
        return _with_rare_errors(question, rng, epsilon, found, _wilson(errors, made)[0])
    return found


def _with_rare_errors(
    question: Question, rng: np.random.Generator, epsilon: float, found: Ranking, least: float
) -> Ranking:
    """With P(worse by over epsilon) from draws behind shifted half-spaces; `least` is what plain draws say at least."""
    known = np.array([one.z for one in found.top(_KNOWN)]).reshape(-1, question.oracle.dim)
    try:
        half_spaces = ShiftedHalfSpaces(question, epsilon, known, rng)

        def survey(at: Question, n: int) -> tuple[Array, AltProbability]:
            return half_spaces.survey(n, rng, at.eta)

        parts = _alternatives(survey, question, _draw_count(question.oracle.dim))
    except NoAlternativeError:
        return found
    if parts is None:
        return found
    total, error = _mean(parts)
    low, high = total * exp(-_Z * error), total * exp(_Z * error)
    if high < least or low > found.wrong_interval[1]:  # half-spaces are missing, or too few draws
        return found
    wrong = 1.0 - found.probability
    return replace(found, error_probability=min(total, wrong), interval=(min(low, wrong), min(1.0, high)))


@dataclass(frozen=True)
class _Alternatives:
    """Draws from Alt for one size of the noise: its weight, P(Alt) with its relative standard error, and the draws."""

    weight: float
    probability: float
    relative_error: float
    thetas: Array


Survey = Callable[[Question, int], tuple[Array, AltProbability]]


def _alternatives(survey: Survey, question: Question, n: int) -> list[_Alternatives] | None:
    """Draws from a set such as Alt, for each size of the noise where that is unknown; None if they tell nothing.

    P(Alt) grows fast with the noise: halves, quarters, eighths, ... of its posterior are integrated one by one, until
    what is left can hardly matter.
    """
    from scipy.stats import chi2

    dof = question.belief.dof.item(0)
    if dof == np.inf:
        found = _survey(survey, question, n, 1.0)
        return None if found is None else [found]
    strata, total, rest = list[_Alternatives](), 0.0, 1.0
    for _ in range(_STRATA):
        for node in _NODES:
            eta = float(chi2.ppf(rest * (1.0 - 0.5 * node), dof)) / dof
            found = _survey(survey, question._replace(eta=eta), max(_FEWEST_DRAWS, n // 16), rest / 4.0)
            if found is None:
                return None
            strata.append(found)
            total += found.weight * found.probability
        rest /= 2.0
        if rest * strata[-1].probability <= _REST * total:
            break
    return strata


def _survey(survey: Survey, question: Question, n: int, weight: float) -> _Alternatives | None:
    try:
        thetas, found = survey(question, n)
    except SamplerCapError:
        return None
    if not len(thetas) or not isfinite(found.log_probability):
        return None
    probability = exp(min(0.0, max(_LEAST, found.log_probability)))
    return _Alternatives(weight, probability, found.relative_error, thetas)


@dataclass(frozen=True)
class _Rare:
    """P(Alt) where it is small, its relative standard error, P(error | Alt) with draws, and P(z') of the others."""

    probability: float
    relative_error: float
    errors: float
    draws: int
    best: dict[bytes, tuple[float, float]]

    @property
    def interval(self) -> Interval:
        """Of the probability."""
        spread = exp(_Z * self.relative_error)
        return self.probability / spread, min(1.0, self.probability * spread)


def _mean(parts: list[_Alternatives]) -> tuple[float, float]:
    """The probability over all sizes of the noise, and its relative standard error."""
    total = sum(part.weight * part.probability for part in parts)
    return total, hypot(*(part.weight * part.probability * part.relative_error for part in parts)) / total


def _rare(parts: list[_Alternatives], winners: list[tuple[Array, NDArray[np.bool_]]]) -> _Rare | None:
    """From draws, and per part their best answers and whether each is an error."""
    total, error = _mean(parts)
    best, squares, errors, draws = defaultdict[bytes, float](float), defaultdict[bytes, float](float), 0.0, 0
    for part, (answers, wrong) in zip(parts, winners, strict=True):
        if not len(answers):
            continue
        each = part.weight * part.probability / total / len(answers)
        draws += len(answers)
        errors += each * float(wrong.sum())
        for key, count in Counter(map(packed, answers)).items():
            best[key] += each * count
            squares[key] += each * each * count
    if not draws:
        return None
    found = {key: (total * p, total * hypot(squares[key] ** 0.5, p * error)) for key, p in best.items()}
    return _Rare(min(1.0, total), error, min(1.0, errors), draws, found)


def _behind_facets(
    sampler: AlternativeSampler,
    question: Question,
    rng: np.random.Generator,
    epsilon: float,
    n: int,
    beaten: list[tuple[Array, Array]],
    made: int,
) -> Ranking | None:
    """P(Alt) by draws behind the known facets, and the plain draws that lie behind none of these; None if they fail."""
    belief, oracle, z, space, _ = question
    try:
        parts = _alternatives(lambda at, draws: sampler.survey(at, draws, rng), question, n)
    except NoAlternativeError:
        return None if sum(len(thetas) for thetas, _ in beaten) else _certain(z)
    if parts is None:
        return None
    winners = list[tuple[Array, NDArray[np.bool_]]]()
    for part in parts:
        answers = oracle.argmax(part.thetas)
        past_rounding(oracle, z, belief.theta_hat[0], space, part.thetas, answers)
        other = (answers != z).any(axis=1)
        winners.append((answers[other], _gains(answers, z, part.thetas)[other] > epsilon))
    found = _rare(parts, winners)
    if found is None:
        return None
    missed, missed_errors, unknown = Counter[bytes](), 0, 0
    cone = sampler.cone_of(question)
    if not cone.complete:
        behind = Behind(cone)
        for thetas, answers in beaten:
            new = ~behind(thetas)
            missed.update(map(packed, answers[new]))
            missed_errors += int((_gains(answers, z, thetas)[new] > epsilon).sum())
        unknown = missed.total()
    best = dict(found.best)
    for key, count in missed.items():
        p, std = best.get(key, (0.0, 0.0))
        more, its = _share(count, made)
        best[key] = p + more, hypot(std, its)
    low, high = found.interval
    wrong = _added((found.probability, (low, high)), unknown, made)
    inner = _wilson(found.errors * found.draws, found.draws) if epsilon > 0.0 else (1.0, 1.0)
    error = _added((found.probability * found.errors, (low * inner[0], high * inner[1])), missed_errors, made)
    best[packed(z)] = 1.0 - wrong[0], nan
    return Ranking(z, *error, best, wrong[1]) if epsilon > 0.0 else Ranking(z, *wrong, best, wrong[1])


def _added(known: tuple[float, Interval], hits: int, draws: int) -> tuple[float, Interval]:
    """A probability and its interval, and that of what `hits` of so many other draws showed, if any did."""
    p, (low, high) = known
    if not hits:
        return p, (low, high)
    more = _wilson(hits, draws)
    return min(1.0, p + hits / draws), (low + more[0], min(1.0, high + more[1]))


def _certain(z: Array) -> Ranking:
    """There is no other answer."""
    return Ranking(z, 0.0, (0.0, 0.0), {packed(z): (1.0, 0.0)}, (0.0, 0.0))


@dataclass(frozen=True)
class _Scored:
    """Draws with their best known answers: numbers in `known`, and how much better than z these are."""

    known: Array
    winner: NDArray[np.intp]
    gain: Array


def _score(cone: SparingCone, thetas: Array) -> _Scored:
    """0 gain, and the number of z itself, where no known answer beats it."""
    z = cone.z_hat
    known = cone.memory.since(0)[0]
    own = int((known == z).all(axis=1).argmax())
    winner, gain = np.empty(len(thetas), dtype=np.intp), np.empty(len(thetas))
    per_block = max(1, _BLOCK // len(known))
    for begin in range(0, len(thetas), per_block):
        block = thetas[begin : begin + per_block]
        scores = block @ known.T
        winner[begin : begin + per_block] = best = scores.argmax(axis=1)
        gain[begin : begin + per_block] = scores[np.arange(len(block)), best] - scores[:, own]
    rounding = 1e-13 * np.abs(thetas).sum(axis=1) * np.abs(known - z).max(initial=0.0)
    gain = np.where(gain > rounding, gain, 0.0)
    return _Scored(known, np.where(gain > 0.0, winner, own), gain)


def _by_known_answers(
    sampler: AlternativeSampler, question: Question, cone: SparingCone, rng: np.random.Generator, epsilon: float
) -> Ranking:
    """The oracle is asked about batches of draws, until these hardly show an answer that was not known before.

    Answers of one batch are known to the next. Only the last batch enters the estimate, so that what is known was fixed
    before its draws were looked at.
    """
    z, memory, dim = question.z_hat, cone.memory, question.oracle.dim
    memory.note(z[None])
    cone.refresh()
    most = max(256, _PRODUCTS // (dim * len(memory.since(0)[0])))
    thetas = np.concatenate([*_draws(question, min(_draw_count(dim), most), rng)])
    if not len(thetas):
        return Ranking(z, nan, (0.0, 1.0), {packed(z): (nan, nan)}, (0.0, 1.0))
    unasked = np.ones(len(thetas), dtype=bool)
    for _ in range(_BATCHES):
        scored = _score(cone, thetas)
        rows = _choose_rows(scored.gain > 0.0, unasked)
        unasked[rows] = False
        asked = _Asked.of(cone, thetas, rows, scored)
        if not _CONFIRMED < asked.new.mean() < _SCATTERED or not unasked.any():
            break
    if (scored.gain > 0.0).sum() < max(_ENOUGH, _OPEN * len(thetas)):
        rare = _rare_and_known(sampler, question, cone, rng, epsilon, scored, asked)
        if rare is not None:
            return rare
    return _combined(z, scored, asked, epsilon)


def _choose_rows(beaten: NDArray[np.bool_], unasked: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Half of a batch where z is the best known answer, half where it is not; more of one where there are few others.

    Draws are in random order: the first of a group are a random sample of it.
    """
    inside, outside = np.flatnonzero(unasked & ~beaten), np.flatnonzero(unasked & beaten)
    half = _ROWS // 2
    first = inside[: max(half, _ROWS - len(outside))]
    return np.concatenate([first, outside[: _ROWS - len(first)]])


@dataclass(frozen=True)
class _Asked:
    """Rows that the oracle was asked about: its answers, how much better than z these are, and which were not known."""

    rows: NDArray[np.intp]
    answers: Array
    gain: Array
    new: NDArray[np.bool_]

    @classmethod
    def of(cls, cone: SparingCone, thetas: Array, rows: NDArray[np.intp], scored: _Scored) -> _Asked:
        answers, at = cone.memory.ask(thetas[rows], aside=True), thetas[rows]
        parts = (answers - scored.known[scored.winner[rows]]) * at
        new = parts.sum(axis=1) > 1e-13 * np.abs(parts).sum(axis=1)
        gain = np.where(new, _gains(answers, cone.z_hat, at), scored.gain[rows])
        return cls(rows, answers, gain, np.asarray(new))


def _combined(z: Array, scored: _Scored, asked: _Asked, epsilon: float) -> Ranking:
    """Shares of known answers among all draws, corrected by what the oracle said about some of them."""
    n, beaten, best = len(scored.gain), scored.gain > 0.0, dict[bytes, tuple[float, float]]()
    precision = n if not asked.new.any() else len(asked.rows)
    weights = defaultdict[bytes, float](float)
    for group in (beaten, ~beaten):
        share, inside = float(group.mean()), group[asked.rows]
        confirmed = 1.0 - float(asked.new[inside].mean()) if inside.any() else 1.0
        for number, count in Counter(scored.winner[group].tolist()).items():
            weights[packed(scored.known[number])] += confirmed * count / n
        for answer in asked.answers[inside & asked.new]:
            weights[packed(answer)] += share / int(inside.sum())
    for key, p in weights.items():
        if p > 0.0:
            best[key] = p, (p * max(0.0, 1.0 - p) / precision) ** 0.5
    wrong = _stratified(scored, asked, 0.0)
    error = wrong if epsilon == 0.0 else _stratified(scored, asked, epsilon)
    return Ranking(z, *error, best, wrong[1])


def _stratified(scored: _Scored, asked: _Asked, epsilon: float) -> tuple[float, Interval]:
    """1 - P(no known answer is better by over epsilon) P(no other answer is), and its interval.

    Under draws of the first kind a known answer beats z by less than epsilon, or none does: the asked rows of each of
    the two count by the share of its draws.
    """
    kept = scored.gain <= epsilon
    n, left = len(kept), float(kept.mean())
    inside = kept[asked.rows]
    if not left:
        return 1.0, _wilson(n, n)
    groups = [group for group in (kept & (scored.gain > 0.0), scored.gain == 0.0) if group[asked.rows].any()]
    total = sum(float(group.mean()) for group in groups)
    worse = asked.gain > epsilon
    share = sum(float(group.mean()) / total * float(worse[group[asked.rows]].mean()) for group in groups)
    low, high = _wilson(share * inside.sum(), int(inside.sum()))
    least, most = _wilson(int(kept.sum()), n)
    return 1.0 - left * (1.0 - share), (1.0 - most * (1.0 - low), 1.0 - least * (1.0 - high))


def _rare_and_known(
    sampler: AlternativeSampler,
    question: Question,
    cone: SparingCone,
    rng: np.random.Generator,
    epsilon: float,
    scored: _Scored,
    asked: _Asked,
) -> Ranking | None:
    """P(a known answer beats z) by draws behind its facets, and the share of other draws that an unknown one wins."""
    z, inside = question.z_hat, scored.gain[asked.rows] == 0.0
    new, rows = asked.new & inside, int(inside.sum())
    parts, known = None, _Rare(0.0, 0.0, 0.0, 1, {})
    try:
        n = _draw_count(question.oracle.dim)
        parts = _alternatives(lambda at, draws: sampler.survey(at, draws, rng), question, n)
    except NoAlternativeError:
        if not new.any():
            return _certain(z)
    else:
        if parts is None:
            return None
        winners = list[tuple[Array, NDArray[np.bool_]]]()
        for part in parts:
            among = _score(cone, part.thetas)
            other = among.gain > 0.0
            winners.append((among.known[among.winner[other]], among.gain[other] > epsilon))
        found = _rare(parts, winners)
        if found is None:
            return None
        known = found
    unknown, worse = float(new.sum()) / max(1, rows), float((asked.gain[new] > epsilon).sum()) / max(1, rows)
    rest = 1.0 - known.probability
    best = dict(known.best)
    for answer in asked.answers[new]:
        p, std = best.get(packed(answer), (0.0, 0.0))
        best[packed(answer)] = p + rest / rows, hypot(std, rest / rows)
    low, high = known.interval

    def added(share_known: float, bounds: Interval, share: float) -> tuple[float, Interval]:
        more = (0.0, 0.0) if cone.complete else _wilson(share * rows, rows)
        p = known.probability * share_known + rest * share
        return min(1.0, p), (low * bounds[0] + rest * more[0], min(1.0, high * bounds[1] + rest * more[1]))

    wrong = added(1.0, (1.0, 1.0), unknown)
    error = wrong
    if epsilon > 0.0:
        error = added(known.errors, _wilson(known.errors * known.draws, known.draws), worse)
    best[packed(z)] = 1.0 - wrong[0], nan
    return Ranking(z, *error, best, wrong[1])


def _share(count: int, draws: int) -> tuple[float, float]:
    """A share of draws, and its standard error."""
    p = count / draws
    return p, (p * (1.0 - p) / draws) ** 0.5


def _wilson(hits: float, draws: int) -> Interval:
    """Wilson's 95 % interval; (0, 1) if there are no draws."""
    found = Share.of(float(hits), draws)
    return found.low, found.high


def _logit_interval(p: float, std: float) -> Interval:
    """A 95 % interval of a probability, normal on the scale of ln p / (1 - p)."""
    if not 0.0 < p < 1.0:
        return (p, p) if p == p else (0.0, 1.0)
    factor = exp(min(700.0, _Z * std / (p * (1.0 - p))))
    return p / (p + (1.0 - p) * factor), p * factor / (p * factor + 1.0 - p)
