"""Files with duplicate entries, or with numbers in notations of Python only, are rejected."""

import json

import networkx as nx
import numpy as np
import pytest

from combopeps import load_instance, read_items, read_network, read_table
from combopeps.errors import FileFormatError, InstanceError

HEAD = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
KEY = '<key id="{}" for="{}" attr.name="weight" attr.type="{}"/>'


def graphml(keys, edges):
    nodes = '<node id="s"/><node id="a"/><node id="t"/>'
    return f'{HEAD}{keys}<graph edgedefault="directed">{nodes}{edges}</graph></graphml>'


def edge(*data, ends=("s", "t"), id=""):
    inside = "".join(f'<data key="{key}">{value}</data>' for key, value in data)
    return f'<edge {id} source="{ends[0]}" target="{ends[1]}">{inside}</edge>'


ONE = KEY.format("d0", "edge", "double")
GRAPHML = {
    "two keys": (graphml(ONE + KEY.format("d1", "edge", "double"), edge(("d0", 1), ("d1", 9))), r"key\[1\].attr.name"),
    "for all": (graphml(ONE + KEY.format("d1", "all", "double"), edge(("d0", 1))), r"key\[1\].attr.name"),
    "no for": (graphml(ONE + KEY.replace('for="{}" ', "").format("d1", "double"), edge(("d0", 1))), r"key\[1\].attr.name"),
    "one id": (graphml(ONE + KEY.format("d0", "node", "double"), edge(("d0", 1))), r"key\[1\].id"),
    "two types": (graphml(ONE + KEY.format("d1", "edge", "long"), edge(("d0", 1), ("d1", 9))), r"edge\[0\].data"),
    "data twice": (graphml(ONE, edge(("d0", 1), ("d0", 9))), r"edge\[0\].data"),
    "second edge": (graphml(ONE, edge(("d0", 1)) + edge(("d0", 1), ("d0", 1), ends="sa")), r"edge\[1\].data"),
    "parallel ids": (graphml(ONE, edge(("d0", 1), id='id="e"') + edge(("d0", 9), id='id="e"')), "edge"),
    "underscore": (graphml(ONE, edge(("d0", "1_000"))), r"edge\[0\].data"),
    "whole": (graphml(KEY.format("d0", "edge", "int"), edge(("d0", "1_000"))), r"edge\[0\].data"),
    "other digits": (graphml(ONE, edge(("d0", "١٢"))), r"edge\[0\].data"),
    "default": (graphml(ONE.replace("/>", "><default>1_000</default></key>"), edge()), r"key\[0\]"),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHML)
def test_graphml(name, tmp_path):
    text, field = GRAPHML[name]
    (tmp_path / "x.graphml").write_text(text)
    with pytest.raises(FileFormatError, match=field) as refused:
        read_network(tmp_path / "x.graphml", "s", "t")
    assert refused.value.file.endswith("x.graphml")
    assert "; " in str(refused.value) or "must be" in str(refused.value)  # the cure


def test_graphml_without_duplicates(tmp_path):
    node_key = KEY.format("d1", "node", "double")  # of nodes: another matter
    parallel = edge(("d0", 1), id='id="e"') + edge(("d0", "9e0"), id='id="f"') + edge(("d0", " 2 "))
    (tmp_path / "x.graphml").write_text(graphml(ONE + node_key, parallel))
    assert sorted(read_network(tmp_path / "x.graphml", "s", "t").theta) == [1.0, 2.0, 9.0]
    graph = nx.MultiGraph()
    graph.add_edge("s", "t", weight=1_000.5)
    graph.add_edge("s", "t", weight=2)  # of another type: networkx writes a second key of the same name
    nx.write_graphml(graph, tmp_path / "y.graphml")
    assert sorted(read_network(tmp_path / "y.graphml", "s", "t").theta) == [2.0, 1000.5]


NODES = [{"id": "s"}, {"id": "t"}]
EDGE = {"source": "s", "target": "t", "weight": 1}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"nodes": [*NODES, {"id": "s"}], "edges": [EDGE]}, "nodes[2].id"),
        ({"nodes": [*NODES, {"id": 1}, {"id": 1.0}], "edges": [EDGE]}, "nodes[3].id"),
        ({"nodes": NODES, "edges": [EDGE | {"weight": "1_000"}]}, "weight"),
        ({"nodes": NODES, "edges": [EDGE | {"weight": "1000"}]}, "weight"),
    ],
)
def test_node_link(document, field, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(document))
    with pytest.raises(FileFormatError) as refused:
        read_network(tmp_path / "x.json", "s", "t")
    assert refused.value.field == field


def test_duplicate_keys_in_an_object(tmp_path):
    text = json.dumps({"nodes": NODES, "edges": [EDGE]}).replace('"weight": 1', '"weight": 1, "weight": 9')
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(FileFormatError, match="weight: duplicate key"):
        read_network(tmp_path / "x.json", "s", "t")


TNTP = "<NUMBER OF NODES> 2\n<NUMBER OF LINKS> 1\n<END OF METADATA>\n~\tinit_node\tterm_node\tfree_flow_time\t;\n\t1\t2\t{}\t;\n"
LINES = {
    "x.gr": ("p sp 2 1\na 1 2 {}\n", 2, lambda path: read_network(path, 1, 2)),
    "x.tntp": (TNTP, 5, lambda path: read_network(path, 1, 2)),
    "items.csv": ("item,mean\na,{}\nb,2\n", 2, lambda path: read_items(path, 1)),
    "table.csv": ("who,dig\nann,{}\n", 2, read_table),
}
AS_PYTHON = ["1_000", "1_0.5", "1e1_0", "١٢", "１２", "nan", "inf", "-Infinity", "0x10", "1e999"]


@pytest.mark.parametrize("number", AS_PYTHON)
@pytest.mark.parametrize("name", LINES)
def test_numbers_in_lines(name, number, tmp_path):
    text, line, read = LINES[name]
    (tmp_path / name).write_text(text.format(number))
    with pytest.raises(FileFormatError, match="must be a finite number") as refused:
        read(tmp_path / name)
    assert refused.value.line == line
    (tmp_path / name).write_text(text.format("-1.5e2" if "csv" in name else "+1.5E+2"))
    assert abs(read(tmp_path / name).theta[0]) == 150.0


def test_duplicate_metadata(tmp_path):
    (tmp_path / "x.tntp").write_text("<NUMBER OF NODES> 7\n" + TNTP.format(1))
    with pytest.raises(FileFormatError, match="line 2, NUMBER OF NODES: duplicate"):
        read_network(tmp_path / "x.tntp", 1, 2)


@pytest.mark.parametrize("recipe", ["soare:omega=0_1", "soare:omega=٠.1", "grid:n=1_0", "topk:d=٤,k=1"])
def test_recipes(recipe):
    with pytest.raises(InstanceError, match="must be a"):
        load_instance(recipe)
    assert np.isfinite(load_instance("soare:omega=0.2").theta).all()
