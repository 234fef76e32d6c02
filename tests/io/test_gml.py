"""GML files, and lookup of nodes by id, label or name."""

import networkx as nx
import pytest

from combopeps import load_instance, read_network, save_instance
from combopeps.cli import main
from combopeps.errors import FileFormatError, GraphError

CITY = """Creator "somebody"
graph [
  directed 1
  node [ id 0 label "Central" lon 8.54 lat 47.37 ]
  node [ id 1 label "Harbour" lon 8.55 lat 47.36 ]
  node [ id 2 label "Zo&#235; Square" lon 8.56 lat 47.38 ]
  node [ id 3 label "Airport" lon 8.58 lat 47.45 ]
  edge [ source 0 target 1 minutes 4.5 weight 1 ]
  edge [ source 1 target 3 minutes 9 weight 9 ]
  edge [ source 0 target 2 minutes 3 weight 1 ]
  edge [ source 2 target 3 minutes 20 weight 2 ]
]
"""
SHIFTED = """graph [
  node [ id 0 label "1" ]
  node [ id 1 label "2" ]
  node [ id 2 label "3" ]
  edge [ source 0 target 1 ]
  edge [ source 1 target 2 ]
]
"""


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(("source", "target"), [("Central", "Airport"), ("0", "3"), (0, 3), ("id:0", "label:Airport")])
def test_nodes_by_id_and_by_label(source, target, tmp_path):
    instance = read_network(write(tmp_path / "city.gml", CITY), source, target, attribute="minutes")
    assert instance.best == ["Central", "Harbour", "Airport"]
    assert instance.oracle.pos["Airport"] == (8.58, 47.45)
    assert read_network(tmp_path / "city.gml", source, target).best == ["Central", "Zoë Square", "Airport"]
    save_instance(instance, tmp_path / "ours.json")
    assert load_instance(tmp_path / "ours.json").best == instance.best


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_letters_of_all_languages(encoding, tmp_path):
    path = write(tmp_path / "city.gml", CITY.replace("Harbour", "Zürich Süd").replace("\n", "\r\n"), encoding)
    assert read_network(path, "Central", "Zürich Süd").best == ["Central", "Zürich Süd"]


@pytest.mark.parametrize("change", [('label "Central"', ""), ('label "Harbour"', 'label "Airport"'), ('label "Central"', 'label ""')])  # fmt: skip
def test_nodes_are_named_by_ids_unless_all_have_labels(change, tmp_path):
    path = write(tmp_path / "city.gml", CITY.replace(*change))
    assert read_network(path, 0, 3, attribute="minutes").best == [0, 1, 3]
    assert read_network(path, "0", "Zoë Square").best == [0, 2]  # a label that is unique still finds its node


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_files_of_networkx(kind, tmp_path):
    graph = kind()
    graph.add_edge("home", "work", weight=9.0)
    graph.add_edge("home", "shop", weight=2.0)
    graph.add_edge("shop", "work", weight=3.0)
    if graph.is_multigraph():
        graph.add_edge("shop", "work", weight=2.0)
    nx.write_gml(graph, tmp_path / "x.gml")
    instance = read_network(tmp_path / "x.gml", "home", "work")
    length = nx.shortest_path_length(graph, "home", "work", weight="weight")
    assert -instance.oracle.argmax(instance.theta) @ instance.theta == length
    assert (instance.oracle.directed, instance.oracle.multigraph) == (graph.is_directed(), graph.is_multigraph())


@pytest.mark.parametrize(
    ("source", "cure"),
    [
        ("1", "'1' is the id of one node and the label of another; write id:1 or label:1"),
        (2, "write id:2 or label:2"),
        ("Centre", "did you mean"),
        ("id:7", "not a node"),
        ("colour:1", "not a node"),
    ],
)
def test_ambiguous_nodes_are_rejected(source, cure, tmp_path):
    path = write(tmp_path / "x.gml", SHIFTED)
    with pytest.raises(GraphError, match=cure):
        read_network(path, source, "3")
    assert read_network(path, "0", "3").oracle.source == "1"  # one meaning each
    assert read_network(path, "label:1", "3").oracle.source == "1"
    assert read_network(path, "id:1", "3").oracle.source == "2"


def test_a_label_of_several_nodes_needs_an_id(tmp_path):
    path = write(tmp_path / "city.gml", CITY.replace('"Harbour"', '"Stop"').replace('"Zo&#235; Square"', '"Stop"'))
    with pytest.raises(GraphError, match=r"target 'Stop' is the label of 2 nodes; give the id of one of them: 1, 2"):
        read_network(path, "Central", "Stop")
    assert read_network(path, "Central", 1).best == [0, 1]


GRAPHML = (
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="l" for="node" attr.name="{}" attr.type="string"/>'
    '<graph edgedefault="directed"><node id="n0"><data key="l">Central</data></node>'
    '<node id="n1"><data key="l">Harbour</data></node><node id="n2"><data key="l">{}</data></node>'
    '<edge source="n0" target="n1"/><edge source="n1" target="n2"/></graph></graphml>'
)


@pytest.mark.parametrize("name", ["label", "name", "Label"])
def test_graphml_nodes_by_label(name, tmp_path):
    path = write(tmp_path / "x.graphml", GRAPHML.format(name, "Airport"))
    for ends in (("n0", "n2"), ("Central", "Airport"), ("n0", f"{name.lower()}:Airport"), ("id:n0", "Airport")):
        oracle = read_network(path, *ends).oracle
        assert (oracle.source, oracle.target) == ("n0", "n2")  # an id stays the name
    with pytest.raises(GraphError, match="did you mean Central"):
        read_network(path, "Centrale", "Airport")


def test_graphml_ambiguity(tmp_path):
    path = write(tmp_path / "x.graphml", GRAPHML.format("label", "n0"))
    with pytest.raises(GraphError, match="write id:n0 or label:n0"):
        read_network(path, "n0", "Harbour")
    assert read_network(path, "id:n0", "label:n0").oracle.target == "n2"
    path = write(tmp_path / "y.graphml", GRAPHML.format("label", "Central"))
    with pytest.raises(GraphError, match="give the id of one of them: n0, n2"):
        read_network(path, "Central", "n1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not GML",
        "graph [",
        CITY + CITY,
        CITY.replace("id 1 ", "id 0 "),
        CITY.replace("id 1 ", ""),
        CITY.replace("id 1 ", "id 1 id 2 "),
        CITY.replace("target 3", "target 9"),
        CITY.replace("edge [", "edge [ source 0 target 1 ]\n edge [", 1),
        CITY.replace("minutes 9", "minutes 9_000"),
        "graph " + "[ a " * 5000,
        CITY.replace('"Central"', '"Central'),
        "graph [ node 3 ]",
    ],
)
def test_invalid_gml_is_rejected(text, tmp_path):
    path = write(tmp_path / "x.gml", text)
    with pytest.raises(FileFormatError, match=r"x\.gml: networkx cannot read this GML") as caught:
        read_network(path, 0, 3)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["NAN", "+INF", '"9"', "9 minutes 9", "[ a 1 ]"])
def test_lengths_must_be_numbers(value, tmp_path):
    path = write(tmp_path / "x.gml", CITY.replace("minutes 9", f"minutes {value}"))
    with pytest.raises(FileFormatError, match="finite number"):
        read_network(path, 0, 3, attribute="minutes")


def test_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "city.gml", CITY)
    for source in ("0", "Central"):
        assert main(["show", "city.gml", "--source", source, "--target", "Airport", "--plot", "map.png"]) == 0
        assert "Central -> Zoë Square -> Airport" in capsys.readouterr().out
    assert (tmp_path / "map.png").stat().st_size > 5000
    write(tmp_path / "x.gml", SHIFTED)
    assert main(["show", "x.gml", "--source", "1", "--target", "3"]) == 1
    assert "write id:1 or label:1" in capsys.readouterr().err
