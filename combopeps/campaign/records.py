"""What lines say: makers of records, and the checks by which they are believed."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from combopeps.belief.scales import LARGEST_REWARD
from combopeps.campaign.seal import Record
from combopeps.campaign.status import check_stopping
from combopeps.errors import ParameterError
from combopeps.policies.ledger import Query
from combopeps.policies.registry import policy_class

_KEYS = {
    "ask": {"kind", "queries"},
    "tell": {"kind", "id", "arm", "label", "y"},
    "observe": {"kind", "arm", "label", "y"},
    "abandon": {"kind", "id"},
}
_HEADER = {"kind", "schema", "problem", "policy", "delta", "stopping", "seed", "versions"}


def ask(queries: Sequence[tuple[int, int, Any]]) -> Record:
    """Queries handed out together: id, arm and label of each."""
    return {"kind": "ask", "queries": [{"id": i, "arm": arm, "label": plain(label)} for i, arm, label in queries]}


def tell(query: Query, y: float) -> Record:
    """The result of a query."""
    return {"kind": "tell", "id": query.id, "arm": query.arm, "label": plain(query.label), "y": y}


def observe(arm: int, label: Any, y: float) -> Record:
    """A measurement that nobody asked for."""
    return {"kind": "observe", "arm": arm, "label": plain(label), "y": y}


def abandon(query: Query) -> Record:
    """A query that will never be answered."""
    return {"kind": "abandon", "id": query.id}


def plain(label: Any) -> Any:
    """A label as JSON has it: tuples are lists, and what JSON does not know is its repr."""
    if isinstance(label, tuple):
        return [plain(part) for part in label]
    if hasattr(label, "item") and not hasattr(label, "__len__"):  # a numpy scalar
        label = label.item()
    if label is None or isinstance(label, (str, int)) or (isinstance(label, float) and isfinite(label)):
        return label
    return repr(label)


def check_header(record: Record) -> None:
    """Every field of a header is there and of the right type; ValueError otherwise."""
    if record.keys() != _HEADER:
        raise ValueError(f"a header has the fields {', '.join(sorted(_HEADER))}")
    if not isinstance(record["problem"], dict) or not isinstance(record["versions"], dict):
        raise ValueError("problem and versions must be objects")
    if not isinstance(record["policy"], str) or not isinstance(record["stopping"], str):
        raise ValueError("policy and stopping must be names")
    if not whole(record["seed"]) or not isinstance(record["delta"], float):
        raise ValueError("seed must be a whole number, delta a fraction")


def check_options(header: Record) -> None:
    """What has the right type may still make no sense."""
    policy_class(header["policy"])
    if not 0 < header["delta"] < 1:
        raise ParameterError(f"delta must lie in (0, 1), got {header['delta']!r}")
    check_stopping(header["stopping"])
    if not whole(header["seed"]):
        raise ParameterError(f"seed must be a whole number below 2^53, got {header['seed']!r:.40}")


def check_record(record: Record) -> str:
    """The kind of a record whose fields are the right ones; ValueError otherwise."""
    kind = record.get("kind")
    if not isinstance(kind, str) or record.keys() != _KEYS.get(kind):
        raise ValueError(f"a line of kind {kind!r:.40} has other fields, or does not exist")
    return kind


def whole(value: Any) -> bool:
    """A non-negative integer of a size that every JSON reader understands."""
    return type(value) is int and 0 <= value < 2**53


def number(value: Any, noise_std: float) -> float:
    """A measurement; ValueError if its square would not be finite."""
    if type(value) not in (int, float) or not abs(value) <= LARGEST_REWARD * noise_std:
        raise ValueError(f"y must be a number of at most {LARGEST_REWARD:g} standard deviations of the noise")
    return float(value)
