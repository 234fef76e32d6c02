"""Warnings of noise, fit and prior in runs: once, in the claim too, and no result is lost where they are errors."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom
from sessions import session_of
from unit_problem import unit_problem

from combopeps import Campaign, ExplicitOracle, Problem, TopKOracle, TopTwo, identify, load_instance, simulate
from combopeps.errors import LinearityWarning, NoiseWarning, PriorWarning
from combopeps.session.diagnostics import Diagnostics

TRUTH = {"a": 0.0, "b": 1.0, "c": 0.3, "d": 0.5}
FAR = {"a": 82.0, "b": 81.0, "c": 70.0, "d": 60.0}


def items(truth=TRUTH, **options):
    return unit_problem(TopKOracle(truth, k=1), **{"prior_std": 20.0} | options)


def far_items(**options):
    """The stated prior is N(0, 1)."""
    return items(FAR, **{"prior_std": 1.0} | options)


def noisy(size=1.0, truth=TRUTH, seed=0):
    rng = np.random.default_rng(seed)
    return lambda item: truth[item] + size * rng.normal()


def dozen(prior_std=20.0):
    rows = np.random.default_rng(3).normal(size=(12, 3))
    arms = dict(zip("abcdefghijkl", rows / np.linalg.norm(rows, axis=1, keepdims=True), strict=True))
    return unit_problem(ExplicitOracle(np.eye(3)), arms=arms, noise_std=0.3, prior_std=prior_std)


def bent(problem, bend):
    """Results with the stated noise, around a function of what a linear model says."""
    rng, truth = np.random.default_rng(0), np.array([1.2, 1.0, -0.8])
    mean = dict(zip(problem.arms.labels, bend(problem.arms.matrix @ truth), strict=True))
    return lambda label: mean[label] + problem.noise_std * rng.normal()


def curved(value):
    return value + 0.5 * value**2


class Noise:
    """Noise that is larger than stated."""

    category, match = NoiseWarning, "noise_std is too small, or measurements of one arm drift"
    claim, words = "but the noise looks", "times as large as stated"
    problem = items()
    options, rounds = {"delta": 1e-6, "budget": 400}, 60
    fine, large, larger = [partial(noisy, 1.0)], partial(noisy, 3.0), partial(noisy, 4.0)


class Fit:
    """Results that are no linear function of the rows; scaled ones are."""

    category, match = LinearityWarning, "no linear function of the rows"
    claim, words = "but the arms contradict each other", "contradict each other"
    problem = dozen()
    options, rounds = {"delta": 1e-9, "budget": 600}, 200
    fine = [partial(bent, problem, lambda value: value), partial(bent, problem, lambda value: 3.0 * value)]
    large, larger = partial(bent, problem, curved), partial(bent, problem, lambda value: 3.0 * curved(value))


each_case = pytest.mark.parametrize("case", [Noise, Fit])


def run(case, measure, options):
    if "batch_size" in options:
        return identify(case.problem, lambda labels: [measure(label) for label in labels], **case.options | options)
    return identify(case.problem, measure, **case.options | options)


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 7}, {"stopping": "certified"}, {"policy": "peps"}, {"stopping": "budget"}]
)
@each_case
def test_a_run_warns_once_and_its_claim_states_it(case, options):
    with pytest.warns(case.category, match=case.match) as seen:
        result = run(case, case.large(), options)
    assert len(seen) == 1
    assert case.claim in result.claim
    assert case.words in result.evidence.claim


@pytest.mark.parametrize("options", [{}, {"batch_size": 7}])
@each_case
def test_a_run_with_results_as_stated_does_not_warn(case, options):
    for fine in case.fine:
        result = run(case, fine(), options)
        assert case.claim not in result.claim
        assert result.warning == ""


@pytest.mark.parametrize("kind", ["tell", "observe", "campaign"])
@each_case
def test_where_the_warning_is_an_error_no_result_is_lost_or_counted_twice(case, kind, tmp_path):
    """What was refused with the warning is recorded when it is told again."""
    session = session_of(TopTwo, case.problem)
    if kind == "campaign":
        session = Campaign.create(tmp_path / "run.db", case.problem)
    warned, measure, refused = session_of(TopTwo, case.problem), case.larger(), 0
    for _ in range(case.rounds if kind != "campaign" else 60):
        query = session.ask()
        y = measure(query.label)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", case.category)
            warned.observe(query.label, y)
            warnings.simplefilter("error", case.category)
            for _ in range(2):
                try:
                    session.tell(query, y) if kind == "tell" else session.observe(query.label, y)
                    break
                except case.category:
                    refused += 1
    assert (refused, session.samples) == (1, warned.samples)
    assert session.status().warning == warned.status().warning != ""


@pytest.mark.parametrize("policy", ["top-two", "peps"])
@each_case
def test_a_campaign_warns_once_and_its_status_keeps_it(case, policy, tmp_path):
    measure, campaign = case.larger(), Campaign.create(tmp_path / "run.db", case.problem, policy=policy)
    assert campaign.status().warning == ""

    def measure_more():
        for _ in range(6):
            campaign.tell_many([(query, measure(query.label)) for query in campaign.ask(8)])
            campaign.observe("a", measure("a"))
            Campaign.open(campaign.path)  # another process, which has not given the warning

    with pytest.warns(case.category) as seen:
        measure_more()
    assert len(seen) == 1
    again = Campaign.open(campaign.path)  # no second warning: it would be an error here
    again.observe("b", measure("b"))
    status = again.status()
    assert case.words in status.warning
    assert status.warning == campaign.status().warning
    assert (case.claim in status.claim) == status.stop


def test_simulations_are_not_checked():
    simulate(Noise.problem, 50.0 * np.arange(4.0), "top-two", budget=20, replications=2)
    simulate(Fit.problem, [1.0, 0.0, 0.0], "top-two", budget=20, replications=2)


# ---------------------------------------------------------------- the noise


def told(session, results, **options):
    session.observe_table(results, **options)
    return session.status().warning


def test_smaller_noise_is_estimated_and_the_claim_stands():
    with pytest.warns(NoiseWarning, match=r"about 2\d times fewer measurements would do") as seen:
        result = identify(items(noise_std=5.0), noisy(), budget=400)
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
        assert "claims hold" in told(session, [("a", y) for y in 0.1 * rng.normal(size=50)])
    with pytest.warns(NoiseWarning, match="either noise_std is too small"):
        warning = told(session, [("a", y) for y in 5.0 * rng.normal(size=100)], confirm=True)
    assert "no claim holds then" in warning
    assert "claims hold" not in warning


def warned_runs(factor, runs):
    """Of runs on the paper's top-k set, with stated noise 1: those whose claim is taken back when they stop."""
    paper = load_instance("topk-paper")
    problem = Problem(paper.oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    means, found = dict(zip(problem.arms.labels, paper.theta, strict=True)), 0
    for seed in range(runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = identify(problem, noisy(factor, means, [seed, 7]), rng=seed, budget=2000)
        found += "does not hold" in result.claim
    return found


@pytest.mark.slow
def test_four_times_the_stated_noise_takes_the_claim_back_in_nine_of_ten_runs():
    assert binom.cdf(warned_runs(4.0, 100), 100, 0.9) > 1e-3
    assert binom.cdf(warned_runs(1.0, 40), 40, 0.9) < 1e-3  # as the stated noise does not


def test_the_assumptions_are_tested_whenever_the_results_have_grown_by_a_tenth(monkeypatch):
    session, measure, times = session_of(TopTwo, items()), noisy(), []
    test = Diagnostics.test
    monkeypatch.setattr(Diagnostics, "test", lambda *args: (times.append(session.samples), test(*args)))
    for number in range(2000):
        session.observe("abcd"[number % 4], measure("abcd"[number % 4]))
    assert times[:20] == list(range(20))
    assert (np.diff(times[10:]) <= 0.1 * np.array(times[11:]) + 1.0).all()
    assert len(times) < 80


# ---------------------------------------------------------------- the fit


def test_the_fit_is_checked_at_the_end_of_a_budget():
    problem = dozen(prior_std=200.0)
    with pytest.warns(LinearityWarning):
        result = identify(problem, bent(problem, lambda v: 20 * v**2), policy=TopTwo(problem, 0), budget=9)
    assert "contradict each other" in result.claim


def test_while_the_noise_is_in_doubt_the_fit_is_not_checked():
    session, rng = session_of(TopTwo, dozen()), np.random.default_rng(0)
    with pytest.warns(NoiseWarning):
        session.observe_table([("a", 3.0 * y) for y in rng.normal(size=20)])
    for label in session.problem.arms.labels:  # a second warning would be an error here
        session.observe(label, 9.0 * rng.normal(), confirm=True)
    result = session.run(bent(session.problem, curved), budget=5)
    assert "the noise looks" in result.claim
    assert "contradict" not in result.claim


# ---------------------------------------------------------------- the prior


def test_claims_that_rest_on_the_prior_are_taken_back():
    wrong = 0
    for seed in range(8):
        with pytest.warns(PriorWarning, match="standard deviations off its prior mean 0"):
            result = identify(far_items(), noisy(1.0, FAR, seed), rng=seed)
        wrong += result.answer != {"a"}
        assert "; but the results contradict the stated prior" in result.claim
        assert result.claim.endswith("and then it does not hold")
        assert "claims that rest on the prior do not hold" in result.to_dict()["warning"]
    assert wrong >= 3  # the claims had to be taken back
    with pytest.warns(PriorWarning):
        short = identify(far_items(), noisy(1.0, FAR), stopping="budget", budget=20)
    assert short.claim.endswith("and then it does not hold")
    fine = identify(far_items(prior_mean=75.0, prior_std=10.0), noisy(1.0, FAR), rng=0)
    assert (fine.warning, "hold" in fine.claim) == ("", False)


@pytest.mark.parametrize("rule", ["certified", "verified", "guaranteed", "clucb"])
def test_guarantees_for_every_theta_stand_whatever_the_prior(rule):
    with pytest.warns(PriorWarning):
        result = identify(far_items(), noisy(1.0, FAR, 1), stopping=rule, delta=0.1)
    assert "on which this claim does not rest" in result.claim
    assert "does not hold" not in result.claim
    assert "contradict the stated prior" in result.warning


@pytest.mark.parametrize("before", [0, 10, 5000])
def test_a_prior_that_is_far_too_small_is_detected_at_once(before):
    session = session_of(TopTwo, TopKOracle(3, k=1))
    rng = np.random.default_rng(0)
    session.observe_table([(0, y) for y in rng.normal(size=before)] or [(2, 0.0)])
    session.observe(0, 0.0)  # from here on, results are held against the prior a tenth of them at a time
    with pytest.warns(PriorWarning):
        session.observe(1, 300.0, confirm=True)


def test_noise_of_unknown_size_is_learnt_before_the_prior_is_judged():
    rng = np.random.default_rng(0)

    def learnt(shift):
        session = session_of(TopTwo, far_items(noise_std=None))
        for i in range(100):
            item = "abcd"[i % 4]
            session.observe(item, shift * (item == "a") + 0.1 * rng.normal())

    learnt(1.0)  # a warning would be an error
    with pytest.warns(PriorWarning, match="'a' is"):
        learnt(12.0)


def test_larger_noise_is_not_blamed_on_the_prior():
    rng, session = np.random.default_rng(0), session_of(TopTwo, items(prior_std=5.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(200):
            session.observe("a", 20.0 * rng.normal(), confirm=True)
    assert "noise looks 19 times" in session.status().warning
    assert "prior" not in session.status().warning


TWO = unit_problem(TopKOracle(2, k=1), prior_mean=[100.0, 0.0], prior_std=[1.0, 50.0])
SUMS = Problem(ExplicitOracle(np.eye(2)), np.array([[1, 1], [1, -1]]), [2, 1], prior_mean=[3, 4], prior_std=[3, 4])
OFF = r"standard deviations off its prior mean"


@pytest.mark.parametrize(
    ("problem", "fine", "off", "words"),
    [
        (far_items(prior_std=100.0), [("a", 100.0)], None, ""),
        (far_items(), [], ("b", 100.0), "prior_std"),
        (TWO, [(0, 101.0), (1, 80.0)], (0, 80.0), rf"0 is 14 {OFF} 100 \(prior_std = 1\)"),
        (SUMS, [(0, 7.0)], (0, 60.0), rf"\d is 9.8 {OFF}"),
    ],
    ids=["a wide prior", "a common prior", "a prior for each component", "general arms"],
)
def test_one_result_far_off_the_prior_warns_once_and_is_taken(problem, fine, off, words):
    session, quiet = (session_of(TopTwo, problem) for _ in range(2))
    for label, y in fine:  # a warning would be an error
        quiet.observe(label, y)
    if off:
        with pytest.warns(PriorWarning, match=words):
            session.observe(*off)
        session.observe(*off, confirm=True)
        assert session.samples == 2
