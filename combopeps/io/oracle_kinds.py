"""Kinds of oracles in instance files and in the headers of campaigns: how each is written, and read back.

Those on graphs are in `graph_kinds.py`, programs with constraints in `program_kinds.py`.

Kinds of oracles on graphs: routes and spanning trees, with what pictures and tables need.

Kinds of oracles that a solver answers for: knapsacks, integer programs and constraint models.

Kinds of oracles by name: the field `oracle` of an instance file.

The field `actions` of an instance file, and of the header of a campaign: what is measured at once.

"answers"                                             whole answers
{"rows": [["a", "b"], ["c"]], "labels": ["x", "y"]}   listed actions, each by the components that it shows
{"kind": "topk", ...}                                 another set of answers, as the field `oracle` has it
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from combopeps.actions import Actions, ListedActions
from combopeps.errors import InstanceError, ProgramError
from combopeps.io.network_formats import new_graph
from combopeps.io.parsing import MOST, Field
from combopeps.oracles import (
    CpSatOracle,
    ExplicitOracle,
    KnapsackOracle,
    MatchingOracle,
    MilpOracle,
    PartitionOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.cpsat import model_of_text
from combopeps.oracles.input_checks import TIME_LIMIT

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

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


def labels_as_json(short: int | None, labels: tuple[Hashable, ...]) -> Any:
    """Labels as JSON has them, or something shorter where they are 0 .. n-1."""
    names = as_json(labels)
    return short if all(type(name) is int and name == i for i, name in enumerate(names)) else names


def _read_topk(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"items", "k"}, set())
    return TopKOracle(part["items"].count_or_labels(), part["k"].count()), None


def _write_topk(oracle: TopKOracle) -> dict[str, Any]:
    return {"items": labels_as_json(oracle.dim, oracle.components), "k": oracle.k}


def _read_matching(field: Field) -> tuple[ArgmaxOracle, list[Hashable] | None]:
    part = field.record({"left", "right"}, {"edges", "maximize"})
    left, right = part["left"].count_or_labels(), part["right"].count_or_labels()
    maximize = part["maximize"].flag(True)
    if part["edges"].value is not None:
        edges = pairs(part["edges"], 2)
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
        "left": labels_as_json(len(oracle.left), oracle.left),
        "right": labels_as_json(len(oracle.right), oracle.right),
        "edges": None if dense else as_json(oracle.components),
        "maximize": oracle.unit > 0,
    }


def _read_explicit(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"Z"}, {"labels", "components"})
    names = {key: None if part[key].value is None else part[key].labels() for key in ("labels", "components")}
    return ExplicitOracle(part["Z"].matrix(), **names), None


def _write_explicit(oracle: ExplicitOracle) -> dict[str, Any]:
    labels = tuple(oracle.decode(row) for row in oracle.Z)
    return {
        "Z": oracle.Z.tolist(),
        "labels": labels_as_json(None, labels),
        "components": labels_as_json(None, oracle.components),
    }


def _read_partition(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"groups", "quotas"}, {"exactly", "objective"})
    groups: dict[Hashable, list[Hashable]] = {}
    for entry in part["groups"].items():
        parts = entry.items()
        if len(parts) != 2:
            entry.fail(f"must be the name of a group and its components, got {len(parts)} parts")
        name = parts[0].label()
        if name in groups:
            parts[0].fail(f"{name!r} stands there twice")
        groups[name] = parts[1].labels()
    quotas = [entry.value for entry in part["quotas"].items()]
    objective: Any = "max" if part["objective"].value is None else part["objective"].choice("max", "min")
    return PartitionOracle(groups, quotas, exactly=part["exactly"].flag(True), objective=objective), None


def _write_partition(oracle: PartitionOracle) -> dict[str, Any]:
    return {
        "exactly": oracle.exactly,
        "objective": oracle.objective,
        "quotas": list(oracle.quotas.values()),
        "groups": [[as_json(group), as_json(members)] for group, members in oracle.groups.items()],
    }


TOPK = OracleKind(TopKOracle, _write_topk, _read_topk)
MATCHING = OracleKind(MatchingOracle, _write_matching, _read_matching)
EXPLICIT = OracleKind(ExplicitOracle, _write_explicit, _read_explicit)
PARTITION = OracleKind(PartitionOracle, _write_partition, _read_partition)


def pairs(field: Field, length: int, *, either_way: bool = False) -> Labels:
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
    oracle = ShortestPathOracle(graph, *ends, objective=_graph_objective(part), prune="cuts")
    oracle.pruned = (*oracle.pruned, *_read_pruned(part, graph))
    return oracle, list(edges)


def _read_tree(field: Field) -> tuple[ArgmaxOracle, list[Hashable]]:
    part = field.record({"edges"}, _GRAPH)
    graph, edges = _read_graph(part, directed=False)
    oracle = SpanningTreeOracle(graph, objective=_graph_objective(part))
    oracle.pruned = (*oracle.pruned, *_read_pruned(part, graph))
    return oracle, list(edges)


def _graph_objective(part: dict[str, Field]) -> Any:
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


_MOST = 100_000  # variables: a file that asks for more is taken for broken, before a solver looks at it
_NO_LIMIT = "none"
_LARGEST = 2**53  # whole numbers below are written as integers


def _read_knapsack(field: Field) -> tuple[ArgmaxOracle, list[Hashable]]:
    part = field.record({"items", "weights", "capacity"}, {"pruned"})
    items, weights = _listed(part["items"]), part["weights"].numbers()
    if len(weights) != len(items):
        part["weights"].fail(f"must be {len(items)} numbers, one per item, got {len(weights)}")
    known, heavy = set(items), dict[Hashable, float]()  # those that are too heavy are known by name only
    for entry in part["pruned"].items() if part["pruned"].value is not None else []:
        parts = entry.items()
        if len(parts) != 2:
            entry.fail(f"must be an item and its weight, got {len(parts)} parts")
        label, weight = parts[0].label(), parts[1].number()
        if label in heavy or label in known:
            entry.fail(f"{label!r} stands there twice")
        if weight <= part["capacity"].number():
            entry.fail(f"{label!r} fits, and belongs among the items")
        heavy[label] = weight
    every = [*weights, *heavy.values()]
    return KnapsackOracle(every, part["capacity"].number(), labels=[*items, *heavy]), items


def _write_knapsack(oracle: KnapsackOracle) -> dict[str, Any]:
    document = {
        "items": labels_as_json(oracle.dim, oracle.components),
        "weights": oracle.weights.tolist(),
        "capacity": oracle.capacity,
    }
    heavy = [[as_json(label), weight] for label, weight in oracle._too_heavy.items()]
    return document | {"pruned": heavy} if heavy else document


def _read_milp(field: Field) -> tuple[ArgmaxOracle, None]:
    optional = {"A", "lower", "upper", "low", "high", "objective", "gap", "time_limit", "engine"}
    part = field.record({"components"}, optional)
    labels = _listed(part["components"])
    rows, columns, values = _entries(part["A"], len(labels))
    ends = [_ends(part[name], rows, infinite) for name, infinite in (("lower", -np.inf), ("upper", np.inf))]
    bounds = [_ends(part[name], len(labels), usual) for name, usual in (("low", 0.0), ("high", 1.0))]

    from scipy.sparse import csr_array

    where = np.repeat(np.arange(rows), [len(row) for row in columns]), np.concatenate([[], *columns])
    matrix = csr_array((np.concatenate([[], *values]), where), shape=(rows, len(labels)))
    gap = 0.0 if part["gap"].value is None else part["gap"].number()
    options: dict[str, Any] = {"gap": gap, "time_limit": _seconds(part), "objective": _objective(part)}
    if part["engine"].value is not None:
        options["engine"] = part["engine"].choice("auto", "highs")
    return MilpOracle(labels, matrix, *ends, bounds=(bounds[0], bounds[1]), **options), None


def _write_milp(oracle: MilpOracle) -> dict[str, Any]:
    program = oracle._program
    A, lower, upper = program.stated
    kept = np.flatnonzero(np.diff(A.indptr)).tolist()  # a row without entries says nothing
    entries = [list(entry) for entry in zip(A.indices.tolist(), _readable(A.data), strict=True)]
    rows = [entries[A.indptr[i] : A.indptr[i + 1]] for i in kept]
    document = {
        "components": labels_as_json(oracle.dim, oracle.components),
        "objective": oracle.objective,
        "low": _shortened(program.low),
        "high": _shortened(program.high),
    }
    if rows:
        document |= {"lower": _readable(lower[kept]), "upper": _readable(upper[kept]), "A": rows}
    if oracle._asked_engine != "auto":
        document["engine"] = oracle._asked_engine
    return document | _options(oracle) | ({"gap": oracle.gap} if oracle.gap else {})


def _read_cpsat(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"components", "variables", "model"}, {"objective", "time_limit"})
    labels, numbers = _listed(part["components"]), part["variables"].items()
    if len(numbers) != len(labels):
        part["variables"].fail(f"must be {len(labels)} numbers, one per component, got {len(numbers)}")
    model = _parsed(part["model"])
    chosen = {}
    for label, number in zip(labels, numbers, strict=True):
        if type(number.value) is not int or not 0 <= number.value < len(model.proto.variables):
            number.fail(f"must be the number of a variable of the model, 0 to {len(model.proto.variables) - 1}")
        chosen[label] = model.get_int_var_from_proto_index(number.value)
    return CpSatOracle(model, chosen, objective=_objective(part), time_limit=_seconds(part)), None


def _write_cpsat(oracle: CpSatOracle) -> dict[str, Any]:
    document = {
        "components": labels_as_json(oracle.dim, oracle.components),
        "variables": oracle._numbers,
        "objective": oracle.objective,
        "model": oracle._text.splitlines(),
    }
    return document | _options(oracle)


def _parsed(field: Field) -> CpModel:
    """The text form of a model, line by line: data, of which nothing is run."""
    try:
        return model_of_text("\n".join(line.text() for line in field.items()))
    except ProgramError as cause:
        field.fail(str(cause))


def _listed(field: Field) -> list[Hashable]:
    """Labels, or 0 .. n-1; not more than a solver can be given."""
    found = field.count_or_labels()
    if (found if isinstance(found, int) else len(found)) > _MOST:
        field.fail(f"there may be at most {_MOST} of these")
    return list(range(found)) if isinstance(found, int) else found


def _entries(field: Field, dim: int) -> tuple[int, list[list[int]], list[list[float]]]:
    """How many rows there are, the columns of each, none twice, and the numbers there."""
    columns: list[list[int]] = []
    values: list[list[float]] = []
    for row in field.items() if field.value is not None else []:
        found: dict[int, float] = {}
        for entry in row.items():
            parts = entry.items()
            if len(parts) != 2:
                entry.fail(f"must be the number of a component and a coefficient, got {len(parts)} parts")
            at = parts[0].value
            if type(at) is not int or not 0 <= at < dim or at in found:
                parts[0].fail(f"must be the number of a component, 0 to {dim - 1}, once in a row")
            found[at] = parts[1].number()
        columns.append(list(found))
        values.append(list(found.values()))
    return len(columns), columns, values


def _ends(field: Field, size: int, usual: float) -> Array:
    """One number for all, or a list; null where there is no end, and all of them `usual` if it is left out."""
    if not isinstance(field.value, list):
        return np.full(size, usual if field.value is None else field.number())
    entries = field.items()
    if len(entries) != size:
        field.fail(f"must be a number, or {size} of them, got {len(entries)}")
    return np.array([usual if entry.value is None else entry.number() for entry in entries])


def _readable(values: Array) -> list[Any]:
    """Numbers as people write them: whole ones without a point, and None for no end."""
    return [None if np.isinf(x) else int(x) if x.is_integer() and abs(x) < _LARGEST else x for x in values.tolist()]


def _shortened(values: Array) -> Any:
    numbers = [int(x) for x in values]
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _objective(part: dict[str, Field]) -> Any:
    return "max" if part["objective"].value is None else part["objective"].choice("max", "min")


def _seconds(part: dict[str, Field]) -> float | None:
    """A file that does not state a limit gets the default one; only the word "none" means no limit."""
    if part["time_limit"].value is None:
        return TIME_LIMIT
    return None if part["time_limit"].value == _NO_LIMIT else part["time_limit"].positive()


def _options(oracle: MilpOracle | CpSatOracle) -> dict[str, Any]:
    if oracle.time_limit == TIME_LIMIT:
        return {}
    return {"time_limit": _NO_LIMIT if np.isinf(oracle.time_limit) else oracle.time_limit}


KNAPSACK = OracleKind(KnapsackOracle, _write_knapsack, _read_knapsack)
MILP = OracleKind(MilpOracle, _write_milp, _read_milp)
CPSAT = OracleKind(CpSatOracle, _write_cpsat, _read_cpsat)


KINDS: dict[str, OracleKind] = {
    "topk": TOPK,
    "path": PATH,
    "matching": MATCHING,
    "explicit": EXPLICIT,
    "tree": TREE,
    "partition": PARTITION,
    "knapsack": KNAPSACK,
    "milp": MILP,
    "cp-sat": CPSAT,
}


def read_oracle(field: Field) -> tuple[ArgmaxOracle, list[Hashable] | None]:
    """The oracle, and the labels of theta's entries in the order of the file (None: the oracle's own order)."""
    if not isinstance(field.value, dict) or "kind" not in field.value:
        field.fail('must be an object with a "kind"')
    kind = Field(field.value["kind"], f"{field.path}.kind").choice(*KINDS)
    with field.checked():
        return KINDS[kind].read(Field({k: v for k, v in field.value.items() if k != "kind"}, field.path))


def kind_of(oracle: ArgmaxOracle) -> str | None:
    """The name of an oracle's kind; None where files cannot hold it."""
    return next((name for name, kind in KINDS.items() if type(oracle) is kind.oracle), None)


def write_oracle(oracle: ArgmaxOracle) -> dict[str, Any]:
    """The object that `read_oracle` reads."""
    name = kind_of(oracle)
    if name is not None:
        return {"kind": name, **KINDS[name].write(oracle)}
    known = ", ".join(kind.oracle.__name__ for kind in KINDS.values())
    raise InstanceError(f"oracle: a {type(oracle).__name__} cannot be stored, only {known}", "oracle")


def read_actions(field: Field, oracle: ArgmaxOracle) -> Any:
    """What `Problem(actions=)` takes; None where measurements are single."""
    if field.value is None:
        return None
    if isinstance(field.value, str):
        return field.choice("answers")
    if isinstance(field.value, dict) and "kind" in field.value:
        return read_oracle(field)[0]
    part = field.record({"rows"}, {"labels"})
    entries = part["rows"].items()
    labels = None if part["labels"].value is None else part["labels"].labels()
    if labels is not None and len(labels) != len(entries):
        part["labels"].fail(f"must name {len(entries)} actions, got {len(labels)}")
    rows = np.zeros((len(entries), oracle.dim))
    for row, entry in zip(rows, entries, strict=True):
        with entry.checked():
            row[[oracle.index(label) for label in entry.labels()]] = 1.0
    return ListedActions(rows, range(len(rows)) if labels is None else labels, oracle.components)


def write_actions(actions: Actions) -> Any:
    """What `read_actions` reads."""
    oracle = actions.oracle
    if actions.are_answers:
        return "answers"
    if isinstance(oracle, ListedActions):
        shown = [as_json(tuple(oracle.components[i] for i in np.flatnonzero(row))) for row in oracle.rows]
        return {"rows": shown, "labels": labels_as_json(None, oracle.labels)}
    if kind_of(oracle) is None:
        raise InstanceError(
            f"actions: a {type(oracle).__name__} of your own cannot be stored; list its answers as rows, "
            "{label: row}, or let answers themselves be the actions",
            "actions",
        )
    return write_oracle(oracle)
