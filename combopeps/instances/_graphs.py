"""Networks written by networkx and other graph tools: node-link JSON and GraphML."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from combopeps.errors import FileFormatError, InstanceError
from combopeps.instances._fields import Field
from combopeps.instances._text import is_plain, parse_json, read_text, refuse

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
        id = _get(node, "id")
        if id.label() in graph:
            id.fail(f"{id.value!r} is the id of a node before it; give every node one of its own")
        graph.add_node(id.label())
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
    found: dict[str, list[ElementTree.Element]] = {"graph": [], "node": [], "edge": [], "key": []}
    for element in root.iter():
        found.get(_tag(element), []).append(element)
    if len(found["graph"]) != 1:
        refuse(path, "there must be exactly one element graph")
    nodes = [node.get("id") for node in found["node"]]
    if None in nodes or len(set(nodes)) != len(nodes):
        refuse(path, "every node must have an id of its own", field="node")
    known = set(nodes)
    for i, edge in enumerate(found["edge"]):  # networkx would make up the nodes that are missing
        for end in ("source", "target"):
            if edge.get(end) not in known:
                refuse(path, f"{edge.get(end)!r} is not the id of a node", field=f"edge[{i}].{end}")
    _check_data(path, found["key"], found["edge"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what networkx would leave out with a warning is refused
            graph = nx.parse_graphml(text)
    except Exception as cause:  # networkx lets whatever its parsing meets pass
        refuse(path, f"networkx cannot read this GraphML ({type(cause).__name__}: {cause})")
    if graph.number_of_edges() != len(found["edge"]):
        refuse(path, "two parallel edges have the same id; give every edge one of its own, or none", field="edge")
    return graph, set()


def _check_data(path: Path, keys: list[ElementTree.Element], edges: list[ElementTree.Element]) -> None:
    """Of two values for one attribute networkx would take the last, and 1_000 for a number."""
    names: dict[str, str] = {}
    kinds: dict[tuple[str, str], str] = {}  # networkx itself writes a key for each type that an attribute has
    numeric = set()
    for i, key in enumerate(keys):
        id, name, kind = key.get("id", ""), key.get("attr.name", ""), key.get("attr.type", "")
        if id in names:
            refuse(path, f"{id!r} is the id of a key before it; give every key one of its own", field=f"key[{i}].id")
        names[id] = name or id
        if name and key.get("for", "all") in ("edge", "all"):
            other = kinds.setdefault((name, kind), id)
            if other != id:
                cure = f"rename one of the keys {other!r} and {id!r}, or delete it"
                refuse(path, f"{name!r} is the attribute of another key for edges; {cure}", field=f"key[{i}].attr.name")
        if kind in ("int", "long", "float", "double"):
            numeric.add(id)
            _check_plain(path, [part for part in key if _tag(part) == "default"], f"key[{i}]")
    for i, edge in enumerate(edges):
        data = [part for part in edge if _tag(part) == "data"]
        used = [names.get(part.get("key", ""), "") for part in data]
        if len(set(used)) != len(used):
            twice = next(name for name in used if used.count(name) > 1)
            refuse(path, f"has {twice!r} twice; delete one of the two", field=f"edge[{i}].data")
        _check_plain(path, [part for part in data if part.get("key") in numeric], f"edge[{i}].data")


def _check_plain(path: Path, parts: list[ElementTree.Element], field: str) -> None:
    for part in parts:
        text = part.text or ""
        if not is_plain(text):
            refuse(path, f"must be a number in plain notation, such as 1000, got {text[:40]!r}", field=field)


def _tag(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _line_of(text: str, what: str) -> int:
    return text[: text.upper().index(what)].count("\n") + 1
