"""Answers, labels and numbers as people and JSON read them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from combopeps.cli.output import shown
from combopeps.io.instance import Instance
from combopeps.oracles import (
    KnapsackOracle,
    MilpOracle,
    PartitionOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.oracles.base import ArgmaxOracle
from combopeps.posterior.per_label import Stated
from combopeps.problem import Problem
from combopeps.session.leases import Lease
from combopeps.session.queries import Query
from combopeps.session.result import Recommendation
from combopeps.utils.formatting import plain
from combopeps.utils.label_format import label_text as label_text
from combopeps.viz.describe import action_oracle as action_oracle
from combopeps.viz.describe import answer_text as answer_text
from combopeps.viz.describe import difference_text as difference_text
from combopeps.viz.describe import samples_text as samples_text
from combopeps.viz.describe import size_text as size_text

_BAR = 30


def query_text(query: Query, oracle: ArgmaxOracle | None = None, lease: Lease | None = None) -> str:
    """Number, label, and who has it; an action is an answer of the oracle, and has its parts below."""
    who = "" if lease is None else f"\t({_lease_text(lease)})"
    if query.action is None:
        return f"{query.id}\t{label_text(query.label)}{who}"
    parts = [f"\t  {label_text(label)}" for label in query.components]
    return "\n".join([f"{query.id}\t{answer_text(query.label, oracle)}{who}", *parts])


def _lease_text(lease: Lease) -> str:
    """Client and local time of a lease."""
    if lease.until is None:
        return shown(lease.client)
    try:
        until = datetime.fromtimestamp(lease.until).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # beyond the calendar
        return shown(lease.client)
    return f"{shown(lease.client)}, until {until}"


def query_json(query: Query, lease: Lease | None = None) -> dict[str, Any]:
    """Number and label, the parts of an action, and who has it until when."""
    parts = {"components": plain(query.components)} if query.action is not None else {}
    who = {} if lease is None else plain(lease)
    return {"id": query.id, "label": plain(query.label), **parts, **who}


def actions_text(problem: Problem) -> str:
    """What is measured at once."""
    if problem.actions is None:
        return "single arms"
    return "whole answers" if problem.actions.are_answers else shown(repr(problem.actions.oracle))


def scales_text(problem: Problem) -> str:
    """Noise, prior and cost, each with its range where it is not the same for all."""
    cost = f", cost {_stated_text(problem.cost)}" if problem.costs_differ else ""
    if problem.actions is not None:
        parts = problem.actions.part_cost
        cost = f", cost {problem.actions.cost:g} per action"
        cost += f" and {_stated_text(parts)} per part" if parts.any() else ""
    prior = f"{_stated_text(problem.prior_mean)} +- {_stated_text(problem.prior_std)}"
    if problem.prior_mean is problem.prior_std is None:
        prior = "estimated"
    return f"noise {_stated_text(problem.noise_std)}, prior {prior}{cost}"


def _stated_text(value: Stated | None) -> str:
    if value is None:
        return "estimated"
    low, high = float(np.min(value)), float(np.max(value))
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def stated_json(value: Stated | None) -> Any:
    """A number, a list of one for each, or null where it is estimated."""
    return value.tolist() if isinstance(value, np.ndarray) else value


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


def origin_of(instance: Instance) -> dict[str, str | None]:
    """What the truth is called (a length, a reward, a mean), and which column or attribute of a file it was read from.

    None if there is no truth, or if it was in a file of ours; nothing for problems that are read cell by cell.
    """
    oracle = instance.oracle
    said = instance.origin if instance.origin and instance.theta is not None else None
    if isinstance(oracle, (ShortestPathOracle, SpanningTreeOracle)):
        return {"length" if oracle.unit < 0 else "reward": said}
    if isinstance(oracle, MilpOracle):
        return {"cost" if oracle.unit < 0 else "reward": said}
    return {"mean": said} if isinstance(oracle, (TopKOracle, KnapsackOracle, PartitionOracle)) else {}


def estimate_text(found: Recommendation, epsilon: float) -> str:
    """The error probability, and what it is the probability of."""
    wrong = "wrong" if epsilon == 0 else f"worse than the best by more than {epsilon:g}"
    return f"{wrong} with posterior probability {found.error_text}"
