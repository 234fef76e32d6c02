"""Node coordinates: read from every format, kept in instance files, and optional."""

import json
import warnings

import networkx as nx
import pytest
from unit_problem import unit_problem

from combopeps import Campaign, ShortestPathOracle, load_instance, read_network, save_instance
from combopeps.cli import main
from combopeps.errors import FileFormatError, InstanceError, ParameterError
from combopeps.io import Instance

PLACES = {"s": (7.45, 46.95), "a": (7.59, 47.56), "b": (8.95, 46.0), "t": (9.53, 46.85)}


def network(**names):
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([("s", "a", 1.0), ("a", "t", 1.0), ("s", "b", 2.0), ("b", "t", 2.0)])
    for node, place in PLACES.items():
        graph.nodes[node].update({name: place if part is None else place[part] for name, part in names.items()})
    return graph


def node_link(graph, path):
    path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))


WRITERS = {"x.json": node_link, "x.graphml": nx.write_graphml, "x.gml": nx.write_gml}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(("names", "in_degrees"), [({"x": 0, "y": 1}, True), ({"lon": 0, "lat": 1}, True), ({"Longitude": 0, "Latitude": 1}, True), ({}, False)])  # fmt: skip
def test_attributes_of_nodes_in_files(name, names, in_degrees, tmp_path):
    WRITERS[name](network(**names), tmp_path / name)
    oracle = read_network(tmp_path / name, "s", "t").oracle
    assert oracle.pos == (PLACES if names else None)
    assert oracle.in_degrees == in_degrees


@pytest.mark.parametrize("name", ["x.json", "x.gml"])
def test_points_in_one_attribute(name, tmp_path):
    graph = network()
    nx.set_node_attributes(graph, {node: list(place) for node, place in PLACES.items()}, "pos")
    WRITERS[name](graph, tmp_path / name)
    assert read_network(tmp_path / name, "s", "t").oracle.pos == PLACES


def test_degrees_are_recognised_by_names_or_reference_system():
    graph = nx.DiGraph([("s", "t")])
    graph.add_node("s", lon=-70.5, lat=-30.5)
    graph.add_node("t", lon=139.7, lat=35.7)
    assert ShortestPathOracle(graph, "s", "t").in_degrees
    plain = nx.DiGraph([("s", "t")])
    plain.add_node("s", x=-70.5, y=-30.5)
    plain.add_node("t", x=139.7, y=35.7)
    assert not ShortestPathOracle(plain, "s", "t").in_degrees
    plain.graph["crs"] = "epsg:4326"
    assert ShortestPathOracle(plain, "s", "t").in_degrees


TNTP = (
    "<NUMBER OF NODES> 3\n<NUMBER OF LINKS> 3\n<FIRST THRU NODE> 1\n<END OF METADATA>\n"
    "~ \tinit_node\tterm_node\tfree_flow_time\t;\n\t1\t2\t5\t;\n\t2\t3\t5\t;\n\t1\t3\t12\t;\n"
)
NODES = "Node\tX\tY\t;\n1\t50000\t510000\t;\n2\t320000\t510000\t;\n3\t50000.5\t440000\t;\n9\t1\t1\t;\n"
THERE = {1: (50000.0, 510000.0), 2: (320000.0, 510000.0), 3: (50000.5, 440000.0)}


@pytest.mark.parametrize(("net", "node"), [("town_net.tntp", "town_node.tntp"), ("town.tntp", "town_node.tntp"), ("Town_Net.tntp", "Town_node.tntp")])  # fmt: skip
def test_default_node_file(net, node, tmp_path):
    (tmp_path / net).write_text(TNTP)
    assert read_network(tmp_path / net, 1, 3).oracle.pos is None
    (tmp_path / node).write_text(NODES)
    oracle = read_network(tmp_path / net, 1, 3).oracle
    assert oracle.pos == THERE
    assert not oracle.in_degrees


def test_explicit_node_file(tmp_path):
    (tmp_path / "net.tntp").write_text(TNTP)
    (tmp_path / "places.txt").write_text("~ id lat lon\n<x>\n\n1 47.1 8.5\n2 47.2 8.6\n3 47.0 8.7\n")
    oracle = read_network(tmp_path / "net.tntp", 1, 3, nodes=tmp_path / "places.txt").oracle
    assert oracle.pos == {1: (8.5, 47.1), 2: (8.6, 47.2), 3: (8.7, 47.0)}
    assert oracle.in_degrees
    nx.write_graphml(network(), tmp_path / "x.graphml")
    with pytest.raises(ParameterError, match="leave it out"):
        read_network(tmp_path / "x.graphml", "s", "t", nodes=tmp_path / "places.txt")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("node\tX\tY\t;\n", None),
        ("node\tX\t;\n1\t2\t;", 1),
        ("X\tY\t;\n1\t2\t;", 1),
        ("node\tX\tY\tlon\t;\n1\t2\t3\t4\t;", 1),
        (NODES.replace("440000", "nan"), 4),
        (NODES.replace("440000", ""), 4),
        (NODES.replace("440000", "44_0"), 4),
        (NODES.replace("3\t5", "x\t5"), 4),
        (NODES.replace("3\t5", "2\t5"), 4),
    ],
)
def test_invalid_node_files_raise_if_given_else_warn(text, line, tmp_path):
    (tmp_path / "x_net.tntp").write_text(TNTP)
    nodes = tmp_path / "x_node.tntp"
    nodes.write_text(text)
    with pytest.raises(FileFormatError) as caught:
        read_network(tmp_path / "x_net.tntp", 1, 3, nodes=nodes)
    assert (caught.value.file, caught.value.line) == (str(nodes), line)
    with pytest.warns(UserWarning, match="no coordinates for pictures: .*x_node.tntp") as seen:
        assert read_network(tmp_path / "x_net.tntp", 1, 3).best == [1, 2, 3]
    assert seen[0].filename == __file__


def test_the_command_line_takes_a_node_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.tntp").write_text(TNTP)
    (tmp_path / "places.tntp").write_text(NODES)
    words = ["net.tntp", "--source", "1", "--target", "3", "--nodes", "places.tntp"]
    assert main(["init", *words, "--state", "run.db"]) == 0
    assert Campaign.open("run.db").problem.oracle.pos == THERE
    assert main(["show", "town", "--nodes", "places.tntp"]) == 1
    assert "--nodes has no meaning" in capsys.readouterr().err


@pytest.mark.parametrize("names", [{"x": 0, "y": 1}, {"lon": 0, "lat": 1}, {"pos": None}])
def test_coordinates_are_saved_and_loaded(names, tmp_path):
    oracle = ShortestPathOracle(network(**names), "s", "t")
    save_instance(Instance("x", unit_problem(oracle)), tmp_path / "x.json")
    again = load_instance(tmp_path / "x.json").oracle
    assert (again.pos, again.in_degrees) == (PLACES, True)
    Campaign.create(tmp_path / "run.db", unit_problem(oracle))
    assert Campaign.open(tmp_path / "run.db").problem.oracle.pos == PLACES


def test_partial_coordinates_are_saved_and_loaded(tmp_path):
    graph = network(x=0, y=1)
    graph.nodes["a"].clear()
    save_instance(Instance("x", unit_problem(ShortestPathOracle(graph, "s", "t"))), tmp_path / "x.json")
    assert set(load_instance(tmp_path / "x.json").oracle.pos) == {"s", "b", "t"}


def test_files_without_coordinates_have_no_such_field(tmp_path):
    save_instance(Instance("x", unit_problem(ShortestPathOracle(network(), "s", "t"))), tmp_path / "x.json")
    document = json.loads((tmp_path / "x.json").read_text())
    assert set(document["oracle"]) == {"kind", "directed", "multigraph", "source", "target", "objective", "edges"}
    save_instance(load_instance("town"), tmp_path / "town.json")
    assert "pos" not in (tmp_path / "town.json").read_text()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"pos": 3}, "oracle.pos"),
        ({"pos": [["s", 1]]}, "oracle.pos[0]"),
        ({"pos": [["s", 1, 2], ["q", 1, 2]]}, "oracle.pos[1][0]"),
        ({"pos": [["s", 1, 2], ["s", 1, 2]]}, "oracle.pos[1][0]"),
        ({"pos": [["s", 1, "2"]]}, "oracle.pos[0][2]"),
        ({"pos": [["s", 1, 1e200]]}, "oracle.pos[0][2]"),
        ({"in_degrees": 1}, "oracle.in_degrees"),
        ({"places": []}, "oracle"),
    ],
)
def test_invalid_coordinates_are_rejected_by_field(change, field, tmp_path):
    save_instance(Instance("x", unit_problem(ShortestPathOracle(network(x=0, y=1), "s", "t"))), tmp_path / "x.json")
    document = json.loads((tmp_path / "x.json").read_text())
    del document["sha256"]
    document["oracle"] |= change
    (tmp_path / "x.json").write_text(json.dumps(document))
    with pytest.raises(InstanceError) as caught:
        load_instance(tmp_path / "x.json")
    assert caught.value.field == field


def test_reading_emits_no_other_warnings(tmp_path):
    (tmp_path / "x_net.tntp").write_text(TNTP)
    (tmp_path / "x_node.tntp").write_text(NODES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_network(tmp_path / "x_net.tntp", 1, 3)
