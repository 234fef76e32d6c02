"""Plans agree with independent simulations in numpy.

Three items, the best one wanted, measured in turn: the share of right answers is computed in numpy alone. Comparisons
are at 4 standard errors (false alarms: 6e-5 each), and a budget of another size must fail them.
"""

import re
from math import sqrt

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import BudgetRule, TopKOracle, identify, plan
from combopeps.session.forecast import censored_mean, censored_quantile
from combopeps.session.prior_predictive import draw_thetas
from combopeps.utils.formatting import Proportion

THETA = np.array([0.0, 0.6, 0.3])
PROBLEM = unit_problem(TopKOracle(3, k=1))
RUNS, BUDGET, SE = 100, 30, 4.0


def shares(thetas, times, rng, prior_std=1.0):
    """Return the share of right answers after each number of measurements, in turn, in a random order."""
    n, t = len(thetas), max(times)
    arm = np.tile(rng.permuted(np.tile(np.arange(3), (n, 1)), axis=1), -(-t // 3))[:, :t]
    ys = np.take_along_axis(thetas, arm, axis=1) + rng.normal(size=(n, t))
    best, found = thetas.argmax(axis=1), []
    for time in times:
        means = np.stack([np.where(arm[:, :time] == i, ys[:, :time], 0.0).sum(axis=1) for i in range(3)], axis=1)
        counts = np.stack([(arm[:, :time] == i).sum(axis=1) for i in range(3)], axis=1)
        estimate = means / (counts + prior_std**-2)
        # ties among items that were never measured are broken at random
        answer = (estimate + 1e-9 * rng.normal(size=estimate.shape)).argmax(axis=1)
        found.append((answer == best).mean())
    return np.array(found)


def z_score(mine, truth, runs):
    return (mine - truth) / sqrt(truth * (1 - truth) / runs)


@pytest.mark.parametrize("kind", ["guess", "uncertain guess", "prior"])
def test_the_share_of_right_answers_agrees_with_numpy(kind):
    rng, n, times = np.random.default_rng(7), 40_000, [6, 12, BUDGET]
    options, thetas = {}, rng.normal(size=(n, 3))
    if kind != "prior":
        std = 0.3 if kind == "uncertain guess" else 0.0
        options, thetas = {"theta": THETA, "theta_std": std}, THETA + std * thetas
    truth = shares(thetas, times, rng)
    ahead = plan(PROBLEM, policy="uniform", stopping="budget", budget=BUDGET, runs=RUNS, rng=3, **options)
    forecast = ahead["budget"]
    for time, share in zip(times, truth, strict=True):
        assert abs(z_score(forecast.right_within(time).value, share, RUNS)) < SE
    assert ahead.reach.right.value == forecast.right_within(BUDGET).value
    assert abs(z_score(forecast.right_within(BUDGET).value, shares(thetas, [1], rng)[0], RUNS)) > SE  # it could fail


def test_the_claim_of_a_budget_agrees_with_numpy():
    rng = np.random.default_rng(1)
    wrong = 1.0 - shares(rng.normal(size=(40_000, 3)), [BUDGET], rng)[0]
    options = {"policy": "uniform", "rng": 2, "stopping": BudgetRule(BUDGET, simulations=400, seconds=60.0)}
    result = identify(PROBLEM, lambda i: THETA[i] + rng.normal(), **options)
    hits, runs = map(int, re.search(r"wrong in (\d+) of (\d+) simulated runs", result.claim).groups())
    assert runs == 400
    assert abs(z_score(hits / runs, wrong, runs)) < SE
    assert abs(z_score(hits / runs, 1.0 - shares(rng.normal(size=(40_000, 3)), [3], rng)[0], runs)) > SE


def test_posterior_probability_and_frequency_agree_under_the_prior():
    """Under the prior, the mean posterior probability of being wrong equals the share of wrong answers."""
    ahead = plan(PROBLEM, policy="uniform", stopping="budget", budget=BUDGET, runs=RUNS, rng=9)
    forecast = ahead["budget"]
    error = np.std(forecast.error_probability - ~forecast.right) / sqrt(RUNS)
    assert (
        abs((forecast.error_probability - ~forecast.right).mean()) < SE * error + 0.01
    )  # the posterior probability is an estimate, too


def test_means_and_quantiles_of_uncensored_values():
    values = np.random.default_rng(0).exponential(size=57).round(2)
    every = np.ones(57, dtype=bool)
    assert censored_mean(values, every).value == pytest.approx(values.mean())
    assert censored_quantile(values, every, 0.5) == np.sort(values)[28]
    assert not censored_mean(values, every).at_least


def test_means_and_quantiles_of_censored_values():
    rng = np.random.default_rng(1)
    truth, cut = rng.exponential(size=4000), rng.uniform(0.0, 12.0, size=4000)
    seen, ended = np.minimum(truth, cut), truth <= cut
    found = censored_mean(seen, ended)
    assert found.value == pytest.approx(1.0, abs=SE * 0.02)
    assert censored_quantile(seen, ended, 0.5) == pytest.approx(np.log(2.0), abs=SE * 0.017)
    assert abs(seen[ended].mean() - 1.0) > 0.08  # dropped: too short
    assert abs(seen.mean() - 1.0) > 0.08  # taken for ended: too short
    late = censored_mean(np.minimum(truth, 1.0), truth <= 1.0)
    assert late.at_least
    assert late.value < 1.0
    assert censored_quantile(np.minimum(truth, 1.0), truth <= 1.0, 0.9) == np.inf


def test_the_interval_covers_the_mean_of_as_many_new_runs():
    """95 % of 2,000 repetitions, within 4 standard errors. Negative control: the interval for the mean itself."""
    rng, hits, narrow = np.random.default_rng(4), 0, 0
    for _ in range(2000):
        first, again = rng.gamma(4.0, size=(2, 100))
        found = censored_mean(first, np.ones(100, dtype=bool))
        hits += found.low <= again.mean() <= found.high
        half = (found.high - found.low) / 2 / sqrt(2)
        narrow += abs(again.mean() - found.value) <= half
    error = SE * sqrt(0.95 * 0.05 / 2000)
    assert abs(hits / 2000 - 0.95) < error
    assert abs(narrow / 2000 - 0.95) > error


def test_coverage_of_the_intervals_of_shares():
    """Wilson's interval covers the probability in about 95 % of cases, also near 0 and 1."""
    rng = np.random.default_rng(5)
    for p in (0.03, 0.2, 0.5, 0.95):
        found = [Proportion.of(int(k), 100) for k in rng.binomial(100, p, size=2000)]
        assert 0.92 < np.mean([share.low <= p <= share.high for share in found]) < 0.985
    assert (Proportion.of(0, 10).low, Proportion.of(10, 10).high) == (0.0, 1.0)


def test_draws_are_those_of_the_prior():
    problem = unit_problem(TopKOracle(2, k=1), prior_mean=[1.0, -2.0], prior_std=[0.5, 3.0])
    thetas = draw_thetas(problem, 20_000, np.random.default_rng(0))
    error = SE * np.array([0.5, 3.0]) / sqrt(20_000)
    assert (np.abs(thetas.mean(axis=0) - [1.0, -2.0]) < error).all()
    assert (np.abs(thetas.std(axis=0) - [0.5, 3.0]) < error).all()


@pytest.mark.slow
def test_the_gaps_that_a_budget_resolves():
    """Twice the gaps require a quarter of the measurements: the scale falls with the square root of the budget."""
    wide = unit_problem(TopKOracle(3, k=1), prior_std=3.0)
    small, large = (
        plan(wide, theta=THETA, policy="uniform", stopping="budget", budget=b, runs=150).reach for b in (30, 120)
    )
    assert small.scale > large.scale
    assert small.scale / large.scale == pytest.approx(2.0, rel=0.35)
    assert small.gap == pytest.approx(0.3 * small.scale)
    rng = np.random.default_rng(0)
    thetas = np.tile(small.scale * THETA, (20_000, 1))
    assert shares(thetas, [30], rng, prior_std=3.0 * small.scale)[0] == pytest.approx(0.95, abs=0.06)


@pytest.mark.slow
def test_a_mean_from_other_seeds_lies_in_the_interval():
    """Twenty plans against one mean of 1,000 runs: each misses with probability 0.7 %, three or more with 0.04 %."""
    problem, options = (
        unit_problem(TopKOracle(3, k=1)),
        {"theta": THETA * 3, "delta": 0.1, "n_jobs": 1, "seconds": None},
    )
    real = plan(problem, runs=1000, rng=10**6, **options)["posterior"].samples.mean()
    found = [plan(problem, runs=50, rng=seed, **options)["posterior"].mean_samples for seed in range(20)]
    assert sum(not mean.low <= real <= mean.high for mean in found) <= 2
    assert not found[0].low <= 2.0 * real <= found[0].high
