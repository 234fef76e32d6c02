"""Kinds of oracles in instance files and in the headers of campaigns: how each is written, and read back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np

from combopeps.errors import InstanceError
from combopeps.instances.network_formats import new_graph
from combopeps.instances.parsing import MOST, Field
from combopeps.oracles import ArgmaxOracle, ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle

Labels = Sequence[tuple[Hashable, ...]]


@dataclass(frozen=True)
class OracleKind:
    """How a document holds the oracles of one class; subclasses are other kinds."""

    oracle: type[ArgmaxOracle]
    write: Callable[[Any], dict[str, Any]]
    """From an oracle to the fields of a JSON object."""
    read: Callable[[Field], tuple[ArgmaxOracle, list[Hashable] | None]]
    """Back: the oracle, and the labels of theta's entries in the order of the file (None: the oracle's own order)."""


def as_json(label: Any) -> Any:
    """A label as JSON has it: tuples become lists."""
    if isinstance(label, tuple):
        return [as_json(part) for part in label]
    if isinstance(label, np.generic):
        label = label.item()
    if type(label) not in (str, int, float):
        raise InstanceError(f"the label {label!r} cannot be stored; use strings, numbers or tuples of these", "oracle")
    return label


def names_or(short: int | None, labels: tuple[Hashable, ...]) -> Any:
    """Labels as JSON has them, or something shorter where they are 0 .. n-1."""
    names = as_json(labels)
    return short if all(type(name) is int and name == i for i, name in enumerate(names)) else names


def _read_topk(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"items", "k"}, set())
    return TopKOracle(part["items"].count_or_labels(), part["k"].count()), None


def _write_topk(oracle: TopKOracle) -> dict[str, Any]:
    return {"items": names_or(oracle.dim, oracle.components), "k": oracle.k}


def _read_path(field: Field) -> tuple[ArgmaxOracle, list[Hashable]]:
    places = {"pos", "in_degrees"}
    part = field.record({"edges", "source", "target"}, {"directed", "multigraph", "objective", "pruned"} | places)
    directed, multigraph = part["directed"].flag(True), part["multigraph"].flag(False)
    objective: Any = "min" if part["objective"].value is None else part["objective"].choice("min", "max")
    edges = _pairs(part["edges"], 3 if multigraph else 2, either_way=not directed)
    graph = new_graph(directed, multigraph)
    graph.add_nodes_from(edge[0] for edge in edges)  # networkx lists edges by their first nodes: so the order is kept
    graph.add_edges_from(cast(Any, edges))
    ends = []
    for end in (part["source"], part["target"]):
        ends.append(end.label())
        if ends[-1] not in graph:
            end.fail(f"{ends[-1]!r} is on no edge")
    names = ("lon", "lat") if part["in_degrees"].flag(False) else ("x", "y")
    if part["pos"].value is not None:
        _read_places(part["pos"], graph, names)
    oracle = ShortestPathOracle(graph, *ends, objective=objective)
    if part["pruned"].value is not None:
        pruned = _pairs(part["pruned"], 3 if multigraph else 2, either_way=not directed)
        for entry, edge in zip(part["pruned"].items(), pruned, strict=True):
            if graph.has_edge(*edge):
                entry.fail(f"the edge {edge!r} stands among the edges, too")
        oracle.pruned = (*oracle.pruned, *pruned)
    return oracle, list(edges)


def _read_places(field: Field, graph: Any, names: tuple[str, str]) -> None:
    """Coordinates become attributes of the nodes, where the oracle finds them."""
    for entry in field.items():
        parts = entry.items()
        if len(parts) != 3:
            entry.fail(f"must be a node and two numbers, got {len(parts)} parts")
        node = parts[0].label()
        if node not in graph:
            parts[0].fail(f"{node!r} is on no edge")
        if graph.nodes[node]:
            parts[0].fail(f"{node!r} stands there twice")
        graph.nodes[node].update(zip(names, (part.number() for part in parts[1:]), strict=True))


def _write_path(oracle: ShortestPathOracle) -> dict[str, Any]:
    places: dict[str, Any] = {}
    if oracle.pos is not None:
        places["pos"] = [[as_json(node), x, y] for node, (x, y) in oracle.pos.items()]
        places["in_degrees"] = oracle.in_degrees
    document = {
        "directed": oracle.directed,
        "multigraph": oracle.multigraph,
        "source": as_json(oracle.source),
        "target": as_json(oracle.target),
        "objective": oracle.objective,
        "edges": as_json(oracle.components),
        **places,
    }
    pruned = [as_json(edge) for edge in oracle.pruned if _is_storable(edge)]  # known by name, for tables of a whole map
    return document | {"pruned": pruned} if pruned else document


def _is_storable(label: Hashable) -> bool:
    try:
        as_json(label)
    except InstanceError:
        return False
    return True


def _read_matching(field: Field) -> tuple[ArgmaxOracle, list[Hashable] | None]:
    part = field.record({"left", "right"}, {"edges", "maximize"})
    left, right = part["left"].count_or_labels(), part["right"].count_or_labels()
    maximize = part["maximize"].flag(True)
    if part["edges"].value is not None:
        edges = _pairs(part["edges"], 2)
        if _size(right) > len(edges) and _size(left) * _size(right) > MOST:  # an engine may need the full matrix
            part["right"].fail(f"has {_size(right)} nodes, but there are only {len(edges)} edges")
        nodes = [set(range(side) if isinstance(side, int) else side) for side in (left, right)]
        for entry, edge in zip(part["edges"].items(), edges, strict=True):
            for part_of, end, side in zip(entry.items(), edge, nodes, strict=True):
                if end not in side:
                    part_of.fail(f"{end!r} is not a node of this side")
        return MatchingOracle(left, right, cast(Any, edges), maximize), list(edges)
    if _size(left) * _size(right) > MOST:
        field.fail(f"allows {_size(left)} x {_size(right)} pairs, more than {MOST}; list the edges")
    return MatchingOracle(left, right, None, maximize), None


def _write_matching(oracle: MatchingOracle) -> dict[str, Any]:
    dense = oracle.components == tuple(product(oracle.left, oracle.right))
    return {
        "left": names_or(len(oracle.left), oracle.left),
        "right": names_or(len(oracle.right), oracle.right),
        "edges": None if dense else as_json(oracle.components),
        "maximize": oracle.unit > 0,
    }


def _read_explicit(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"Z"}, {"labels", "components"})
    names = {key: None if part[key].value is None else part[key].labels() for key in ("labels", "components")}
    return ExplicitOracle(part["Z"].matrix(), **names), None


def _write_explicit(oracle: ExplicitOracle) -> dict[str, Any]:
    labels = tuple(oracle.decode(row) for row in oracle.Z)
    return {"Z": oracle.Z.tolist(), "labels": names_or(None, labels), "components": names_or(None, oracle.components)}


TOPK = OracleKind(TopKOracle, _write_topk, _read_topk)
PATH = OracleKind(ShortestPathOracle, _write_path, _read_path)
MATCHING = OracleKind(MatchingOracle, _write_matching, _read_matching)
EXPLICIT = OracleKind(ExplicitOracle, _write_explicit, _read_explicit)


def _pairs(field: Field, length: int, *, either_way: bool = False) -> Labels:
    """Edges of one length, none twice."""
    edges: dict[tuple[Hashable, ...], None] = {}
    for entry in field.items():
        parts = entry.items()
        if len(parts) != length:
            entry.fail(f"an edge has {length} parts here, got {len(parts)}")
        edge = tuple(part.label() for part in parts)
        if edge in edges or (either_way and (edge[1], edge[0], *edge[2:]) in edges):
            entry.fail(f"the edge {edge!r} stands there twice")
        edges[edge] = None
    return list(edges)


def _size(labels: int | list[Hashable]) -> int:
    return labels if isinstance(labels, int) else len(labels)
