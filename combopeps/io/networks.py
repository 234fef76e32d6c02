"""`read_network` and `read_tree`: routes and spanning trees of network files; lookup and positions of nodes."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Hashable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from combopeps.errors import ComboPepsError, GraphError, ParameterError
from combopeps.io.instance import Instance, instance_from_file, resolve_columns
from combopeps.io.network_formats import new_graph, read_gml, read_gr, read_graphml, read_node_link, read_tntp
from combopeps.io.parsing import parse_number, read_text
from combopeps.oracles import ArgmaxOracle, ShortestPathOracle, SpanningTreeOracle
from combopeps.utils.csv_files import MAX_ABS_VALUE, is_digits
from combopeps.utils.files import raise_format_error
from combopeps.utils.validation import as_path, check_choice, check_text

if TYPE_CHECKING:
    import networkx as nx

_X_COLUMNS, _Y_COLUMNS = ("x", "lon", "longitude"), ("y", "lat", "latitude")
_NAME_ATTRIBUTES = ("id", "label", "name")
_MAX_COMPARED_NAMES, _MAX_COMPARED_LENGTH = 2_000, 100  # in the search for similar names, for error messages


def find_node(graph: nx.Graph[Any], wanted: Hashable, end: str) -> Hashable:
    """Return the node that is equal to `wanted`, or the only node with this text as its id, label or name.

    The prefixes of `id:7`, `label:7` and `name:7` select one of these attributes. `end` is "source" or "target".
    """
    try:
        if not isinstance(wanted, (str, bool)) and wanted in graph:
            return wanted
    except TypeError:
        raise GraphError(f"{end} {wanted!r} cannot be a node; give a string, a number or a tuple") from None
    text = str(wanted)
    found = _nodes_named(graph, text, _NAME_ATTRIBUTES)
    kind, colon, rest = text.partition(":")
    if not found and colon and kind in _NAME_ATTRIBUTES:
        text, found = rest, _nodes_named(graph, rest, (kind,))
    if isinstance(wanted, str) and wanted in found:  # prefer the node "7" to the node 7
        found = {node: kinds for node, kinds in found.items() if node == wanted or str(node) != text}
    if len(found) == 1:
        return next(iter(found))
    raise GraphError(f"{end} {wanted!r} {_explain_missing(graph, text, found)}")


def _nodes_named(graph: nx.Graph[Any], text: str, kinds: tuple[str, ...]) -> dict[Hashable, set[str]]:
    """Return the nodes with this text as one of these attributes, and the attributes of each."""
    found: dict[Hashable, set[str]] = {}
    for node, data in graph.nodes(data=True):
        matches = {kind for kind, name in _names(node, data) if name == text and kind in kinds}
        if matches:
            found[node] = matches
    return found


def _names(node: Hashable, data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield kinds and texts of the names of a node; nodes of GML files may be labels, with the id as attribute."""
    attributes = {str(key).lower(): value for key, value in data.items()}
    yield "label" if "id" in attributes and attributes.get("label") == node else "id", str(node)
    for kind in _NAME_ATTRIBUTES:
        if type(attributes.get(kind)) in (str, int, float):
            yield kind, str(attributes[kind])


def _explain_missing(graph: nx.Graph[Any], text: str, found: dict[Hashable, set[str]]) -> str:
    """Return why a text does not identify one node, and what to write instead."""
    if not graph:
        return "is not a node of the network, which has none; is this the right file?"
    if not found:
        names = list(dict.fromkeys(name for node, data in graph.nodes(data=True) for _, name in _names(node, data)))
        near = get_close_matches(text[:_MAX_COMPARED_LENGTH], names[:_MAX_COMPARED_NAMES], n=5, cutoff=0.5)
        return f"is not a node of the network; did you mean {', '.join(near or names[:5])}?"
    kinds = sorted(set().union(*found.values()))
    if len(kinds) > 1 and len(set(map(frozenset, found.values()))) > 1:
        ways = " or ".join(f"{kind}:{text}" for kind in kinds)
        return f"is the {kinds[0]} of one node and the {kinds[1]} of another; write {ways}"
    if kinds == ["id"]:
        return "is not a node of the network; several nodes have this text"
    ids = [next(name for kind, name in _names(node, graph.nodes[node]) if kind == "id") for node in found]
    return f"is the {kinds[0]} of {len(found)} nodes; give the id of one of them: {', '.join(ids[:5])}"


def add_positions(graph: nx.Graph[Any], path: Path, node_file: Path | None) -> None:
    """Add coordinates from a TNTP node file: the given one, or `x_node.tntp` in the folder of `x_net.tntp`.

    An invalid file is an error if it was given, otherwise a warning.
    """
    if node_file is not None:
        _read_positions(graph, node_file)
        return
    default = path.with_name(re.sub(r"_net$", "", path.stem, flags=re.IGNORECASE) + "_node" + path.suffix)
    if default.is_file() and default != path:
        try:
            _read_positions(graph, default)
        except ComboPepsError as cause:
            warnings.warn(f"no coordinates for pictures: {cause}", UserWarning, stacklevel=4)


def _read_positions(graph: nx.Graph[Any], path: Path) -> None:
    """Read a line of column names (node, x or longitude, y or latitude), then one node per line, with optional `;`."""
    columns: list[str] = []
    node = x = y = 0
    positions: dict[int, tuple[float, float]] = {}
    for line, raw in enumerate(read_text(path).splitlines(), start=1):
        fields = raw.strip().lstrip("~").removesuffix(";").split()
        if not fields or raw.lstrip().startswith("<"):  # metadata, as in a link file
            continue
        if not columns:
            columns = [field.lower() for field in fields]
            node, x, y = (
                _find_column(path, columns, names, line) for names in (("node", "id"), _X_COLUMNS, _Y_COLUMNS)
            )
        elif len(fields) != len(columns):
            raise_format_error(path, f"a node has {len(columns)} fields, this line {len(fields)}", line)
        elif not is_digits(fields[node]) or int(fields[node]) in positions:
            raise_format_error(
                path, f"must be the number of a node, each once, got {fields[node][:40]!r}", line, columns[node]
            )
        else:
            x_value, y_value = (parse_number(path, fields[i], line, columns[i]) for i in (x, y))
            positions[int(fields[node])] = x_value, y_value
    if not positions:
        raise_format_error(path, "a line of column names and at least one node are needed: node <tab> x <tab> y ;")
    names = (columns[x], columns[y])
    for number, position in positions.items():
        if number in graph:
            graph.nodes[number].update(zip(names, position, strict=True))


def _find_column(path: Path, columns: list[str], names: tuple[str, ...], line: int) -> int:
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
    r"""Read a network file: the best route from a source to a target.

    Parameters
    ----------
    path
        networkx node-link `.json`, `.graphml`, `.gml`, a TNTP link file `.tntp`, or DIMACS `.gr`, in UTF-8.
    source, target
        Two nodes, or their text: "7" finds the node 7. A unique attribute `label` or `name` of a node also identifies
        it; "id:7" and "label:7" resolve ambiguities.
    attribute
        Edge attribute of the true theta. By default "weight" (TNTP: "free_flow_time"); if no edge has a weight, theta
        is unknown.
    nodes
        For TNTP: the file of node coordinates, for plots; by default `x_node.tntp` in the folder of `x_net.tntp`, if it
        exists. Other formats have coordinates as attributes of the nodes: pos, x and y, lon and lat.
    objective
        "min" for lengths, "max" for rewards on an acyclic graph.
    noise_std, cost, prior_mean, prior_std
        As in `Problem`, or the name of an edge attribute that contains the numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tiny.gr"
    ...     _ = path.write_text("p sp 3 3\na 1 2 5\na 2 3 5\na 1 3 12\n")
    ...     read_network(path, "1", "3").best
    [1, 2, 3]
    """
    file = _open_network(path, attribute, nodes)
    ends = find_node(file.graph, source, "source"), find_node(file.graph, target, "target")
    file.graph.remove_nodes_from(file.closed - set(ends))
    oracle = ShortestPathOracle(file.graph, *ends, objective=objective)
    options = {"noise_std": noise_std, "cost": cost, "prior_mean": prior_mean, "prior_std": prior_std}
    return _instance(file, oracle, options)


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
    r"""Read a network file: the best spanning tree. Parameters are those of `read_network`, without source and target.

    Trees are undirected: two links of opposite directions with equal numbers are one edge; with different numbers they
    are an error.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "tiny.gr"
    ...     _ = path.write_text("p sp 3 3\na 1 2 5\na 2 3 5\na 1 3 12\n")
    ...     read_tree(path).best
    [(1, 2), (2, 3)]
    """
    file = _open_network(path, attribute, nodes)
    check_choice("objective", objective, ("min", "max"))
    options = {"noise_std": noise_std, "cost": cost, "prior_mean": prior_mean, "prior_std": prior_std}
    if file.graph.is_directed():
        names = [file.attribute, *(value for value in options.values() if isinstance(value, str))]
        file = file._replace(graph=_undirected(file, names))
    return _instance(file, SpanningTreeOracle(file.graph, objective=objective), options)


class _NetworkFile(NamedTuple):
    """A network, and how to read theta from it."""

    path: Path
    graph: nx.Graph[Any]
    closed: set[Any]  # nodes that no route may pass through
    attribute: str  # edge attribute of theta
    required: bool  # whether edges must have it


def _open_network(
    path: str | os.PathLike[str], attribute: str | None, nodes: str | os.PathLike[str] | None
) -> _NetworkFile:
    """Read a network file in the format of its suffix."""
    path = as_path(path)
    if attribute is not None:
        check_text("attribute", attribute)
    node_file = None if nodes is None else as_path(nodes, "nodes")
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        raise_format_error(path, f"the format is told by the suffix: {', '.join(_FORMATS)}")
    if nodes is not None and suffix != ".tntp":
        raise ParameterError(f"nodes= is the node file of a .tntp network, and {path.name} is none; leave it out")
    read, default = _FORMATS[suffix]
    graph, closed = read(path, attribute or default)
    if suffix == ".tntp":
        add_positions(graph, path, node_file)
    return _NetworkFile(path, graph, closed, attribute or default, attribute is not None)


def _undirected(file: _NetworkFile, names: list[str]) -> nx.Graph[Any]:
    """Return the undirected graph, if both directions of an edge agree in these attributes."""
    graph = file.graph
    if graph.is_multigraph():
        raise_format_error(
            file.path, "parallel links with directions make no tree; merge them, or save an undirected network"
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


def _instance(file: _NetworkFile, oracle: ShortestPathOracle | SpanningTreeOracle, options: dict[str, Any]) -> Instance:
    """Create an instance, with theta, noise, cost and prior from the edge attributes."""
    path, graph = file.path, file.graph
    theta = _edge_numbers(path, graph, oracle, file.attribute, required=file.required)
    what = "column" if path.suffix.lower() == ".tntp" else "edge attribute"
    origin = f"{what} `{file.attribute}`"
    if theta is None:
        known = _attribute_names(graph)
        origin = f"there is no {origin}" + (f"; others are {', '.join(known)}" if known else "")
    numbers = resolve_columns(options, lambda name: _edge_numbers(path, graph, oracle, name, required=True) or [])
    return instance_from_file(path, oracle, theta, numbers, origin)


def _edge_numbers(
    path: Path, graph: nx.Graph[Any], oracle: ArgmaxOracle, attribute: str, *, required: bool
) -> list[float] | None:
    """Return an edge attribute by component; None if no edge of the file has it and it is not required."""
    if not any(attribute in data for _, _, data in graph.edges(data=True)):
        if not required:
            return None
        known = ", ".join(_attribute_names(graph)) or "none"
        raise_format_error(path, f"no edge has this attribute; there are {known}", field=attribute)
    values = []
    for label in oracle.components:
        assert isinstance(label, tuple)
        value: Any = graph.get_edge_data(*label).get(attribute)
        if type(value) not in (int, float) or not abs(value) < MAX_ABS_VALUE:
            raise_format_error(
                path, f"the edge {label!r} must have a finite number here, got {value!r:.40}", field=attribute
            )
        values.append(float(value))
    return values


def _attribute_names(graph: nx.Graph[Any]) -> list[str]:
    """Return the names of all edge attributes, sorted."""
    return sorted({str(name) for _, _, data in graph.edges(data=True) for name in data})
