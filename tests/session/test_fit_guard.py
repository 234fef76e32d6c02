"""`FitGuard`: false alarms at most 1 in 1,000 under any policy, and results that are no linear function are detected."""

import numpy as np
import pytest
from alarms import too_many
from fit_cases import curved, sphere
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binom, multivariate_normal
from unit_problem import unit_problem

from combopeps import PEPS, Arms, ExplicitOracle, TopKOracle, TopTwo
from combopeps.session.guards import _ALARM, _MISFITS, FitGuard

ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0], [0.5, 1.0]])


def terms(rows, counts, means):
    """ln of the factor of every tau at a theta, as the module's docstring has it."""

    def at(theta):
        error = means - rows @ theta
        n = counts[None]
        tau = _MISFITS[:, None]
        return 0.5 * (n**2 * tau**2 / (1 + n * tau**2) * error**2 - np.log1p(n * tau**2)).sum(axis=1)

    return at


# ---------------------------------------------------------------- the statistic


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.5, 20.0))
def test_it_is_the_formula(seed, size):
    """SciPy minimises every factor over theta."""
    rng = np.random.default_rng(seed)
    counts, means = rng.integers(1, 40, size=5), size * rng.normal(size=5)
    guard = FitGuard(Arms(ROWS))
    guard.alarmed = True  # whatever the evidence is
    found = guard.judge(counts, counts * means).log_evidence
    at = terms(ROWS, counts.astype(float), means)
    least = [minimize(lambda theta, i=i: at(theta)[i], np.zeros(2)).fun for i in range(len(_MISFITS))]
    assert found == pytest.approx(np.logaddexp.reduce(least) - np.log(len(_MISFITS)), rel=1e-4, abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.2, 3.0))
def test_it_never_exceeds_a_likelihood_ratio_whatever_theta_is(seed, size):
    """A likelihood ratio against the truth is a martingale under any policy; SciPy computes it from its covariances."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, size=5)
    arm = np.repeat(np.arange(5), counts)
    noise = size * rng.normal(size=len(arm))
    ys = (ROWS @ (10.0 * rng.normal(size=2)))[arm] + noise
    sums = np.bincount(arm, ys, minlength=5)
    guard = FitGuard(Arms(ROWS))
    guard.alarmed = True
    found = guard.judge(counts, sums)
    if found is None:
        assert np.count_nonzero(counts) <= 2
        return
    same = (arm[:, None] == arm).astype(float)
    plain = multivariate_normal.logpdf(noise, cov=np.eye(len(arm)))
    ratios = [multivariate_normal.logpdf(noise, cov=np.eye(len(arm)) + tau**2 * same) - plain for tau in _MISFITS]
    assert found.log_evidence <= np.logaddexp.reduce(ratios) - np.log(len(_MISFITS)) + 1e-9


def test_what_is_skipped_as_harmless_is_harmless():
    rng, skipped, alarms = np.random.default_rng(0), 0, 0
    for _ in range(400):
        counts = rng.integers(0, 30, size=12)
        rows = sphere(1, 12, 3)
        means = rows @ rng.normal(size=3) + rng.uniform(0, 1.5) * rng.normal(size=12)
        quick, full = FitGuard(Arms(rows)), FitGuard(Arms(rows))
        full.alarmed = True
        found = quick.judge(counts, counts * means)
        evidence = full.judge(counts, counts * means).log_evidence
        skipped += found is None
        alarms += evidence >= _ALARM
        assert evidence < _ALARM if found is None else found.log_evidence == evidence
    assert min(skipped, alarms) > 50


# ---------------------------------------------------------------- false alarms and power

RUNS, STEPS = 500, 60


def adaptive_run(seed, judge):
    """Mostly, the arm that fits worst so far is measured again; judged after every measurement."""
    rng = np.random.default_rng(seed)
    rows, counts, sums = ROWS, np.zeros(5, dtype=np.int64), np.zeros(5)
    mean = rows @ rng.normal(size=2)
    for t in range(STEPS):
        arm = t if t < len(rows) else int(rng.integers(len(rows)))
        if t >= len(rows) and rng.random() < 0.7:
            theta = np.linalg.solve((rows.T * counts) @ rows, sums @ rows)
            arm = int((np.abs(sums / counts - rows @ theta) * np.sqrt(counts)).argmax())
        counts[arm] += 1
        sums[arm] += mean[arm] + rng.normal()
        if judge(counts, sums):
            return t + 1
    return None


def guard_alarms():
    return FitGuard(Arms(ROWS)).look


def uncharged_alarms():
    """A likelihood ratio of the best means and the best theta, as if nothing had been fitted."""

    def judge(counts, sums):
        if counts.min() == 0:
            return False
        theta = np.linalg.solve((ROWS.T * counts) @ ROWS, sums @ ROWS)
        return 0.5 * (counts * (sums / counts - ROWS @ theta) ** 2).sum() >= np.log(1000)

    return judge


def test_false_alarms_are_rarer_than_one_in_a_thousand():
    alarms = sum(adaptive_run(seed, guard_alarms()) is not None for seed in range(RUNS))
    assert not too_many(alarms, RUNS)


def test_the_test_of_false_alarms_can_fail():
    alarms = sum(adaptive_run(seed, uncharged_alarms()) is not None for seed in range(RUNS))
    assert too_many(alarms, RUNS)


@pytest.mark.parametrize("policy", [TopTwo, PEPS])
def test_policies_that_look_for_luck_raise_no_false_alarms(policy):
    """400 runs side by side, each judged after every measurement."""
    rng, arms = np.random.default_rng(0), Arms(ROWS)
    runs = policy(unit_problem(ExplicitOracle(np.eye(2)), arms=ROWS), 0, replications=400)
    guards = [FitGuard(arms) for _ in range(400)]
    for _ in range(40):
        arm = runs.next_arms()
        runs.learn(arm, ROWS[arm] @ [0.5, 0.4] + rng.normal(size=400))
        for r, guard in enumerate(guards):
            guard.look(runs.pulls[r], runs.totals[r])
    assert not too_many(sum(guard.alarmed for guard in guards), 400)


@pytest.mark.parametrize("kind", ["curved", "one row"])
def test_clear_misfits_are_found(kind):
    rng, rows, found = np.random.default_rng(0), sphere(2, 12, 3), 0
    counts = np.full(12, 40)
    for _ in range(100):
        truth = rows @ (2.0 * rng.normal(size=3) / 3**0.5 if kind == "one row" else np.array([2.0, -1.0, 1.0]))
        mean = curved(truth) if kind == "curved" else truth + 2.0 * (np.arange(12) == 5)
        guard = FitGuard(Arms(rows))
        found += guard.look(counts, counts * mean + np.sqrt(counts) * rng.normal(size=12))
        if kind == "one row" and guard.alarmed:
            assert guard.text.startswith("the arms contradict each other: 5 averages")
    assert binom.cdf(found, 100, 0.95) > 1e-3


def test_arms_that_fit_as_badly_are_counted():
    guard = FitGuard(Arms(ROWS[:3], ["a", "b", "both"]))  # one degree of freedom: which one it is cannot be told
    counts = np.array([90, 90, 90])
    assert guard.look(counts, counts * [1.0, 2.0, 4.5])
    assert "2 others are off as far" in guard.text


# ---------------------------------------------------------------- odd cases


def test_arms_that_cannot_contradict_each_other_are_not_looked_at():
    for arms in (Arms(np.eye(3)), Arms(ROWS[:2]), Arms.of(TopKOracle(5, k=1))):
        guard = FitGuard(arms)
        assert not guard.active
        assert not guard.due(10**9)
        assert not guard.look(np.full(len(arms), 1000), 1e6 * np.arange(len(arms)))


def test_unit_arms_of_one_component_can_contradict_each_other():
    arms = Arms(np.array([[1.0, 0, 0], [2.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]), ["once", "twice", "b", "c"])
    counts = np.full(4, 200)
    fits, does_not = FitGuard(arms), FitGuard(arms)
    assert not fits.look(counts, counts * [3.0, 6.0, -50.0, 7.0])
    assert does_not.look(counts, counts * [3.0, 7.0, -50.0, 7.0])
    assert "'once' averages" in does_not.text or "'twice' averages" in does_not.text


@pytest.mark.parametrize("large", [1.0, 1e6, 1e12, 1e90])
def test_rounding_is_no_misfit(large):
    rng = np.random.default_rng(0)
    rows = sphere(0, 9, 4) * 10.0 ** rng.uniform(-4, 4, size=(9, 1))
    counts = 10 ** rng.integers(0, 6, size=9)
    sums = counts * (rows @ (large * rng.normal(size=4))) + np.sqrt(counts) * rng.normal(size=9)
    assert not FitGuard(Arms(rows)).look(counts, sums)
    assert FitGuard(Arms(rows)).look(counts, sums * np.where(np.arange(9) == counts.argmax(), 1.5, 1.0)) == (
        large > 1e3
    )


def test_arms_measured_in_one_direction_only():
    rows = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
    guard = FitGuard(Arms(np.vstack([rows, [[1.0, 1.0]]])))
    assert not guard.look(np.array([50, 50, 50, 0, 0]), 50 * np.array([1.0, 2.0, 3.0, 0, 0]))


def test_looks_are_as_rare_as_they_should_be():
    guard = FitGuard(Arms(ROWS))
    looks = 0
    for t in range(1, 10_001):
        if guard.due(t):
            guard.look(np.full(5, t // 5), np.zeros(5))
            looks += 1
    assert looks < 120
