"""The problem in the header of a state file: the document of an instance, without the truth."""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.errors import ParameterError
from combopeps.instances import Instance
from combopeps.instances.schema import from_document, to_document
from combopeps.oracles.base import ArgmaxOracle
from combopeps.problem import Problem


def document_of(problem: Instance | Problem | ArgmaxOracle) -> dict[str, Any]:
    """What the header stores; a problem that would not come back the same is refused."""
    instance = problem if isinstance(problem, Instance) else None
    if not isinstance(problem, Instance):
        instance = Instance("campaign", problem if isinstance(problem, Problem) else Problem(problem))
    assert instance is not None
    given = instance.problem
    document = to_document(Instance(instance.name, given, None, instance.title, instance.note))
    again = problem_of(document)
    rows = np.arange(len(given.arms))
    if again.arms.labels != given.arms.labels or not np.array_equal(again.arms.row(rows), given.arms.row(rows)):
        raise ParameterError(
            "this problem would not come back the same from a file; was its oracle made with prune=False?"
        )
    return document


def problem_of(document: dict[str, Any]) -> Problem:
    """The problem of a header."""
    return from_document(document).problem
