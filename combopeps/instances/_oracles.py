"""The field `oracle` of an instance file: one reader and one writer per kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, cast

from combopeps.errors import InstanceError
from combopeps.instances._fields import MOST, Field
from combopeps.oracles import ArgmaxOracle, ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle

if TYPE_CHECKING:
    import networkx as nx

Labels = Sequence[tuple[Hashable, ...]]


def read_oracle(field: Field) -> tuple[ArgmaxOracle, list[Hashable] | None]:
    """The oracle, and the labels of theta's entries in the order of the file (None: the oracle's own order)."""
    if not isinstance(field.value, dict) or "kind" not in field.value:
        field.fail('must be an object with a "kind"')
    kind = Field(field.value["kind"], f"{field.path}.kind").choice(*_READERS)
    with field.checked():
        return _READERS[kind](field)


def write_oracle(oracle: ArgmaxOracle) -> dict[str, Any]:
    """The object that `read_oracle` reads."""
    for kind, writer in _WRITERS.items():
        if type(oracle) is kind:
            return writer(oracle)
    kinds = ", ".join(kind.__name__ for kind in _WRITERS)
    raise InstanceError(f"oracle: a {type(oracle).__name__} cannot be stored, only {kinds}", "oracle")


def as_json(label: Any) -> Any:
    """A label as JSON has it: tuples become lists."""
    if isinstance(label, tuple):
        return [as_json(part) for part in label]
    if hasattr(label, "item") and not hasattr(label, "__len__"):  # a numpy scalar
        label = label.item()
    if type(label) not in (str, int, float):
        raise InstanceError(f"the label {label!r} cannot be stored; use strings, numbers or tuples of these", "oracle")
    return label


def graph_of(edges: Labels, *, directed: bool, multigraph: bool) -> nx.Graph[Any]:
    """A graph whose edges come back in the given order, if that was the order of a graph.

    networkx lists edges by their first nodes, in the order in which nodes were added: so first nodes are added first.
    """
    import networkx as nx

    kinds = {
        (True, True): nx.MultiDiGraph,
        (True, False): nx.DiGraph,
        (False, True): nx.MultiGraph,
        (False, False): nx.Graph,
    }
    graph: nx.Graph[Any] = kinds[directed, multigraph]()
    graph.add_nodes_from(edge[0] for edge in edges)
    graph.add_edges_from(cast(Any, edges))
    return graph


def _read_topk(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"kind", "items", "k"}, set())
    return TopKOracle(part["items"].count_or_labels(), part["k"].count()), None


def _write_topk(oracle: TopKOracle) -> dict[str, Any]:
    return {"kind": "topk", "items": _short(oracle.components), "k": oracle.k}


def _read_path(field: Field) -> tuple[ArgmaxOracle, list[Hashable]]:
    part = field.record({"kind", "edges", "source", "target"}, {"directed", "multigraph", "objective"})
    directed, multigraph = (
        default if part[name].value is None else part[name].choice(True, False)
        for name, default in (("directed", True), ("multigraph", False))
    )
    objective: Any = "min" if part["objective"].value is None else part["objective"].choice("min", "max")
    edges = _pairs(part["edges"], 3 if multigraph else 2, either_way=not directed)
    graph = graph_of(edges, directed=directed, multigraph=multigraph)
    ends = []
    for end in (part["source"], part["target"]):
        ends.append(end.label())
        if ends[-1] not in graph:
            end.fail(f"{ends[-1]!r} is on no edge")
    return ShortestPathOracle(graph, *ends, objective=objective), list(edges)


def _write_path(oracle: ShortestPathOracle) -> dict[str, Any]:
    return {
        "kind": "path",
        "directed": oracle.directed,
        "multigraph": oracle.multigraph,
        "source": as_json(oracle.source),
        "target": as_json(oracle.target),
        "objective": oracle.objective,
        "edges": as_json(oracle.components),
    }


def _read_matching(field: Field) -> tuple[ArgmaxOracle, list[Hashable] | None]:
    part = field.record({"kind", "left", "right"}, {"edges", "maximize"})
    left, right = part["left"].count_or_labels(), part["right"].count_or_labels()
    maximize = True if part["maximize"].value is None else part["maximize"].choice(True, False)
    if part["edges"].value is not None:
        edges = _pairs(part["edges"], 2)
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
        "kind": "matching",
        "left": _short(oracle.left),
        "right": _short(oracle.right),
        "edges": None if dense else as_json(oracle.components),
        "maximize": oracle.unit > 0,
    }


def _read_explicit(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"kind", "Z"}, {"labels", "components"})
    names = {key: None if part[key].value is None else part[key].labels() for key in ("labels", "components")}
    return ExplicitOracle(part["Z"].matrix(), **names), None


def _write_explicit(oracle: ExplicitOracle) -> dict[str, Any]:
    labels = tuple(oracle.decode(row) for row in oracle.Z)
    return {
        "kind": "explicit",
        "Z": oracle.Z.tolist(),
        "labels": None if _numbered(labels) else as_json(labels),
        "components": None if _numbered(oracle.components) else as_json(oracle.components),
    }


_READERS: dict[str, Callable[[Field], tuple[ArgmaxOracle, list[Hashable] | None]]] = {
    "topk": _read_topk,
    "path": _read_path,
    "matching": _read_matching,
    "explicit": _read_explicit,
}
_WRITERS: dict[type[ArgmaxOracle], Callable[[Any], dict[str, Any]]] = {
    TopKOracle: _write_topk,
    ShortestPathOracle: _write_path,
    MatchingOracle: _write_matching,
    ExplicitOracle: _write_explicit,
}


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


def _short(labels: tuple[Hashable, ...]) -> Any:
    """The number of labels where they are 0 .. n-1."""
    return len(labels) if _numbered(labels) else as_json(labels)


def _numbered(labels: tuple[Hashable, ...]) -> bool:
    return all(type(label) is int and label == i for i, label in enumerate(labels))


def _size(labels: int | list[Hashable]) -> int:
    return labels if isinstance(labels, int) else len(labels)
