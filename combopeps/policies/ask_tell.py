"""`AskTell`: one run of a policy, by questions and answers.

    ask -> Query -> somebody measures -> tell -> learn

A policy chooses; what belongs to asking people is here: the book of queries, the guards that hold results against the
stated noise, the prior and the linear model, and that nothing is ever taken in by half.
"""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from combopeps.belief.scales import check_count
from combopeps.errors import FitWarning, LabelError, NoiseWarning, ParameterError, PriorWarning
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.fit import FIT_CURE, FitGuard
from combopeps.policies.guards import NOISE_CURE, NoiseGuard, PriorGuard
from combopeps.policies.ledger import Ledger, Query, check_reward
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


class AskTell:
    """Asks for measurements on behalf of a policy with one replication, and tells it the results.

    What `Policy` offers under the same name is explained there.
    """

    def __init__(self, policy: Policy) -> None:
        problem = policy.problem
        self.policy, self.turn = policy, policy.turn
        self.ledger = Ledger(problem.arms)
        self.noise = NoiseGuard(len(problem.arms), problem.noise_std)
        self._warned_of_noise = self._warned_of_fit = False
        self.prior = PriorGuard(problem.arms, policy.belief.prior_precision**-0.5, problem.noise_std)
        self.fit = FitGuard(problem.arms, problem.noise_std)

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

    def tell(self, query: Query, y: float) -> None:
        value = self.check(y)
        with Step(self.turn):
            if self.ledger.accept(query, value):
                self._take(query.arm, value)
                self.ledger.close(query, value)

    def tell_many(self, results: Iterable[tuple[Query, float]]) -> None:
        pairs = [(query, self.check(y)) for query, y in results]
        with Step(self.turn):
            for query, value in self.ledger.news(pairs):
                self._take(query.arm, value)
                self.ledger.close(query, value)

    def observe(self, label: Hashable, y: float) -> None:
        value, arm = self.check(y), self.arm_of(label)
        with Step(self.turn):
            self._take(arm, value)

    def abandon(self, query: Query) -> None:
        with Step(self.turn):
            self.ledger.abandon(query)

    def check(self, y: Any) -> float:
        """A result as a number, or `RewardError`."""
        return check_reward(y, self.policy.problem.noise_std)

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

    @property
    def warning(self) -> str:
        """What the results say against the noise and the model that were stated; empty while they agree."""
        return " and ".join(text for text in (self.noise.text, self.fit.text) if text)

    def qualify(self, claim: str) -> str:
        """A claim, and what the results say against it."""
        return f"{claim}; but {self.warning}, and then it does not hold" if self.warning else claim

    def judge_fit(self, frames: int = _USER + 1) -> None:
        """Hold all results against the linear model; the first time that they contradict it, warn."""
        if self._look_at_fit(self.fit):
            self._warn_of_fit(self.fit.text, frames)

    def review_fit(self) -> None:
        """The same, as if nobody had looked before, and without a word."""
        self.fit.forget()
        self._look_at_fit(self.fit)

    def warn_of(self, arms: Sequence[int], ys: Sequence[float]) -> None:
        """What these results will say against prior, noise and model, before they are taken in."""
        for arm, y in zip(arms, ys, strict=True):
            self._warn_of_prior(arm, y)
        ahead = copy.deepcopy(self.noise)
        self._warn_of_noise(ahead.text if ahead.see_many(arms, ys) else "")
        before, after = copy.copy(self.fit), copy.copy(self.fit)
        if self._look_at_fit(after, arms, ys) and not self._look_at_fit(before):
            self._warn_of_fit(after.text)

    def _take(self, arm: int, y: float) -> None:
        self._warn_of_prior(arm, y)
        if self.noise.see(arm, y):
            self._warn_of_noise(self.noise.text)
        if self.fit.active and self.fit.due(self.policy.samples) and self._look_at_fit(self.fit):
            self._warn_of_fit(self.fit.text)
        self.policy.learn(arm, y)

    def _look_at_fit(self, guard: FitGuard, arms: Sequence[int] = (), ys: Sequence[float] = ()) -> bool:
        """At all results, and some more; while the noise itself is in doubt, the model is not judged."""
        if not guard.active or self.noise.alarmed:
            return False
        counts, totals = self.policy.pulls[0].copy(), self.policy.totals[0].copy()
        at = np.asarray(arms, dtype=np.intp)
        np.add.at(counts, at, 1)
        np.add.at(totals, at, ys)
        return guard.look(counts, totals / self.policy.problem.noise_std)

    def _warn_of_prior(self, arm: int, y: float) -> None:
        text = self.prior.judge(arm, y, self.policy.pulls)
        if text:
            warnings.warn(text, PriorWarning, stacklevel=_USER)

    def _warn_of_noise(self, text: str) -> None:
        if text and not self._warned_of_noise:
            self._warned_of_noise = True  # also where the warning is an error: told again, the result is taken
            warnings.warn(f"{text}: {NOISE_CURE}", NoiseWarning, stacklevel=_USER)

    def _warn_of_fit(self, text: str, frames: int = _USER) -> None:
        if not self._warned_of_fit:
            self._warned_of_fit = True
            warnings.warn(f"{text}: {FIT_CURE}", FitWarning, stacklevel=frames)

    @cached_property
    def _arm_of(self) -> dict[Hashable, int]:
        return {label: arm for arm, label in enumerate(self.policy.problem.arms.labels)}
