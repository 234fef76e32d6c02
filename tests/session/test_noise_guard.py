"""`NoiseGuard`: false alarms at most 1 in 1,000 under any policy; noise twice or half as large as stated is detected."""

import warnings

import numpy as np
import pytest
from alarms import too_many
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2, multivariate_normal
from sessions import session_of
from unit_problem import unit_problem

from combopeps import NoiseWarning, Problem, TopKOracle, TopTwo, identify, load_instance
from combopeps.session.diagnostics import (
    _LOG_WEIGHTS,
    _SCALES,
    _SMALLER,
    NoiseGuard,
    log_evidence,
    log_evidence_of_smaller,
)

TRUTH = {"a": 0.0, "b": 1.0, "c": 0.3, "d": 0.5}


def evidence(guard):
    return log_evidence(guard._reached, guard._squares)


# ---------------------------------------------------------------- the statistic


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.3, 4.0), st.floats(0.01, 100.0))
def test_many_at_once_is_one_after_the_other(seed, factor, noise_std):
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 1 + seed % 9, size=200)
    ys = 1000.0 * arms + factor * noise_std * rng.normal(size=200)
    one, many = NoiseGuard(np.full(9, noise_std)), NoiseGuard(np.full(9, noise_std))
    alarms = [one.see(int(arm), float(y)) for arm, y in zip(arms, ys, strict=True)]
    at = [many.see_many(arms[i:j], ys[i:j]) for i, j in ((0, 0), (0, 7), (7, 8), (8, 100), (100, 200))]
    assert sum(alarms) == sum(at) <= 1
    assert (one.alarmed, one._reached.tolist()) == (many.alarmed, many._reached.tolist())
    np.testing.assert_allclose(many._squares, one._squares, rtol=1e-9)
    np.testing.assert_allclose(many._means, one._means, rtol=1e-12, atol=1e-12)
    assert one.text == many.text


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.2, 3.0))
def test_it_never_exceeds_a_likelihood_ratio_whatever_the_means_are(seed, size):
    """A likelihood ratio against the truth is a martingale under any policy; SciPy computes it from its covariances."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 7, size=4)
    means = 10.0 * rng.normal(size=4)
    noise = [size * rng.normal(size=n) for n in counts]
    guard = NoiseGuard(np.ones(4))
    for arm in rng.permutation(np.repeat(np.arange(4), counts)):
        guard.see(int(arm), float(means[arm] + noise[arm][guard.count[arm]]))
    terms = []
    for h in (2, 3, 5, 10**12):
        for s, weight in zip(_SCALES, _LOG_WEIGHTS, strict=True):
            ratio = weight
            for x in noise:
                x = x[: min(h, len(x))]
                if len(x):
                    covariance = s**2 * np.eye(len(x)) - (s**2 - 1) / h
                    ratio += multivariate_normal.logpdf(x, cov=covariance) - multivariate_normal.logpdf(
                        x, cov=np.eye(len(x))
                    )
            terms.append(ratio)
    assert evidence(guard) <= np.logaddexp.reduce(terms) + 1e-9
    assert np.exp(_LOG_WEIGHTS).sum() * 4 == pytest.approx(1.0)


# ---------------------------------------------------------------- false alarms and power

RUNS = 3000


def lucky_runs(rng):
    """All means are equal, and what looked best among 100 arms is measured again: repetitions of luck."""
    for first in rng.normal(size=(RUNS, 100)):
        best = np.argsort(-first)[:12]
        yield np.r_[np.arange(100), best, best], np.r_[first, rng.normal(size=24)]


def plain_runs(rng):
    for ys in rng.normal(size=(RUNS, 100)):
        yield rng.integers(0, 8, size=100), ys


def guard_alarms(arms, ys):
    return NoiseGuard(np.ones(100)).see_many(arms, ys)


def residuals(arms, ys):
    """How often each arm was measured before, and the squared residual to the mean of these measurements."""
    guard, found = NoiseGuard(np.ones(100)), []
    for arm, y in zip(arms, ys, strict=True):
        before, squares = guard.count[arm], guard._squares[-1]
        guard.see(arm, y)
        found.append((before, guard._squares[-1] - squares))
    return np.array(found).T


def uncharged_alarms(arms, ys):
    """The same mixture, as if no policy ever repeated what looked good."""
    before, squares = residuals(arms, ys)
    squares, degrees = np.cumsum(squares), np.cumsum(before > 0)
    terms = (
        np.log(4 * np.exp(_LOG_WEIGHTS)) + np.outer(squares, (1 - _SCALES**-2) / 2) - np.outer(degrees, np.log(_SCALES))
    )
    return np.logaddexp.reduce(terms, axis=1).max() >= np.log(1000)


def fixed_alarms(arms, ys):
    """A test for one look, at level 1/1000, looked at all the time."""
    before, squares = residuals(arms, ys)
    squares, degrees = np.cumsum(squares), np.cumsum(before > 0)
    return bool((squares[degrees > 0] > chi2.isf(1e-3, degrees[degrees > 0])).any())


@pytest.mark.parametrize("runs", [lucky_runs, plain_runs])
def test_false_alarms_are_rarer_than_one_in_a_thousand(runs):
    alarms = sum(guard_alarms(arms, ys) for arms, ys in runs(np.random.default_rng(1)))
    assert not too_many(alarms, RUNS)


@pytest.mark.parametrize(("runs", "wrong"), [(lucky_runs, uncharged_alarms), (plain_runs, fixed_alarms)])
def test_the_test_of_false_alarms_can_fail(runs, wrong):
    some = [next(case) for case in [runs(np.random.default_rng(1))] for _ in range(1000)]
    assert too_many(sum(wrong(arms, ys) for arms, ys in some), len(some))


@pytest.mark.parametrize(("arms", "times"), [(1, 31), (2, 16), (3, 11), (5, 7), (6, 6), (10, 4), (15, 3), (30, 2)])
def test_thirty_repetitions_show_noise_twice_as_large(arms, times):
    order = np.tile(np.arange(arms), times)
    noise = np.random.default_rng(2).normal(size=(800, len(order)))
    found = sum(NoiseGuard(np.ones(arms)).see_many(order, 5.0 * order + 2.0 * ys) for ys in noise)
    assert binom.cdf(found, len(noise), 0.9) > 1e-3  # as noise of 1.4 times does not
    some = sum(NoiseGuard(np.ones(arms)).see_many(order, 5.0 * order + 1.4 * ys) for ys in noise[:100])
    assert binom.cdf(some, 100, 0.9) < 1e-3


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.05, 2.0))
def test_evidence_of_smaller_noise_never_exceeds_a_likelihood_ratio_whatever_the_means_are(seed, size):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 7, size=4)
    noise = [size * rng.normal(size=n) for n in counts]
    squares = sum(((x - x.mean()) ** 2).sum() for x in noise if len(x))
    terms = []
    for s in _SMALLER:
        ratio = 0.0
        for x in noise:
            covariance = s**2 * np.eye(len(x)) + (1 - s**2)
            for sign, cov in ((1, covariance), (-1, np.eye(len(x)))):
                ratio += sign * multivariate_normal.logpdf(x, cov=cov) if len(x) else 0.0
        terms.append(ratio)
    found = log_evidence_of_smaller(counts, squares)
    assert found <= np.logaddexp.reduce(terms) - np.log(len(_SMALLER)) + 1e-9
    centred = [x - x.mean() for x in noise if len(x)]  # at these, the two are equal
    exact = [
        sum(
            multivariate_normal.logpdf(x, cov=s**2 * np.eye(len(x)) + (1 - s**2))
            - multivariate_normal.logpdf(x, cov=np.eye(len(x)))
            for x in centred
        )
        for s in _SMALLER
    ]
    assert found == pytest.approx(np.logaddexp.reduce(exact) - np.log(len(_SMALLER)), abs=1e-8)


def central_runs(runs, rng, scale=1.0):
    """All means are 0, which the policy knows: what came closest among 300 arms is measured again, and again."""
    first, second, third = scale * rng.normal(size=(3, runs, 300))
    order = np.argsort(np.abs(first), axis=1)[:, :100]
    x = np.stack([np.take_along_axis(y, order, axis=1) for y in (first, second, third)])
    for n in (2, 3):
        squares = ((x[:n] - x[:n].mean(axis=0)) ** 2).sum(axis=(0, 2))
        counts = np.ones(300, dtype=np.int64)
        counts[:100] = n
        yield counts, squares


def greedy_runs(runs, rng, scale=1.0, arms=8, steps=80):
    """The arm with the largest mean, or the second largest, is measured again."""
    means = np.linspace(0.0, 1.0, arms)
    counts, totals, squares = np.zeros((3, runs, arms))
    at = np.arange(runs)
    for t in range(steps):
        order = np.argsort(-totals / np.maximum(counts, 1), axis=1)
        arm = np.full(runs, t) if t < arms else order[:, t % 2]
        y = means[arm] + scale * rng.normal(size=runs)
        counts[at, arm] += 1
        totals[at, arm] += y
        squares[at, arm] += y**2
        if t >= arms and t % 8 == 0:
            yield counts.astype(np.int64), (squares - totals**2 / counts).sum(axis=1)


def alarms_of_smaller(looks, runs, charged=True):
    alarmed = np.zeros(runs, dtype=bool)
    for counts, squares in looks:
        for r in np.flatnonzero(~alarmed):
            n = counts if counts.ndim == 1 else counts[r]
            charge = 0.0 if charged else np.log1p(np.outer(1 - _SMALLER**2, np.maximum(n - 1, 0))).sum(axis=1).min() / 2
            alarmed[r] = log_evidence_of_smaller(n, float(squares[r])) + charge >= np.log(1000)
    return int(alarmed.sum())


@pytest.mark.parametrize("play", [central_runs, greedy_runs])
def test_false_alarms_of_smaller_noise_are_rarer_than_one_in_a_thousand(play):
    runs = 2000
    assert not too_many(alarms_of_smaller(play(runs, np.random.default_rng(3)), runs), runs)


def test_the_test_of_false_alarms_of_smaller_noise_can_fail():
    """Without the charge for unknown means, and with noise of half the size."""
    assert too_many(alarms_of_smaller(central_runs(300, np.random.default_rng(3)), 300, charged=False), 300)
    assert too_many(alarms_of_smaller(greedy_runs(100, np.random.default_rng(3), scale=0.5), 100), 100)


@pytest.mark.slow
@pytest.mark.parametrize("play", [central_runs, greedy_runs])
def test_false_alarms_of_smaller_noise_in_many_runs(play):
    runs = 20_000
    assert not too_many(alarms_of_smaller(play(runs, np.random.default_rng(4)), runs), runs)


@pytest.mark.parametrize(("arms", "times"), [(1, 41), (4, 11), (10, 5), (20, 3)])
def test_forty_repetitions_show_noise_of_a_third(arms, times):
    order, rng, found = np.tile(np.arange(arms), times), np.random.default_rng(2), 0
    for _ in range(100):
        guard = NoiseGuard(np.ones(arms))
        assert not guard.see_many(order, 5.0 * order + rng.normal(size=len(order)) / 3)
        found += "times as large as stated" in guard.smaller
    assert binom.cdf(found, 100, 0.9) > 1e-3


def test_noise_that_is_a_little_smaller_is_not_reported():
    guard, rng = NoiseGuard(np.ones(3)), np.random.default_rng(0)
    guard.see_many(rng.integers(0, 3, size=20_000), 0.9 * rng.normal(size=20_000))
    assert guard.smaller == guard.text == ""


def warned_runs(factor, runs):
    """Of runs on the paper's top-k set, with stated noise 1: those whose claim is taken back when they stop."""
    paper = load_instance("topk-paper")
    problem = Problem(paper.oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    means, found = dict(zip(problem.arms.labels, paper.theta, strict=True)), 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 7])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = identify(problem, lambda x, rng=rng: means[x] + factor * rng.normal(), rng=seed, budget=2000)
        found += "does not hold" in result.claim
    return found


@pytest.mark.slow
def test_four_times_the_stated_noise_takes_the_claim_back_in_nine_of_ten_runs():
    assert binom.cdf(warned_runs(4.0, 100), 100, 0.9) > 1e-3
    assert binom.cdf(warned_runs(1.0, 40), 40, 0.9) < 1e-3  # as the stated noise does not


def test_smaller_noise_is_estimated_and_the_claim_stands():
    with pytest.warns(NoiseWarning, match=r"about 2\d times fewer measurements would do") as seen:
        result = identify(items(noise_std=5.0), noisy(1.0), budget=400)
    assert len(seen) == 1
    assert "does not hold" not in result.claim
    assert "times as large as stated" in result.claim
    assert "noise_std = 5): claims hold, and about 2" in result.to_dict()["warning"]
    with pytest.warns(NoiseWarning):
        certified = identify(items(noise_std=5.0), noisy(0.1), stopping="certified", delta=0.5)
    assert "for every theta" in certified.claim
    assert certified.claim.endswith("would do")


def test_noise_that_becomes_larger_takes_the_remark_back():
    session, rng = session_of(TopTwo, items()), np.random.default_rng(0)
    with pytest.warns(NoiseWarning):
        session.observe_table([("a", y) for y in 0.1 * rng.normal(size=50)])
    assert "claims hold" in session.status().warning
    with pytest.warns(NoiseWarning, match="either noise_std is too small"):
        session.observe_table([("a", y) for y in 5.0 * rng.normal(size=100)], confirm=True)
    assert "no claim holds then" in session.status().warning
    assert "claims hold" not in session.status().warning


@pytest.mark.parametrize("y", [1e308, -1e308, 1e-308])
def test_enormous_numbers_are_survived(y):
    one, many = NoiseGuard(np.array([1e-10])), NoiseGuard(np.array([1e-10]))
    values = [y, -y, y, 0.0, -y] * 20
    assert sum(one.see(0, value) for value in values) == many.see_many([0] * 100, values)


# ---------------------------------------------------------------- in runs


def noisy(factor, seed=0):
    rng = np.random.default_rng(seed)
    return lambda item: TRUTH[item] + factor * rng.normal()


def items(noise_std=1.0):
    return unit_problem(TopKOracle(TRUTH, k=1), noise_std=noise_std, prior_std=20.0)


def test_the_estimate_is_the_noise():
    session = session_of(TopTwo, items(noise_std=0.5))
    measure = noisy(2.0)

    def many():
        for _ in range(2000):
            session.observe("a", measure("a"))

    with pytest.warns(NoiseWarning):
        many()
    assert "looks 4 times as large as stated (2, noise_std = 0.5)" in session.status().warning
