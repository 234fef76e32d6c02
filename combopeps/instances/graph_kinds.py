"""Kinds of oracles on graphs: routes and spanning trees, with what pictures and tables need."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

from combopeps.errors import InstanceError
from combopeps.instances.kinds import Labels, OracleKind, as_json, pairs
from combopeps.instances.network_formats import new_graph
from combopeps.instances.parsing import Field
from combopeps.oracles import ArgmaxOracle, ShortestPathOracle, SpanningTreeOracle

_GRAPH = {"multigraph", "objective", "pruned", "pos", "in_degrees"}  # what may be left out


def _read_path(field: Field) -> tuple[ArgmaxOracle, list[Hashable]]:
    part = field.record({"edges", "source", "target"}, {"directed"} | _GRAPH)
    directed = part["directed"].flag(True)
    graph, edges = _read_graph(part, directed)
    ends = []
    for end in (part["source"], part["target"]):
        ends.append(end.label())
        if ends[-1] not in graph:
            end.fail(f"{ends[-1]!r} is on no edge")
    # A campaign knows its arms by number: an edge that it was begun with stays, even if it is seen to be on no route.
    oracle = ShortestPathOracle(graph, *ends, objective=_objective(part), prune="cuts")
    oracle.pruned = (*oracle.pruned, *_read_pruned(part, graph))
    return oracle, list(edges)


def _read_tree(field: Field) -> tuple[ArgmaxOracle, list[Hashable]]:
    part = field.record({"edges"}, _GRAPH)
    graph, edges = _read_graph(part, directed=False)
    oracle = SpanningTreeOracle(graph, objective=_objective(part))
    oracle.pruned = (*oracle.pruned, *_read_pruned(part, graph))
    return oracle, list(edges)


def _objective(part: dict[str, Field]) -> Any:
    return "min" if part["objective"].value is None else part["objective"].choice("min", "max")


def _read_graph(part: dict[str, Field], directed: bool) -> tuple[Any, Labels]:
    """With the coordinates of its nodes; and its edges in the order of the file."""
    multigraph = part["multigraph"].flag(False)
    edges = pairs(part["edges"], 3 if multigraph else 2, either_way=not directed)
    graph = new_graph(directed, multigraph)
    graph.add_nodes_from(edge[0] for edge in edges)  # networkx lists edges by their first nodes: so the order is kept
    graph.add_edges_from(cast(Any, edges))
    names = ("lon", "lat") if part["in_degrees"].flag(False) else ("x", "y")
    if part["pos"].value is not None:
        _read_places(part["pos"], graph, names)
    return graph, edges


def _read_pruned(part: dict[str, Field], graph: Any) -> Labels:
    """Edges that are known by name only."""
    if part["pruned"].value is None:
        return []
    pruned = pairs(part["pruned"], 3 if graph.is_multigraph() else 2, either_way=not graph.is_directed())
    for entry, edge in zip(part["pruned"].items(), pruned, strict=True):
        if graph.has_edge(*edge):
            entry.fail(f"the edge {edge!r} stands among the edges, too")
    return pruned


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
    return {
        "directed": oracle.directed,
        "multigraph": oracle.multigraph,
        "source": as_json(oracle.source),
        "target": as_json(oracle.target),
        **_write_graph(oracle),
    }


def _write_tree(oracle: SpanningTreeOracle) -> dict[str, Any]:
    return {"multigraph": oracle.multigraph, **_write_graph(oracle)}


def _write_graph(oracle: ShortestPathOracle | SpanningTreeOracle) -> dict[str, Any]:
    document = {"objective": oracle.objective, "edges": as_json(oracle.components)}
    if oracle.pos is not None:
        nodes = dict.fromkeys(node for edge in cast("Labels", oracle.components) for node in edge[:2])
        document["pos"] = [[as_json(node), *oracle.pos[node]] for node in nodes if node in oracle.pos]
        document["in_degrees"] = oracle.in_degrees
    pruned = [as_json(edge) for edge in oracle.pruned if _is_storable(edge)]  # known by name, for tables of a whole map
    return document | {"pruned": pruned} if pruned else document


def _is_storable(label: Hashable) -> bool:
    try:
        as_json(label)
    except InstanceError:
        return False
    return True


PATH = OracleKind(ShortestPathOracle, _write_path, _read_path)
TREE = OracleKind(SpanningTreeOracle, _write_tree, _read_tree)
