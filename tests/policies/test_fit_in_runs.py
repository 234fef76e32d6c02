"""`FitWarning` in runs and campaigns: once, in the claim too, and nothing is lost where it is an error."""

import warnings

import numpy as np
import pytest
from alarms import measuring_with
from fit_cases import curved, sphere
from unit_problem import unit_problem

from combopeps import Campaign, ExplicitOracle, FitWarning, NoiseWarning, TopTwo, identify, simulate


def route_problem(noise_std=0.3):
    rows = sphere(3, 12, 3)
    arms = dict(zip("abcdefghijkl", rows, strict=True))
    return unit_problem(ExplicitOracle(np.eye(3)), arms=arms, noise_std=noise_std, prior_std=20.0)


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
    measure = measuring_with(options, one)
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
    path, problem = tmp_path / "run.db", route_problem()
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
    campaign, measure = Campaign.create(tmp_path / "run.db", problem), measuring(problem, lambda v: 3 * curved(v))
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
