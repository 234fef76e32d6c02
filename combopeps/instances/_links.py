"""Networks written as lines of links: TNTP and DIMACS `.gr`. Both are directed, with nodes numbered from 1."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from combopeps.instances._text import parse_number, read_text, refuse

if TYPE_CHECKING:
    import networkx as nx

Link = tuple[int, int, dict[str, float]]


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
                refuse(path, "a line of metadata looks like <NAME> value", line)
            if name in ("NUMBER OF NODES", "NUMBER OF LINKS", "FIRST THRU NODE"):
                if name in numbers:
                    refuse(path, "stands there twice; delete one of them", line, name)
                numbers[name] = _whole(path, value.strip(), line, name)
        elif text.startswith("~") and not columns:
            names = text.strip("~; \t").lower()
            columns = [re.sub(r"\s+", "_", name.strip()) for name in names.split("\t" if "\t" in names else None)]
            if len(set(columns)) != len(columns) or columns[:2] != ["init_node", "term_node"]:
                refuse(path, "the columns must be init_node, term_node and others", line)
            if attribute not in columns[2:]:
                refuse(path, f"there is no such column; there are {', '.join(columns[2:])}", line, attribute)
        elif text and not text.startswith("~"):
            if not columns:
                refuse(path, "a line with the column names must come first: ~ init_node <tab> term_node ... ;", line)
            fields = text.removesuffix(";").split()
            if len(fields) != len(columns) or not text.endswith(";"):
                refuse(path, f"a link has {len(columns)} fields and ends in ;", line)
            u, v = (_node(path, fields[i], line, columns[i], numbers.get("NUMBER OF NODES")) for i in (0, 1))
            named = zip(columns[2:], fields[2:], strict=True)
            links.append((u, v, {name: parse_number(path, field, line, name) for name, field in named}))
    if in_metadata:
        refuse(path, "the line <END OF METADATA> is missing", line)
    if len(links) != numbers.get("NUMBER OF LINKS", len(links)):
        refuse(path, f"{numbers['NUMBER OF LINKS']} links are announced, {len(links)} are there", line)
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
                refuse(path, "the problem line is: p sp nodes arcs", line)
            size = _whole(path, fields[1], line, "nodes"), _whole(path, fields[2], line, "arcs")
        elif kind == "a" and size is not None:
            if len(fields) != 3:
                refuse(path, "an arc is: a from to weight", line)
            u, v = _node(path, fields[0], line, "from", size[0]), _node(path, fields[1], line, "to", size[0])
            links.append((u, v, {"weight": parse_number(path, fields[2], line, "weight")}))
        else:
            refuse(path, f"a line {kind[:20]!r} has no place here: one line p, then lines a", line)
    if size is None or len(links) != size[1]:
        refuse(path, f"{size[1]} arcs are announced, {len(links)} are there" if size else "there is no line p sp", line)
    return _directed(links), set()


def _directed(links: list[Link]) -> nx.Graph[Any]:
    """Parallel links make a multigraph."""
    import networkx as nx

    parallel = len({link[:2] for link in links}) < len(links)
    graph: nx.Graph[Any] = nx.MultiDiGraph() if parallel else nx.DiGraph()
    graph.add_edges_from(links)
    return graph


def _whole(path: Path, text: str, line: int, field: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        refuse(path, f"must be a whole number, got {text[:40]!r}", line, field)
    return int(text)


def _node(path: Path, text: str, line: int, field: str, nodes: int | None) -> int:
    node = _whole(path, text, line, field)
    if node < 1 or (nodes is not None and node > nodes):
        refuse(path, f"nodes are numbered 1..{nodes or ''}, got {node}", line, field)
    return node
