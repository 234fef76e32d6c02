"""`Campaign.run` and `RemoteCampaign.run`: scripts that measure for a campaign, here and through HTTP."""

from itertools import count, pairwise

import networkx as nx
import numpy as np
import pytest
from backends import events
from cases import ROADS, measured, problems
from unit_problem import unit_problem

from combopeps import Campaign, ShortestPathOracle, TopKOracle
from combopeps.errors import RewardError

LEVELS = {"a": 1.0, "b": 3.0, "c": 0.0, "d": 2.9, "e": 0.5}


def noisy(seed=0):
    """Results of the problem "topk"; one label, or several."""
    rng = np.random.default_rng(seed)

    def one(label):
        return LEVELS[label] + 0.5 * float(rng.standard_normal())

    return lambda said: [one(label) for label in said] if isinstance(said, list) else one(said)


def whole_routes():
    oracle = ShortestPathOracle(nx.DiGraph(ROADS), "home", "work")
    return unit_problem(oracle, prior_std=3.0, actions="answers", cost=2.0, part_cost=0.5)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_run_measures_until_the_status_says_stop(quick_home, batch_size):
    problem = problems()["topk"]
    campaign = quick_home(problem, delta=0.01, rng=3)
    result = campaign.run(noisy(), batch_size=batch_size, budget=2000)
    status = campaign.status()
    assert status.stop
    assert (result.answer, result.stop_reason) == ({"b", "d"}, "posterior")
    assert (result.claim, result.samples, result.pulls) == (status.claim, status.samples, status.pulls)
    assert (result.delta, result.epsilon, result.seed, result.actions) == (0.01, 0.0, 3, None)
    assert (result.error_probability, result.runner_up) == (status.error_probability, status.runner_up)
    np.testing.assert_array_equal(result.z, status.z)
    local = Campaign.open(quick_home.path).posterior
    np.testing.assert_allclose(result.posterior.theta_hat, local.theta_hat, rtol=1e-12)
    np.testing.assert_allclose(result.posterior.std, local.std, rtol=1e-12)
    assert result.cost == result.samples == result.session.samples
    assert status.open_queries == []
    assert result.top_answers[0].answer == {"b", "d"}
    assert list(result.to_frame()["pulls"]) == list(result.pulls.values())
    assert campaign.run(None.__init__).stop_reason == "posterior"  # it is certain, and measures nothing more


def test_looks_are_taken_at_geometric_times(quick_home):
    campaign = quick_home(unit_problem(TopKOracle(list(LEVELS), k=2), noise_std=9.0))
    result = campaign.run(noisy(), budget=100)
    looks = [look.t for look in result.looks]
    assert looks[:3] == [0, 10, 11]
    assert len(looks) < 32
    assert looks[-1] == 100
    assert (result.samples, result.error_probability) == (100, campaign.status().error_probability)


def test_a_run_measures_whole_answers(home):
    campaign = home(whole_routes(), delta=1e-6)
    result = campaign.run(lambda route: [1.0] * (len(route) - 1), budget=5)
    local = Campaign.open(home.path)
    assert result.actions == local.actions == 5
    assert result.samples == local.samples
    assert result.cost == pytest.approx(5 * 2.0 + 0.5 * result.samples)


# What was measured is never lost.


def test_a_result_that_is_no_number_is_reported_after_the_others_were_told(home):
    campaign = home(problems()["topk"], delta=1e-9)
    with pytest.raises(RewardError, match="finite"):
        campaign.run(lambda labels: [1.0, float("nan"), 2.0], batch_size=3)
    assert campaign.samples == 2
    assert campaign.open_queries == []


@pytest.mark.parametrize("raised", [OSError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_what_was_returned_is_told_and_the_rest_abandoned(quick_home, raised, batch_size):
    campaign, measure, calls = quick_home(problems()["topk"], delta=1e-9), noisy(), count()

    def fails(said):
        if next(calls) == 2:
            raise raised("the instrument is on fire")
        return measure(said)

    if raised is KeyboardInterrupt:
        result = campaign.run(fails, batch_size=batch_size)
        assert (result.stop_reason, result.samples) == ("interrupted", 2 * batch_size)
        assert result.claim.startswith("none: the run was interrupted")
    else:
        with pytest.raises(raised) as caught:
            campaign.run(fails, batch_size=batch_size)
        assert caught.value.untold == []
        assert f"{2 * batch_size} results of this call" in caught.value.__notes__[0]
    assert campaign.samples == 2 * batch_size
    assert campaign.open_queries == []


def test_a_later_run_with_the_same_client_gets_its_queries(home):
    campaign = home(problems()["topk"], delta=1e-9)
    with pytest.raises(OSError, match="fire"):
        campaign.run(fire, batch_size=2, client="ann")
    held = campaign.open_queries
    assert len(held) == 2
    seen = []
    campaign.run(noisy(), budget=2, client="ann",
        callback=lambda campaign, query, y: seen.append(query),
    )  # fmt: skip
    assert seen == held


def fire(label):
    raise OSError("fire")


def test_the_result_of_a_query_that_was_closed_meanwhile_becomes_an_observation(home):
    campaign = home(problems()["topk"], delta=1e-9)

    def measure(label):
        (query,) = campaign.open_queries
        campaign.abandon(query)
        return 1.5

    result = campaign.run(measure, budget=2)
    assert result.samples == 2
    kinds = [event["kind"] for event in events(home.path)]
    assert kinds.count("observe") == 2
    assert "tell" not in kinds


def test_the_result_of_an_action_that_was_closed_meanwhile_becomes_observations(quick_home):
    campaign = quick_home(whole_routes(), delta=1e-9)

    def measure(route):
        (query,) = campaign.open_queries
        campaign.tell(query, [None] * len(query.components))
        values = [(1.0, 0.5), *[2.0] * (len(query.components) - 1)]
        return values if query.id else dict(zip(query.components, values, strict=True))

    before = campaign.run(measure, budget=2)
    assert before.actions == 2
    assert [event["kind"] for event in events(quick_home.path)].count("observe") == before.samples >= 4


def test_results_that_cannot_be_told_come_with_the_exception(quick_home, monkeypatch):
    campaign = quick_home(problems()["topk"])

    def dead(*_, **__):
        raise OSError("the line is dead")

    with monkeypatch.context() as patch:
        patch.setattr(type(campaign), "tell_many", dead)
        with pytest.raises(OSError, match="dead") as caught:
            campaign.run(noisy(), batch_size=2, client="ann")
    assert "2 could not be: " in caught.value.__notes__[1]
    campaign.tell_many(caught.value.untold)
    assert campaign.samples == 2


def test_looks_follow_the_measurements_of_others(quick_home):
    """With ten others at work, looks come ten times as often as our own measurements would have them."""
    campaign, other = quick_home(unit_problem(TopKOracle(list(LEVELS), k=2), noise_std=9.0)), quick_home.again()

    def beside(campaign, query, y):
        for more in other.ask(9, client="others"):
            other.tell(more, measured(more))

    result = campaign.run(noisy(), budget=15, callback=beside)
    looks = [look.t for look in result.looks]
    assert max(b / max(a, 40) for a, b in pairwise(looks)) < 1.35
