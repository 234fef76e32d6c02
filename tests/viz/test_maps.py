"""Routes on maps: coordinates of nodes, layouts, and large networks."""

import time

import networkx as nx
import numpy as np
import pytest
from images import overlapping, pixels, share_of
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from unit_problem import unit_problem

from combopeps import ShortestPathOracle, TopKOracle, identify
from combopeps.errors import ParameterError
from combopeps.viz import graph_plots as maps
from combopeps.viz.answers import plot_answer, plot_result
from combopeps.viz.canvas import ANSWER, DARK, FAINT, RUNNER_UP

SWISS = {"Bern": (7.45, 46.95), "Chur": (9.53, 46.85), "Basel": (7.59, 47.56), "Lugano": (8.95, 46.0)}
ROADS = [("Bern", "Basel"), ("Basel", "Chur"), ("Bern", "Lugano"), ("Lugano", "Chur")]


def swiss(**attributes):
    """Return an oracle of two routes from Bern to Chur; attributes are a coordinate (0, 1) or a function of both."""
    graph = nx.Graph(ROADS)
    for node, place in SWISS.items():
        for name, part in attributes.items():
            graph.nodes[node][name] = place[part] if isinstance(part, int) else part(place)
    return ShortestPathOracle(graph, "Bern", "Chur")


def city(n=20, *, seed=0, ends=None):
    """Return an oracle on a perturbed grid around 11.5 east, 48.1 north."""
    rng = np.random.default_rng(seed)
    graph = nx.convert_node_labels_to_integers(nx.grid_2d_graph(n, n))
    for node in graph:
        i, j = np.array(divmod(node, n)) + 0.25 * rng.normal(size=2)
        graph.add_node(node, x=float(11.5 + 0.002 * i), y=float(48.1 + 0.0014 * j))
    return ShortestPathOracle(graph, *(ends or (n + 2, n * n - 3)))


def solved(oracle, seed=0):
    """Return an answer, a runner-up, and numbers of samples around both."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(1.0, 3.0, oracle.dim)
    near = [oracle.argmax(theta * rng.uniform(0.8, 1.2, oracle.dim)) for _ in range(20)]
    z = oracle.argmax(theta)
    rival = next(other for other in near if (other != z).any())
    return z, rival, 3.0 * np.abs(near).sum(axis=0)


def dots(ax):
    return {tuple(point) for point in ax.lines[0].get_xydata()}


@pytest.mark.parametrize(
    "attributes",
    [
        {"pos": lambda place: place},
        {"pos": lambda place: "{},{}!".format(*place)},
        {"pos": lambda place: list(place)},
        {"pos": lambda place: np.array(place)},
        {"x": 0, "y": 1},
        {"x": lambda place: str(place[0]), "y": lambda place: str(place[1])},
        {"lon": 0, "lat": 1},
        {"Longitude": 0, "Latitude": 1, "x": lambda place: "abc", "y": 1},
        {"graphics": lambda place: {"x": place[0], "y": place[1], "w": 3}},
    ],
)
def test_coordinates_are_found_at_the_nodes(attributes):
    ax = plot_answer(swiss(**attributes))
    assert dots(ax) == set(SWISS.values())
    assert ax.get_aspect() == pytest.approx(1 / np.cos(np.radians(46.84)), rel=1e-3)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"x": 0},
        {"x": lambda place: "abc", "y": 1},
        {"x": lambda place: float("nan"), "y": 1},
        {"x": lambda place: True, "y": 1},
        {"pos": lambda place: (*place, 0.0)},
        {"pos": lambda place: "here"},
        {"x": lambda place: 0.0, "y": lambda place: 0.0},
        {"x": lambda place: place[0] if place[0] < 7.5 else None, "y": 1},
    ],
)
def test_invalid_coordinates_are_ignored(attributes):
    """Negative control: without coordinates there is a layout, with any aspect ratio."""
    oracle = swiss(**attributes)
    assert oracle.pos is None
    ax = plot_answer(oracle)
    assert dots(ax) != set(SWISS.values())
    assert ax.get_aspect() == "auto"


def test_degrees_are_distinguished_from_plane_coordinates():
    plan = {node: (10 * i, 10 * (i % 2)) for i, node in enumerate(SWISS)}
    assert plot_answer(swiss(), pos=plan).get_aspect() == 1.0
    unit = {node: (0.1 + 0.2 * i, 0.5 * (i % 2)) for i, node in enumerate(SWISS)}
    assert plot_answer(swiss(), pos=unit).get_aspect() == 1.0
    metres = {node: (1000 * x, 1000 * y) for node, (x, y) in SWISS.items()}
    assert plot_answer(swiss(), pos=metres).get_aspect() == 1.0
    assert plot_answer(swiss(), pos=SWISS).get_aspect() > 1.4
    arctic = {node: (x, 89.5 + 0.1 * (y % 1)) for node, (x, y) in SWISS.items()}
    assert plot_answer(swiss(), pos=arctic).get_aspect() <= 10


def test_given_coordinates_take_precedence():
    plan = dict(zip(SWISS, [(0, 0), (5, 1), (3, 2), (2, -1)], strict=True))
    assert dots(plot_answer(swiss(x=0, y=1), pos=plan)) == set(plan.values())


@pytest.mark.parametrize(
    ("pos", "cure"),
    [
        ([(0, 1)], "a dict"),
        ({**SWISS, "Chur": (1.0,)}, "two finite numbers"),
        ({**SWISS, "Chur": (float("inf"), 0)}, "two finite numbers"),
        ({"Bern": (0, 0), "Rome": (1, 1)}, "1 of 4 nodes"),
    ],
)
def test_invalid_positions_are_rejected(pos, cure):
    with pytest.raises(ParameterError, match=cure):
        plot_answer(swiss(), pos=pos)


def test_only_networks_have_positions():
    with pytest.raises(ParameterError, match="leave it out"):
        plot_answer(TopKOracle(3, k=1), pos=SWISS)


def test_a_node_without_coordinates_stands_between_its_neighbours():
    ax = plot_answer(swiss(), pos={node: place for node, place in SWISS.items() if node != "Basel"})
    between = tuple(np.mean([SWISS["Bern"], SWISS["Chur"]], axis=0))
    assert between in dots(ax)
    assert "1 node without coordinates stands between neighbours" in ax.get_title()


def where(image, colour):
    """Return the mean row of a colour, as a share of the height."""
    return (np.abs(image - to_rgb(colour)).max(axis=2) < 0.02).nonzero()[0].mean() / len(image)


def test_north_is_up():
    oracle = swiss(lon=0, lat=1)
    north, south = (oracle.encode(["Bern", via, "Chur"]) for via in ("Basel", "Lugano"))
    image = pixels(plot_answer(oracle, north, rival=south))
    assert where(image, ANSWER) < where(image, RUNNER_UP)
    image = pixels(plot_answer(oracle, south, rival=north))
    assert where(image, ANSWER) > where(image, RUNNER_UP)


def test_results_are_drawn_at_given_positions():
    noise = np.random.default_rng(0)
    result = identify(unit_problem(swiss(), prior_std=5.0), lambda edge: len(edge[0]) + noise.normal(), budget=50)
    assert dots(plot_result(result, pos=SWISS)) == set(SWISS.values())


def test_overlapping_labels_are_left_out(monkeypatch):
    crowd = nx.Graph([("source", f"stop {i}") for i in range(12)] + [(f"stop {i}", "target") for i in range(12)])
    pos = {"source": (0.0, 0.0), "target": (9.0, 0.0)} | {f"stop {i}": (4.5, 0.02 * i) for i in range(12)}
    oracle = ShortestPathOracle(crowd, "source", "target")
    z = oracle.encode(["source", "stop 7", "target"])
    ax = plot_answer(oracle, z, pos=pos)
    assert overlapping(ax) == []
    assert {"source", "target", "stop 7"} <= {text.get_text() for text in ax.texts}  # what matters goes first
    monkeypatch.setattr(maps, "_remove_overlapping", lambda ax, texts: None)
    assert overlapping(plot_answer(oracle, z, pos=pos)) != []


def test_a_large_map_shows_unmeasured_edges_faintly():
    oracle = city()
    z, rival, samples = solved(oracle)
    ax = plot_answer(oracle, z, rival=rival, samples=samples)
    image = pixels(ax)
    assert 2e-3 < share_of(image, ANSWER) < 0.2
    assert share_of(image, RUNNER_UP) > 5e-4
    assert share_of(image, DARK) > 5e-4
    assert share_of(image, FAINT) > 5e-4
    assert overlapping(ax) == []
    assert [text.get_text() for text in ax.texts] == [str(oracle.source), str(oracle.target)]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "answer",
        "runner-up",
        "measured",
        "not measured",
    ]
    blank = pixels(plot_answer(oracle))
    assert share_of(blank, ANSWER) == share_of(blank, RUNNER_UP) == 0.0  # the negative control
    assert share_of(blank, DARK) < 1e-4  # the edges of letters


def test_more_samples_make_wider_lines_on_a_large_map():
    oracle = city()
    few, many = np.zeros(oracle.dim), np.zeros(oracle.dim)
    few[:200], many[:200] = 1.0, 1.0
    few[0] = 1e9
    thin, wide = (share_of(pixels(plot_answer(oracle, samples=s)), DARK) for s in (few, many))
    assert wide > 2 * thin > 0


def test_the_runner_up_is_drawn_where_it_leaves_the_answer():
    graph = nx.path_graph(401)
    nx.set_node_attributes(graph, {i: (float(i), 0.0) for i in graph}, "pos")
    for name, start in (("up", 10), ("down", 300)):  # two detours of three edges
        graph.add_node(name, pos=(start + 1.5, 5.0))
        graph.add_node(name + "!", pos=(start + 2.5, 5.0))
        nx.add_path(graph, [start, name, name + "!", start + 4])
    oracle = ShortestPathOracle(graph, 0, 400)
    rest = [*range(11), "up", "up!", *range(14, 301), "down", "down!", *range(304, 401)]
    ax = plot_answer(oracle, oracle.encode(list(range(401))), rival=oracle.encode(rest))
    detours = ax.collections[3].get_segments()
    assert [line.tolist() for line in detours] == [
        [[10, 0], [11.5, 5], [12.5, 5], [14, 0]], [[300, 0], [301.5, 5], [302.5, 5], [304, 0]],
    ]  # fmt: skip


def test_a_large_map_is_zoomed_to_the_relevant_part():
    near, far = city(30, ends=(31, 31 + 5 * 31)), city(30)
    ax = plot_answer(near, solved(near)[0])
    assert "a part of the network of 1,740 edges" in ax.get_title()
    shown, whole = ax.get_xlim(), np.array(list(near.pos.values()))[:, 0]
    assert np.ptp(shown) < 0.7 * np.ptp(whole)
    assert all(shown[0] < near.pos[end][0] < shown[1] for end in (near.source, near.target))
    assert overlapping(ax) == []
    ax = plot_answer(far, solved(far)[0])
    assert "a part" not in ax.get_title()
    assert np.ptp(ax.get_xlim()) > np.ptp(whole)


def test_ten_thousand_edges_are_a_few_collections_drawn_at_once():
    oracle = city(72)
    assert oracle.dim > 10_000
    z, rival, samples = solved(oracle)
    seconds = []
    for _ in range(3):  # the first one loads fonts
        start = time.process_time()
        ax = plot_answer(oracle, z, rival=rival, samples=samples)
        pixels(ax)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 2.0
    assert not ax.patches
    assert len(ax.collections) == 4
    assert all(isinstance(part, LineCollection) for part in ax.collections)
    assert len(ax.lines) == 1


def test_parallel_streets_of_a_large_map():
    graph = nx.MultiDiGraph(city().components)
    nx.set_node_attributes(graph, city().pos, "pos")
    graph.add_edge(*next(iter(graph.edges())))
    oracle = ShortestPathOracle(graph, 22, 397)
    z, rival, samples = solved(oracle)
    image = pixels(plot_answer(oracle, z, rival=rival, samples=samples))
    assert share_of(image, RUNNER_UP) > 5e-4


def test_the_layout_of_a_mesh_has_short_edges():
    """Edges are short in the layout of a mesh. Negative control: at random positions they are not."""
    graph = nx.relabel_nodes(nx.convert_node_labels_to_integers(nx.grid_2d_graph(30, 30)), str)
    oracle = ShortestPathOracle(graph, "31", "868")
    rng = np.random.default_rng(0)
    for pos, short in ((None, True), ({node: rng.normal(size=2) for node in graph}, False)):
        lines = np.array(plot_answer(oracle, pos=pos).collections[0].get_segments())
        lengths = np.linalg.norm(lines[:, 1] - lines[:, 0], axis=1)
        assert (lengths.max() < 0.1 * np.ptp(lines, axis=(0, 1)).max()) == short
