"""Nodes of a network file: which one is meant, and where they lie."""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from combopeps.errors import ComboPepsError, GraphError
from combopeps.files import refuse
from combopeps.instances.parsing import parse_number, read_text
from combopeps.tables.cells import is_digits

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
            refuse(path, f"a node has {len(columns)} fields, this line {len(fields)}", line)
        elif not is_digits(fields[node]) or int(fields[node]) in seen:
            refuse(path, f"must be the number of a node, each once, got {fields[node][:40]!r}", line, columns[node])
        else:
            across, up = (parse_number(path, fields[i], line, columns[i]) for i in (x, y))
            seen[int(fields[node])] = across, up
    if not seen:
        refuse(path, "a line of column names and at least one node are needed: node <tab> x <tab> y ;")
    names = (columns[x], columns[y])
    for number, place in seen.items():
        if number in graph:
            graph.nodes[number].update(zip(names, place, strict=True))


def _column(path: Path, columns: list[str], names: tuple[str, ...], line: int) -> int:
    found = [i for i, column in enumerate(columns) if column in names]
    if len(found) != 1:
        refuse(path, f"one column must be called {' or '.join(names)}; there are {', '.join(columns)}", line)
    return found[0]
