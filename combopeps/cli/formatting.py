"""Format answers, queries, scales and pulls as text and as JSON."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import Any

import numpy as np

from combopeps.cli.output import printable
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
from combopeps.posterior.stated_values import NumberOrArray
from combopeps.problem import Problem
from combopeps.session.events import Lease
from combopeps.session.queries import Query
from combopeps.session.result import Recommendation
from combopeps.utils.formatting import mean_std_text, to_json_data
from combopeps.utils.label_format import label_text as label_text
from combopeps.viz.text_descriptions import action_oracle as action_oracle
from combopeps.viz.text_descriptions import answer_text as answer_text
from combopeps.viz.text_descriptions import difference_text as difference_text
from combopeps.viz.text_descriptions import samples_text as samples_text
from combopeps.viz.text_descriptions import size_text as size_text

_BAR_LENGTH = 30  # characters
_MAX_LABEL_LENGTH = 32


def query_text(query: Query, oracle: ArgmaxOracle | None = None, lease: Lease | None = None) -> str:
    """Return the number, label and lease of a query; of an action, also its parts, one per line.

    Parameters
    ----------
    query, lease
        The query, and its lease if there is one.
    oracle
        Oracle whose answers are the actions.
    """
    client = "" if lease is None else f"\t({_lease_text(lease)})"
    if query.action is None:
        return f"{query.id}\t{label_text(query.label)}{client}"
    parts = [f"\t  {label_text(label)}" for label in query.components]
    return "\n".join([f"{query.id}\t{answer_text(query.label, oracle)}{client}", *parts])


def _lease_text(lease: Lease) -> str:
    """Return the client and the local time at which its lease expires."""
    if lease.until is None:
        return printable(lease.client)
    try:
        until = datetime.fromtimestamp(lease.until).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # beyond the calendar
        return printable(lease.client)
    return f"{printable(lease.client)}, until {until}"


def query_json(query: Query, lease: Lease | None = None) -> dict[str, Any]:
    """Return the number and label of a query, the parts of an action, and the lease as JSON data."""
    parts = {"components": to_json_data(query.components)} if query.action is not None else {}
    lease_fields = {} if lease is None else to_json_data(lease)
    return {"id": query.id, "label": to_json_data(query.label), **parts, **lease_fields}


def actions_text(problem: Problem) -> str:
    """Return what one query measures."""
    if problem.actions is None:
        return "single arms"
    return "whole answers" if problem.actions.are_answers else printable(repr(problem.actions.oracle))


def scales_text(problem: Problem) -> str:
    """Return noise, prior and cost as text, as ranges where they differ between arms or components."""
    cost = f", cost {_scale_text(problem.cost)}" if problem.costs_differ else ""
    if problem.actions is not None:
        parts = problem.actions.part_cost
        cost = f", cost {problem.actions.cost:g} per action"
        cost += f" and {_scale_text(parts)} per part" if parts.any() else ""
    prior = f"{_scale_text(problem.prior_mean)} +- {_scale_text(problem.prior_std)}"
    if problem.prior_mean is problem.prior_std is None:
        prior = "estimated"
    return f"noise {_scale_text(problem.noise_std)}, prior {prior}{cost}"


def _scale_text(value: NumberOrArray | None) -> str:
    if value is None:
        return "estimated"
    low, high = float(np.min(value)), float(np.max(value))
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def stated_json(value: NumberOrArray | None) -> Any:
    """Return a number, a list of numbers, or None where it is estimated."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def pulls_chart(pulls: Mapping[Hashable, int], most: int = 20) -> list[str]:
    """Return a bar chart of the numbers of samples, in descending order, of at most `most` arms."""
    order = sorted((item for item in pulls.items() if item[1]), key=lambda item: -item[1])
    largest, rest = order[:most], order[most:]
    if not largest:
        return ["(nowhere yet)"]
    names = [label_text(label)[:_MAX_LABEL_LENGTH] for label, _ in largest]
    max_count = largest[0][1]
    width, digits = max(map(len, names)), len(str(max_count))
    lines = [
        f"{name:<{width}}  {count:>{digits}}  {'#' * max(1, round(_BAR_LENGTH * count / max_count))}"
        for name, (_, count) in zip(names, largest, strict=True)
    ]
    if rest:
        lines.append(f"and {sum(count for _, count in rest)} on {len(rest)} others")
    unmeasured = sum(count == 0 for count in pulls.values())
    return [*lines, f"never measured: {unmeasured} of {len(pulls)}"] if unmeasured else lines


def pulls_json(pulls: Mapping[Hashable, int]) -> list[Any]:
    """Return pairs of label and count for all arms that were measured."""
    return [[to_json_data(label), count] for label, count in pulls.items() if count]


def origin_of(instance: Instance) -> dict[str, str | None]:
    """Return the meaning of the true values (length, cost, reward or mean), and the column or attribute they are from.

    The column is None without true values, and for instance files. The dict is empty for other kinds of problems, which
    are not read from columns.
    """
    oracle = instance.oracle
    origin = instance.origin if instance.origin and instance.theta is not None else None
    if isinstance(oracle, (ShortestPathOracle, SpanningTreeOracle)):
        return {"length" if oracle.unit < 0 else "reward": origin}
    if isinstance(oracle, MilpOracle):
        return {"cost" if oracle.unit < 0 else "reward": origin}
    return {"mean": origin} if isinstance(oracle, (TopKOracle, KnapsackOracle, PartitionOracle)) else {}


def recommendation_lines(found: Recommendation, oracle: ArgmaxOracle, epsilon: float) -> list[tuple[str, str]]:
    """Return the answer, its value, the runner-up, the gap and the probability and cost of an error, with headings."""
    wrong = "wrong" if epsilon == 0 else f"worse than the best by more than {epsilon:g}"
    runner_up = answer_text(found.runner_up, oracle)
    if found.runner_up is not None:
        runner_up += f", value {mean_std_text(found.runner_up_value, found.runner_up_value_std)}"
    return [
        ("answer", answer_text(found.answer, oracle)),
        ("value", found.value_text),
        ("runner-up", runner_up),
        ("gap", found.gap_text),
        ("estimate", f"{wrong} with posterior probability {found.error_text}; expected loss {found.loss_text}"),
    ]


RECOMMENDATION_FIELDS = (
    "objective", "value", "value_std", "runner_up_value", "runner_up_value_std", "gap", "gap_std", "expected_loss",
    "loss_interval", "error_probability", "error_interval",
)  # fmt: skip


def recommendation_json(found: Recommendation) -> dict[str, Any]:
    """Return the answer, the runner-up and the numbers about them as JSON data."""
    answers = {"answer": to_json_data(found.answer), "runner_up": to_json_data(found.runner_up)}
    return answers | {name: to_json_data(getattr(found, name)) for name in RECOMMENDATION_FIELDS}
