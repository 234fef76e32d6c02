"""`Diagnostics`: checks of the results of a session against the stated noise, the prior and the linear model."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from combopeps.errors import FitWarning, NoiseWarning, PriorWarning
from combopeps.oracles.base import Array
from combopeps.policies.base import Policy
from combopeps.session.fit_guard import FIT_CURE, FitGuard
from combopeps.session.noise_guard import NOISE_CURE, SMALLER_CURE, NoiseGuard
from combopeps.session.prior_guard import PRIOR_CURE, PriorGuard
from combopeps.session.queries import Reading
from combopeps.utils.state_dict import StateDict

_WELL_KNOWN = 64  # degrees of freedom from which on an estimated noise is used to check the prior
_MARGIN = 3.0  # standard errors that are added to it
_PAUSE = 10  # a tenth more measurements between two looks


class Conflict(NamedTuple):
    """What results say against one statement about the problem; empty texts for nothing.

    Attributes
    ----------
    noise, fit, prior
        The noise is larger than stated; the rows of the arms are wrong; the prior is.
    smaller
        The noise is smaller than stated: claims hold, with more measurements than they need.
    fewer
        How many times fewer would do.
    """

    noise: str = ""
    fit: str = ""
    prior: str = ""
    smaller: str = ""
    fewer: str = ""

    def __str__(self) -> str:
        said = [f"{text}: no claim holds then" for text in (self.noise, self.fit) if text]
        if self.prior:
            said.append(f"{self.prior}: error probabilities and claims that rest on the prior do not hold then")
        if self.smaller:
            said.append(f"{self.smaller}: claims hold, and {self.fewer} would do")
        return "; ".join(said)

    def qualify(self, claim: str, rests_on_prior: bool) -> str:
        """A claim, with what is said against it, and what else there is to know."""
        against = [text for text in (self.noise, self.fit, self.prior if rests_on_prior else "") if text]
        if against:
            claim += f"; but {' and '.join(against)}, and then it does not hold"
        if self.prior and not rests_on_prior:
            claim += f"; {self.prior}, on which this claim does not rest"
        if self.smaller:
            claim += f"; {self.smaller}: {self.fewer} would do"
        return claim


def _plain_readings(arms: Sequence[int], readings: Sequence[Reading]) -> tuple[list[int], list[float]]:
    """Arms and values of results with the noise of their arm: those that say something about it."""
    plain = [(arm, reading.y) for arm, reading in zip(arms, readings, strict=True) if reading.is_plain]
    return [arm for arm, _ in plain], [y for _, y in plain]


class Diagnostics:
    """Checks of the results of a session; one warning of each kind.

    Noise that is larger than stated is checked for at every result. The other checks are made after every tenth more
    results, before every claim, and when a result is surprising under the prior.
    """

    def __init__(self, policy: Policy) -> None:
        problem = policy.problem
        self.policy = policy
        self._noise: list[float] = problem.noise.tolist()
        self._known = problem.noise_std is not None
        self.noise = NoiseGuard(problem.noise, stated=self._known)
        mean, std, stated = policy.belief.theta_hat[0], policy.belief.prior_std, not problem.prior_is_estimated
        self.prior = PriorGuard(problem.signal, problem.oracle.components, mean, std, problem.space, stated=stated)
        self.fit = FitGuard(problem.signal, problem.noise, stated=self._known)
        self._prior_text = self._smaller_text = ""  # at the last look
        self._seen: Conflict | None = None  # what `warn_of` last found
        self._warned: set[str] = set()
        self._unseen, self._pause = 0, 1  # results since the last look, and how many make the next one due

    def weight_of(self, arm: int, reading: Reading) -> float:
        """How many ordinary measurements of its arm a result is worth."""
        return 1.0 if reading.is_plain else reading.weight(self._noise[arm])

    @property
    def conflict(self) -> Conflict:
        """What the results say against noise, rows and prior as stated, at the last look."""
        smaller = "" if self.noise.alarmed else self._smaller_text
        return Conflict(self.noise.text, self.fit.text, self._prior_text, smaller, self._fewer(self.noise))

    @property
    def warning(self) -> str:
        """The same in words, with what follows from it; empty while they agree."""
        return str(self.conflict)

    def qualify(self, claim: str, rests_on_prior: bool = True) -> str:
        """A claim, and what the results say against it."""
        return self.conflict.qualify(claim, rests_on_prior)

    def check(self) -> None:
        """Check all results before a claim is made, and warn of the first conflict of each kind."""
        if self._look_at_fit(self.fit):
            self._warn("fit", self.fit.text)
        self._look()

    def refresh(self) -> None:
        """Make the checks of `check` on the current data alone, without a warning."""
        self.fit.forget()
        self._look_at_fit(self.fit)
        found = self._found(self.noise)
        self._prior_text, self._smaller_text = found.prior, found.smaller

    def warn_of(self, arms: Sequence[int], readings: Sequence[Reading]) -> None:
        """Warn of conflicts that these results will cause, before they are recorded.

        Where warnings are errors, nothing has been recorded when one is raised.
        """
        ahead = self.noise.copy()
        louder = ahead.see_many(*_plain_readings(arms, readings))
        if len(arms) and self._is_due(arms, readings):
            self._unseen, self._pause = 0, self._next_pause()
            before = self._found(self.noise) if self._seen is None else self._seen
            self._seen = now = self._found(ahead, arms, readings)
            if now.prior and not before.prior:
                self._warn("prior", now.prior)
            if now.smaller and not before.smaller:
                self._warn("smaller", now.smaller, now.fewer)
        if louder:
            self._warn("noise", ahead.text)
        before_fit, after_fit = copy.copy(self.fit), copy.copy(self.fit)
        if self._look_at_fit(after_fit, arms, readings) and not self._look_at_fit(before_fit):
            self._warn("fit", after_fit.text)

    def add(self, arms: Sequence[int], readings: Sequence[Reading]) -> None:
        """Take in results that were recorded, without a warning."""
        self.noise.see_many(*_plain_readings(arms, readings))

    def reset(self) -> None:
        """Forget all results."""
        self.noise = NoiseGuard(self.policy.problem.noise, stated=self._known)
        self.fit.forget()
        self._prior_text = self._smaller_text = ""
        self._seen = None

    def state_dict(self) -> StateDict:
        """Return what cannot be computed from the data of now; warnings that were given are not part of it."""
        return self.noise.state_dict()

    def load_state_dict(self, data: StateDict) -> None:
        self.noise.load_state_dict(data, self.policy.pulls[0])

    def see(self, arm: int, reading: Reading) -> None:
        """Take in one result that is about to be learnt from, and warn of conflicts.

        Where warnings are errors, it has not been taken in when one is raised.
        """
        before = self.noise.state_of(arm)
        try:
            if reading.is_plain and self.noise.see(arm, reading.y):
                self._warn("noise", self.noise.text)
            if self.fit.active and self.fit.due(self.policy.samples) and self._look_at_fit(self.fit):
                self._warn("fit", self.fit.text)
            self._unseen += 1
            if self._unseen >= self._pause or self._is_surprising(arm, reading):
                self._look((arm,), (reading,))
        except Warning:
            self.noise.restore(arm, before)
            raise

    def _look(self, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> None:
        """Hold all results, and some that the guard of the noise has seen already, against prior and noise."""
        self._unseen, self._pause = 0, self._next_pause()
        found = self._found(self.noise, arms, readings)
        if found.prior or self.noise.alarmed:  # noise that is larger than stated may have been the cause
            self._prior_text = found.prior
        if found.prior:
            self._warn("prior", found.prior)
        self._smaller_text = found.smaller
        if found.smaller:
            self._warn("smaller", found.smaller, found.fewer)

    def _found(self, noise: NoiseGuard, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> Conflict:
        """What all results, and some more, say against the prior, and against noise that is too large."""
        scale, said = self._scale(noise), ""
        if self.prior.active and scale is not None:
            weights, totals = self._sums(arms, readings)
            # The sum of squared residuals is that of the same results if all were shown to the guard of the noise.
            same = self._known and not noise.alarmed and np.array_equal(weights, noise.counts)
            repetitions = noise.repetitions if same else None
            said = self.prior.judge(weights / scale**2, totals / scale**2, repetitions)
        return Conflict(prior=said, smaller=noise.smaller, fewer=self._fewer(noise))

    def _scale(self, noise: NoiseGuard) -> float | None:
        """Size of the noise by which the prior is judged, in units of `Problem.noise`; None while it is not known.

        A prior is not blamed for noise that is larger than stated.
        """
        if self._known:
            return max(1.0, noise.ratio) if noise.alarmed else 1.0
        sigma, dof = self.policy.belief.sigma.item(0), self.policy.belief.dof.item(0)
        return float(sigma * (1.0 + _MARGIN / (2.0 * dof) ** 0.5)) if dof >= _WELL_KNOWN else None

    def _is_due(self, arms: Sequence[int], readings: Sequence[Reading]) -> bool:
        """Is it time to look at prior and noise, with these results?"""
        self._unseen += len(arms)
        if self._unseen >= self._pause:
            return True
        return any(self._is_surprising(arm, reading) for arm, reading in zip(arms, readings, strict=True))

    def _next_pause(self) -> int:
        """How many results make the next look due: a tenth of all."""
        return max(1, self.policy.samples // _PAUSE)

    def _is_surprising(self, arm: int, reading: Reading) -> bool:
        sigma = self.policy.belief.sigma.item(0)
        return self.prior.surprising(arm, reading.y / self._noise[arm], self.weight_of(arm, reading) / (sigma * sigma))

    def _look_at_fit(self, guard: FitGuard, arms: Sequence[int] = (), readings: Sequence[Reading] = ()) -> bool:
        """At all results, and some more; while the noise itself is in doubt, the model is not judged."""
        if not guard.active or self.noise.alarmed:
            return False
        return guard.look(*self._sums(arms, readings))

    def _sums(self, arms: Sequence[int], readings: Sequence[Reading]) -> tuple[Array, Array]:
        """Weights and totals of all results, and of some more."""
        weights, totals = self.policy.weights[0].copy(), self.policy.totals[0].copy()
        if len(arms):
            worth, at = self._weights(arms, readings), np.asarray(arms, dtype=np.intp)
            np.add.at(weights, at, worth)
            np.add.at(totals, at, worth * np.array([r.y for r in readings]) / self.policy.problem.noise[at])
        return weights, totals

    def _weights(self, arms: Sequence[int], readings: Sequence[Reading]) -> Array:
        """Weights of results, in ordinary measurements of their arms."""
        return np.array([self.weight_of(arm, reading) for arm, reading in zip(arms, readings, strict=True)])

    def _fewer(self, noise: NoiseGuard) -> str:
        """How many measurements would do if the noise were stated as it looks."""
        ratio = noise.ratio
        return (
            f"about {ratio**-2.0:.2g} times fewer measurements"
            if ratio > 0.1
            else "less than a hundredth of the measurements"
        )

    def _warn(self, kind: str, text: str, fewer: str = "") -> None:
        """Once for each kind; also where the warning is an error: told again, the result is taken."""
        if kind not in self._warned:
            self._warned.add(kind)
            category, cure = _KINDS[kind]
            warnings.warn(f"{text}: {cure.format(fewer=fewer)}", category, stacklevel=_user_level())


def _user_level() -> int:
    """Return the `stacklevel`, seen from the caller, of the first frame outside this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "combopeps":
        frame, level = frame.f_back, level + 1
    return level


_KINDS: dict[str, tuple[type[Warning], str]] = {
    "noise": (NoiseWarning, NOISE_CURE),
    "smaller": (NoiseWarning, SMALLER_CURE),
    "fit": (FitWarning, FIT_CURE),
    "prior": (PriorWarning, PRIOR_CURE),
}
