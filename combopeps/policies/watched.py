"""`Watched`: the results of one run, held against the stated noise, the prior and the linear model."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from combopeps.errors import FitWarning, NoiseWarning, PriorWarning
from combopeps.oracles.base import Array
from combopeps.policies.fit import FIT_CURE, FitGuard
from combopeps.policies.guards import NOISE_CURE, NoiseGuard, PriorGuard
from combopeps.policies.ledger import Reading, all_plain

if TYPE_CHECKING:
    from combopeps.policies.base import Policy

_WELL_KNOWN = 64  # repetitions from which on the noise is known well enough to hold results against the prior
_USER = 5  # frames from a warning to whoever told the result


def watched(arms: Sequence[int], readings: Sequence[Reading]) -> tuple[list[int], list[float]]:
    """Arms and results that say something about the stated noise."""
    if all_plain(readings):
        return list(arms), [reading.y for reading in readings]
    plain = [(arm, reading.y) for arm, reading in zip(arms, readings, strict=True) if reading.is_plain]
    return [arm for arm, _ in plain], [y for _, y in plain]


class Watched:
    """The three guards of one run, and what they say: one warning each."""

    def __init__(self, policy: Policy) -> None:
        problem = policy.problem
        self.policy = policy
        self._noise: list[float] = problem.noise.tolist()
        self._known = problem.noise_std is not None
        self.noise = NoiseGuard(problem.noise, stated=self._known)
        self._warned_of_noise = self._warned_of_fit = False
        mean, std = policy.belief.theta_hat[0], policy.belief.prior_std
        self.prior = PriorGuard(problem.arms, mean, std, problem.noise)
        self.fit = FitGuard(problem.signal, problem.noise, stated=self._known)

    def weight_of(self, arm: int, reading: Reading) -> float:
        """How many ordinary measurements of its arm a result is worth."""
        return 1.0 if reading.is_plain else reading.weight(self._noise[arm])

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

    def warn_of(self, arms: Sequence[int], readings: Sequence[Reading], depth: int = 0) -> NoiseGuard:
        """What these results will say against prior, noise and model, before they are taken in.

        `depth` is how many more frames than usual lie between here and whoever told them. The guard of the noise comes
        back as it will be when they are.
        """
        if len(arms) and self._prior_can_be_judged:
            worth = self._weights(arms, readings) / self.policy.belief.sigma.item(0) ** 2
            self._warn_of_prior(self.prior.judge_many(arms, [r.y for r in readings], self.policy.pulls, worth), depth)
        ahead = self.noise.copy()
        self._warn_of_noise(ahead.text if ahead.see_many(*watched(arms, readings)) else "", depth)
        before, after = copy.copy(self.fit), copy.copy(self.fit)
        if self._look_at_fit(after, arms, readings) and not self._look_at_fit(before):
            self._warn_of_fit(after.text, _USER + depth)
        return ahead

    def _look_at_fit(self, guard: FitGuard, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> bool:
        """At all results, and some more; while the noise itself is in doubt, the model is not judged."""
        if not guard.active or self.noise.alarmed:
            return False
        weights, totals = self.policy.weights[0].copy(), self.policy.totals[0].copy()
        if len(arms):
            worth, at = self._weights(arms, readings), np.asarray(arms, dtype=np.intp)
            np.add.at(weights, at, worth)
            np.add.at(totals, at, worth * np.array([r.y for r in readings]) / self.policy.problem.noise[at])
        return guard.look(weights, totals)

    def _weights(self, arms: Sequence[int], readings: Sequence[Reading]) -> Array:
        """How many ordinary measurements of its arm each is worth."""
        if all_plain(readings):
            return np.ones(len(readings))
        return np.array([self.weight_of(arm, reading) for arm, reading in zip(arms, readings, strict=True)])

    @property
    def _prior_can_be_judged(self) -> bool:
        """Not where it is estimated, and not before the size of the noise is known."""
        return self.policy.belief.prior is None and bool(self.policy.belief.dof.item(0) >= _WELL_KNOWN)

    def _warn_of_prior(self, text: str, depth: int = 0) -> None:
        if text:
            warnings.warn(text, PriorWarning, stacklevel=_USER + depth)

    def _warn_of_noise(self, text: str, depth: int = 0) -> None:
        if text and not self._warned_of_noise:
            self._warned_of_noise = True  # also where the warning is an error: told again, the result is taken
            warnings.warn(f"{text}: {NOISE_CURE}", NoiseWarning, stacklevel=_USER + depth)

    def _warn_of_fit(self, text: str, frames: int = _USER) -> None:
        if not self._warned_of_fit:
            self._warned_of_fit = True
            warnings.warn(f"{text}: {FIT_CURE}", FitWarning, stacklevel=frames)
