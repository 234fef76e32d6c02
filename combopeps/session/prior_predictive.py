"""How often a policy is wrong at the end of a budget, where every theta is drawn from the prior.

Runs side by side, each with a theta of its own, until each has made as many measurements as the budget allows. That
takes time: where it does not fit, fewer runs do, and where not even those fit there is no figure but a reason.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from combopeps.errors import ComboPepsError, ParameterError, SpaceError
from combopeps.oracles.base import Array, strictly_better
from combopeps.policies.base import Policy
from combopeps.posterior.per_label import NumberOrArray, as_array
from combopeps.problem import Problem
from combopeps.random import Streams, named_seed
from combopeps.session.environment import Environment, simulate_round
from combopeps.stopping.base import describe_error
from combopeps.utils.formatting import Proportion

_FEWER = 20  # runs, where all do not fit into the time
_NUMBERS = 30_000_000  # that posteriors of all runs may take
_TRIAL = 0.3  # of the time, after which it is judged whether the rest will do
_TRIES = 1000  # draws of theta for spaces that are no box


@dataclass(frozen=True)
class Frequency:
    """How many of some runs were wrong; or, with no runs, why there are none.

    Examples
    --------
    >>> print(Frequency(3, 100))
    wrong in 3 of 100 simulated runs with theta drawn from the prior (95 % interval 1.0 to 8.5 %)
    >>> print(Frequency(0, 0, "the policy had measured before"))
    not simulated: the policy had measured before
    """

    wrong: int
    runs: int
    why_not: str = ""

    def __str__(self) -> str:
        if not self.runs:
            return f"not simulated: {self.why_not}"
        share = Proportion.of(self.wrong, self.runs)
        return (
            f"wrong in {self.wrong} of {self.runs} simulated runs with theta drawn from the prior "
            f"(95 % interval {100 * share.low:.1f} to {100 * share.high:.1f} %)"
        )


def wrong_under_prior(
    policy: Policy,
    budget: int,
    *,
    runs: int,
    seconds: float,
    seed: np.random.SeedSequence,
    epsilon: float = 0.0,
) -> Frequency:
    """Of so many runs of a policy like this one, those whose answer is worse than the best by more than epsilon."""
    problem = policy.problem
    if problem.noise_std is None:
        return Frequency(0, 0, "the size of the noise is unknown")
    if problem.prior_is_estimated:
        return Frequency(0, 0, "the prior was estimated from the data")
    size = problem.oracle.dim * (1 if policy.posterior.is_diagonal else problem.oracle.dim)
    begin = time.perf_counter()
    for n in dict.fromkeys((runs, min(runs, _FEWER))):
        if n * size > _NUMBERS:
            continue
        try:
            wrong = _side_by_side(policy, budget, seed.spawn(n), begin + seconds, epsilon)
        except (ComboPepsError, TypeError, ValueError) as cause:  # a policy of somebody's own may want options
            return Frequency(0, 0, f"{type(policy).__name__} cannot be run anew ({cause!s:.80})")
        if wrong is not None:
            return Frequency(wrong, n)
    return Frequency(0, 0, f"{min(runs, _FEWER)} runs of {budget} measurements take longer than {seconds:g} s")


def budget_claim(policy: Policy, error: str, epsilon: float) -> str:
    """Return what may be said of an answer when the budget is used up: its error probability, in words."""
    prior = f"an estimate; Bayesian, {policy.posterior.prior_in_words}"
    return f"{describe_error(epsilon)} with posterior probability {error} ({prior})"


def _side_by_side(
    like: Policy, budget: int, seeds: list[np.random.SeedSequence], deadline: float, epsilon: float
) -> int | None:
    """How many are wrong; None as soon as it is plain that the time will not do."""
    problem = like.problem
    thetas = np.concatenate([draw_thetas(problem, 1, np.random.default_rng(named_seed(s, "truth"))) for s in seeds])
    policy = type(like)(problem, streams=Streams(seeds), initial_design=like.initial_design_wanted)
    nature = Environment(
        problem, np.asarray(problem.arms.dot(thetas)), Streams([named_seed(row, "nature") for row in seeds])
    )
    begin = time.perf_counter()
    trial = begin + _TRIAL * (deadline - begin)
    for t in range(1, budget + 1):
        simulate_round(policy, nature)
        now = time.perf_counter()
        if now > deadline or (now > trial and now + (now - begin) / t * (budget - t) > deadline):
            return None
    best, answers = problem.oracle.argmax(thetas), policy.z_hat()
    if epsilon > 0.0:
        return int((((best - answers) * thetas).sum(axis=1) > epsilon).sum())
    return int(strictly_better(best, answers, thetas).sum())


def draw_thetas(
    problem: Problem,
    n: int,
    rng: np.random.Generator,
    mean: NumberOrArray | None = None,
    std: NumberOrArray | None = None,
) -> Array:
    """n draws, (n, d), by default from the problem's prior; a component with std 0 is its mean.

    Examples
    --------
    >>> from combopeps import Box, TopKOracle
    >>> problem = Problem(TopKOracle(3, k=1), space=Box(0, 1), prior_mean=0.0, prior_std=1.0)
    >>> thetas = draw_thetas(problem, 100, np.random.default_rng(0))
    >>> thetas.shape, bool(thetas.min() >= 0), bool(thetas.max() <= 1)
    ((100, 3), True, True)
    """
    dim, space = problem.oracle.dim, problem.space
    mean, std = problem.prior_mean if mean is None else mean, problem.prior_std if std is None else std
    if mean is None or std is None:
        raise ParameterError("theta cannot be drawn from a prior that is estimated from data: state mean and std")
    middle, width = as_array(mean, dim), as_array(std, dim)
    low, high = space.bounds(dim)
    drawn = _normal(middle, width, low, high, n, rng)
    for _ in range(_TRIES):
        outside = np.flatnonzero(~space.contains(drawn))
        if not len(outside):
            return drawn
        drawn[outside] = _normal(middle, width, low, high, len(outside), rng)
    raise SpaceError(
        f"{_TRIES} draws in a row lie outside {space!r}: theta cannot be drawn from what is expected of it"
    )


def _normal(mean: Array, std: Array, low: Array, high: Array, n: int, rng: np.random.Generator) -> Array:
    """Each component from a normal distribution between its ends."""
    drawn = mean + std * rng.standard_normal((n, len(mean)))
    bounded = np.flatnonzero((np.isfinite(low) | np.isfinite(high)) & (std > 0.0))
    if len(bounded):
        from scipy.stats import truncnorm

        middle, width = mean[bounded], std[bounded]
        ends = (low[bounded] - middle) / width, (high[bounded] - middle) / width
        drawn[:, bounded] = truncnorm.rvs(*ends, loc=middle, scale=width, size=(n, len(bounded)), random_state=rng)
        drawn[:, bounded] = np.clip(drawn[:, bounded], low[bounded], high[bounded])
    return drawn
