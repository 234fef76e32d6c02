"""The field `actions` of an instance file, and of the header of a campaign: what is measured at once.

"answers"                                             whole answers
{"rows": [["a", "b"], ["c"]], "labels": ["x", "y"]}   listed actions, each by the components that it shows
{"kind": "topk", ...}                                 another set of answers, as the field `oracle` has it
"""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.actions import Actions, ListedActions
from combopeps.errors import InstanceError
from combopeps.instances.kinds import as_json, names_or
from combopeps.instances.parsing import Field
from combopeps.instances.registry import kind_of, read_oracle, write_oracle
from combopeps.oracles.base import ArgmaxOracle


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
        return {"rows": shown, "labels": names_or(None, oracle.labels)}
    if kind_of(oracle) is None:
        raise InstanceError(
            f"actions: a {type(oracle).__name__} of your own cannot be stored; list its answers as rows, "
            "{label: row}, or let answers themselves be the actions",
            "actions",
        )
    return write_oracle(oracle)
