"""The best action by one call of the action oracle, against a list of all actions."""

import itertools

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.actions import Actions
from combopeps.errors import ActionError, LabelError, ParameterError
from combopeps.oracles import SpanningTreeOracle
from combopeps.oracles.constrained_argmax import enumerate_answers


def grid(n):
    graph = nx.DiGraph()
    for i in range(n):
        for j in range(n):
            graph.add_edges_from(((i, j), end) for end in ((i + 1, j), (i, j + 1)) if max(end) < n)
    return graph


ORACLES = {
    "top-k": lambda: TopKOracle(6, k=2),
    "route": lambda: ShortestPathOracle(grid(3), (0, 0), (2, 2)),
    "longest": lambda: ShortestPathOracle(grid(3), (0, 0), (2, 2), objective="max"),
    "matching": lambda: MatchingOracle(3, 4, maximize=False),
    "tree": lambda: SpanningTreeOracle(nx.complete_graph(4)),
}


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("costs", [False, True])
def test_the_best_of_all_actions_per_cost(name, costs):
    oracle, rng = ORACLES[name](), np.random.default_rng(1)
    listed = np.array(enumerate_answers(oracle, 1000)) != 0.0
    for _ in range(50):
        parts = rng.exponential(size=oracle.dim) * (rng.random(oracle.dim) < 0.7) if costs else None
        actions = Actions(oracle, "answers", cost=rng.uniform(0.1, 2.0), part_cost=parts)
        gains = rng.exponential(size=(3, oracle.dim)) * (rng.random((3, oracle.dim)) < 0.6)
        best = actions.best(gains)
        rate = (gains * best).sum(axis=1) / actions.cost_of(best)
        most = (gains @ listed.T / actions.cost_of(listed)).max(axis=1)
        if costs:  # three steps of an iteration that converges superlinearly
            assert (rate >= 0.98 * most).all()
        else:
            np.testing.assert_allclose(rate, most, rtol=1e-12)


def test_an_oracle_of_its_own_may_show_more_than_answers_have():
    """Routes to another place pass roads that matter, and others."""
    graph = grid(3)
    problem = unit_problem(
        ShortestPathOracle(graph.subgraph([(0, 0), (0, 1), (1, 0), (1, 1)]), (0, 0), (1, 1)),
        actions=ShortestPathOracle(graph, (0, 0), (2, 2)),
    )
    actions = problem.actions
    best = actions.best(np.array([[0.0, 3.0, 0.0, 3.0]]))
    route = actions.label(best[0])
    assert route[0] == (0, 0)
    assert route[-1] == (2, 2)
    assert (1, 1) in route
    seen = [problem.oracle.components[i] for i in actions.decode_in_order(best[0])[1]]
    assert set(seen) == {edge for edge in itertools.pairwise(route) if edge in problem.oracle.components}
    np.testing.assert_array_equal(actions.find(route), best[0])


def test_parts_come_in_the_order_of_the_route():
    problem = unit_problem(ShortestPathOracle(nx.path_graph(["d", "a", "c", "b"]), "d", "b"), actions="answers")
    action = np.ones(3, dtype=bool)
    assert problem.actions.label(action) == ["d", "a", "c", "b"]
    assert [problem.oracle.components[i] for i in problem.actions.oracle.decode_in_order(-1.0 * action)[1]] == [
        ("d", "a"),
        ("a", "c"),
        ("c", "b"),
    ]


def test_routes_in_a_graph_with_cycles_are_good_if_not_the_best():
    graph, rng = nx.grid_2d_graph(3, 3), np.random.default_rng(0)
    oracle = ShortestPathOracle(graph, (0, 0), (2, 2))
    routes = [list(route) for route in nx.all_simple_paths(graph, (0, 0), (2, 2))]
    listed = np.array([oracle.encode(route) for route in routes]) != 0.0
    actions = Actions(oracle, "answers")
    assert not actions.finds_best
    shares = []
    for _ in range(100):
        gains = rng.exponential(size=(1, oracle.dim)) ** 2
        shares.append((gains * actions.best(gains)).sum() / (gains @ listed.T).max())
        best = listed[(gains @ listed.T).argmax()]
        np.testing.assert_array_equal(actions.best(gains, best[None, None])[0], best)
    assert np.mean(shares) > 0.6


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ("routes", "answers"),
        (np.full((1, 3), 0.5), "0 and 1"),
        (np.zeros((1, 3)), "show at least one"),
        (np.ones((1, 4)), "K x 3"),
        ({"all": [1, 1, 1], "none": [0, 0, 0]}, "'none'"),
        ([[1, 0, 0], [0, 1, 0]], "shows 2"),
        (TopKOracle(["x", "y"], k=1), "nothing that answers are made of"),
        (ExplicitOracle([[1.0, 2.0, 0.0]]), "binary"),
        ("x" * 3, "answers"),
        (7, "K x 3"),
    ],
)
def test_actions_that_cannot_be(actions, words):
    with pytest.raises(ActionError, match=words):
        unit_problem(TopKOracle(3, k=1), actions=actions)


def test_costs_that_cannot_be():
    oracle = TopKOracle(["a", "b"], k=1)
    with pytest.raises(ParameterError, match="part_cost is for actions"):
        unit_problem(oracle, part_cost=1.0)
    with pytest.raises(ParameterError, match=r"negative.*'b'"):
        unit_problem(oracle, actions="answers", part_cost={"b": -1.0})
    with pytest.raises(LabelError, match="'c'"):
        unit_problem(oracle, actions="answers", part_cost={"c": 1.0})
    with pytest.raises(ParameterError, match="leave arms out"):
        unit_problem(oracle, arms=["a"], actions="answers")
    with pytest.raises(ParameterError, match="cost"):
        unit_problem(oracle, actions="answers", cost=0.0)


def test_a_problem_restated_keeps_its_actions():
    problem = unit_problem(TopKOracle(3, k=2), actions="answers", cost=2.0, part_cost={1: 0.5})
    again = problem.copy_with(noise_std=0.1)
    assert again.actions.are_answers
    assert again.actions.cost == 2.0
    np.testing.assert_array_equal(again.actions.part_cost, [0.0, 0.5, 0.0])
    assert problem.copy_with(cost=3.0).actions.cost == 3.0


def test_costs_do_not_pass_from_single_measurements_to_actions_nor_back():
    single = unit_problem(TopKOracle(3, k=2), cost=[1.0, 2.0, 3.0])
    whole = single.copy_with(actions="answers")
    assert whole.actions.cost == 1.0
    assert not whole.actions.part_cost.any()
    priced = single.copy_with(actions="answers", cost=4.0, part_cost=[0.0, 1.0, 0.0])
    assert priced.copy_with(prior_std=2.0).actions.part_cost.tolist() == [0.0, 1.0, 0.0]
    back = priced.copy_with(actions=None)
    assert back.actions is None
    assert back.cost.tolist() == [1.0, 1.0, 1.0]
