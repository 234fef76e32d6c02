"""`read_network` and `read_tree`: routes, and trees, from the network file that people have.

Nodes of a network file: which one is meant, and where they lie.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Hashable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from combopeps.errors import ComboPepsError, GraphError, ParameterError
from combopeps.io.instance import Instance, in_file, instance_from_file
from combopeps.io.network_formats import new_graph, read_gml, read_gr, read_graphml, read_node_link, read_tntp
from combopeps.io.parsing import parse_number, read_text
from combopeps.oracles import ArgmaxOracle, ShortestPathOracle, SpanningTreeOracle
from combopeps.utils.csv_files import MAX_ABS_VALUE, is_digits
from combopeps.utils.files import raise_format_error
from combopeps.utils.validation import as_path, check_choice, check_text

if TYPE_CHECKING:
    import networkx as nx

_ACROSS, _UP = ("x", "lon", "longitude"), ("y", "lat", "latitude")
_KINDS = ("id", "label", "name")
_COMPARED, _COMPARED_LENGTH = 2_000, 100  # names that are searched for a similar one, and characters of the text


def find_node(graph: nx.Graph[Any], wanted: Hashable, end: str) -> Hashable:
    """The node itself, the only one that is written like it, or the only one with this id, label or name.

    `id:7`, `label:7` and `name:7` tell apart what is several of these.
    """
    try:
        if not isinstance(wanted, (str, bool)) and wanted in graph:
            return wanted
    except TypeError:
        raise GraphError(f"{end} {wanted!r} cannot be a node; give a string, a number or a tuple") from None
    text = str(wanted)
    found = _called(graph, text, _KINDS)
    kind, colon, rest = text.partition(":")
    if not found and colon and kind in _KINDS:
        text, found = rest, _called(graph, rest, (kind,))
    if isinstance(wanted, str) and wanted in found:  # of nodes that are written alike, the one that is the same
        found = {node: kinds for node, kinds in found.items() if node == wanted or str(node) != text}
    if len(found) == 1:
        return next(iter(found))
    raise GraphError(f"{end} {wanted!r} {_why_not(graph, text, found)}")


def _called(graph: nx.Graph[Any], text: str, kinds: tuple[str, ...]) -> dict[Hashable, set[str]]:
    """Nodes that have this text for one of these names, and for which."""
    found: dict[Hashable, set[str]] = {}
    for node, data in graph.nodes(data=True):
        mine = {kind for kind, name in _names(node, data) if name == text and kind in kinds}
        if mine:
            found[node] = mine
    return found


def _names(node: Hashable, data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a node is called, by kind. Nodes of a GML file may be called by their labels, and have their ids beside."""
    told = {str(key).lower(): value for key, value in data.items()}
    yield "label" if "id" in told and told.get("label") == node else "id", str(node)
    for kind in _KINDS:
        if type(told.get(kind)) in (str, int, float):
            yield kind, str(told[kind])


def _why_not(graph: nx.Graph[Any], text: str, found: dict[Hashable, set[str]]) -> str:
    if not graph:
        return "is not a node of the network, which has none; is this the right file?"
    if not found:
        names = list(dict.fromkeys(name for node, data in graph.nodes(data=True) for _, name in _names(node, data)))
        near = get_close_matches(text[:_COMPARED_LENGTH], names[:_COMPARED], n=5, cutoff=0.5) or names[:5]
        return f"is not a node of the network; did you mean {', '.join(near)}?"
    kinds = sorted(set().union(*found.values()))
    if len(kinds) > 1 and len(set(map(frozenset, found.values()))) > 1:
        ways = " or ".join(f"{kind}:{text}" for kind in kinds)
        return f"is the {kinds[0]} of one node and the {kinds[1]} of another; write {ways}"
    if kinds == ["id"]:
        return "is not a node of the network; several nodes are written like it"
    ids = [next(name for kind, name in _names(node, graph.nodes[node]) if kind == "id") for node in found]
    return f"is the {kinds[0]} of {len(found)} nodes; give the id of one of them: {', '.join(ids[:5])}"


def add_places(graph: nx.Graph[Any], path: Path, given: Path | None) -> None:
    """Coordinates from a TNTP node file: the one given, or the one that lies beside the network.

    A file that was given must make sense; one that happens to lie there is left alone with a warning.
    """
    if given is not None:
        _read_places(graph, given)
        return
    beside = path.with_name(re.sub(r"_net$", "", path.stem, flags=re.IGNORECASE) + "_node" + path.suffix)
    if beside.is_file() and beside != path:
        try:
            _read_places(graph, beside)
        except ComboPepsError as cause:
            warnings.warn(f"no coordinates for pictures: {cause}", UserWarning, stacklevel=4)


def _read_places(graph: nx.Graph[Any], path: Path) -> None:
    """A line of column names (node, x or longitude, y or latitude), then one node per line; `;` may end a line."""
    columns: list[str] = []
    node = x = y = 0
    seen: dict[int, tuple[float, float]] = {}
    for line, raw in enumerate(read_text(path).splitlines(), start=1):
        fields = raw.strip().lstrip("~").removesuffix(";").split()
        if not fields or raw.lstrip().startswith("<"):  # metadata, as in a link file
            continue
        if not columns:
            columns = [field.lower() for field in fields]
            node, x, y = (_column(path, columns, names, line) for names in (("node", "id"), _ACROSS, _UP))
        elif len(fields) != len(columns):
            raise_format_error(path, f"a node has {len(columns)} fields, this line {len(fields)}", line)
        elif not is_digits(fields[node]) or int(fields[node]) in seen:
            raise_format_error(
                path, f"must be the number of a node, each once, got {fields[node][:40]!r}", line, columns[node]
            )
        else:
            across, up = (parse_number(path, fields[i], line, columns[i]) for i in (x, y))
            seen[int(fields[node])] = across, up
    if not seen:
        raise_format_error(path, "a line of column names and at least one node are needed: node <tab> x <tab> y ;")
    names = (columns[x], columns[y])
    for number, place in seen.items():
        if number in graph:
            graph.nodes[number].update(zip(names, place, strict=True))


def _column(path: Path, columns: list[str], names: tuple[str, ...], line: int) -> int:
    found = [i for i, column in enumerate(columns) if column in names]
    if len(found) != 1:
        raise_format_error(
            path, f"one column must be called {' or '.join(names)}; there are {', '.join(columns)}", line
        )
    return found[0]


Reader = Callable[[Path, str], "tuple[nx.Graph[Any], set[Any]]"]
_FORMATS: dict[str, tuple[Reader, str]] = {
    ".json": (read_node_link, "weight"),
    ".graphml": (read_graphml, "weight"),
    ".gml": (read_gml, "weight"),
    ".tntp": (read_tntp, "free_flow_time"),
    ".gr": (read_gr, "weight"),
}


def read_network(
    path: str | os.PathLike[str],
    source: Hashable,
    target: Hashable,
    *,
    attribute: str | None = None,
    nodes: str | os.PathLike[str] | None = None,
    objective: Literal["min", "max"] = "min",
    noise_std: float | str | None = None,
    cost: float | str = 1.0,
    prior_mean: float | str | None = None,
    prior_std: float | str | None = None,
) -> Instance:
    r"""The best route through a network file.

    Parameters
    ----------
    path
        networkx node-link `.json`, `.graphml`, `.gml`, a TNTP link file `.tntp`, or DIMACS `.gr`, in UTF-8.
    source, target
        Two nodes, as they are, or as they are written: "7" finds the node 7; by the attribute label or name too, if no
        other node is called so. "id:7" and "label:7" say which is meant.
    attribute
        The edge attribute that becomes theta. By default "weight" (TNTP: "free_flow_time"); when no edge has a weight,
        theta is unknown.
    nodes
        For TNTP: the file of the nodes' coordinates, for pictures; by default `x_node.tntp` beside `x_net.tntp`, if it
        is there. Other formats have coordinates as attributes of the nodes: pos, x and y, lon and lat.
    objective
        "min" for lengths, "max" for rewards on an acyclic graph.
    noise_std, cost, prior_mean, prior_std
        As for `Problem`; or the name of an edge attribute that has the numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tiny.gr"
    ...     _ = path.write_text("p sp 3 3\na 1 2 5\na 2 3 5\na 1 3 12\n")
    ...     read_network(path, "1", "3").best
    [1, 2, 3]
    """
    file = _opened(path, attribute, nodes)
    ends = find_node(file.graph, source, "source"), find_node(file.graph, target, "target")
    file.graph.remove_nodes_from(file.closed - set(ends))
    oracle = ShortestPathOracle(file.graph, *ends, objective=objective)
    said = {"noise_std": noise_std, "cost": cost, "prior_mean": prior_mean, "prior_std": prior_std}
    return _instance(file, oracle, said)


def read_tree(
    path: str | os.PathLike[str],
    *,
    attribute: str | None = None,
    nodes: str | os.PathLike[str] | None = None,
    objective: Literal["min", "max"] = "min",
    noise_std: float | str | None = None,
    cost: float | str = 1.0,
    prior_mean: float | str | None = None,
    prior_std: float | str | None = None,
) -> Instance:
    r"""The best spanning tree of a network file; all but source and target as for `read_network`.

    A tree has no directions: two links of opposite directions with the same numbers are one edge, and a network in
    which they differ is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tiny.gr"
    ...     _ = path.write_text("p sp 3 3\na 1 2 5\na 2 3 5\na 1 3 12\n")
    ...     read_tree(path).best
    [(1, 2), (2, 3)]
    """
    file = _opened(path, attribute, nodes)
    check_choice("objective", objective, ("min", "max"))
    said = {"noise_std": noise_std, "cost": cost, "prior_mean": prior_mean, "prior_std": prior_std}
    if file.graph.is_directed():
        names = [file.attribute, *(value for value in said.values() if isinstance(value, str))]
        file = file._replace(graph=_undirected(file, names))
    return _instance(file, SpanningTreeOracle(file.graph, objective=objective), said)


class _File(NamedTuple):
    """A network, the nodes that no route may pass through, and the attribute that is theta."""

    path: Path
    graph: nx.Graph[Any]
    closed: set[Any]
    attribute: str
    required: bool


def _opened(path: str | os.PathLike[str], attribute: str | None, nodes: str | os.PathLike[str] | None) -> _File:
    path = as_path(path)
    if attribute is not None:
        check_text("attribute", attribute)
    places = None if nodes is None else as_path(nodes, "nodes")
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        raise_format_error(path, f"the format is told by the suffix: {', '.join(_FORMATS)}")
    if nodes is not None and suffix != ".tntp":
        raise ParameterError(f"nodes= is the node file of a .tntp network, and {path.name} is none; leave it out")
    read, usual = _FORMATS[suffix]
    graph, closed = read(path, attribute or usual)
    if suffix == ".tntp":
        add_places(graph, path, places)
    return _File(path, graph, closed, attribute or usual, attribute is not None)


def _undirected(file: _File, names: list[str]) -> nx.Graph[Any]:
    """The same without directions."""
    graph = file.graph
    if graph.is_multigraph():
        raise_format_error(
            file.path, "parallel links with directions make no tree; join them, or save an undirected network"
        )
    result = new_graph(directed=False, parallel=False)
    result.add_nodes_from(graph.nodes(data=True))
    for u, v, data in graph.edges(data=True):
        back = result.get_edge_data(u, v) or {}
        for name in names:
            if result.has_edge(u, v) and back.get(name) != data.get(name):
                cure = "a tree has no directions, so give both the same number, or save an undirected network"
                raise_format_error(
                    file.path, f"{v!r} to {u!r} has {back.get(name)}, back it is {data.get(name)}; {cure}", field=name
                )
        result.add_edge(u, v, **data)
    return result


def _instance(file: _File, oracle: ShortestPathOracle | SpanningTreeOracle, said: dict[str, Any]) -> Instance:
    """Theta, and what was said about noise, cost and prior, from the attributes of the edges."""
    path, graph = file.path, file.graph
    theta = _theta(path, graph, oracle, file.attribute, required=file.required)
    what = "column" if path.suffix.lower() == ".tntp" else "edge attribute"
    origin = f"{what} `{file.attribute}`"
    if theta is None:
        known = _attributes(graph)
        origin = f"there is no {origin}" + (f"; others are {', '.join(known)}" if known else "")
    numbers = in_file(said, lambda name: _theta(path, graph, oracle, name, required=True) or [])
    return instance_from_file(path, oracle, theta, numbers, origin)


def _theta(
    path: Path, graph: nx.Graph[Any], oracle: ArgmaxOracle, attribute: str, *, required: bool
) -> list[float] | None:
    """The attribute of every edge that is a component; None when no edge of the file has it."""
    if not any(attribute in data for _, _, data in graph.edges(data=True)):
        if not required:
            return None
        raise_format_error(
            path, f"no edge has this attribute; there are {', '.join(_attributes(graph)) or 'none'}", field=attribute
        )
    theta = []
    for label in oracle.components:
        assert isinstance(label, tuple)
        value: Any = graph.get_edge_data(*label).get(attribute)
        if type(value) not in (int, float) or not abs(value) < MAX_ABS_VALUE:
            raise_format_error(
                path, f"the edge {label!r} must have a finite number here, got {value!r:.40}", field=attribute
            )
        theta.append(float(value))
    return theta


def _attributes(graph: nx.Graph[Any]) -> list[str]:
    """Of all edges, by name."""
    return sorted({str(name) for _, _, data in graph.edges(data=True) for name in data})
