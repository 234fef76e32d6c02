"""JSON form of oracles and actions: the fields `oracle` and `actions` of instance files and campaign headers.

An oracle is an object with its `kind`, a key of `KINDS`, and the fields of that kind. Actions are one of

    "answers"                                             answers of the problem
    {"rows": [["a", "b"], ["c"]], "labels": ["x", "y"]}   listed actions, each by its components
    {"kind": "topk", ...}                                 the answers of another oracle, in the form of `oracle`

Oracles on graphs also store node positions and pruned edges, for plots and for tables of measurements.
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
from combopeps.io.parsing import MAX_COMPONENTS, Field
from combopeps.oracles import (
    CpSatOracle,
    ExplicitOracle,
    KnapsackOracle,
    MatchingOracle,
    MilpOracle,
    PartitionOracle,
    ProductOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.cpsat import parse_model
from combopeps.oracles.input_checks import TIME_LIMIT

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

Labels = Sequence[tuple[Hashable, ...]]

_GRAPH_OPTIONS = {"multigraph", "objective", "pruned", "pos", "in_degrees"}
_MAX_VARIABLES = 100_000  # of a program: larger files are rejected as damaged, before a solver reads them
_MAX_EXACT_INTEGER = 2**53  # integers below it are written without a decimal point
_NO_LIMIT = "none"


@dataclass(frozen=True)
class OracleKind:
    """Serialisation of the oracles of one class, without its subclasses.

    Attributes
    ----------
    oracle
        The class.
    write
        Function of an oracle that returns the fields of a JSON object.
    read
        Function of these fields that returns the oracle, and the labels of the entries of theta in the order of the
        file (None: the order of the components).
    """

    oracle: type[ArgmaxOracle]
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[Field], tuple[ArgmaxOracle, list[Hashable] | None]]


def as_json(label: Any) -> Any:
    """Convert a label to JSON: tuples become lists."""
    if isinstance(label, tuple):
        return [as_json(part) for part in label]
    if isinstance(label, np.generic):
        label = label.item()
    if type(label) not in (str, int, float):
        raise InstanceError(f"the label {label!r} cannot be stored; use strings, numbers or tuples of these", "oracle")
    return label


def labels_as_json(short: int | None, labels: tuple[Hashable, ...]) -> Any:
    """Convert labels to JSON, or return `short` if they are 0 .. n-1."""
    names = as_json(labels)
    return short if all(type(name) is int and name == i for i, name in enumerate(names)) else names


def pairs(field: Field, length: int, *, either_way: bool = False) -> Labels:
    """Read distinct edges of 2 or 3 parts; with `either_way`, (u, v) and (v, u) are the same edge."""
    edges: dict[tuple[Hashable, ...], None] = {}
    for entry in field.items():
        parts = entry.items()
        if len(parts) != length:
            entry.fail(f"an edge has {length} parts here, got {len(parts)}")
        edge = tuple(part.label() for part in parts)
        if edge in edges or (either_way and (edge[1], edge[0], *edge[2:]) in edges):
            entry.fail(f"the edge {edge!r} is listed twice")
        edges[edge] = None
    return list(edges)


def _size(labels: int | list[Hashable]) -> int:
    """Return the number of labels, which may be given as this number."""
    return labels if isinstance(labels, int) else len(labels)


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
        if _size(right) > len(edges) and _size(left) * _size(right) > MAX_COMPONENTS:  # a solver may need a full matrix
            part["right"].fail(f"has {_size(right)} nodes, but there are only {len(edges)} edges")
        nodes = [set(range(side) if isinstance(side, int) else side) for side in (left, right)]
        for entry, edge in zip(part["edges"].items(), edges, strict=True):
            for end_field, end, side in zip(entry.items(), edge, nodes, strict=True):
                if end not in side:
                    end_field.fail(f"{end!r} is not a node of this side")
        return MatchingOracle(left, right, cast(Any, edges), maximize), list(edges)
    if _size(left) * _size(right) > MAX_COMPONENTS:
        field.fail(f"allows {_size(left)} x {_size(right)} pairs, more than {MAX_COMPONENTS}; list the edges")
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
            parts[0].fail(f"the group {name!r} is listed twice")
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


def _read_path(field: Field) -> tuple[ArgmaxOracle, list[Hashable]]:
    part = field.record({"edges", "source", "target"}, {"directed"} | _GRAPH_OPTIONS)
    directed = part["directed"].flag(True)
    graph, edges = _read_graph(part, directed)
    ends = []
    for end in (part["source"], part["target"]):
        ends.append(end.label())
        if ends[-1] not in graph:
            end.fail(f"{ends[-1]!r} is on no edge")
    # A campaign stores arms by index: its edges must stay, even if a better test finds that they are on no route.
    oracle = ShortestPathOracle(graph, *ends, objective=_graph_objective(part), prune="cuts")
    oracle.pruned = (*oracle.pruned, *_read_pruned(part, graph))
    return oracle, list(edges)


def _read_tree(field: Field) -> tuple[ArgmaxOracle, list[Hashable]]:
    part = field.record({"edges"}, _GRAPH_OPTIONS)
    graph, edges = _read_graph(part, directed=False)
    oracle = SpanningTreeOracle(graph, objective=_graph_objective(part))
    oracle.pruned = (*oracle.pruned, *_read_pruned(part, graph))
    return oracle, list(edges)


def _graph_objective(part: dict[str, Field]) -> Any:
    return "min" if part["objective"].value is None else part["objective"].choice("min", "max")


def _read_graph(part: dict[str, Field], directed: bool) -> tuple[Any, Labels]:
    """Return a graph with node positions, and its edges in the order of the file."""
    multigraph = part["multigraph"].flag(False)
    edges = pairs(part["edges"], 3 if multigraph else 2, either_way=not directed)
    graph = new_graph(directed, multigraph)
    graph.add_nodes_from(edge[0] for edge in edges)  # networkx lists edges by first node: this keeps the order
    graph.add_edges_from(cast(Any, edges))
    names = ("lon", "lat") if part["in_degrees"].flag(False) else ("x", "y")
    if part["pos"].value is not None:
        _read_places(part["pos"], graph, names)
    return graph, edges


def _read_pruned(part: dict[str, Field], graph: Any) -> Labels:
    """Read edges that are no components, but may be in tables of measurements."""
    if part["pruned"].value is None:
        return []
    pruned = pairs(part["pruned"], 3 if graph.is_multigraph() else 2, either_way=not graph.is_directed())
    for entry, edge in zip(part["pruned"].items(), pruned, strict=True):
        if graph.has_edge(*edge):
            entry.fail(f"the edge {edge!r} stands among the edges, too")
    return pruned


def _read_places(field: Field, graph: Any, names: tuple[str, str]) -> None:
    """Store coordinates as attributes of the nodes, where the oracle reads them."""
    for entry in field.items():
        parts = entry.items()
        if len(parts) != 3:
            entry.fail(f"must be a node and two numbers, got {len(parts)} parts")
        node = parts[0].label()
        if node not in graph:
            parts[0].fail(f"{node!r} is on no edge")
        if graph.nodes[node]:
            parts[0].fail(f"the node {node!r} is listed twice")
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
    pruned = [as_json(edge) for edge in oracle.pruned if _is_storable(edge)]  # tables of measurements may list them
    return document | {"pruned": pruned} if pruned else document


def _is_storable(label: Hashable) -> bool:
    try:
        as_json(label)
    except InstanceError:
        return False
    return True


def _read_knapsack(field: Field) -> tuple[ArgmaxOracle, list[Hashable]]:
    part = field.record({"items", "weights", "capacity"}, {"pruned"})
    items, weights = _read_components(part["items"]), part["weights"].numbers()
    if len(weights) != len(items):
        part["weights"].fail(f"must be {len(items)} numbers, one per item, got {len(weights)}")
    known, heavy = set(items), dict[Hashable, float]()  # items above the capacity are no components
    for entry in part["pruned"].items() if part["pruned"].value is not None else []:
        parts = entry.items()
        if len(parts) != 2:
            entry.fail(f"must be an item and its weight, got {len(parts)} parts")
        label, weight = parts[0].label(), parts[1].number()
        if label in heavy or label in known:
            entry.fail(f"the item {label!r} is listed twice")
        if weight <= part["capacity"].number():
            entry.fail(f"{label!r} is within the capacity; move it to items")
        heavy[label] = weight
    all_weights = [*weights, *heavy.values()]
    return KnapsackOracle(all_weights, part["capacity"].number(), labels=[*items, *heavy]), items


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
    labels = _read_components(part["components"])
    rows, columns, values = _read_matrix(part["A"], len(labels))
    ends = [_read_bounds(part[name], rows, infinite) for name, infinite in (("lower", -np.inf), ("upper", np.inf))]
    bounds = [_read_bounds(part[name], len(labels), default) for name, default in (("low", 0.0), ("high", 1.0))]

    from scipy.sparse import csr_array

    indices = np.repeat(np.arange(rows), [len(row) for row in columns]), np.concatenate([[], *columns])
    matrix = csr_array((np.concatenate([[], *values]), indices), shape=(rows, len(labels)))
    gap = 0.0 if part["gap"].value is None else part["gap"].number()
    options: dict[str, Any] = {"gap": gap, "time_limit": _time_limit(part), "objective": _objective(part)}
    if part["engine"].value is not None:
        options["engine"] = part["engine"].choice("auto", "highs")
    return MilpOracle(labels, matrix, *ends, bounds=(bounds[0], bounds[1]), **options), None


def _write_milp(oracle: MilpOracle) -> dict[str, Any]:
    program = oracle._program
    A, lower, upper = program.stated
    kept = np.flatnonzero(np.diff(A.indptr)).tolist()  # rows without entries are always satisfied
    entries = [list(entry) for entry in zip(A.indices.tolist(), _plain_numbers(A.data), strict=True)]
    rows = [entries[A.indptr[i] : A.indptr[i + 1]] for i in kept]
    document = {
        "components": labels_as_json(oracle.dim, oracle.components),
        "objective": oracle.objective,
        "low": _one_or_all(program.low),
        "high": _one_or_all(program.high),
    }
    if rows:
        document |= {"lower": _plain_numbers(lower[kept]), "upper": _plain_numbers(upper[kept]), "A": rows}
    if oracle._engine_choice != "auto":
        document["engine"] = oracle._engine_choice
    return document | _time_limit_field(oracle) | ({"gap": oracle.gap} if oracle.gap else {})


def _read_cpsat(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"components", "variables", "model"}, {"objective", "time_limit"})
    labels, indices = _read_components(part["components"]), part["variables"].items()
    if len(indices) != len(labels):
        part["variables"].fail(f"must be {len(labels)} numbers, one per component, got {len(indices)}")
    model = _read_model(part["model"])
    variables = {}
    for label, index in zip(labels, indices, strict=True):
        if type(index.value) is not int or not 0 <= index.value < len(model.proto.variables):
            index.fail(f"must be the index of a variable of the model, 0 to {len(model.proto.variables) - 1}")
        variables[label] = model.get_int_var_from_proto_index(index.value)
    return CpSatOracle(model, variables, objective=_objective(part), time_limit=_time_limit(part)), None


def _write_cpsat(oracle: CpSatOracle) -> dict[str, Any]:
    document = {
        "components": labels_as_json(oracle.dim, oracle.components),
        "variables": oracle._indices,
        "objective": oracle.objective,
        "model": oracle._text.splitlines(),
    }
    return document | _time_limit_field(oracle)


def _read_product(field: Field) -> tuple[ArgmaxOracle, None]:
    part = field.record({"oracles"}, {"names"})
    oracles = [read_oracle(entry)[0] for entry in part["oracles"].items()]
    if part["names"].value is None:
        return ProductOracle(oracles), None
    names = part["names"].labels()
    if len(names) != len(oracles):
        part["names"].fail(f"must be {len(oracles)} names, one per oracle, got {len(names)}")
    return ProductOracle(dict(zip(names, oracles, strict=True))), None


def _write_product(oracle: ProductOracle) -> dict[str, Any]:
    names = {} if oracle.is_listed else {"names": as_json(tuple(oracle.oracles))}
    return names | {"oracles": [write_oracle(one) for one in oracle.oracles.values()]}


def _read_model(field: Field) -> CpModel:
    """Parse the text form of a model, a list of lines; no code in it is run."""
    try:
        return parse_model("\n".join(line.text() for line in field.items()))
    except ProgramError as cause:
        field.fail(str(cause))


def _read_components(field: Field) -> list[Hashable]:
    """Read the labels of a program's variables, or 0 .. n-1 for a number n."""
    found = field.count_or_labels()
    if _size(found) > _MAX_VARIABLES:
        field.fail(f"at most {_MAX_VARIABLES} are allowed")
    return list(range(found)) if isinstance(found, int) else found


def _read_matrix(field: Field, dim: int) -> tuple[int, list[list[int]], list[list[float]]]:
    """Read sparse rows of pairs (column, coefficient): their number, columns and coefficients."""
    columns: list[list[int]] = []
    values: list[list[float]] = []
    for row in field.items() if field.value is not None else []:
        coefficients: dict[int, float] = {}
        for entry in row.items():
            parts = entry.items()
            if len(parts) != 2:
                entry.fail(f"must be the index of a component and a coefficient, got {len(parts)} parts")
            column = parts[0].value
            if type(column) is not int or not 0 <= column < dim or column in coefficients:
                parts[0].fail(f"must be the index of a component, 0 to {dim - 1}, once in a row")
            coefficients[column] = parts[1].number()
        columns.append(list(coefficients))
        values.append(list(coefficients.values()))
    return len(columns), columns, values


def _read_bounds(field: Field, size: int, default: float) -> Array:
    """Read one number for all, or a list of numbers; `default` for null, and if the field is missing."""
    if not isinstance(field.value, list):
        return np.full(size, default if field.value is None else field.number())
    entries = field.items()
    if len(entries) != size:
        field.fail(f"must be a number, or {size} of them, got {len(entries)}")
    return np.array([default if entry.value is None else entry.number() for entry in entries])


def _plain_numbers(values: Array) -> list[Any]:
    """Convert numbers to JSON: integers without a decimal point, and None for infinity."""
    return [
        None if np.isinf(x) else int(x) if x.is_integer() and abs(x) < _MAX_EXACT_INTEGER else x
        for x in values.tolist()
    ]


def _one_or_all(values: Array) -> Any:
    """Return one integer if all values are equal, else the list of them."""
    numbers = [int(x) for x in values]
    return numbers[0] if len(set(numbers)) == 1 else numbers


def _objective(part: dict[str, Field]) -> Any:
    return "max" if part["objective"].value is None else part["objective"].choice("max", "min")


def _time_limit(part: dict[str, Field]) -> float | None:
    """Read a time limit: the default if the field is missing, None for the string "none"."""
    if part["time_limit"].value is None:
        return TIME_LIMIT
    return None if part["time_limit"].value == _NO_LIMIT else part["time_limit"].positive()


def _time_limit_field(oracle: MilpOracle | CpSatOracle) -> dict[str, Any]:
    if oracle.time_limit == TIME_LIMIT:
        return {}
    return {"time_limit": _NO_LIMIT if np.isinf(oracle.time_limit) else oracle.time_limit}


KINDS: dict[str, OracleKind] = {
    "topk": OracleKind(TopKOracle, _write_topk, _read_topk),
    "path": OracleKind(ShortestPathOracle, _write_path, _read_path),
    "matching": OracleKind(MatchingOracle, _write_matching, _read_matching),
    "explicit": OracleKind(ExplicitOracle, _write_explicit, _read_explicit),
    "tree": OracleKind(SpanningTreeOracle, _write_tree, _read_tree),
    "partition": OracleKind(PartitionOracle, _write_partition, _read_partition),
    "knapsack": OracleKind(KnapsackOracle, _write_knapsack, _read_knapsack),
    "milp": OracleKind(MilpOracle, _write_milp, _read_milp),
    "cp-sat": OracleKind(CpSatOracle, _write_cpsat, _read_cpsat),
    "product": OracleKind(ProductOracle, _write_product, _read_product),
}


def read_oracle(field: Field) -> tuple[ArgmaxOracle, list[Hashable] | None]:
    """Read an oracle, and the labels of the entries of theta in the order of the file (None: of the components)."""
    if not isinstance(field.value, dict) or "kind" not in field.value:
        field.fail('must be an object with a "kind"')
    kind = Field(field.value["kind"], f"{field.path}.kind").choice(*KINDS)
    with field.checked():
        return KINDS[kind].read(Field({k: v for k, v in field.value.items() if k != "kind"}, field.path))


def kind_of(oracle: ArgmaxOracle) -> str | None:
    """Return the name of an oracle's kind; None if it cannot be stored."""
    return next((name for name, kind in KINDS.items() if type(oracle) is kind.oracle), None)


def write_oracle(oracle: ArgmaxOracle) -> dict[str, Any]:
    """Convert an oracle to the JSON object that `read_oracle` reads."""
    name = kind_of(oracle)
    if name is not None:
        return {"kind": name, **KINDS[name].write(oracle)}
    known = ", ".join(kind.oracle.__name__ for kind in KINDS.values())
    raise InstanceError(f"oracle: a {type(oracle).__name__} cannot be stored, only {known}", "oracle")


def read_actions(field: Field, oracle: ArgmaxOracle) -> Any:
    """Read the argument `actions` of `Problem`; None if the field is missing."""
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
    """Convert actions to the JSON value that `read_actions` reads."""
    oracle = actions.oracle
    if actions.are_answers:
        return "answers"
    if isinstance(oracle, ListedActions):
        rows = [as_json(tuple(oracle.components[i] for i in np.flatnonzero(row))) for row in oracle.rows]
        return {"rows": rows, "labels": labels_as_json(None, oracle.labels)}
    if kind_of(oracle) is None:
        raise InstanceError(
            f"actions: a {type(oracle).__name__} of your own cannot be stored; list its answers as rows, "
            '{label: row}, or use actions="answers"',
            "actions",
        )
    return write_oracle(oracle)
