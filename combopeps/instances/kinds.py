"""Kinds of oracles in instance files and in the headers of campaigns: how each is written, and read back.

Those on graphs are in `graph_kinds.py`, programs with constraints in `program_kinds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

import numpy as np

from combopeps.errors import InstanceError
from combopeps.instances.parsing import MOST, Field
from combopeps.oracles import ArgmaxOracle, ExplicitOracle, MatchingOracle, PartitionOracle, TopKOracle

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
