"""`PriorGuard`: alarms at the stated evidence, by chance in at most one run in 1,000, and wrong priors are detected."""

import warnings

import numpy as np
import pytest
from alarms import too_many
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom, multivariate_normal, norm
from sessions import session_of
from unit_problem import unit_problem

from combopeps import Arms, Box, PriorWarning, TopKOracle, TopTwo, identify
from combopeps.session.guards import PriorGuard, Repetitions
from combopeps.space import RealSpace

SCALES, WEIGHTS = [1.25, 1.5, 2.0, 3.0, 6.0, 16.0, 64.0, 256.0, 1024.0], np.array([2, 4, 4, 2, 1, 1, 1, 1, 1]) / 17
WIDTHS = [0.02, 0.1, 0.25, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 6.0, 16.0, 64.0, 256.0, 1e3, 1e4]


def guard_of(rows, mean, std, space=None, **options):
    d = rows.shape[1]
    return PriorGuard(Arms(rows), list(range(d)), np.full(d, mean), np.full(d, std), space or RealSpace(), **options)


def sums(arms, ys, count):
    return np.bincount(arms, minlength=count).astype(float), np.bincount(arms, ys, count)


def residuals(arms, ys):
    groups = [ys[arms == arm] for arm in np.unique(arms)]
    return Repetitions(sum(((g - g.mean()) ** 2).sum() for g in groups), len(ys) - len(groups))


# ---------------------------------------------------------------- the statistic


def log_marginal(X, ys, mean, std, noise=1.0):
    """Of measurements ys of the rows X, by SciPy from their covariances."""
    return multivariate_normal.logpdf(ys, X @ mean, (X * std**2) @ X.T + noise**2 * np.eye(len(ys)))


def evidence(X, ys, mean, std, with_noise):
    """ln E from its definition, for Theta = R^d."""
    d, stated = len(std), log_marginal(X, ys, mean, std)
    each = [np.where(np.eye(d)[c], s, 1.0) for c in range(d) for s in SCALES]
    e_all = [log_marginal(X, ys, mean, s * std) - stated for s in SCALES]
    e_one = [log_marginal(X, ys, mean, factor * std) - stated for factor in each]
    terms = [*(np.log(WEIGHTS) + e_all), *(np.tile(np.log(WEIGHTS / d), d) + e_one)]
    if with_noise:
        noisy = [log_marginal(X, ys, mean, std, s) for s in SCALES]
        shift = (X.T @ (ys - X @ mean)).sum() / (X**2).sum()
        others = [log_marginal(X, ys, mean + m, w * std) for m in (0.0, shift) for w in WIDTHS]
        terms += list(np.log(WEIGHTS) + noisy - max(others))
    return np.logaddexp.reduce(terms) - np.log(3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["units", "units alone", "sums"])
def test_the_alarm_comes_at_evidence_of_one_thousand(kind, seed):
    rng = np.random.default_rng(seed)
    d = 4
    rows = {"units": np.diag([1.0, 2.0, 0.5, 1.0])[[0, 1, 2, 3, 3]], "units alone": np.diag([1.0, 2.0, 0.5, 1.0])}.get(
        kind, rng.normal(size=(5, d))
    )
    mean, std = 0.3, 1.7
    arms, noise = rng.integers(0, len(rows), size=12), rng.normal(size=12)
    X, guard = rows[arms], guard_of(rows, mean, std)
    theta = mean + std * rng.normal(size=d)
    alone = kind == "units alone"

    def at(factor):
        ys = X @ np.full(d, mean) + factor * (X @ (theta - mean) + noise)
        return ys, evidence(X, ys, np.full(d, mean), np.full(d, std), alone)

    def alarm(ys):
        return bool(guard.judge(*sums(arms, ys, len(rows)), residuals(arms, ys) if alone else None))

    threshold = brentq(lambda f: at(f)[1] - np.log(1000), 1.0, 60.0)
    assert not alarm(at(threshold * (1 - 1e-6))[0])
    assert alarm(at(threshold * (1 + 1e-6))[0])


def test_a_prior_that_is_truncated_to_a_box_is_judged_as_such():
    """One component in [0.5, 4]: likelihoods by quadrature."""
    n, low, high, std = 3, 0.5, 4.0, 1.0
    guard = guard_of(np.eye(1), 0.0, std, Box(low, high))

    def log_likelihood(y, scale):
        prior = norm(0.0, scale * std)
        value = quad(
            lambda x: prior.pdf(x) * np.exp(-n * (y - x) ** 2 / 2), low, high, epsabs=0, points=[min(max(y, low), high)]
        )
        return np.log(value[0] / (prior.cdf(high) - prior.cdf(low)))

    def log_e(y):
        ratios = [log_likelihood(y, s) - log_likelihood(y, 1.0) for s in SCALES]
        return np.logaddexp.reduce(np.log(WEIGHTS) + ratios) + np.log(2 / 3)

    assert log_e(6.0) < np.log(1000)  # a factor of the truncated prior has little room: no y makes a difference
    for y in (1.0, 3.0, 6.0):
        assert guard.judge(np.array([3.0]), np.array([3.0 * y])) == ""
    assert guard_of(np.eye(1), 0.0, std).judge(np.array([3.0]), np.array([18.0])) != ""  # as it is without the box


def test_a_box_that_the_prior_hardly_reaches_is_no_conflict():
    """All of Theta is four standard deviations off: results there are what was stated."""
    for rows in (np.eye(2), np.array([[1.0, 1.0], [1.0, -1.0], [0.0, 1.0]])):
        guard = guard_of(rows, 0.0, 1.0, Box(4.0, 9.0))
        counts = np.full(len(rows), 50.0)
        assert guard.judge(counts, counts * (rows @ [4.2, 4.1])) == ""
        assert guard_of(rows, 0.0, 1.0).judge(counts, counts * (rows @ [4.2, 4.1])) != "" or len(rows) == 2


# ---------------------------------------------------------------- false alarms and power


def adaptive_runs(runs, width, rng, d=12, steps=(18, 30, 60)):
    """Theta from a prior of that width; the arm that is furthest from the mean, or looks best, is measured again."""
    theta = width * rng.normal(size=(runs, d))
    counts, totals, squares = np.zeros((runs, d)), np.zeros((runs, d)), np.zeros((runs, d))
    at, rows = np.arange(runs), []
    for t in range(max(steps)):
        means = totals / np.maximum(counts, 1.0)
        arm = np.full(runs, t) if t < d else (np.abs(means) if t % 2 else means).argmax(axis=1)
        y = theta[at, arm] + rng.normal(size=runs)
        counts[at, arm] += 1
        totals[at, arm] += y
        squares[at, arm] += y**2
        if t + 1 in steps:
            rows.append((counts.copy(), totals.copy(), squares - totals**2 / np.maximum(counts, 1.0)))
    return rows


def runs_with_an_alarm(runs, width, seed):
    guard, alarmed = guard_of(np.eye(12), 0.0, 1.0), np.zeros(runs, dtype=bool)
    for counts, totals, squares in adaptive_runs(runs, width, np.random.default_rng(seed)):
        for r in np.flatnonzero(~alarmed):
            left = Repetitions(squares[r].sum(), np.maximum(counts[r] - 1, 0).sum())
            alarmed[r] = bool(guard.judge(counts[r], totals[r], left))
    return int(alarmed.sum())


def test_false_alarms_are_rarer_than_one_in_a_thousand():
    assert not too_many(runs_with_an_alarm(1000, 1.0, 1), 1000)


def test_the_test_of_false_alarms_can_fail():
    assert too_many(runs_with_an_alarm(100, 2.0, 1), 100)


@pytest.mark.slow
def test_false_alarms_in_many_runs():
    assert not too_many(runs_with_an_alarm(10_000, 1.0, 2), 10_000)


def test_fifty_components_show_a_prior_three_times_too_narrow():
    rng, found, control = np.random.default_rng(3), 0, 0
    guard, counts = guard_of(np.eye(50), 0.0, 1.0), np.full(50, 2.0)
    for _ in range(200):
        theta, noise = rng.normal(size=50), rng.normal(size=50) / np.sqrt(2)
        found += bool(guard.judge(counts, counts * (3.0 * theta + noise)))
        control += bool(guard.judge(counts, counts * (theta + noise)))
    assert binom.cdf(found, 200, 0.99) > 1e-3
    assert control <= 3


def test_one_of_many_components_is_enough():
    theta = np.random.default_rng(4).normal(size=500)
    guard, counts = guard_of(np.eye(500), 0.0, 1.0), np.ones(500)
    assert guard.judge(counts, theta) == ""
    theta[7] = 12.0
    assert "7 is 8.5 standard deviations off its prior mean 0" in guard.judge(counts, theta)


@pytest.mark.parametrize("rows", [np.eye(20), np.vstack([np.eye(20), np.tri(20)])])
def test_a_prior_that_is_too_wide_or_not_stated_is_no_conflict(rows):
    rng = np.random.default_rng(5)
    counts = np.full(len(rows), 3.0)
    totals = counts * (rows @ rng.normal(size=20)) + np.sqrt(3.0) * rng.normal(size=len(rows))
    assert guard_of(rows, 0.0, 100.0).judge(counts, totals) == ""
    assert guard_of(rows, 0.0, 0.01).judge(counts, totals) != ""
    assert guard_of(rows, 0.0, 0.01, stated=False).judge(counts, totals) == ""


def test_luck_under_a_wide_prior_is_not_taken_for_noise():
    """All means are 5, the prior is wide, and what looked best is measured again."""
    rng, alarms = np.random.default_rng(6), 0
    guard = guard_of(np.eye(100), 0.0, 20.0)
    for _ in range(100):
        ys = 5.0 + rng.normal(size=100)
        best = np.argsort(-ys)[:12]
        arms, ys = np.r_[np.arange(100), best, best], np.r_[ys, 5.0 + rng.normal(size=24)]
        alarms += bool(guard.judge(*sums(arms, ys, 100), residuals(arms, ys)))
    assert not too_many(alarms, 100)


# ---------------------------------------------------------------- in runs

VALUES = {"a": 82.0, "b": 81.0, "c": 70.0, "d": 60.0}


def items(**options):
    return unit_problem(TopKOracle(VALUES, k=1), **({"noise_std": 1.0, "prior_mean": 0.0, "prior_std": 1.0} | options))


def measured(seed):
    rng = np.random.default_rng(seed)
    return lambda item: VALUES[item] + rng.normal()


def test_claims_that_rest_on_the_prior_are_taken_back():
    wrong = 0
    for seed in range(8):
        with pytest.warns(PriorWarning, match="standard deviations off its prior mean 0"):
            result = identify(items(), measured(seed), rng=seed)
        wrong += result.answer != {"a"}
        assert "; but the results contradict the stated prior" in result.claim
        assert result.claim.endswith("and then it does not hold")
        assert "claims that rest on the prior do not hold" in result.to_dict()["warning"]
        assert "does not hold" in result.to_dict()["claim"]
    assert wrong >= 3  # the claims had to be taken back
    fine = identify(items(prior_mean=75.0, prior_std=10.0), measured(0), rng=0)
    assert (fine.warning, "hold" in fine.claim) == ("", False)


@pytest.mark.parametrize("rule", ["certified", "verified", "guaranteed", "clucb"])
def test_guarantees_for_every_theta_stand(rule):
    with pytest.warns(PriorWarning):
        result = identify(items(), measured(1), stopping=rule, delta=0.1)
    assert "on which this claim does not rest" in result.claim
    assert "does not hold" not in result.claim
    assert "contradict the stated prior" in result.warning


def test_at_the_end_of_a_budget():
    with pytest.warns(PriorWarning):
        result = identify(items(), measured(1), stopping="budget", budget=20)
    assert result.claim.endswith("and then it does not hold")


@pytest.mark.parametrize("before", [0, 10, 5000])
def test_a_prior_that_is_far_too_small_is_detected_at_once(before):
    session = session_of(TopTwo, TopKOracle(3, k=1))
    rng = np.random.default_rng(0)
    session.observe_table([(0, y) for y in rng.normal(size=before)] or [(2, 0.0)])
    with pytest.warns(PriorWarning):
        session.observe(1, 300.0, confirm=True)


def test_noise_of_unknown_size_is_learnt_before_the_prior_is_judged():
    rng = np.random.default_rng(0)

    def told(shift):
        session = session_of(TopTwo, items(noise_std=None))
        for i in range(100):
            item = "abcd"[i % 4]
            session.observe(item, shift * (item == "a") + 0.1 * rng.normal())

    told(1.0)  # a warning would be an error
    with pytest.warns(PriorWarning, match="'a' is"):
        told(12.0)


def test_larger_noise_is_not_blamed_on_the_prior():
    rng, problem = np.random.default_rng(0), items(prior_std=5.0)
    session = session_of(TopTwo, problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(200):
            session.observe("a", 20.0 * rng.normal(), confirm=True)
    assert "noise looks 19 times" in session.status().warning
    assert "prior" not in session.status().warning


def test_noise_shows_under_the_prior_where_repetitions_are_few():
    """Twelve arms, each measured once or twice, with four times the stated noise."""
    rng, found = np.random.default_rng(1), 0
    guard = guard_of(np.eye(12), 0.0, 4.0)
    for _ in range(200):
        theta = 4.0 * rng.normal(size=12)
        arms = np.r_[np.arange(12), rng.integers(0, 12, size=8)]
        ys = theta[arms] + 4.0 * rng.normal(size=20)
        found += "noise about" in guard.judge(*sums(arms, ys, 12), residuals(arms, ys))
    assert binom.cdf(found, 200, 0.8) > 1e-3
