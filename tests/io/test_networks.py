"""Network files: written by networkx where possible, otherwise by hand in the documented format."""

import json
from contextlib import suppress

import networkx as nx
import numpy as np
import pytest

from combopeps import ComboPepsError, load_instance, read_network, save_instance
from combopeps.errors import FileFormatError, GraphError, InstanceError

KINDS = [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]


def town(kind, seed=0):
    rng = np.random.default_rng(seed)
    graph = kind()
    names = ["home", "bridge", "tunnel", "market", "work"]
    graph.add_nodes_from(names)
    for u in names:
        for v in names:
            if u != v and rng.random() < 0.6:
                graph.add_edge(u, v, minutes=float(rng.integers(1, 20)))
    if graph.is_multigraph():
        graph.add_edge("home", "work", minutes=9.5)
        graph.add_edge("home", "work", minutes=8.5)
    else:
        graph.add_edge("home", "work", minutes=8.5)
    return graph


def node_link(graph, path):
    path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))


def node_link_old(graph, path):
    path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))


WRITERS = {
    "edges.json": node_link,
    "links.json": node_link_old,
    "net.graphml": nx.write_graphml,
    "net.gml": nx.write_gml,
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITERS)
def test_files_of_networkx(name, kind, seed, tmp_path):
    graph = town(kind, seed)
    WRITERS[name](graph, tmp_path / name)
    instance = read_network(tmp_path / name, "home", "work", attribute="minutes", noise_std=2.0)
    assert instance.oracle.directed == graph.is_directed()
    assert instance.oracle.multigraph == graph.is_multigraph()
    length = nx.shortest_path_length(graph, "home", "work", weight="minutes")
    assert -instance.oracle.argmax(instance.theta) @ instance.theta == pytest.approx(length)
    if not graph.is_multigraph():
        assert [graph.edges[edge]["minutes"] for edge in instance.labels] == instance.theta.tolist()
    assert sorted(instance.theta) == sorted(
        data["minutes"]
        for u, v, data in graph.edges(data=True)
        if any({u, v} == {*label[:2]} if not graph.is_directed() else (u, v) == label[:2] for label in instance.labels)
    )
    assert instance.noise_std == 2.0
    assert instance.problem.prior_mean is instance.problem.prior_std is None
    save_instance(instance, tmp_path / "ours.json")
    assert load_instance(tmp_path / "ours.json").best == instance.best


def test_nodes_that_are_tuples_survive_node_link(tmp_path):
    grid = nx.grid_2d_graph(3, 3)
    node_link(grid, tmp_path / "grid.json")
    instance = read_network(tmp_path / "grid.json", (0, 0), "(2, 2)")
    assert instance.oracle.target == (2, 2)
    assert instance.theta is None
    assert instance.best is None
    assert instance.oracle.dim == 12


@pytest.mark.parametrize("objective", ["min", "max"])
def test_the_objective(objective, tmp_path):
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([("s", "a", 1.0), ("a", "t", 1.0), ("s", "t", 5.0)])
    nx.write_graphml(graph, tmp_path / "x.graphml")
    instance = read_network(tmp_path / "x.graphml", "s", "t", objective=objective)
    assert instance.best == (["s", "a", "t"] if objective == "min" else ["s", "t"])


SIOUX = """<NUMBER OF ZONES> 2
<NUMBER OF NODES> 5
<FIRST THRU NODE> 3
<NUMBER OF LINKS> 7
<ORIGINAL HEADER>~ \tInit node \tTerm node \tCapacity \t;
<END OF METADATA>


~ \tinit_node\tterm_node\tcapacity\tlength\tfree_flow_time\tb\tpower\tspeed\ttoll\tlink_type\t;
\t1\t3\t25900.20064\t6\t6\t0.15\t4\t0\t0\t1\t;
\t3\t4\t23403.47319\t4\t4.5\t0.15\t4\t0\t0\t1\t;
\t4\t5\t25900.20064\t6\t2\t0.15\t4\t0\t0\t1\t;
\t3\t2\t4958.180928\t1\t1\t0.15\t4\t0\t0\t1\t;
\t2\t5\t4958.180928\t1\t1\t0.15\t4\t0\t0\t1\t;
\t3\t5\t4908.82673\t3\t9\t0.15\t4\t0\t0\t1\t;
\t4\t3\t4908.82673\t3\t9\t0.15\t4\t0\t0\t1\t;
"""


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_tntp(tmp_path):
    """The shortest walk passes through zone 2, which routes may not."""
    path = write(tmp_path / "net.tntp", SIOUX)
    instance = read_network(path, "1", "5")
    assert instance.best == [1, 3, 4, 5]
    assert dict(zip(instance.labels, instance.theta, strict=True))[3, 4] == 4.5
    assert read_network(path, 1, 5, attribute="length").best == [1, 3, 5]
    assert read_network(path, 1, 2).best == [1, 3, 2]
    assert read_network(write(path, SIOUX.replace("THRU NODE> 3", "THRU NODE> 1")), 1, 5).best == [1, 3, 2, 5]


def test_tntp_with_the_old_names_of_columns(tmp_path):
    old = SIOUX.replace("init_node\tterm_node", "Init node \tTerm node ").replace("free_flow_time", "Free Flow Time ")
    assert read_network(write(tmp_path / "net.tntp", old, "utf-8-sig"), 1, 5).best == [1, 3, 4, 5]


GR = """c 9th DIMACS Implementation Challenge, Shortest Paths
c
p sp 4 6
a 1 2 7
a 2 4 1
a 1 3 2
a 3 4 9
a 3 2 3
a 1 2 8
"""


def test_dimacs_with_parallel_arcs(tmp_path):
    instance = read_network(write(tmp_path / "x.gr", GR), 1, "4")
    assert instance.oracle.multigraph
    assert instance.best == ([1, 3, 2, 4], [0, 0, 0])
    single = GR.replace("a 1 2 8\n", "").replace("4 6", "4 5")
    assert read_network(write(tmp_path / "y.gr", single.replace("\n", "\r\n")), 1, 4).best == [1, 3, 2, 4]


NODES = '"nodes": [{"id": "s"}, {"id": "t"}]'
EDGE = '"source": "s", "target": "t"'
XML = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{}</graphml>'
GRAPH = '<graph edgedefault="directed"><node id="s"/><node id="t"/><edge source="s" target="t"/></graph>'
BOMB = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n'

FAULTS = [
    ("x.csv", "s,t", None, ""),
    ("x.json", "[]", None, ""),
    ("x.json", "{", 1, ""),
    ("x.json", "{}", None, "nodes"),
    ("x.json", f"{{{NODES}}}", None, ""),
    ("x.json", f'{{{NODES}, "edges": [], "links": []}}', None, ""),
    ("x.json", f'{{{NODES}, "edges": 3}}', None, "edges"),
    ("x.json", f'{{{NODES}, "edges": [{{"source": "s"}}]}}', None, "edges[0]"),
    ("x.json", f'{{{NODES}, "edges": [{{"source": "s", "target": "q"}}]}}', None, "edges[0].target"),
    ("x.json", f'{{{NODES}, "links": [{{"source": null, "target": "t"}}]}}', None, "links[0].source"),
    ("x.json", f'{{{NODES}, "directed": 1, "edges": [{{{EDGE}}}]}}', None, "directed"),
    ("x.json", f'{{{NODES}, "multigraph": false, "edges": [{{{EDGE}}}, {{{EDGE}}}]}}', None, "edges[1]"),
    ("x.json", f'{{{NODES}, "edges": [{{{EDGE}, "key": 1}}, {{{EDGE}, "key": 1}}]}}', None, "edges[1]"),
    ("x.json", f'{{{NODES}, "edges": [{{{EDGE}, "weight": NaN}}]}}', None, ""),
    ("x.json", f'{{{NODES}, "edges": [{{{EDGE}, "weight": 1e999}}]}}', None, "weight"),
    ("x.json", f'{{{NODES}, "edges": [{{{EDGE}, "weight": "3"}}]}}', None, "weight"),
    ("x.json", f'{{{NODES}, "edges": [{{{EDGE}, "weight": true}}]}}', None, "weight"),
    ("x.json", f'{{{NODES}, "edges": [{{{EDGE}, "weight": 1}}, {{{EDGE}}}]}}', None, "weight"),
    ("x.json", f'{{{NODES}, "edges": [{{{EDGE}}}], "more": 1}}', None, ""),
    ("x.graphml", "", 1, ""),
    ("x.graphml", "<graphml>\n<graph>", 2, ""),
    ("x.graphml", "\n" + BOMB + XML.format(GRAPH), 2, ""),
    ("x.graphml", XML.format(""), None, ""),
    ("x.graphml", XML.format(GRAPH + GRAPH), None, ""),
    ("x.graphml", XML.format(GRAPH.replace("<edge ", "<hyperedge/><edge ")), None, ""),
    ("x.graphml", XML.format(GRAPH.replace("<edge ", '<edge directed="false" ')), None, ""),
    ("x.graphml", XML.format(GRAPH.replace('<node id="t"/>', "<node/>")), None, "node"),
    ("x.graphml", XML.format(GRAPH.replace('<node id="t"/>', '<node id="s"/>')), None, "node"),
    ("x.graphml", XML.format(GRAPH.replace('target="t"', 'target="q"')), None, "edge[0].target"),
    ("x.graphml", XML.format(GRAPH.replace('source="s"', "")), None, "edge[0].source"),
    ("x.graphml", XML.format('<key id="d" for="edge" attr.name="w" attr.type="colour"/>' + GRAPH), None, ""),
    ("x.tntp", "", 0, ""),
    ("x.tntp", "1 2 3 ;", 1, ""),
    ("x.tntp", SIOUX.replace("<END OF METADATA>\n", ""), 9, ""),
    ("x.tntp", SIOUX.replace("<NUMBER OF LINKS> 7", "<NUMBER OF LINKS> 8"), 16, ""),
    ("x.tntp", SIOUX.replace("<NUMBER OF LINKS> 7", "<NUMBER OF LINKS> x"), 4, "NUMBER OF LINKS"),
    ("x.tntp", SIOUX.replace("<NUMBER OF NODES> 5", "<NUMBER OF NODES> 4"), 12, "term_node"),
    ("x.tntp", SIOUX.replace("free_flow_time", "fft"), 9, "free_flow_time"),
    ("x.tntp", SIOUX.replace("init_node", "from"), 9, ""),
    ("x.tntp", SIOUX.replace("~ \tinit_node", "~ no\n~ \tinit_node"), 9, ""),
    ("x.tntp", SIOUX.replace("25900.20064", "25,900", 1), 10, "capacity"),
    ("x.tntp", SIOUX.replace("23403.47319", "nan"), 11, "capacity"),
    ("x.tntp", SIOUX.replace("\t4.5\t", "\t"), 11, ""),
    ("x.tntp", SIOUX.replace("\t1\t3\t", "\t0\t3\t", 1), 10, "init_node"),
    ("x.tntp", SIOUX[:-5], 16, ""),
    ("x.gr", "", 0, ""),
    ("x.gr", "a 1 2 3", 1, ""),
    ("x.gr", GR.replace("p sp 4 6", "p max 4 6"), 3, ""),
    ("x.gr", GR.replace("p sp 4 6", "p sp 4 6\np sp 4 6"), 4, ""),
    ("x.gr", GR.replace("p sp 4 6", "p sp 4 7"), 9, ""),
    ("x.gr", GR.replace("p sp 4 6", "p sp 3 6"), 5, "to"),
    ("x.gr", GR.replace("a 1 2 7", "a 1 2"), 4, ""),
    ("x.gr", GR.replace("a 1 2 7", "a 1 x 7"), 4, "to"),
    ("x.gr", GR.replace("a 1 2 7", "a 1_0 2 7"), 4, "from"),
    ("x.gr", GR.replace("a 1 2 7", "a 1 2 inf"), 4, "weight"),
    ("x.gr", GR.replace("a 1 2 7", "a 1 2 1_0"), 4, "weight"),
    ("x.gr", GR.replace("a 1 2 7", "e 1 2 7"), 4, ""),
]


@pytest.mark.parametrize(("name", "text", "line", "field"), FAULTS)
def test_invalid_networks_are_rejected_by_line_and_field(name, text, line, field, tmp_path):
    path = write(tmp_path / name, text)
    ends = ("1", "4") if name.endswith((".gr", ".tntp")) else ("s", "t")
    with pytest.raises(FileFormatError) as caught:
        read_network(path, *ends)
    assert (caught.value.file, caught.value.line, caught.value.field) == (str(path), line, field)
    assert str(path) in str(caught.value)
    assert field in str(caught.value)


@pytest.mark.parametrize("name", ["x.json", "x.graphml", "x.gml", "x.tntp", "x.gr"])
def test_other_encodings_and_missing_files(name, tmp_path):
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_network(tmp_path / name, "s", "t")
    for encoding in ("utf-16", "utf-32"):
        with pytest.raises(FileFormatError, match="UTF-8"):
            read_network(write(tmp_path / name, GR, encoding), "s", "t")


def test_entity_expansion_in_other_encodings_is_rejected(tmp_path):
    text = '<?xml version="1.0" encoding="utf-16-le"?>' + BOMB + XML.format(GRAPH)
    with pytest.raises(FileFormatError):
        read_network(write(tmp_path / "x.graphml", text, "utf-16-le"), "s", "t")


def test_requested_attributes_must_exist(tmp_path):
    node_link(town(nx.Graph), tmp_path / "x.json")
    with pytest.raises(FileFormatError, match=r"hours.*minutes"):
        read_network(tmp_path / "x.json", "home", "work", attribute="hours")
    assert read_network(tmp_path / "x.json", "home", "work").theta is None


def test_unknown_nodes_suggest_similar_names(tmp_path):
    node_link(town(nx.Graph), tmp_path / "x.json")
    with pytest.raises(GraphError, match=r"source 'hom' .*home"):
        read_network(tmp_path / "x.json", "hom", "work")
    with pytest.raises(GraphError, match="target"):
        read_network(tmp_path / "x.json", "home", ["work"])
    node_link(nx.Graph([("1", 1), (1, 2)]), tmp_path / "y.json")
    assert read_network(tmp_path / "y.json", "1", "2").oracle.source == "1"  # the node itself goes first
    node_link(nx.Graph([((0, 1), "(0, 1)"), ("(0, 1)", 2)]), tmp_path / "z.json")
    assert read_network(tmp_path / "z.json", (0, 1), 2).oracle.source == (0, 1)


def test_negative_lengths_on_a_cyclic_network_are_rejected(tmp_path):
    text = "p sp 4 6\na 1 2 1\na 2 3 -1\na 3 2 1\na 1 3 1\na 2 4 1\na 3 4 1\n"
    with pytest.raises(InstanceError, match="theta"):
        read_network(write(tmp_path / "x.gr", text), 1, 4)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("name", ["x.json", "x.graphml", "x.gml", "x.tntp", "x.gr"])
def test_damaged_networks_raise_typed_errors_only(name, seed, tmp_path):
    rng = np.random.default_rng([seed, len(name)])
    path, ends = tmp_path / name, ("1", "4")
    if name in ("x.json", "x.graphml", "x.gml"):
        ends = ("home", "work")
        {"x.json": node_link, "x.graphml": nx.write_graphml, "x.gml": nx.write_gml}[name](town(KINDS[seed % 4]), path)
    else:
        write(path, SIOUX if name == "x.tntp" else GR)
    data = bytearray(path.read_bytes())
    for _ in range(rng.integers(1, 6)):
        data[rng.integers(len(data))] = rng.integers(256) if rng.random() < 0.3 else rng.integers(32, 127)
    path.write_bytes(data[: rng.integers(len(data))] if seed % 5 == 0 else data)
    with suppress(ComboPepsError):
        read_network(path, *ends, attribute="minutes" if ends[0] == "home" else None)
