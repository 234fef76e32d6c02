"""The bundled instances, verified by independent means and by checksums."""

import json
import math
from itertools import permutations, product
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from benchmarks._bundled import STORED, index, stored
from combopeps import check_oracle, identify, list_instances, load_instance, save_instance
from combopeps.io.bundled import read_index
from combopeps.io.instance_files import checksum, to_document

FOLDER = Path(__file__).resolve().parents[2] / "instances"
BY_HAND = {"nsfnet", "town", "tree-e20", "tree-e25"}

WHERE = {
    "Seattle": (47.61, -122.33),
    "Palo Alto": (37.44, -122.14),
    "San Diego": (32.72, -117.16),
    "Salt Lake City": (40.76, -111.89),
    "Boulder": (40.01, -105.27),
    "Houston": (29.76, -95.37),
    "Lincoln": (40.81, -96.70),
    "Champaign": (40.12, -88.24),
    "Pittsburgh": (40.44, -80.00),
    "Atlanta": (33.75, -84.39),
    "Ann Arbor": (42.28, -83.74),
    "Ithaca": (42.44, -76.50),
    "Princeton": (40.35, -74.66),
    "College Park": (38.99, -76.94),
}


def test_every_bundled_file_is_listed():
    assert list_instances() == sorted(path.stem for path in FOLDER.glob("*.json"))
    assert set(list_instances()) == set(STORED) | BY_HAND


def test_the_index_is_that_of_the_instances():
    assert read_index() == index(), "run `python -m benchmarks._bundled instances`"


@pytest.mark.parametrize("name", list_instances())
def test_round_trip(name, tmp_path):
    instance = load_instance(name)
    assert instance.name == name
    assert instance.title
    assert instance.note
    save_instance(instance, tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == (FOLDER / f"{name}.json").read_bytes()
    again = load_instance(tmp_path / "copy.json")
    assert again.labels == instance.labels
    assert again.arms.labels == instance.arms.labels
    assert np.array_equal(again.theta, instance.theta)
    assert again.best == instance.best
    assert repr(again.oracle) == repr(instance.oracle)
    assert again.problem.space == instance.problem.space


@pytest.mark.parametrize("name", list_instances())
def test_checksums_are_correct(name):
    document = json.loads((FOLDER / f"{name}.json").read_text())
    assert document["sha256"] == checksum(document)


@pytest.mark.parametrize("name", STORED)
def test_bundled_files_match_their_recipes(name):
    assert to_document(stored(name)) == to_document(load_instance(name))


@pytest.mark.parametrize("name", sorted(set(list_instances()) - {"grid-30", "matching-30", "topk-1000"}))
def test_oracle_contract(name):
    assert check_oracle(load_instance(name).oracle).ok


def graph(instance):
    edges = [(*edge, length) for edge, length in zip(instance.labels, instance.theta, strict=True)]
    result = nx.DiGraph() if instance.oracle.directed else nx.Graph()
    result.add_weighted_edges_from(edges)
    return result


@pytest.mark.parametrize("name", ["grid-10", "grid-30", "hard-grid", "nsfnet", "town"])
def test_the_best_route_is_that_of_networkx(name):
    instance = load_instance(name)
    ends = instance.oracle.source, instance.oracle.target
    assert instance.best == nx.shortest_path(graph(instance), *ends, weight="weight")


def test_the_sizes_of_the_grids():
    assert load_instance("grid-10").oracle.dim == 180
    assert load_instance("grid-30").oracle.dim == 1740
    assert round(math.exp(load_instance("grid-10").oracle.log_cardinality)) == math.comb(18, 9)


def test_two_nets_by_enumeration():
    """32 edges; theta is 1 on one full path, 0.5 on one of the other net, -1 elsewhere."""
    instance = load_instance("two-nets")
    network = graph(instance)
    assert instance.oracle.dim == 32
    assert sorted(instance.theta) == [-1.0] * 22 + [0.5] * 5 + [1.0] * 5
    inner = network.subgraph(set(network) - {"s", "t"})
    assert [len(net) for net in nx.weakly_connected_components(inner)] == [8, 8]
    worth = sorted(nx.path_weight(network, path, "weight") for path in nx.all_simple_paths(network, "s", "t"))
    assert len(worth) == 32
    assert (worth[-1], worth[-2]) == (5.0, 2.5)
    assert nx.path_weight(network, instance.best, "weight") == 5.0


def test_cyclic_matching_by_enumeration():
    instance = load_instance("cyclic-matching")
    theta = instance.theta.reshape(4, 4)
    worth = {p: sum(theta[i, p[i]] for i in range(4)) for p in permutations(range(4))}
    assert worth[0, 1, 2, 3] == max(worth.values()) == 4.0
    assert worth[1, 2, 3, 0] == 2.0
    assert instance.best == {0: 0, 1: 1, 2: 2, 3: 3}


@pytest.mark.parametrize(("name", "n"), [("matching-10", 10), ("matching-30", 30), ("matching-sparse", 50)])
def test_the_best_matching_is_that_of_scipy(name, n):
    instance = load_instance(name)
    table = np.full((n, n), -1e6)
    for (i, j), value in zip(instance.labels, instance.theta, strict=True):
        table[i, j] = value
    assert instance.best == dict(
        zip(*(side.tolist() for side in linear_sum_assignment(table, maximize=True)), strict=True)
    )


def test_the_papers_instances():
    soare, sphere, topk = (load_instance(name) for name in ("soare", "sphere", "topk-paper"))
    np.testing.assert_allclose(soare.oracle.Z, [[1, 0], [0, 1], [math.cos(0.1), math.sin(0.1)]])
    assert soare.theta.tolist() == [1.0, 0.0]
    assert np.array_equal(soare.arms.row(np.arange(3)), soare.oracle.Z)
    assert topk.best == {0, 1, 2}
    np.testing.assert_allclose(topk.theta, 1 - 0.05 * np.arange(12))

    points = sphere.oracle.Z
    assert points.shape == (20, 6)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)
    distance = {(i, j): np.linalg.norm(points[i] - points[j]) for i in range(20) for j in range(20) if i != j}
    i, j = min(distance, key=distance.get)
    expected = [points[a] + 0.01 * (points[b] - points[a]) for a, b in ((i, j), (j, i))]
    assert any(np.allclose(sphere.theta, theta) for theta in expected)


def best_of(answers, instance):
    """Return the best of some sets of components, by summation."""
    worth = dict(zip(instance.labels, instance.theta, strict=True))
    return max(answers, key=lambda answer: sum(worth[label] for label in answer))


def test_the_model_for_every_task_by_enumeration():
    instance = load_instance("which-model")
    tasks, price = dict.fromkeys(task for task, _ in instance.labels), {"small": 1, "medium": 3, "large": 8}
    choices = [[(task, model) for model in price] for task in tasks]
    within = [answer for answer in product(*choices) if sum(price[model] for _, model in answer) <= 18]
    assert instance.best == set(best_of(within, instance))


def test_the_timetable_by_enumeration():
    instance = load_instance("timetable")
    hours = ["9h", "11h", "14h"]
    tables = []
    for at in product(range(3), repeat=4):
        algebra, biology, chemistry, _ = at
        if max(map(at.count, at)) <= 2 and biology != chemistry and chemistry > algebra:
            courses = ("algebra", "biology", "chemistry", "drawing")
            tables.append([(course, hours[i]) for course, i in zip(courses, at, strict=True)])
    assert instance.best == set(best_of(tables, instance))


def test_the_knapsack_by_enumeration():
    instance = load_instance("knapsack-20")
    chosen = (np.arange(2**20)[:, None] >> np.arange(20)) & 1
    fits = chosen @ instance.oracle.weights <= instance.oracle.capacity
    assert instance.best == set(np.flatnonzero(chosen[fits][(chosen[fits] @ instance.theta).argmax()]).tolist())


def test_the_partition_group_by_group():
    instance = load_instance("partition-10")
    assert instance.best == {i: {(i, int(row.argmax()))} for i, row in enumerate(instance.theta.reshape(10, 4))}


@pytest.mark.parametrize("name", ["hard-topk", "hard-matching"])
def test_hard_instances_are_one_on_the_answer_and_zero_elsewhere(name):
    instance = load_instance(name)
    assert np.array_equal(instance.theta, instance.oracle.encode(instance.best))


def test_the_hard_grid_is_free_on_the_answer_only():
    instance = load_instance("hard-grid")
    assert np.array_equal(instance.theta, 1 + instance.oracle.encode(instance.best))
    assert instance.best[:4] == [(0, 0), (0, 1), (1, 1), (1, 2)]


def test_lengths_of_the_backbone_are_great_circles():
    """By the law of cosines, on a sphere of radius 6371 km."""
    instance = load_instance("nsfnet")
    assert instance.oracle.dim == 21
    for (a, b), length in zip(instance.labels, instance.theta, strict=True):
        (p, u), (q, v) = (np.radians(WHERE[city]) for city in (a, b))
        angle = math.acos(math.sin(p) * math.sin(q) + math.cos(p) * math.cos(q) * math.cos(u - v))
        assert length == pytest.approx(6371 * angle, abs=0.51)


def test_the_town_has_cycles_and_one_way_streets():
    town = load_instance("town")
    streets = set(town.labels)
    assert town.oracle.domain == "nonnegative"
    assert any((v, u) in streets for u, v in streets)
    assert any((v, u) not in streets for u, v in streets)


@pytest.mark.parametrize("name", ["town", "nsfnet", "two-nets", "cyclic-matching"])
def test_an_instance_can_be_identified(name):
    """At delta = .001, these four runs with fixed seeds must be correct; the prior fits the scale."""
    instance = load_instance(name)
    truth = dict(zip(instance.labels, instance.theta, strict=True))
    noise = np.random.default_rng(0)
    result = identify(
        instance.problem, lambda label: truth[label] + instance.noise_std * noise.normal(), delta=0.001, budget=20_000
    )
    assert result.answer == instance.best
    assert result.stop_reason == "posterior"
