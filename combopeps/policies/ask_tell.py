"""`AskTell`: one run of a policy, by questions and answers.

    ask -> Query -> somebody measures -> tell -> learn

A policy chooses; what belongs to asking people is here: the book of queries, the guards that hold results against the
stated noise and prior, and that nothing is ever taken in by half.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from combopeps.belief.scales import check_count
from combopeps.errors import LabelError, NoiseWarning, ParameterError, PriorWarning
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.guards import NOISE_CURE, NoiseGuard, PriorGuard
from combopeps.policies.ledger import Ledger, Query, Reading, check_query, check_reading
from combopeps.policies.step import Step, exclusive
from combopeps.risk import Doubt

if TYPE_CHECKING:
    from combopeps.policies.base import Policy

_USER = 5  # frames from a warning to whoever told the result


@dataclass(frozen=True)
class Recommendation:
    """The current answer, the one most likely to be right instead, and the probability of being wrong.

    With an epsilon, being wrong is to be worse than the best by more than epsilon.
    """

    z: Array
    answer: Any
    alternative: Any
    error_probability: float


def recommendation_of(oracle: ArgmaxOracle, z: Array, doubt: Doubt, risk: float | None) -> Recommendation:
    """As people read it; the risk is that of being wrong, unless another is given."""
    rival = None if doubt.runner_up is None else oracle.decode(doubt.runner_up)
    return Recommendation(z, oracle.decode(z), rival, doubt.probability if risk is None else risk)


@dataclass(frozen=True)
class AnswerFirst:
    """For a `Recommendation` that shows its answer first: a dataclass begins with the fields of its last base."""

    answer: Any


def watched(arms: Sequence[int], readings: Sequence[Reading]) -> tuple[list[int], list[float]]:
    """Arms and results that say something about the stated noise."""
    plain = [(arm, reading.y) for arm, reading in zip(arms, readings, strict=True) if reading.is_plain]
    return [arm for arm, _ in plain], [y for _, y in plain]


class AskTell:
    """Asks for measurements on behalf of a policy with one replication, and tells it the results.

    What `Policy` offers under the same name is explained there.
    """

    def __init__(self, policy: Policy) -> None:
        problem = policy.problem
        self.policy, self.turn = policy, policy.turn
        self.ledger = Ledger(problem.arms)
        self._noise: list[float] = problem.noise.tolist()
        self._known = problem.noise_std is not None
        self.noise = NoiseGuard(problem.noise)
        self._warned_of_noise = False
        mean, std = policy.belief.theta_hat[0], policy.belief.prior_precision**-0.5
        self.prior = PriorGuard(problem.arms, mean, std, problem.noise)

    @exclusive
    def ask(self, n: int = 1) -> list[Query]:
        check_count("n", n)
        return [self.ledger.issue(int(self.policy.next_arms()[0])) for _ in range(n)]

    @exclusive
    def request(self, arms: Iterable[int]) -> list[Query]:
        wanted, count = [int(arm) for arm in arms], len(self.policy.problem.arms)
        if any(not 0 <= arm < count for arm in wanted):
            raise ParameterError(f"an arm is a number in 0..{count - 1}, got {wanted}")
        return [self.ledger.issue(arm) for arm in wanted]

    def tell(self, query: Query, y: float, sem: float | None = None) -> None:
        reading = self.read(query, y, sem)
        with Step(self.turn):
            if self.ledger.accept(query, reading):
                self._take(query.arm, reading)
                self.ledger.close(query, reading)

    def tell_many(self, results: Iterable[tuple[Any, ...]]) -> None:
        pairs = [(result[0], self.read(*result)) for result in results]
        with Step(self.turn):
            for query, reading in self.ledger.news(pairs):
                self._take(query.arm, reading)
                self.ledger.close(query, reading)

    def observe(self, label: Hashable, y: float, sem: float | None = None, count: int = 1) -> None:
        arm = self.arm_of(label)
        reading = self.check(arm, y, sem, count)
        with Step(self.turn):
            self._take(arm, reading)

    def abandon(self, query: Query) -> None:
        with Step(self.turn):
            self.ledger.abandon(query)

    def read(self, query: Any, y: Any, sem: Any = None) -> Reading:
        """The result of a query, or a typed error."""
        check_query(query)
        noise = self._noise[query.arm if 0 <= query.arm < len(self._noise) else 0]
        return check_reading(y, noise, sem, 1, self._known)

    def check(self, arm: int, y: Any, sem: Any = None, count: Any = 1) -> Reading:
        """A result of an arm, or a typed error."""
        return check_reading(y, self._noise[arm], sem, count, self._known)

    def weight_of(self, arm: int, reading: Reading) -> float:
        """How many ordinary measurements of its arm a result is worth."""
        return 1.0 if reading.is_plain else reading.weight(self._noise[arm])

    def arm_of(self, label: Hashable) -> int:
        """The number of an arm, from its label."""
        try:
            return self._arm_of[label]
        except (KeyError, TypeError):
            raise LabelError(f"{label!r} is not an arm; the arms are {list(self._arm_of)[:5]}, ...") from None

    def unasked(self, arms: Iterable[int]) -> list[int]:
        """Of arms that are wanted, those that nobody is measuring already."""
        waiting = Counter(query.arm for query in self.ledger.open.values())
        wanted = []
        for arm in arms:
            if waiting[arm]:
                waiting[arm] -= 1
            else:
                wanted.append(arm)
        return wanted

    def warn_of(self, arms: Sequence[int], readings: Sequence[Reading]) -> None:
        """What these results will say against prior and noise, before they are taken in."""
        for arm, reading in zip(arms, readings, strict=True):
            self._warn_of_prior(arm, reading.y, self.weight_of(arm, reading))
        ahead = copy.deepcopy(self.noise)
        self._warn_of_noise(ahead.text if ahead.see_many(*watched(arms, readings)) else "")

    def learn(self, arms: Sequence[int], readings: Sequence[Reading]) -> None:
        """Results that have been warned of, in their order."""
        ys = [reading.y for reading in readings]
        if all(reading.is_plain for reading in readings):
            self.policy.learn_many(arms, ys)
        else:
            weights = [self.weight_of(arm, reading) for arm, reading in zip(arms, readings, strict=True)]
            self.policy.learn_many(arms, ys, weights, [reading.count for reading in readings])

    def _take(self, arm: int, reading: Reading) -> None:
        y = reading.y
        if reading.is_plain:
            self._warn_of_prior(arm, y, 1.0)
            if self.noise.see(arm, y):
                self._warn_of_noise(self.noise.text)
            self.policy.learn(arm, y)
        else:
            weight = self.weight_of(arm, reading)
            self._warn_of_prior(arm, y, weight)
            self.policy.learn(arm, y, weight, reading.count)

    def _warn_of_prior(self, arm: int, y: float, weight: float) -> None:
        text = self.prior.judge(arm, y, self.policy.pulls, weight)
        if text:
            warnings.warn(text, PriorWarning, stacklevel=_USER)

    def _warn_of_noise(self, text: str) -> None:
        if text and not self._warned_of_noise:
            self._warned_of_noise = True  # also where the warning is an error: told again, the result is taken
            warnings.warn(f"{text}: {NOISE_CURE}", NoiseWarning, stacklevel=_USER)

    @cached_property
    def _arm_of(self) -> dict[Hashable, int]:
        return {label: arm for arm, label in enumerate(self.policy.problem.arms.labels)}
