"""DoublingPEPS, Algorithm 2: PEPS in epochs of length T_l = 2^l, with step sizes from the epoch's length.

    eta_lambda = sqrt(ln |X| / (C_3^4 T_l)),   eta_p = sqrt(d ln(T_l C_3^2) / (2 C_3^4 T_l)),   alpha = 1/4

    C_3 = B_X + Delta_max + L^2 beta(T_l, l^2),   beta(t, 1/delta) = B + sqrt(2 ln(1/delta) + d ln((d + t L^2) / d))

with L = max |x|, B a bound on |theta|, B_X = max x @ theta and Delta_max = max |x @ (theta - theta')| over the bounded
Theta. All of it is in the paper's units, in which the noise has variance 1 and V_0 = I: there theta is
theta / prior_std, and a row x is x prior_std / noise_x. The paper prints other powers of C_3 in its Algorithm 2; they
contradict its proofs (gains reach C_3^2) and are available as `constants="printed"`:

    eta_lambda = sqrt(ln |X| / (C_3^2 T_l)),   eta_p = sqrt(d ln(T_l C_3) / (C_3^2 T_l))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import e, log, sqrt
from typing import Any, Literal, Self

import numpy as np

from combopeps.errors import ParameterError, SpaceError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.base import Arm, Policy
from combopeps.policies.peps import PEPS
from combopeps.posterior.stated_values import NumberOrArray, as_array, check_scale, numbers_by_label
from combopeps.problem import Problem
from combopeps.utils.formatting import ShortRepr
from combopeps.utils.state_dict import StateDict, integer, load_into
from combopeps.utils.validation import check_choice, check_integer, check_kind

_MAX_EPOCHS = 60  # lengths 2^l are 64-bit integers


@dataclass(frozen=True, repr=False)
class EpochConstants(ShortRepr):
    """Step sizes of one epoch, and the constants from which they are computed."""

    length: int
    beta: float
    C_1: float
    C_3: float
    eta_lambda: float
    eta_p: float


def epoch_constants(
    problem: Problem,
    epoch: int,
    constants: Literal["proved", "printed"] = "proved",
    *,
    prior_std: NumberOrArray | None = None,
) -> EpochConstants:
    """Compute the constants of epoch l = 0, 1, ...; Theta must be bounded. Logarithms below 1 are replaced by 1.

    `prior_std` overrides that of the problem.
    """
    check_kind("problem", problem, Problem)
    check_integer("epoch", epoch, 0, _MAX_EPOCHS)
    check_choice("constants", constants, ("proved", "printed"))
    if prior_std is not None:
        prior_std = numbers_by_label("prior_std", prior_std, problem.oracle.components, check_scale)
    low, high = problem.space.bounds(problem.oracle.dim)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise SpaceError("Algorithm 2 needs a bounded Theta: give the problem a space=Box(low, high)")
    problem.require_noise("Algorithm 2")
    arms, d, length = problem.signal, problem.oracle.dim, 2**epoch
    prior_std = problem.prior_std if prior_std is None else prior_std
    if prior_std is None:
        raise ParameterError("the constants of DoublingPEPS depend on the prior: state prior_std")
    low, high = low / prior_std, high / prior_std
    B = float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high))))
    scale = as_array(prior_std, d)
    if arms.matrix is None:  # rows with one entry: avoid a K x d matrix
        X = (arms.coefficient * scale[arms.component])[:, None]
        low, high = low[arms.component][:, None], high[arms.component][:, None]
    else:
        X = arms.matrix * scale
    L = float(np.linalg.norm(X, axis=1).max())
    B_X = float(np.where(X > 0, X * high, X * low).sum(axis=1).max())
    Delta_max = float((np.abs(X) * (high - low)).sum(axis=1).max())
    beta = B + sqrt(2.0 * log(max(1, epoch) ** 2) + d * log((d + length * L * L) / d))
    C_1 = Delta_max + L * L * beta
    C_3 = B_X + C_1
    if constants == "proved":
        eta_lambda = sqrt(log(len(arms)) / length) / C_3**2  # C_3^4 might overflow
        eta_p = sqrt(d * log(max(e, length * C_3**2)) / (2.0 * length)) / C_3**2
    else:
        eta_lambda = sqrt(log(len(arms)) / (C_3**2 * length))
        eta_p = sqrt(d * log(max(e, length * C_3)) / (C_3**2 * length))
    return EpochConstants(length, beta, C_1, C_3, eta_lambda, eta_p)


class DoublingPEPS(Policy):
    """PEPS restarted with doubled horizons: the algorithm of the paper's theorem.

    Each epoch discards the data of the previous one, as in the paper; the answer is computed from the posterior of the
    current epoch, or of the previous one while that has more measurements.

    Parameters
    ----------
    problem
        Theta must be bounded: `Problem(oracle, space=Box(low, high))`.
    constants
        "proved" or "printed".
    """

    learns_from_choices = True
    _fantasy_state = (*Policy._fantasy_state, "_run")

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        rng: int | np.random.Generator | None = None,
        *,
        constants: Literal["proved", "printed"] = "proved",
        **options: Any,
    ) -> None:
        super().__init__(problem, rng, **options)
        if self.problem.prior_is_estimated:
            raise ParameterError("the constants of DoublingPEPS depend on the prior: state prior_mean and prior_std")
        self.constants, self.epoch = constants, -1
        kept = "sampler", "prior_precision"
        self._options: dict[str, Any] = {key: value for key, value in options.items() if key in kept}
        self._run: PEPS
        self._restart()

    def _restart(self) -> None:
        self.epoch += 1
        self._finished: PEPS | None = self._run if self.epoch > 0 else None
        self._run, self._left = self._run_of(self.epoch)
        self._select_source()

    def _run_of(self, epoch: int) -> tuple[PEPS, int]:
        """Return a new PEPS for an epoch, and the epoch's length."""
        prior_std = 1.0 / np.sqrt(self.posterior.prior_precision)
        found = epoch_constants(self.problem, epoch, self.constants, prior_std=prior_std)
        options = self._options | {"eta_lambda": found.eta_lambda or None, "eta_p": found.eta_p, "alpha": 0.25}
        return PEPS(self.problem, streams=self.streams, **options), found.length

    def _select_source(self) -> None:
        """Answer from the epoch with more measurements, of the current and the previous one."""
        done, run = self._finished, self._run
        self._source = done if done is not None and done.samples > run.samples else run
        self.posterior, self.alternatives = self._source.posterior, run.alternatives

    def state_dict(self) -> StateDict:
        """Return the state of the current and the previous epoch, each with its tie breaker."""
        runs = [run.state_dict() | {"tie": run._tie} for run in (self._run, self._finished) if run is not None]
        return super().state_dict() | {"epoch": self.epoch, "left": self._left, "runs": runs}

    def load_state_dict(self, data: StateDict) -> None:
        super().load_state_dict(data)
        self.epoch, self._left = integer(data["epoch"], _MAX_EPOCHS), integer(data["left"])
        runs = [self._run_of(self.epoch - i)[0] for i in range(1 + (self.epoch > 0))]
        for run, stored in zip(runs, data["runs"], strict=True):
            run.load_state_dict(stored)
            load_into(run._tie, stored["tie"])
            run._tie_size = 2.0 * float(np.abs(run._tie).sum(axis=1).max())
        self._run, self._finished = runs[0], runs[1] if self.epoch else None
        self._select_source()

    def reset(self) -> None:
        """Discard all results and restart with the first epoch."""
        super().reset()
        self.epoch = -1
        self._restart()

    def check_sums(self) -> None:
        """Do nothing: the sums include earlier epochs, and each epoch's PEPS checks its own."""

    def sample_answer(self, rng: int | np.random.Generator | None = None) -> Array:
        """Return z_hat_l of Algorithm 2 at the end of an epoch: line 17 of its PEPS."""
        return self._source.sample_answer(rng)

    def choose(self) -> Arm:
        """Return the choice of the current epoch's PEPS."""
        return self._run.choose()

    def with_fantasies(self) -> Self:
        """Copy the statistics of the current epoch's PEPS too."""
        other = super().with_fantasies()
        other._run = self._run.with_fantasies()
        return other

    def expect(self, arms: Sequence[int]) -> None:
        """Update the current epoch's PEPS too."""
        super().expect(arms)
        self._run.expect(arms)

    def adopt(self, other: Self) -> None:
        """Update the current epoch's PEPS too."""
        super().adopt(other)
        self._run.adopt(other._run)

    def learn(self, arm: Any, y: Any, weight: float = 1.0, count: int = 1) -> None:
        """Update the current epoch; start the next one when it is complete."""
        self._run.learn(arm, y, weight, count)
        self._count(arm, self._in_noise_units(arm, y), weight, count)
        self._left -= 1
        if self._left == 0:
            self._restart()
        else:
            self._select_source()
