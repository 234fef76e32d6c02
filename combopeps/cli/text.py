"""Answers, labels and numbers as people and JSON read them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import exp, log
from typing import Any

from combopeps.campaign.records import plain
from combopeps.cli.output import shown
from combopeps.oracles import MultiPath
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.ledger import Query
from combopeps.tables.written import label_text as label_text

_BAR = 30


def query_text(query: Query) -> str:
    """Number and label."""
    return f"{query.id}\t{label_text(query.label)}"


def query_json(query: Query) -> dict[str, Any]:
    """Number and label."""
    return {"id": query.id, "label": plain(query.label)}


def answer_text(answer: Any, most: int = 40) -> str:
    """A route by arrows, an assignment pair by pair, a set sorted; long ones are cut in the middle."""
    if isinstance(answer, MultiPath):
        steps = [f"-[{shown(key)}]-> {shown(node)}" for key, node in zip(answer.keys, answer.nodes[1:], strict=True)]
        return " ".join([shown(answer.nodes[0]), *_cut(steps, most)])
    if isinstance(answer, list):
        return " -> ".join(_cut([shown(node) for node in answer], most))
    if isinstance(answer, dict):
        return ", ".join(_cut([f"{shown(i)}: {shown(j)}" for i, j in answer.items()], most))
    if isinstance(answer, (set, frozenset)):
        return ", ".join(_cut([shown(item) for item in in_order(answer)], most))
    return label_text(answer)


def answer_json(answer: Any) -> Any:
    """A list for a route or a set, pairs for an assignment, nodes and keys with parallel edges."""
    if isinstance(answer, MultiPath):
        return {"nodes": plain(tuple(answer.nodes)), "keys": plain(tuple(answer.keys))}
    if isinstance(answer, dict):
        return [[plain(i), plain(j)] for i, j in answer.items()]
    if isinstance(answer, (set, frozenset)):
        return [plain(item) for item in in_order(answer)]
    return [plain(node) for node in answer] if isinstance(answer, list) else plain(answer)


def in_order(items: Iterable[Any]) -> list[Any]:
    """Sorted, also when numbers and strings are mixed."""
    return sorted(items, key=lambda item: (str(type(item)), item) if isinstance(item, (str, int, float)) else ("", 0))


def bars(pulls: Mapping[Hashable, int], most: int = 20) -> list[str]:
    """Where the samples went, the largest first."""
    order = sorted((item for item in pulls.items() if item[1]), key=lambda item: -item[1])
    shown, rest = order[:most], order[most:]
    if not shown:
        return ["(nowhere yet)"]
    names = [label_text(label)[:32] for label, _ in shown]
    width, digits, top = max(map(len, names)), len(str(shown[0][1])), shown[0][1]
    lines = [
        f"{name:<{width}}  {count:>{digits}}  {'#' * max(1, round(_BAR * count / top))}"
        for name, (_, count) in zip(names, shown, strict=True)
    ]
    if rest:
        lines.append(f"and {sum(count for _, count in rest)} on {len(rest)} others")
    unmeasured = sum(count == 0 for count in pulls.values())
    return [*lines, f"never measured: {unmeasured} of {len(pulls)}"] if unmeasured else lines


def pulls_json(pulls: Mapping[Hashable, int]) -> list[Any]:
    """Label and count of every arm that was measured."""
    return [[plain(label), count] for label, count in pulls.items() if count]


def size_text(oracle: ArgmaxOracle) -> str:
    """|Z|, in powers of ten when it is large."""
    size = oracle.log_cardinality
    if size is None:
        return "unknown"
    number = f"{round(exp(size)):,}" if size < 16 else f"10^{size / log(10):.1f}"
    return number if size.exact else f"at most {number}"


def probability_text(p: float) -> str:
    """Three digits, never a rounded 0 or 1 that is not one."""
    return "0" if p == 0 else f"{p:.2g}" if p < 0.995 or p == 1 else "more than 0.99"


def _cut(parts: list[str], most: int) -> list[str]:
    half = most // 2
    return parts if len(parts) <= most else [*parts[:half], f"... {len(parts) - 2 * half} more ...", *parts[-half:]]
