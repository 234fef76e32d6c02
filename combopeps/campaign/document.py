"""The problem in the header of a state file: the document of an instance, without the truth."""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.belief import Arms
from combopeps.errors import ParameterError
from combopeps.instances import Instance
from combopeps.instances.schema import from_document, to_document
from combopeps.oracles.base import ArgmaxOracle
from combopeps.problem import Problem


def document_of(problem: Instance | Problem | ArgmaxOracle) -> tuple[dict[str, Any], Problem]:
    """What the header stores, and the problem as it comes back from that; refused if it is not the same."""
    if not isinstance(problem, (Instance, Problem)):
        problem = Problem(problem)
    instance = problem if isinstance(problem, Instance) else Instance("campaign", problem)
    given = instance.problem
    document = to_document(Instance(instance.name, given, None, instance.title, instance.note))
    again = problem_of(document)
    if not _alike(again.arms, given.arms):
        raise ParameterError(
            "this problem would not come back the same from a file; was its oracle made with prune=False?"
        )
    return document, again


def _alike(one: Arms, other: Arms) -> bool:
    """The same labels and rows, compared by their entries: rows of unit arms are never written out."""
    if one.labels != other.labels or one.dim != other.dim:
        return False
    if one.matrix is not None and other.matrix is not None:
        return np.array_equal(one.matrix, other.matrix)
    same = np.array_equal(one.component, other.component) and np.array_equal(one.coefficient, other.coefficient)
    return same and one.are_units == other.are_units


def problem_of(document: dict[str, Any]) -> Problem:
    """The problem of a header."""
    return from_document(document).problem
