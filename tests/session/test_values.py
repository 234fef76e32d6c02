"""What is shown about the value of an answer: sums in the units of the data, gaps, expected losses, inclusions."""

import json

import networkx as nx
import numpy as np
import pytest

from combopeps import (
    Campaign,
    ExplicitOracle,
    MatchingOracle,
    Problem,
    Session,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
    identify,
)

MINUTES = {("a", "b"): 4.0, ("b", "d"): 5.0, ("a", "c"): 3.0, ("c", "d"): 7.0, ("b", "c"): 1.0}


def measured(oracle, theta, count=4, **scales):
    """A session in which every component was measured `count` times without error."""
    session = Session(Problem(oracle, **({"noise_std": 1.0, "prior_mean": 0.0, "prior_std": 1e3} | scales)))
    for label, value in zip(oracle.components, theta, strict=True):
        session.observe(label, float(value), count=count)
    return session


def test_the_value_of_a_route_is_its_length():
    oracle = ShortestPathOracle(nx.DiGraph(list(MINUTES)), "a", "d")
    result = measured(oracle, [MINUTES[edge] for edge in oracle.components]).result()
    assert result.objective == "min"
    assert result.answer == ["a", "b", "d"]
    assert result.runner_up == ["a", "c", "d"]
    assert result.value == pytest.approx(9.0, abs=1e-4)
    assert result.runner_up_value == pytest.approx(10.0, abs=1e-4)
    assert result.gap == pytest.approx(1.0, abs=1e-4)
    # Two edges each, with variance 1/4 an edge; the routes share no edge.
    assert result.value_std == pytest.approx(0.5**0.5, rel=1e-4)
    assert result.gap_std == pytest.approx(1.0, rel=1e-4)
    assert result.value_text == "9.00 ± 0.71, minimised"
    assert result.gap_text == "1.00 ± 1.00 better than the runner-up"


@pytest.mark.parametrize(
    ("oracle", "theta", "objective", "value"),
    [
        (TopKOracle(["x", "y", "z"], 2), [5.0, 1.0, 2.0], "max", 7.0),
        (MatchingOracle(["p", "q"], ["r", "s"], maximize=False), [1.0, 4.0, 3.0, 9.0], "min", 7.0),
        (MatchingOracle(["p", "q"], ["r", "s"]), [1.0, 4.0, 3.0, 9.0], "max", 10.0),
        (SpanningTreeOracle(nx.cycle_graph(3)), [1.0, 2.0, 4.0], "min", 3.0),
        (SpanningTreeOracle(nx.cycle_graph(3), objective="max"), [1.0, 2.0, 4.0], "max", 6.0),
        (ExplicitOracle([[2.0, -1.0], [0.0, 3.0]]), [1.0, 5.0], "max", 15.0),
    ],
)
def test_values_are_in_the_units_of_the_data(oracle, theta, objective, value):
    status = measured(oracle, theta, count=100).status()
    assert status.objective == oracle.objective == objective
    assert status.value == pytest.approx(value, rel=1e-4)
    own = next(one for one in status.top_answers if np.array_equal(one.z, status.z))
    assert (own.value, own.value_std) == (status.value, status.value_std)


def test_an_only_answer_has_a_value_and_no_gap():
    status = measured(TopKOracle(["x", "y"], 2), [1.0, 2.0]).status()
    assert status.value == pytest.approx(3.0, abs=1e-4)
    assert status.runner_up is None
    assert np.isnan([status.gap, status.gap_std, status.runner_up_value]).all()
    assert (status.expected_loss, status.loss_text, status.gap_text) == (0.0, "0", "there is no runner-up")
    assert status.inclusion.tolist() == [1.0, 1.0]


def test_values_are_in_json_reprs_and_tables():
    result = measured(TopKOracle(["x", "y", "z"], 1), [5.0, 1.0, 2.0]).result()
    document = json.loads(result.to_json())
    for name in ("value", "value_std", "runner_up_value", "runner_up_value_std", "gap", "gap_std", "expected_loss"):
        assert document[name] == getattr(result, name)
        assert f"{name}=" in repr(result)
    assert document["objective"] == "max"
    assert document["top_answers"][0]["value"] == result.value
    frame = result.to_frame()
    assert frame["inclusion"].tolist() == result.inclusion.tolist()
    assert frame["inclusion"].sum() == pytest.approx(1.0)


def test_values_scale_with_the_data():
    """Minutes or hours: every number is a 60th, to rounding, with the same probabilities."""
    theta = [5.0, 1.0, 4.0]
    oracle = TopKOracle(["x", "y", "z"], 2)
    minutes = measured(oracle, theta).status()
    hours = measured(oracle, [t / 60 for t in theta], noise_std=1 / 60, prior_std=1e3 / 60).status()
    for name in ("value", "value_std", "gap", "gap_std", "expected_loss"):
        assert getattr(hours, name) * 60 == pytest.approx(getattr(minutes, name), rel=1e-9)
    assert hours.error_probability == pytest.approx(minutes.error_probability)


def test_a_runner_up_among_equally_probable_answers_is_one_of_the_best():
    """In a 30 x 30 assignment every draw has another best answer: the better one by its mean is shown."""
    oracle = MatchingOracle(30, 30, maximize=False)
    theta = np.random.default_rng(0).normal(20.0, 4.0, size=oracle.dim)
    status = measured(oracle, theta, count=1, prior_mean=20.0, prior_std=4.0).status()
    others = [one for one in status.top_answers if not np.array_equal(one.z, status.z)]
    assert status.error_probability > 0.9
    assert [(-one.probability, one.value) for one in others] == sorted((-one.probability, one.value) for one in others)
    assert others[0].value == status.runner_up_value


def test_the_expected_loss_falls_while_the_error_probability_stays_at_one():
    oracle = MatchingOracle(40, 40, maximize=False)
    rng = np.random.default_rng(1)
    theta = dict(zip(oracle.components, rng.normal(60.0, 12.0, size=oracle.dim), strict=True))
    problem = Problem(oracle, noise_std=6.0, prior_mean=60.0, prior_std=12.0)
    seen = []
    session = Session(problem)
    for _ in range(3):
        session.run(lambda pairs: [theta[pair] + 6.0 * rng.normal() for pair in pairs], budget=900, batch_size=50)
        seen.append(session.status())
    assert all(status.error_probability > 0.9 for status in seen)
    losses = [status.expected_loss for status in seen]
    assert losses[0] > 2 * losses[2] > 0.0
    assert losses == sorted(losses, reverse=True)


def test_campaigns_report_the_values_of_their_sessions(tmp_path):
    oracle = ShortestPathOracle(nx.DiGraph(list(MINUTES)), "a", "d")
    problem = Problem(oracle, noise_std=1.0, prior_mean=5.0, prior_std=3.0)
    campaign, session = Campaign.create(tmp_path / "c.db", problem), Session(problem)
    for edge, minutes in MINUTES.items():
        campaign.observe(edge, minutes)
        session.observe(edge, minutes)
    stored, own = campaign.status(), session.status()
    for name in ("value", "value_std", "gap", "gap_std", "runner_up_value"):
        assert getattr(stored, name) == getattr(own, name)
    low, high = own.loss_interval
    assert low / 2 < stored.expected_loss < 2 * high


def test_no_draw_in_theta_leaves_the_loss_unknown():
    from combopeps import Box

    problem = Problem(TopKOracle(["x", "y"], 1), noise_std=1.0, prior_mean=0.0, prior_std=1.0, space=Box(0.0, 1.0))
    result = identify(problem, {"x": 0.9, "y": 0.1}.__getitem__, budget=30)
    assert 0.0 <= result.expected_loss < 0.2
    assert result.value == pytest.approx(result.posterior.theta_hat[0, 0])
