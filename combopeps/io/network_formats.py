"""The formats of network files: node-link JSON, GraphML and GML as networkx has them, TNTP and DIMACS `.gr`.

A reader returns the graph and the nodes that no route may pass through.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from combopeps.errors import FileFormatError, InstanceError
from combopeps.io.parsing import Field, parse_json, parse_number, read_text
from combopeps.utils.csv_files import is_digits, is_plain
from combopeps.utils.files import raise_format_error
from combopeps.utils.label_format import first_repeated

if TYPE_CHECKING:
    import networkx as nx

Link = tuple[int, int, dict[str, float]]


def new_graph(directed: bool, parallel: bool) -> nx.Graph[Any]:
    """An empty graph of the class that networkx has for it."""
    import networkx as nx

    if parallel:
        return nx.MultiDiGraph() if directed else nx.MultiGraph()
    return nx.DiGraph() if directed else nx.Graph()


def read_node_link(path: Path, attribute: str) -> tuple[nx.Graph[Any], set[Any]]:
    """What `networkx.node_link_data` makes: lists of nodes with ids, and of edges (or links) with source and target."""
    try:
        return _node_link(Field(parse_json(path, read_text(path)))), set()
    except InstanceError as error:
        raise FileFormatError(f"{path}: {error}", str(path), None, error.field) from error


def _node_link(document: Field) -> nx.Graph[Any]:
    part = document.record({"nodes"}, {"directed", "multigraph", "graph", "edges", "links"})
    if (part["edges"].value is None) == (part["links"].value is None):
        document.fail('must have a list "edges" (or "links")')
    directed, parallel = part["directed"].flag(False), part["multigraph"].flag(True)  # the defaults of networkx
    graph = new_graph(directed, parallel)
    for node in part["nodes"].items():
        id = _get(node, "id")
        if id.label() in graph:
            id.fail(f"{id.value!r} is the id of a node before it; give every node one of its own")
        graph.add_nodes_from([(id.label(), {name: value for name, value in node.value.items() if name != "id"})])
    for edge in (part["edges"] if part["links"].value is None else part["links"]).items():
        u, v = (_get(edge, end).label() for end in ("source", "target"))
        for name, end in (("source", u), ("target", v)):
            if end not in graph:
                _get(edge, name).fail(f"{end!r} is not among the nodes")
        key = (_get(edge, "key").label(),) if parallel and "key" in edge.value else ()
        if (key or not parallel) and graph.has_edge(u, v, *key):
            edge.fail("stands there twice; parallel edges need multigraph: true and keys of their own")
        data = {name: value for name, value in edge.value.items() if name not in ("source", "target", "key")}
        graph.add_edges_from([(u, v, *key, data)])
    return graph


def _get(field: Field, key: str) -> Field:
    if not isinstance(field.value, dict) or key not in field.value:
        field.fail(f"must be an object with {key!r}")
    return Field(field.value[key], f"{field.path}.{key}")


def read_graphml(path: Path, attribute: str) -> tuple[nx.Graph[Any], set[Any]]:
    """One graph, read by networkx. A document type is refused: its entities can grow without bound."""
    import networkx as nx

    text = read_text(path)
    before, doctype, _ = text.upper().partition("<!DOCTYPE")
    if doctype:
        raise_format_error(path, "a document type definition is not allowed; delete it", before.count("\n") + 1)
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as cause:
        raise_format_error(path, f"this is not XML: {cause}", cause.position[0])
    except ValueError as cause:
        raise_format_error(path, f"this is not XML: {cause}")
    found: dict[str, list[ElementTree.Element]] = {"graph": [], "node": [], "edge": [], "key": []}
    for element in root.iter():
        found.get(_tag(element), []).append(element)
    if len(found["graph"]) != 1:
        raise_format_error(path, "there must be exactly one element graph")
    nodes = [node.get("id") for node in found["node"]]
    if None in nodes or len(set(nodes)) != len(nodes):
        raise_format_error(path, "every node must have an id of its own", field="node")
    known = set(nodes)
    for i, edge in enumerate(found["edge"]):  # networkx would make up the nodes that are missing
        for end in ("source", "target"):
            if edge.get(end) not in known:
                raise_format_error(path, f"{edge.get(end)!r} is not the id of a node", field=f"edge[{i}].{end}")
    _check_data(path, found["key"], found["edge"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what networkx would leave out with a warning is refused
            graph = nx.parse_graphml(text)
    except Exception as cause:  # networkx lets whatever its parsing meets pass
        raise_format_error(path, f"networkx cannot read this GraphML ({type(cause).__name__}: {cause})")
    if graph.number_of_edges() != len(found["edge"]):
        raise_format_error(
            path, "two parallel edges have the same id; give every edge one of its own, or none", field="edge"
        )
    return graph, set()


def read_gml(path: Path, attribute: str) -> tuple[nx.Graph[Any], set[Any]]:
    """One graph, read by networkx. Nodes are called by their labels if each has one of its own, else by their ids."""
    import networkx as nx

    text = read_text(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            graph = nx.parse_gml(text, label="id")
    except Exception as cause:  # networkx lets whatever its parsing meets pass
        raise_format_error(
            path, f"networkx cannot read this GML ({type(cause).__name__}: {' '.join(str(cause).split())})"
        )
    labels = {node: data.get("label") for node, data in graph.nodes(data=True)}
    if not all(type(label) in (str, int) and label != "" for label in labels.values()):
        return graph, set()
    if len(set(labels.values())) < len(labels):
        return graph, set()
    for node, data in graph.nodes(data=True):
        data["id"] = node
    return nx.relabel_nodes(graph, labels), set()


def _check_data(path: Path, keys: list[ElementTree.Element], edges: list[ElementTree.Element]) -> None:
    """Of two values for one attribute networkx would take the last, and 1_000 for a number."""
    names: dict[str, str] = {}
    kinds: dict[tuple[str, str], str] = {}  # networkx itself writes a key for each type that an attribute has
    numeric = set()
    for i, key in enumerate(keys):
        id, name, kind = key.get("id", ""), key.get("attr.name", ""), key.get("attr.type", "")
        if id in names:
            raise_format_error(
                path, f"{id!r} is the id of a key before it; give every key one of its own", field=f"key[{i}].id"
            )
        names[id] = name or id
        if name and key.get("for", "all") in ("edge", "all"):
            other = kinds.setdefault((name, kind), id)
            if other != id:
                cure = f"rename one of the keys {other!r} and {id!r}, or delete it"
                raise_format_error(
                    path, f"{name!r} is the attribute of another key for edges; {cure}", field=f"key[{i}].attr.name"
                )
        if kind in ("int", "long", "float", "double"):
            numeric.add(id)
            _check_plain(path, [part for part in key if _tag(part) == "default"], f"key[{i}]")
    for i, edge in enumerate(edges):
        data = [part for part in edge if _tag(part) == "data"]
        used = [names.get(part.get("key", ""), "") for part in data]
        if len(set(used)) != len(used):
            raise_format_error(
                path, f"has {first_repeated(used)!r} twice; delete one of the two", field=f"edge[{i}].data"
            )
        _check_plain(path, [part for part in data if part.get("key") in numeric], f"edge[{i}].data")


def _check_plain(path: Path, parts: list[ElementTree.Element], field: str) -> None:
    for part in parts:
        text = part.text or ""
        if not is_plain(text):
            raise_format_error(
                path, f"must be a number in plain notation, such as 1000, got {text[:40]!r}", field=field
            )


def _tag(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2]


def read_tntp(path: Path, attribute: str) -> tuple[nx.Graph[Any], set[int]]:
    """Metadata `<NAME> value`, a line `~` of column names, then one link per line, each ending in `;`.

    Nodes below FIRST THRU NODE are where trips begin and end; they are returned, as no route may pass through them.
    """
    numbers: dict[str, int] = {}
    columns: list[str] = []
    links: list[Link] = []
    line, in_metadata = 0, True
    for line, raw in enumerate(read_text(path).splitlines(), start=1):
        text = raw.strip()
        if in_metadata:
            name, _, value = text[1:].partition(">")
            name = name.strip().upper()
            in_metadata = name != "END OF METADATA"
            if text and not text.startswith(("<", "~")):
                raise_format_error(path, "a line of metadata looks like <NAME> value", line)
            if name in ("NUMBER OF NODES", "NUMBER OF LINKS", "FIRST THRU NODE"):
                if name in numbers:
                    raise_format_error(path, "stands there twice; delete one of them", line, name)
                numbers[name] = _whole(path, value.strip(), line, name)
        elif text.startswith("~") and not columns:
            names = text.strip("~; \t").lower()
            columns = [re.sub(r"\s+", "_", name.strip()) for name in names.split("\t" if "\t" in names else None)]
            if len(set(columns)) != len(columns) or columns[:2] != ["init_node", "term_node"]:
                raise_format_error(path, "the columns must be init_node, term_node and others", line)
            if attribute not in columns[2:]:
                raise_format_error(
                    path, f"there is no such column; there are {', '.join(columns[2:])}", line, attribute
                )
        elif text and not text.startswith("~"):
            if not columns:
                raise_format_error(
                    path, "a line with the column names must come first: ~ init_node <tab> term_node ... ;", line
                )
            fields = text.removesuffix(";").split()
            if len(fields) != len(columns) or not text.endswith(";"):
                raise_format_error(path, f"a link has {len(columns)} fields and ends in ;", line)
            u, v = (_node(path, fields[i], line, columns[i], numbers.get("NUMBER OF NODES")) for i in (0, 1))
            named = zip(columns[2:], fields[2:], strict=True)
            links.append((u, v, {name: parse_number(path, field, line, name) for name, field in named}))
    if in_metadata:
        raise_format_error(path, "the line <END OF METADATA> is missing", line)
    if len(links) != numbers.get("NUMBER OF LINKS", len(links)):
        raise_format_error(path, f"{numbers['NUMBER OF LINKS']} links are announced, {len(links)} are there", line)
    graph = _directed(links)
    return graph, {node for node in graph if node < numbers.get("FIRST THRU NODE", 1)}


def read_gr(path: Path, attribute: str) -> tuple[nx.Graph[Any], set[int]]:
    """Comments `c`, one line `p sp nodes arcs`, then arcs `a from to weight`."""
    size: tuple[int, int] | None = None
    links: list[Link] = []
    line = 0
    for line, text in enumerate(read_text(path).splitlines(), start=1):
        kind, *fields = text.split() or ["c"]
        if kind == "c":
            continue
        if kind == "p" and size is None:
            if len(fields) != 3 or fields[0] != "sp":
                raise_format_error(path, "the problem line is: p sp nodes arcs", line)
            size = _whole(path, fields[1], line, "nodes"), _whole(path, fields[2], line, "arcs")
        elif kind == "a" and size is not None:
            if len(fields) != 3:
                raise_format_error(path, "an arc is: a from to weight", line)
            u, v = _node(path, fields[0], line, "from", size[0]), _node(path, fields[1], line, "to", size[0])
            links.append((u, v, {"weight": parse_number(path, fields[2], line, "weight")}))
        else:
            raise_format_error(path, f"a line {kind[:20]!r} has no place here: one line p, then lines a", line)
    if size is None or len(links) != size[1]:
        raise_format_error(
            path, f"{size[1]} arcs are announced, {len(links)} are there" if size else "there is no line p sp", line
        )
    return _directed(links), set()


def _directed(links: list[Link]) -> nx.Graph[Any]:
    """Parallel links make a multigraph."""
    graph = new_graph(True, parallel=len({link[:2] for link in links}) < len(links))
    graph.add_edges_from(links)
    return graph


def _whole(path: Path, text: str, line: int, field: str) -> int:
    if not is_digits(text):
        raise_format_error(path, f"must be a whole number, got {text[:40]!r}", line, field)
    return int(text)


def _node(path: Path, text: str, line: int, field: str, nodes: int | None) -> int:
    node = _whole(path, text, line, field)
    if node < 1 or (nodes is not None and node > nodes):
        raise_format_error(path, f"nodes are numbered 1..{nodes or ''}, got {node}", line, field)
    return node
