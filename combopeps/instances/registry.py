"""Kinds of oracles by name: the field `oracle` of an instance file."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from combopeps.errors import InstanceError
from combopeps.instances.graph_kinds import PATH, TREE
from combopeps.instances.kinds import EXPLICIT, MATCHING, PARTITION, TOPK, OracleKind
from combopeps.instances.parsing import Field
from combopeps.instances.program_kinds import CPSAT, KNAPSACK, MILP
from combopeps.oracles.base import ArgmaxOracle

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
