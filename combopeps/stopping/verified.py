"""`VerifiedRule`: explore, then prove the answer on fresh measurements.

z_hat and the number of measurements of every arm are fixed before the fresh data are seen. If z_hat is wrong, some z*
beats it in truth, and its comparison with z_hat passes with probability at most delta: "every z is beaten" is an
intersection-union test, so neither the size of Z nor the dimension costs anything.

    min_z (z_hat - z) @ theta_fresh / sigma_z  >=  c_j     at one of a few looks j

The i-th attempt may fail with a share of delta; a failed one hands its data to the belief and exploration goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array
from combopeps.stopping.base import Situation, StoppingRule, Verdict, check_rule, within
from combopeps.stopping.certificate import glr_bound, is_randomised
from combopeps.stopping.estimate import Sums
from combopeps.stopping.planning import plan
from combopeps.stopping.reach import require_reach
from combopeps.stopping.sequential import boundaries, guaranteed_fractions

_LOOKS = np.array([0.5, 0.75, 1.0, 1.4, 2.0, 2.8, 4.0])  # when to look, in units of the planned number
_SPEND = np.array([1, 2, 3, 3, 2, 1, 1]) / 13  # of an attempt's delta at each look
_SHARE = 0.1  # of what is left of delta after each attempt, for the next ones
_RISK = 0.3  # planned probability that some comparison has not passed at 1.0
_CHANCE = 0.05  # share of an attempt's delta for the randomised certificate, where it is the only one


@dataclass
class _Attempt:
    """What was fixed before the fresh data, and how far it has come."""

    z_hat: Array
    counts: NDArray[np.int64]  # of every arm at every look, (J, K)
    quantiles: Array
    nu: float
    start: Sums
    pulls: NDArray[np.int64]
    look: int = 0


class VerifiedRule(StoppingRule):
    """Stop when fresh measurements, with an allocation fixed beforehand, confirm the answer.

    Frequentist, for any Z and any arms, and any policy that explores. It shines where answers differ in many
    components or where Z is huge: `CertifiedRule` pays for both, this rule for neither.

    Parameters
    ----------
    delta
        Bound on the probability of a wrong answer, for normal noise of the stated size.
    explore
        Verification starts when the posterior probability of being wrong is below this.
    epsilon
        Accept an answer that is at most so much worse than the best.
    ratio
        Factor between the times of looks while exploring.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.0}, np.random.default_rng(0)
    >>> result = identify(TopKOracle(["a", "b", "c"], k=1), lambda x: truth[x] + noise.normal(), stopping="verified")
    >>> result.answer, result.stop_reason
    ({'b'}, 'verified')
    >>> print(result.claim)
    the answer is not the best with probability at most 0.05, for every theta (frequentist, confirmed on fresh data)
    """

    name = "verified"

    def __init__(self, delta: float = 0.05, *, explore: float = 0.2, epsilon: float = 0.0, ratio: float = 1.1) -> None:
        check_rule(delta, epsilon, ratio)
        if not 0 < explore < 1:
            raise ParameterError(f"explore must lie in (0, 1), got {explore!r}")
        self.delta, self.explore, self.epsilon, self.ratio = delta, explore, epsilon, ratio
        self.attempts = 0
        self._attempt: _Attempt | None = None
        self._left = delta
        self._doubt_wanted = explore

    @property
    def claim(self) -> str:
        """In words."""
        return (
            f"{within(self.epsilon)} with probability at most {self.delta:g}, for every theta "
            "(frequentist, confirmed on fresh data)"
        )

    def check(self, situation: Situation) -> Verdict:
        """Begin an attempt when exploration is good enough; go on with one that is under way."""
        if self.first_look(situation):
            require_reach(situation.oracle, situation.belief.arms, situation.z_hat, self.epsilon)
        if self._attempt is not None:
            verdict = self._look(situation, self._attempt)
            if verdict is not None:
                return verdict
            self._attempt = None
            self._doubt_wanted /= 2.0
        if situation.risk(self.epsilon) > self._doubt_wanted:
            return Verdict(False)
        self._attempt = self._begin(situation)
        return Verdict(False, sample_next=self._next(self._attempt, situation))

    def _begin(self, situation: Situation) -> _Attempt:
        """Fix the answer and the allocation, and take a share of delta."""
        share = (1.0 - _SHARE) * self._left
        self._left -= share
        self.attempts += 1
        belief, oracle, z_hat = situation.belief, situation.oracle, situation.z_hat
        nu = 0.0
        if is_randomised(oracle, z_hat, belief.arms.are_units, self.epsilon):
            nu = _CHANCE * share / len(_LOOKS)
            share *= 1.0 - _CHANCE
        guess = boundaries(_LOOKS / _LOOKS[-1], share * _SPEND)
        planned = int(np.flatnonzero(_LOOKS == 1.0)[0])
        n = plan(belief, oracle, z_hat, float(guess[planned]), _RISK, situation.rng, self.epsilon)
        counts, spend = _merged(np.maximum(np.rint(_LOOKS[:, None] * n), 1).astype(np.int64), share * _SPEND)
        quantiles = boundaries(guaranteed_fractions(counts), spend)
        return _Attempt(z_hat.copy(), counts, quantiles, nu, Sums.of(belief), situation.pulls.copy())

    def _look(self, situation: Situation, attempt: _Attempt) -> Verdict | None:
        """None when the attempt has failed."""
        fresh_pulls = situation.pulls - attempt.pulls
        if not np.array_equal(fresh_pulls, attempt.counts[attempt.look]):
            return None  # something else was measured meanwhile: the allocation was not the fixed one
        if not np.array_equal(situation.z_hat, attempt.z_hat):
            return None  # with all data taken together another answer looks better
        estimate = Sums.of(situation.belief).since(attempt.start).estimate(situation.belief.arms)
        quantile = float(attempt.quantiles[attempt.look])
        threshold = 0.5 * quantile**2
        value, calls = 0.0, 0
        if estimate is not None and quantile > 0:
            bound = glr_bound(
                situation.oracle,
                attempt.z_hat,
                estimate,
                target=threshold,
                nu=attempt.nu or 1e-3,
                rng=situation.rng,
                epsilon=self.epsilon,
            )
            value, calls = bound.value, bound.oracle_calls
        if value >= threshold and quantile > 0:
            return Verdict(True, value, threshold, calls, self.claim)
        attempt.look += 1
        if attempt.look == len(attempt.counts):
            return None
        return Verdict(False, value, threshold, calls, sample_next=self._next(attempt, situation))

    def _next(self, attempt: _Attempt, situation: Situation) -> NDArray[np.int64]:
        """The measurements up to the next look, in random order."""
        before = attempt.counts[attempt.look - 1] if attempt.look else 0
        arms = np.repeat(np.arange(attempt.counts.shape[1]), attempt.counts[attempt.look] - before)
        return situation.rng.permutation(arms)


def _merged(counts: NDArray[np.int64], spend: Array) -> tuple[NDArray[np.int64], Array]:
    """Looks between which nothing is measured become one."""
    first = np.flatnonzero(np.append(True, np.diff(counts, axis=0).any(axis=1)))
    return counts[first], np.add.reduceat(spend, first)
