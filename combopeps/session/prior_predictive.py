"""Prior predictive error rate of a policy at the end of a budget, by simulation.

Each replication draws theta from the prior and simulates the policy until the budget is used up. If all replications
would exceed the time limit or the memory limit, fewer are simulated, and if these exceed it too, none.
"""

from __future__ import annotations

import time

import numpy as np

from combopeps.errors import ComboPepsError, ParameterError, SpaceError
from combopeps.oracles.base import Array, strictly_better
from combopeps.policies.base import Policy
from combopeps.posterior.stated_values import NumberOrArray, as_array
from combopeps.problem import Problem
from combopeps.random import Streams, named_seed
from combopeps.session.simulated_environment import Environment
from combopeps.stopping.base import describe_error
from combopeps.stopping.combine import BudgetRule
from combopeps.utils.formatting import Proportion

_MIN_RUNS = 20  # simulated if the requested number of runs exceeds the limits
_MAX_POSTERIOR_ENTRIES = 30_000_000  # of all replications
_TRIAL_SHARE = 0.3  # of the time limit, after which the total time is extrapolated
_MAX_REJECTIONS = 1000  # of theta, for spaces that are not a box


def budget_claim(
    policy: Policy, rule: BudgetRule, error: str, epsilon: float, made: int | None, why_not: str = ""
) -> str:
    """Return the claim for an answer when the budget is used up: its posterior error probability.

    With `rule.simulations`, the prior predictive error rate is added, for a budget of `made` measurements; or, if that
    is None, the reason why it is not simulated.
    """
    prior = f"an estimate; Bayesian, {policy.posterior.prior_in_words}"
    claim = f"{describe_error(epsilon)} with posterior probability {error} ({prior})"
    if not rule.simulations:
        return claim
    rate = why_not if made is None else _error_rate(policy, rule, made, epsilon)
    return f"{claim}; the same policy and budget: {rate if rate.startswith('wrong') else f'not simulated: {rate}'}"


def _error_rate(policy: Policy, rule: BudgetRule, budget: int, epsilon: float) -> str:
    """Describe in how many runs of a new policy of the same class the answer is worse by more than epsilon.

    Without runs, return the reason.
    """
    problem, runs = policy.problem, rule.simulations
    if problem.noise_std is None:
        return "the size of the noise is unknown"
    if problem.prior_is_estimated:
        return "the prior was estimated from the data"
    size = problem.oracle.dim * (1 if policy.posterior.is_diagonal else problem.oracle.dim)
    seed, deadline = policy.streams.named(0, "claim"), time.perf_counter() + rule.seconds
    for n in dict.fromkeys((runs, min(runs, _MIN_RUNS))):
        if n * size > _MAX_POSTERIOR_ENTRIES:
            continue
        try:
            wrong = _count_wrong(policy, budget, seed.spawn(n), deadline, epsilon)
        except (ComboPepsError, TypeError, ValueError) as cause:  # a user-defined policy may require options
            return f"{type(policy).__name__} cannot be created for a simulation ({cause!s:.80})"
        if wrong is not None:
            share = Proportion.of(wrong, n)
            interval = f"95 % interval {100 * share.low:.1f} to {100 * share.high:.1f} %"
            return f"wrong in {wrong} of {n} simulated runs with theta drawn from the prior ({interval})"
    return f"{min(runs, _MIN_RUNS)} runs of {budget} measurements take longer than {rule.seconds:g} s"


def _count_wrong(
    template: Policy, budget: int, seeds: list[np.random.SeedSequence], deadline: float, epsilon: float
) -> int | None:
    """Return the number of replications with a wrong answer; None if the deadline cannot be met."""
    problem = template.problem
    thetas = np.concatenate([draw_thetas(problem, 1, np.random.default_rng(named_seed(s, "truth"))) for s in seeds])
    policy = type(template)(problem, streams=Streams(seeds), initial_design=template.initial_design_wanted)
    nature = Environment(problem, problem.arms.dot(thetas), Streams([named_seed(row, "nature") for row in seeds]))
    begin = time.perf_counter()
    trial = begin + _TRIAL_SHARE * (deadline - begin)
    for t in range(1, budget + 1):
        problem.action_set.simulate_round(policy, nature)
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
    """Draw n parameters, (n, d), by default from the problem's prior; a component with std 0 equals its mean.

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
    means, stds = as_array(mean, dim), as_array(std, dim)
    low, high = space.bounds(dim)
    drawn = _draw_normal(means, stds, low, high, n, rng)
    for _ in range(_MAX_REJECTIONS):
        outside = np.flatnonzero(~space.contains(drawn))
        if not len(outside):
            return drawn
        drawn[outside] = _draw_normal(means, stds, low, high, len(outside), rng)
    raise SpaceError(
        f"{_MAX_REJECTIONS} draws in a row are outside {space!r}: its prior probability is too small to sample theta"
    )


def _draw_normal(mean: Array, std: Array, low: Array, high: Array, n: int, rng: np.random.Generator) -> Array:
    """Draw each component from a normal distribution truncated to [low, high]."""
    drawn = mean + std * rng.standard_normal((n, len(mean)))
    bounded = np.flatnonzero((np.isfinite(low) | np.isfinite(high)) & (std > 0.0))
    if len(bounded):
        from scipy.stats import truncnorm

        loc, scale = mean[bounded], std[bounded]
        limits = (low[bounded] - loc) / scale, (high[bounded] - loc) / scale
        drawn[:, bounded] = truncnorm.rvs(*limits, loc=loc, scale=scale, size=(n, len(bounded)), random_state=rng)
        drawn[:, bounded] = np.clip(drawn[:, bounded], low[bounded], high[bounded])
    return drawn
