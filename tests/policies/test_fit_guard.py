"""`FitGuard`: false alarms at most 1 in 1,000 under any policy, and results that are no linear function are noticed."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import binom, multivariate_normal

from combopeps import (
    PEPS,
    Arms,
    Campaign,
    ExplicitOracle,
    FitWarning,
    NoiseWarning,
    Problem,
    TopKOracle,
    TopTwo,
    identify,
    simulate,
)
from combopeps.policies.fit import _ALARM, _MISFITS, FitGuard

ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0], [0.5, 1.0]])
THETA = np.array([1.0, 0.4])


def sphere(seed, arms, d):
    rows = np.random.default_rng(seed).normal(size=(arms, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


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


def too_many(alarms, runs):
    """More than 1 in 1,000, beyond doubt: a false verdict has probability 1e-5."""
    return alarms > binom.isf(1e-5, runs, 1e-3)


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
    runs = policy(Problem(ExplicitOracle(np.eye(2)), arms=ROWS), 0, replications=400)
    guards = [FitGuard(arms) for _ in range(400)]
    for _ in range(40):
        arm = runs.next_arms()
        runs.learn(arm, ROWS[arm] @ [0.5, 0.4] + rng.normal(size=400))
        for r, guard in enumerate(guards):
            guard.look(runs.pulls[r], runs.totals[r])
    assert not too_many(sum(guard.alarmed for guard in guards), 400)


def curved(value):
    return value + 0.5 * value**2


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
    guard = FitGuard(Arms(ROWS[:3], ["a", "b", "both"]))  # one degree of freedom: nobody can say which one it is
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


# ---------------------------------------------------------------- in runs


def route_problem(noise_std=0.3):
    rows = sphere(3, 12, 3)
    arms = dict(zip("abcdefghijkl", rows, strict=True))
    return Problem(ExplicitOracle(np.eye(3)), arms=arms, noise_std=noise_std, prior_std=20.0)


def measuring(problem, bend, noise=None, seed=0):
    rng, truth = np.random.default_rng(seed), np.array([1.2, 1.0, -0.8])
    mean = dict(zip(problem.arms.labels, bend(problem.arms.matrix @ truth), strict=True))
    noise = problem.noise_std if noise is None else noise
    return lambda label: mean[label] + noise * rng.normal()


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 7}, {"stopping": "certified"}, {"policy": "peps"}, {"stopping": "budget"}]
)
def test_a_run_warns_once_and_its_claim_says_so(options):
    problem = route_problem()
    one = measuring(problem, curved)
    measure = (lambda labels: [one(label) for label in labels]) if "batch_size" in options else one
    with pytest.warns(FitWarning, match="no linear function of the rows") as seen:
        result = identify(problem, measure, delta=1e-9, budget=600, **options)
    assert len(seen) == 1
    assert "but the arms contradict each other" in result.claim
    assert "contradict each other" in result.evidence.claim


@pytest.mark.parametrize("bend", [lambda value: value, lambda value: 3.0 * value])
def test_a_run_of_linear_results_says_nothing(bend):
    """The control: the same rows, the same runs; scaled results are linear too."""
    problem = route_problem()
    assert "contradict" not in identify(problem, measuring(problem, bend), delta=1e-9, budget=600).claim


def test_a_run_that_ends_by_its_budget_is_judged_at_its_end():
    policy = TopTwo(route_problem(), 0)
    with pytest.warns(FitWarning):
        result = identify(policy.problem, measuring(policy.problem, lambda v: 20 * v**2), policy=policy, budget=9)
    assert "contradict each other" in result.claim


def test_while_the_noise_is_in_doubt_the_model_is_not_judged():
    policy, rng = TopTwo(route_problem(), 0), np.random.default_rng(0)

    def shout():
        for _ in range(20):
            policy.observe("a", 3.0 * rng.normal())

    with pytest.warns(NoiseWarning):
        shout()
    for label in policy.problem.arms.labels:  # a second warning would be an error here
        policy.observe(label, 9.0 * rng.normal())
    result = identify(policy.problem, measuring(policy.problem, curved), policy=policy, budget=5)
    assert "the noise looks" in result.claim
    assert "contradict" not in result.claim


@pytest.mark.parametrize("kind", ["tell", "observe"])
def test_as_an_error_the_warning_loses_nothing(kind):
    policy, refused = TopTwo(route_problem(), 0), 0
    measure = measuring(policy.problem, lambda v: 3 * curved(v))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        for _ in range(200):
            query = policy.ask()
            y = measure(query.label)
            bring = (lambda q, y: policy.tell(q, y)) if kind == "tell" else (lambda q, y: policy.observe(q.label, y))
            try:
                bring(query, y)
            except FitWarning:
                refused += 1
                bring(query, y)
    assert (refused, policy.samples) == (1, 200)


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_a_campaign_warns_once_and_its_status_keeps_saying_so(tmp_path, policy):
    path, problem = tmp_path / "run.jsonl", route_problem()
    measure = measuring(problem, lambda v: 3 * curved(v))
    campaign = Campaign.create(path, problem, policy=policy)
    assert campaign.status().warning == ""

    def days():
        for _ in range(6):
            campaign.tell_many([(query, measure(query.label)) for query in campaign.ask(8)])
            campaign.observe("a", measure("a"))
            Campaign.open(path)  # somebody else, who has not been there

    with pytest.warns(FitWarning) as seen:
        days()
    assert len(seen) == 1
    again = Campaign.open(path)  # no second warning: it would be an error here
    again.observe("b", measure("b"))
    status = again.status()
    assert "the arms contradict each other" in status.warning
    assert status.warning == campaign.status().warning
    assert ("but the arms contradict" in status.claim) == status.stop


def test_as_an_error_the_warning_keeps_nothing_out_of_a_campaign(tmp_path):
    problem, refused = route_problem(), 0
    campaign, measure = Campaign.create(tmp_path / "run.jsonl", problem), measuring(problem, lambda v: 3 * curved(v))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        for label in problem.arms.labels * 4:
            y = measure(label)
            try:
                campaign.observe(label, y)
            except FitWarning:
                refused += 1
                campaign.observe(label, y)
    assert (refused, campaign.samples) == (1, 48)


def test_replications_side_by_side_are_not_watched():
    simulate(route_problem(), [1.0, 0.0, 0.0], "top-two", budget=20, replications=2)
