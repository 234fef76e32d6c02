"""Networks written by networkx and other graph tools: node-link JSON and GraphML."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from combopeps.errors import FileFormatError, InstanceError
from combopeps.instances._fields import Field
from combopeps.instances._text import parse_json, read_text, refuse

if TYPE_CHECKING:
    import networkx as nx


def read_node_link(path: Path, attribute: str) -> tuple[nx.Graph[Any], set[Any]]:
    """What `networkx.node_link_data` makes: lists of nodes with ids, and of edges (or links) with source and target."""
    try:
        return _node_link(Field(parse_json(path, read_text(path)))), set()
    except InstanceError as error:
        raise FileFormatError(f"{path}: {error}", str(path), None, error.field) from error


def _node_link(document: Field) -> nx.Graph[Any]:
    import networkx as nx

    part = document.record({"nodes"}, {"directed", "multigraph", "graph", "edges", "links"})
    if (part["edges"].value is None) == (part["links"].value is None):
        document.fail('must have a list "edges" (or "links")')
    directed, parallel = (
        default if part[name].value is None else part[name].choice(True, False)
        for name, default in (("directed", False), ("multigraph", True))  # the defaults of networkx
    )
    single: nx.Graph[Any] = nx.DiGraph() if directed else nx.Graph()
    graph: nx.Graph[Any] = (nx.MultiDiGraph() if directed else nx.MultiGraph()) if parallel else single
    for node in part["nodes"].items():
        graph.add_node(_get(node, "id").label())
    for edge in (part["edges"] if part["links"].value is None else part["links"]).items():
        u, v = (_get(edge, end).label() for end in ("source", "target"))
        for name, end in (("source", u), ("target", v)):
            if end not in graph:
                _get(edge, name).fail(f"{end!r} is not among the nodes")
        key = _get(edge, "key").label() if parallel and "key" in edge.value else None
        if graph.has_edge(u, v) if not parallel else key is not None and graph.has_edge(u, v, key):  # type: ignore[call-arg]
            edge.fail("stands there twice; parallel edges need multigraph: true and keys of their own")
        data = {name: value for name, value in edge.value.items() if name not in ("source", "target", "key")}
        graph.add_edges_from([(u, v, key, data) if key is not None else (u, v, data)])  # type: ignore[list-item]
    return graph


def _get(field: Field, key: str) -> Field:
    if not isinstance(field.value, dict) or key not in field.value:
        field.fail(f"must be an object with {key!r}")
    return Field(field.value[key], f"{field.path}.{key}")


def read_graphml(path: Path, attribute: str) -> tuple[nx.Graph[Any], set[Any]]:
    """One graph, read by networkx. A document type is refused: its entities can grow without bound."""
    import networkx as nx

    text = read_text(path)
    if "<!DOCTYPE" in text.upper():
        refuse(path, "a document type definition is not allowed; delete it", _line_of(text, "<!DOCTYPE"))
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as cause:
        refuse(path, f"this is not XML: {cause}", cause.position[0])
    except ValueError as cause:
        refuse(path, f"this is not XML: {cause}")
    if sum(element.tag.rpartition("}")[2] == "graph" for element in root.iter()) != 1:
        refuse(path, "there must be exactly one element graph")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what networkx would leave out with a warning is refused
            return nx.parse_graphml(text), set()
    except Exception as cause:  # networkx lets whatever its parsing meets pass
        refuse(path, f"networkx cannot read this GraphML ({type(cause).__name__}: {cause})")


def _line_of(text: str, what: str) -> int:
    return text[: text.upper().index(what)].count("\n") + 1
