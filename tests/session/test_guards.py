"""The guards of the noise, the fit and the prior: their evidence, at most one false alarm in 1,000 runs, and their power.

A likelihood ratio against the truth is a martingale under any policy; SciPy computes it from its covariances.
"""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, minimize
from scipy.stats import binom, chi2, multivariate_normal, norm
from unit_problem import unit_problem

from combopeps import PEPS, Box, ExplicitOracle, TopKOracle, TopTwo
from combopeps.posterior import Arms, RealSpace
from combopeps.session.diagnostics import NoiseGuard, log_evidence, log_evidence_of_smaller
from combopeps.session.misspecification import FitGuard, PriorGuard, Repetitions

ALARM = np.log(1000.0)
LARGER = dict(zip([1.25, 1.5, 2.0, 3.0, 6.0, 16.0], np.array([2, 4, 4, 2, 1, 1]) / 14, strict=True))
SMALLER = np.array([0.7, 0.5, 0.35, 0.2, 0.1])
MISFITS = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
PRIORS = [1.25, 1.5, 2.0, 3.0, 6.0, 16.0, 64.0, 256.0, 1024.0]
PRIOR_WEIGHTS = np.array([2, 4, 4, 2, 1, 1, 1, 1, 1]) / 17
WIDTHS = [0.02, 0.1, 0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 6.0, 16.0, 64.0, 256.0, 1e3, 1e4]
ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0], [0.5, 1.0]])

whatever = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 10_000)


def log_ratio(x, covariance):
    """Of N(0, covariance) to N(0, I)."""
    return multivariate_normal.logpdf(x, cov=covariance) - multivariate_normal.logpdf(x, cov=np.eye(len(x)))


def sphere(seed, arms, d):
    rows = np.random.default_rng(seed).normal(size=(arms, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def fit_guard(rows=ROWS):
    return FitGuard(Arms(rows))


def noise_guard(noise, arms, ys):
    """After these measurements."""
    guard = NoiseGuard(np.asarray(noise, dtype=float))
    guard.add(arms, ys)
    return guard


def prior_guard(rows, mean, std, space=None, **options):
    d = rows.shape[1]
    return PriorGuard(Arms(rows), list(range(d)), np.full(d, mean), np.full(d, std), space or RealSpace(), **options)


def too_many(alarms, runs):
    """More than 1 in 1,000, beyond doubt: a false verdict has probability 1e-5."""
    return alarms > binom.isf(1e-5, runs, 1e-3)


def sums(arms, ys, count):
    return np.bincount(arms, minlength=count).astype(float), np.bincount(arms, ys, count)


def repetitions(arms, ys):
    groups = [ys[arms == arm] for arm in np.unique(arms)]
    return Repetitions(sum(((g - g.mean()) ** 2).sum() for g in groups), len(ys) - len(groups))


# ---------------------------------------------------------------- the evidence


@whatever
@given(seeds, st.floats(0.3, 4.0), st.floats(0.01, 100.0))
def test_many_measurements_at_once_are_one_after_the_other(seed, factor, noise_std):
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 1 + seed % 9, size=200)
    ys = 1000.0 * arms + factor * noise_std * rng.normal(size=200)
    one, many = NoiseGuard(np.full(9, noise_std)), NoiseGuard(np.full(9, noise_std))
    alarms = []
    for arm, y in zip(arms, ys, strict=True):
        one.add([arm], [y])
        alarms.append(one.alarmed)
    for i, j in ((0, 0), (0, 7), (7, 8), (8, 100), (100, 200)):
        many.add(arms[i:j], ys[i:j])
        assert many.alarmed == any(alarms[:j])
    assert alarms == sorted(alarms)
    assert (one.text, one.smaller, one.repetitions) == (many.text, many.smaller, many.repetitions)


@whatever
@given(seeds, st.floats(0.2, 3.0))
def test_evidence_of_larger_noise_never_exceeds_a_likelihood_ratio_whatever_the_means_are(seed, size):
    rng = np.random.default_rng(seed)
    counts, means = rng.integers(0, 7, size=4), 10.0 * rng.normal(size=4)
    noise, guard = [size * rng.normal(size=n) for n in counts], NoiseGuard(np.ones(4))
    for arm in rng.permutation(np.repeat(np.arange(4), counts)):
        guard.add([arm], [means[arm] + noise[arm][guard.counts[arm]]])
    terms = [
        np.log(weight / 4) + sum(log_ratio(x[:h], s**2 * np.eye(len(x[:h])) - (s**2 - 1) / h) for x in noise if len(x))
        for h in (2, 3, 5, 10**12)
        for s, weight in LARGER.items()
    ]
    assert log_evidence(guard._reached, guard._squares) <= np.logaddexp.reduce(terms) + 1e-9


@whatever
@given(seeds, st.floats(0.05, 2.0))
def test_evidence_of_smaller_noise_never_exceeds_a_likelihood_ratio_whatever_the_means_are(seed, size):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 7, size=4)
    noise = [size * rng.normal(size=n) for n in counts if n]
    found = log_evidence_of_smaller(counts, sum(((x - x.mean()) ** 2).sum() for x in noise))

    def mixture(parts):
        ratios = [sum(log_ratio(x, s**2 * np.eye(len(x)) + (1 - s**2)) for x in parts) for s in SMALLER]
        return np.logaddexp.reduce(ratios) - np.log(len(SMALLER))

    assert found <= mixture(noise) + 1e-9
    assert found == pytest.approx(mixture([x - x.mean() for x in noise]), abs=1e-8)  # at these, the two are equal


@whatever
@given(seeds, st.floats(0.2, 3.0))
def test_evidence_of_a_misfit_never_exceeds_a_likelihood_ratio_whatever_theta_is(seed, size):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, size=5)
    arm = np.repeat(np.arange(5), counts)
    noise = size * rng.normal(size=len(arm))
    ys = (ROWS @ (10.0 * rng.normal(size=2)))[arm] + noise
    found = fit_guard().fit(counts, np.bincount(arm, ys, minlength=5), in_full=True)
    if found is None:
        assert np.count_nonzero(counts) <= 2
        return
    same = (arm[:, None] == arm).astype(float)
    ratios = [log_ratio(noise, np.eye(len(arm)) + tau**2 * same) for tau in MISFITS]
    assert found.log_evidence <= np.logaddexp.reduce(ratios) - np.log(len(MISFITS)) + 1e-9


@whatever
@given(seeds, st.floats(0.5, 20.0))
def test_evidence_of_a_misfit_is_its_formula(seed, size):
    """SciPy minimises every factor over theta."""
    rng = np.random.default_rng(seed)
    n, means = rng.integers(1, 40, size=5), size * rng.normal(size=5)

    def least(tau):
        def factor(theta):
            return 0.5 * (n**2 * tau**2 / (1 + n * tau**2) * (means - ROWS @ theta) ** 2 - np.log1p(n * tau**2)).sum()

        return minimize(factor, np.zeros(2)).fun

    found = fit_guard().fit(n, n * means, in_full=True).log_evidence
    expected = np.logaddexp.reduce([least(tau) for tau in MISFITS]) - np.log(len(MISFITS))
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)


def test_a_misfit_that_is_skipped_as_harmless_is_harmless():
    rng, skipped, alarms = np.random.default_rng(0), 0, 0
    rows = sphere(1, 12, 3)
    for _ in range(400):
        counts = rng.integers(0, 30, size=12)
        means = rows @ rng.normal(size=3) + rng.uniform(0, 1.5) * rng.normal(size=12)
        found = fit_guard(rows).fit(counts, counts * means)
        evidence = fit_guard(rows).fit(counts, counts * means, in_full=True).log_evidence
        skipped += found is None
        alarms += evidence >= ALARM
        assert evidence < ALARM if found is None else found.log_evidence == evidence
    assert min(skipped, alarms) > 50


def evidence_against_the_prior(X, ys, mean, std, with_noise):
    """ln E from its definition, for Theta = R^d; marginal likelihoods by SciPy from their covariances."""

    def log_marginal(mean, std, noise=1.0):
        return multivariate_normal.logpdf(ys, X @ mean, (X * std**2) @ X.T + noise**2 * np.eye(len(ys)))

    d, stated = len(std), log_marginal(mean, std)
    e_all = [log_marginal(mean, s * std) - stated for s in PRIORS]
    e_one = [log_marginal(mean, np.where(np.eye(d)[c], s, 1.0) * std) - stated for c in range(d) for s in PRIORS]
    terms = [*(np.log(PRIOR_WEIGHTS) + e_all), *(np.tile(np.log(PRIOR_WEIGHTS / d), d) + e_one)]
    if with_noise:
        shift = (X.T @ (ys - X @ mean)).sum() / (X**2).sum()
        others = [log_marginal(mean + m, w * std) for m in (0.0, shift) for w in WIDTHS]
        terms += list(np.log(PRIOR_WEIGHTS) + [log_marginal(mean, std, s) for s in PRIORS] - max(others))
    return np.logaddexp.reduce(terms) - np.log(3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["units", "units alone", "sums"])
def test_the_alarm_of_the_prior_comes_at_evidence_of_one_thousand(kind, seed):
    rng, diagonal = np.random.default_rng(seed), np.diag([1.0, 2.0, 0.5, 1.0])
    rows = {"units": diagonal[[0, 1, 2, 3, 3]], "units alone": diagonal}.get(kind, rng.normal(size=(5, 4)))
    mean, std, alone = np.full(4, 0.3), np.full(4, 1.7), kind == "units alone"
    arms, noise = rng.integers(0, len(rows), size=12), rng.normal(size=12)
    X, guard, theta = rows[arms], prior_guard(rows, 0.3, 1.7), mean + std * rng.normal(size=4)

    def results(factor):
        return X @ mean + factor * (X @ (theta - mean) + noise)

    def alarm(ys):
        return bool(guard.test(*sums(arms, ys, len(rows)), repetitions(arms, ys) if alone else None))

    threshold = brentq(lambda f: evidence_against_the_prior(X, results(f), mean, std, alone) - ALARM, 1.0, 60.0)
    assert not alarm(results(threshold * (1 - 1e-6)))
    assert alarm(results(threshold * (1 + 1e-6)))


def test_a_prior_that_is_truncated_to_a_box_is_judged_as_such():
    """One component in [0.5, 4]: likelihoods by quadrature."""
    n, low, high = 3, 0.5, 4.0
    guard = prior_guard(np.eye(1), 0.0, 1.0, Box(low, high))

    def log_likelihood(y, scale):
        prior = norm(0.0, scale)
        value = quad(
            lambda x: prior.pdf(x) * np.exp(-n * (y - x) ** 2 / 2), low, high, epsabs=0, points=[min(max(y, low), high)]
        )
        return np.log(value[0] / (prior.cdf(high) - prior.cdf(low)))

    ratios = [log_likelihood(6.0, s) - log_likelihood(6.0, 1.0) for s in PRIORS]
    log_e = np.logaddexp.reduce(np.log(PRIOR_WEIGHTS) + ratios) + np.log(2 / 3)
    assert log_e < ALARM  # a factor of the truncated prior has little room: no y makes a difference
    for y in (1.0, 3.0, 6.0):
        assert guard.test(np.array([3.0]), np.array([3.0 * y])) == ""
    assert prior_guard(np.eye(1), 0.0, 1.0).test(np.array([3.0]), np.array([18.0])) != ""  # as it is without the box


def test_a_box_that_the_prior_hardly_reaches_is_no_conflict():
    """All of Theta is four standard deviations off: results there are what was stated."""
    for rows in (np.eye(2), np.array([[1.0, 1.0], [1.0, -1.0], [0.0, 1.0]])):
        counts = np.full(len(rows), 50.0)
        seen = counts, counts * (rows @ [4.2, 4.1])
        assert prior_guard(rows, 0.0, 1.0, Box(4.0, 9.0)).test(*seen) == ""
        assert prior_guard(rows, 0.0, 1.0).test(*seen) != "" or len(rows) == 2


# ---------------------------------------------------------------- false alarms


def lucky_runs(runs):
    """All means are equal, and what looked best among 100 arms is measured again: repetitions of luck."""
    rng = np.random.default_rng(1)
    for first in rng.normal(size=(3000, 100))[:runs]:
        best = np.argsort(-first)[:12]
        yield np.r_[np.arange(100), best, best], np.r_[first, rng.normal(size=24)]


def plain_runs(runs):
    rng = np.random.default_rng(1)
    for ys in rng.normal(size=(3000, 100))[:runs]:
        yield rng.integers(0, 8, size=100), ys


def noise_alarms(runs):
    return sum(noise_guard(np.ones(100), arms, ys).alarmed for arms, ys in runs)


def squares_and_degrees(arms, ys):
    """Of the residuals to the mean of the arm so far, after each measurement."""
    squares, degrees = np.zeros((2, len(ys)))
    counts, totals = np.zeros((2, 100))
    for t, (arm, y) in enumerate(zip(arms, ys, strict=True)):
        n = counts[arm]
        if n:
            squares[t], degrees[t] = (y - totals[arm] / n) ** 2 * n / (n + 1), 1.0
        counts[arm], totals[arm] = n + 1, totals[arm] + y
    return np.cumsum(squares), np.cumsum(degrees)


def alarms_without_charges(runs):
    """The same mixture, as if no policy ever repeated what looked good."""
    s, log_weights = np.array(list(LARGER)), np.log(list(LARGER.values()))

    def evidence(squares, degrees):
        terms = log_weights + np.outer(squares, (1 - s**-2) / 2) - np.outer(degrees, np.log(s))
        return np.logaddexp.reduce(terms, axis=1).max()

    return sum(evidence(*squares_and_degrees(arms, ys)) >= ALARM for arms, ys in runs)


def alarms_of_one_look(runs):
    """A test for one look, at level 1/1000, looked at all the time."""

    def alarm(squares, degrees):
        return (squares[degrees > 0] > chi2.isf(1e-3, degrees[degrees > 0])).any()

    return sum(alarm(*squares_and_degrees(arms, ys)) for arms, ys in runs)


def central_runs(runs, rng, scale):
    """All means are 0, which the policy knows: what came closest among 300 arms is measured again, and again."""
    first, second, third = scale * rng.normal(size=(3, runs, 300))
    order = np.argsort(np.abs(first), axis=1)[:, :100]
    x = np.stack([np.take_along_axis(y, order, axis=1) for y in (first, second, third)])
    for n in (2, 3):
        counts = np.where(np.arange(300) < 100, n, 1)
        yield np.broadcast_to(counts, (runs, 300)), ((x[:n] - x[:n].mean(axis=0)) ** 2).sum(axis=(0, 2))


def greedy_runs(runs, rng, scale, arms=8, steps=80):
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


def alarms_of_smaller(play, runs, seed=3, scale=1.0, charged=True):
    alarmed = np.zeros(runs, dtype=bool)
    for counts, squares in play(runs, np.random.default_rng(seed), scale):
        for r in np.flatnonzero(~alarmed):
            n = np.maximum(counts[r] - 1, 0)
            charge = 0.0 if charged else np.log1p(np.outer(1 - SMALLER**2, n)).sum(axis=1).min() / 2
            alarmed[r] = log_evidence_of_smaller(counts[r], float(squares[r])) + charge >= ALARM
    return int(alarmed.sum())


def misfit_alarms(runs, make_judge):
    """Mostly, the arm that fits worst so far is measured again; judged after every measurement."""
    alarms = 0
    for seed in range(runs):
        rng, judge = np.random.default_rng(seed), make_judge()
        counts, totals = np.zeros(5, dtype=np.int64), np.zeros(5)
        mean = ROWS @ rng.normal(size=2)
        for t in range(60):
            arm = t if t < 5 else int(rng.integers(5))
            if t >= 5 and rng.random() < 0.7:
                theta = np.linalg.solve((ROWS.T * counts) @ ROWS, totals @ ROWS)
                arm = int((np.abs(totals / counts - ROWS @ theta) * np.sqrt(counts)).argmax())
            counts[arm] += 1
            totals[arm] += mean[arm] + rng.normal()
            if judge(counts, totals):
                alarms += 1
                break
    return alarms


def ratio_of_the_best_fit():
    """A likelihood ratio of the best means and the best theta, as if nothing had been fitted."""

    def judge(counts, totals):
        if counts.min() == 0:
            return False
        theta = np.linalg.solve((ROWS.T * counts) @ ROWS, totals @ ROWS)
        return 0.5 * (counts * (totals / counts - ROWS @ theta) ** 2).sum() >= ALARM

    return judge


def misfit_alarms_of(policy, runs=400):
    """Runs side by side, each judged after every measurement."""
    rng, guard, alarmed = np.random.default_rng(0), fit_guard(), np.zeros(runs, dtype=bool)
    made = policy(unit_problem(ExplicitOracle(np.eye(2)), arms=ROWS), 0, replications=runs)
    for _ in range(40):
        arm = made.next_arms()
        made.learn(arm, ROWS[arm] @ [0.5, 0.4] + rng.normal(size=runs))
        for r in np.flatnonzero(~alarmed):
            alarmed[r] = bool(guard.test(made.pulls[r], made.totals[r]))
    return int(alarmed.sum())


def prior_alarms(runs, width, seed, d=12):
    """Theta from a prior of that width; the arm that is furthest from the mean, or looks best, is measured again."""
    rng, guard, alarmed = np.random.default_rng(seed), prior_guard(np.eye(d), 0.0, 1.0), np.zeros(runs, dtype=bool)
    theta = width * rng.normal(size=(runs, d))
    counts, totals, squares = np.zeros((3, runs, d))
    at = np.arange(runs)
    for t in range(60):
        means = totals / np.maximum(counts, 1.0)
        arm = np.full(runs, t) if t < d else (np.abs(means) if t % 2 else means).argmax(axis=1)
        y = theta[at, arm] + rng.normal(size=runs)
        counts[at, arm] += 1
        totals[at, arm] += y
        squares[at, arm] += y**2
        if t + 1 in (18, 30, 60):
            left = (squares - totals**2 / np.maximum(counts, 1.0)).sum(axis=1)
            for r in np.flatnonzero(~alarmed):
                seen = Repetitions(left[r], np.maximum(counts[r] - 1, 0).sum())
                alarmed[r] = bool(guard.test(counts[r], totals[r], seen))
    return int(alarmed.sum())


FALSE_ALARMS = {
    "larger noise, repetitions of luck": (3000, lambda runs: noise_alarms(lucky_runs(runs))),
    "larger noise, plain runs": (3000, lambda runs: noise_alarms(plain_runs(runs))),
    "smaller noise, what is closest to the mean": (2000, lambda runs: alarms_of_smaller(central_runs, runs)),
    "smaller noise, what looks best": (2000, lambda runs: alarms_of_smaller(greedy_runs, runs)),
    "misfit, what fits worst": (500, lambda runs: misfit_alarms(runs, lambda: fit_guard().test)),
    "misfit, top-two": (400, lambda runs: misfit_alarms_of(TopTwo, runs)),
    "misfit, peps": (400, lambda runs: misfit_alarms_of(PEPS, runs)),
    "prior": (1000, lambda runs: prior_alarms(runs, 1.0, 1)),
}
MANY_RUNS = {
    "smaller noise, what is closest to the mean": (20_000, lambda runs: alarms_of_smaller(central_runs, runs, 4)),
    "smaller noise, what looks best": (20_000, lambda runs: alarms_of_smaller(greedy_runs, runs, 4)),
    "prior": (10_000, lambda runs: prior_alarms(runs, 1.0, 2)),
}
CONTROLS = {
    "larger noise without charges": (1000, lambda runs: alarms_without_charges(lucky_runs(runs))),
    "larger noise by a test for one look": (1000, lambda runs: alarms_of_one_look(plain_runs(runs))),
    "smaller noise without charges": (300, lambda runs: alarms_of_smaller(central_runs, runs, charged=False)),
    "noise of half the size": (100, lambda runs: alarms_of_smaller(greedy_runs, runs, scale=0.5)),
    "misfit without charges": (500, lambda runs: misfit_alarms(runs, ratio_of_the_best_fit)),
    "a prior of half the width": (100, lambda runs: prior_alarms(runs, 2.0, 1)),
}


@pytest.mark.parametrize(("runs", "alarms"), FALSE_ALARMS.values(), ids=FALSE_ALARMS)
def test_false_alarms_are_rarer_than_one_in_a_thousand(runs, alarms):
    assert not too_many(alarms(runs), runs)


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "alarms"), MANY_RUNS.values(), ids=MANY_RUNS)
def test_false_alarms_in_many_runs(runs, alarms):
    assert not too_many(alarms(runs), runs)


@pytest.mark.parametrize(("runs", "alarms"), CONTROLS.values(), ids=CONTROLS)
def test_the_test_of_false_alarms_can_fail(runs, alarms):
    assert too_many(alarms(runs), runs)


# ---------------------------------------------------------------- power


@pytest.mark.parametrize(("arms", "times"), [(1, 31), (2, 16), (3, 11), (5, 7), (6, 6), (10, 4), (15, 3), (30, 2)])
def test_thirty_repetitions_show_noise_twice_as_large(arms, times):
    order = np.tile(np.arange(arms), times)
    noise = np.random.default_rng(2).normal(size=(800, len(order)))
    found = sum(noise_guard(np.ones(arms), order, 5.0 * order + 2.0 * ys).alarmed for ys in noise)
    assert binom.cdf(found, len(noise), 0.9) > 1e-3  # as noise of 1.4 times does not
    some = sum(noise_guard(np.ones(arms), order, 5.0 * order + 1.4 * ys).alarmed for ys in noise[:100])
    assert binom.cdf(some, 100, 0.9) < 1e-3


@pytest.mark.parametrize(("arms", "times"), [(1, 41), (4, 11), (10, 5), (20, 3)])
def test_forty_repetitions_show_noise_of_a_third(arms, times):
    order, rng, found = np.tile(np.arange(arms), times), np.random.default_rng(2), 0
    for _ in range(100):
        guard = noise_guard(np.ones(arms), order, 5.0 * order + rng.normal(size=len(order)) / 3)
        assert not guard.alarmed
        found += "times as large as stated" in guard.smaller
    assert binom.cdf(found, 100, 0.9) > 1e-3


def test_noise_that_is_a_little_smaller_is_not_reported():
    rng = np.random.default_rng(0)
    guard = noise_guard(np.ones(3), rng.integers(0, 3, size=20_000), 0.9 * rng.normal(size=20_000))
    assert guard.smaller == guard.text == ""


@pytest.mark.parametrize("kind", ["curved", "one row"])
def test_clear_misfits_are_found(kind):
    rng, rows, found = np.random.default_rng(0), sphere(2, 12, 3), 0
    counts = np.full(12, 40)
    for _ in range(100):
        truth = rows @ (2.0 * rng.normal(size=3) / 3**0.5 if kind == "one row" else np.array([2.0, -1.0, 1.0]))
        mean = truth + (0.5 * truth**2 if kind == "curved" else 2.0 * (np.arange(12) == 5))
        text = fit_guard(rows).test(counts, counts * mean + np.sqrt(counts) * rng.normal(size=12))
        found += bool(text)
        if kind == "one row" and text:
            assert text.startswith("the arms contradict each other: 5 averages")
    assert binom.cdf(found, 100, 0.95) > 1e-3


def test_fifty_components_show_a_prior_three_times_too_narrow():
    rng, found, control = np.random.default_rng(3), 0, 0
    guard, counts = prior_guard(np.eye(50), 0.0, 1.0), np.full(50, 2.0)
    for _ in range(200):
        theta, noise = rng.normal(size=50), rng.normal(size=50) / np.sqrt(2)
        found += bool(guard.test(counts, counts * (3.0 * theta + noise)))
        control += bool(guard.test(counts, counts * (theta + noise)))
    assert binom.cdf(found, 200, 0.99) > 1e-3
    assert control <= 3


def test_one_of_many_components_shows_a_wrong_prior():
    theta = np.random.default_rng(4).normal(size=500)
    guard, counts = prior_guard(np.eye(500), 0.0, 1.0), np.ones(500)
    assert guard.test(counts, theta) == ""
    theta[7] = 12.0
    assert "7 is 8.5 standard deviations off its prior mean 0" in guard.test(counts, theta)


@pytest.mark.parametrize("rows", [np.eye(20), np.vstack([np.eye(20), np.tri(20)])], ids=["units", "sums"])
def test_a_prior_that_is_too_wide_or_not_stated_is_no_conflict(rows):
    rng = np.random.default_rng(5)
    counts = np.full(len(rows), 3.0)
    totals = counts * (rows @ rng.normal(size=20)) + np.sqrt(3.0) * rng.normal(size=len(rows))
    assert prior_guard(rows, 0.0, 100.0).test(counts, totals) == ""
    assert prior_guard(rows, 0.0, 0.01).test(counts, totals) != ""
    assert prior_guard(rows, 0.0, 0.01, stated=False).test(counts, totals) == ""


def test_luck_under_a_wide_prior_is_not_taken_for_noise():
    """All means are 5, the prior is wide, and what looked best is measured again."""
    guard, alarms = prior_guard(np.eye(100), 0.0, 20.0), 0
    for arms, ys in islice(lucky_runs(3000), 100):
        alarms += bool(guard.test(*sums(arms, 5.0 + ys, 100), repetitions(arms, ys)))
    assert not too_many(alarms, 100)


def test_noise_shows_under_the_prior_where_repetitions_are_few():
    """Twelve arms, each measured once or twice, with four times the stated noise."""
    rng, found = np.random.default_rng(1), 0
    guard = prior_guard(np.eye(12), 0.0, 4.0)
    for _ in range(200):
        theta = 4.0 * rng.normal(size=12)
        arms = np.r_[np.arange(12), rng.integers(0, 12, size=8)]
        ys = theta[arms] + 4.0 * rng.normal(size=20)
        found += "noise about" in guard.test(*sums(arms, ys, 12), repetitions(arms, ys))
    assert binom.cdf(found, 200, 0.8) > 1e-3


# ---------------------------------------------------------------- odd cases


@pytest.mark.parametrize("y", [1e308, -1e308, 1e-308])
def test_enormous_numbers_are_survived(y):
    guard = noise_guard([1e-10], [0] * 100, [y, -y, y, 0.0, -y] * 20)
    assert guard.alarmed == (abs(y) > 1.0)
    assert np.isfinite(guard.ratio)


def test_arms_that_fit_as_badly_are_counted():
    guard = FitGuard(Arms(ROWS[:3], ["a", "b", "both"]))  # one degree of freedom: which one it is cannot be told
    counts = np.array([90, 90, 90])
    assert "2 others are off as far" in guard.test(counts, counts * [1.0, 2.0, 4.5])


def test_arms_that_cannot_contradict_each_other_are_not_looked_at():
    for arms in (Arms(np.eye(3)), Arms(ROWS[:2]), Arms.of(TopKOracle(5, k=1))):
        guard = FitGuard(arms)
        assert not guard.active
        assert guard.test(np.full(len(arms), 1000), 1e6 * np.arange(len(arms))) == ""


def test_unit_arms_of_one_component_can_contradict_each_other():
    arms = Arms(np.array([[1.0, 0, 0], [2.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]), ["once", "twice", "b", "c"])
    counts = np.full(4, 200)
    assert FitGuard(arms).test(counts, counts * [3.0, 6.0, -50.0, 7.0]) == ""
    text = FitGuard(arms).test(counts, counts * [3.0, 7.0, -50.0, 7.0])
    assert "'once' averages" in text or "'twice' averages" in text


@pytest.mark.parametrize("large", [1.0, 1e6, 1e12, 1e90])
def test_rounding_is_no_misfit(large):
    rng = np.random.default_rng(0)
    rows = sphere(0, 9, 4) * 10.0 ** rng.uniform(-4, 4, size=(9, 1))
    counts = 10 ** rng.integers(0, 6, size=9)
    totals = counts * (rows @ (large * rng.normal(size=4))) + np.sqrt(counts) * rng.normal(size=9)
    assert fit_guard(rows).test(counts, totals) == ""
    off = totals * np.where(np.arange(9) == counts.argmax(), 1.5, 1.0)
    assert bool(fit_guard(rows).test(counts, off)) == (large > 1e3)


def test_arms_measured_in_one_direction_only_are_no_misfit():
    guard = fit_guard(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    assert guard.test(np.array([50, 50, 50, 0, 0]), 50 * np.array([1.0, 2.0, 3.0, 0, 0])) == ""
