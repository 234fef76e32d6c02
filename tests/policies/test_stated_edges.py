"""What is stated by label: edges without direction may be turned round, and those on no route may be named."""

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import ShortestPathOracle
from combopeps.errors import LabelError, ParameterError

ROADS = [("s", "a"), ("a", "t"), ("s", "b"), ("b", "t"), ("b", "pier")]


def problem(kind, **stated):
    return unit_problem(ShortestPathOracle(kind(ROADS), "s", "t"), **stated)


def test_turned_round():
    plain, turned = ({road[::way]: float(i + 1) for i, road in enumerate(ROADS)} for way in (1, -1))
    straight = problem(nx.Graph, noise_std=plain, cost=plain, prior_mean=plain, prior_std=plain)
    reverse = problem(nx.Graph, noise_std=turned, cost=turned, prior_mean=turned, prior_std=turned)
    assert straight.noise.tolist() == [1.0, 3.0, 2.0, 4.0]  # as graph.edges lists them; the pier is on no route
    for name in ("noise", "cost", "prior_mean", "prior_std"):
        np.testing.assert_array_equal(getattr(straight, name), getattr(reverse, name))


def test_one_edge_by_two_names_is_refused():
    known = dict.fromkeys(ROADS, 1.0)
    with pytest.raises(ParameterError, match=r"cost names .* twice"):
        problem(nx.Graph, cost=known | {("t", "a"): 2.0})


def test_directed_edges_are_not_turned():
    with pytest.raises(LabelError, match="noise_std names"):
        problem(nx.DiGraph, noise_std={road[::-1]: 1.0 for road in ROADS})


def test_unknown_and_missing_components_are_refused():
    known = dict.fromkeys(ROADS, 1.0)
    with pytest.raises(LabelError, match="moon"):
        problem(nx.Graph, cost=known | {("s", "moon"): 1.0})
    with pytest.raises(ParameterError, match="says nothing about 1 of 4"):
        problem(nx.Graph, cost=dict.fromkeys(ROADS[1:], 1.0))
