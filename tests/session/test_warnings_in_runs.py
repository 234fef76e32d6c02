"""Warnings of noise and fit in runs and campaigns: once, in the claim too, and no result is lost where they are errors."""

import warnings

import numpy as np
import pytest
from alarms import measuring_with
from fit_cases import curved, sphere
from sessions import session_of
from unit_problem import unit_problem

from combopeps import Campaign, ExplicitOracle, TopKOracle, TopTwo, identify, simulate
from combopeps.errors import FitWarning, NoiseWarning

TRUTH = {"a": 0.0, "b": 1.0, "c": 0.3, "d": 0.5}


def route_problem(prior_std=20.0):
    arms = dict(zip("abcdefghijkl", sphere(3, 12, 3), strict=True))
    return unit_problem(ExplicitOracle(np.eye(3)), arms=arms, noise_std=0.3, prior_std=prior_std)


def measuring(problem, bend):
    """Results with the stated noise, around a function of what a linear model says."""
    rng, truth = np.random.default_rng(0), np.array([1.2, 1.0, -0.8])
    mean = dict(zip(problem.arms.labels, bend(problem.arms.matrix @ truth), strict=True))
    return lambda label: mean[label] + problem.noise_std * rng.normal()


class Noise:
    """Noise that is larger than stated."""

    category, match = NoiseWarning, "noise_std is too small, or measurements of one arm drift"
    claim, words = "but the noise looks", "times as large as stated"
    problem = unit_problem(TopKOracle(TRUTH, k=1), prior_std=20.0)
    options, rounds = {"delta": 1e-6, "budget": 400}, 60
    fine = (1.0,)

    @staticmethod
    def measure(size):
        rng = np.random.default_rng(0)
        return lambda item: TRUTH[item] + size * rng.normal()

    large, larger = 3.0, 4.0


class Fit:
    """Results that are no linear function of the rows."""

    category, match = FitWarning, "no linear function of the rows"
    claim, words = "but the arms contradict each other", "contradict each other"
    problem = route_problem()
    options, rounds = {"delta": 1e-9, "budget": 600}, 200
    fine = (lambda value: value, lambda value: 3.0 * value)  # scaled results are linear, too

    @staticmethod
    def measure(bend):
        return measuring(Fit.problem, bend)

    large, larger = staticmethod(curved), staticmethod(lambda value: 3.0 * curved(value))


each_case = pytest.mark.parametrize("case", [Noise, Fit])


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 7}, {"stopping": "certified"}, {"policy": "peps"}, {"stopping": "budget"}]
)
@each_case
def test_a_run_warns_once_and_its_claim_states_it(case, options):
    measure = measuring_with(options, case.measure(case.large))
    with pytest.warns(case.category, match=case.match) as seen:
        result = identify(case.problem, measure, **case.options | options)
    assert len(seen) == 1
    assert case.claim in result.claim
    assert case.words in result.evidence.claim


@pytest.mark.parametrize("options", [{}, {"batch_size": 7}])
@each_case
def test_a_run_with_results_as_stated_does_not_warn(case, options):
    for fine in case.fine:
        measure = measuring_with(options, case.measure(fine))
        result = identify(case.problem, measure, **case.options | options)
        assert case.claim not in result.claim
        assert result.warning == ""


@pytest.mark.parametrize("kind", ["tell", "observe", "campaign"])
@each_case
def test_where_the_warning_is_an_error_no_result_is_lost_or_counted_twice(case, kind, tmp_path):
    """What was refused with the warning is recorded when it is told again."""
    session = session_of(TopTwo, case.problem)
    if kind == "campaign":
        session = Campaign.create(tmp_path / "run.db", case.problem)
    warned, measure, refused = session_of(TopTwo, case.problem), case.measure(case.larger), 0
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
    for name, value in session.state_dict()["diagnostics"].items():
        np.testing.assert_allclose(value, warned.state_dict()["diagnostics"][name], rtol=1e-12)


@pytest.mark.parametrize("policy", ["top-two", "peps"])
@each_case
def test_a_campaign_warns_once_and_its_status_keeps_it(case, policy, tmp_path):
    path, measure = tmp_path / "run.db", case.measure(case.larger)
    campaign = Campaign.create(path, case.problem, policy=policy)
    assert campaign.status().warning == ""

    def measure_more():
        for _ in range(6):
            campaign.tell_many([(query, measure(query.label)) for query in campaign.ask(8)])
            campaign.observe("a", measure("a"))
            Campaign.open(path)  # another process, which has not given the warning

    with pytest.warns(case.category) as seen:
        measure_more()
    assert len(seen) == 1
    again = Campaign.open(path)  # no second warning: it would be an error here
    again.observe("b", measure("b"))
    status = again.status()
    assert case.words in status.warning
    assert status.warning == campaign.status().warning
    assert (case.claim in status.claim) == status.stop


def test_the_fit_is_checked_at_the_end_of_a_budget():
    problem = route_problem(prior_std=200.0)
    with pytest.warns(FitWarning):
        result = identify(problem, measuring(problem, lambda v: 20 * v**2), policy=TopTwo(problem, 0), budget=9)
    assert "contradict each other" in result.claim


def test_while_the_noise_is_in_doubt_the_fit_is_not_checked():
    session, rng = session_of(TopTwo, route_problem()), np.random.default_rng(0)
    with pytest.warns(NoiseWarning):
        session.observe_table([("a", 3.0 * y) for y in rng.normal(size=20)])
    for label in session.problem.arms.labels:  # a second warning would be an error here
        session.observe(label, 9.0 * rng.normal(), confirm=True)
    result = session.run(measuring(session.problem, curved), budget=5)
    assert "the noise looks" in result.claim
    assert "contradict" not in result.claim


def test_simulations_are_not_checked():
    simulate(Noise.problem, 50.0 * np.arange(4.0), "top-two", budget=20, replications=2)
    simulate(Fit.problem, [1.0, 0.0, 0.0], "top-two", budget=20, replications=2)
