"""What a problem is about, in words: for any oracle."""

from __future__ import annotations

from math import exp, log
from typing import Any, NamedTuple

from combopeps.forms import raised
from combopeps.oracles import (
    CpSatOracle,
    ExplicitOracle,
    KnapsackOracle,
    MatchingOracle,
    MilpOracle,
    PartitionOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.oracles.base import ArgmaxOracle, LogCardinality
from combopeps.tables.written import shown


class Kind(NamedTuple):
    """What is looked for, and what its components are called: one, and many."""

    name: str
    one: str = "component"
    many: str = "components"


def kind_of(oracle: ArgmaxOracle) -> Kind:
    """The kind of an oracle; of one's own, the name of its class.

    Examples
    --------
    >>> kind_of(TopKOracle(12, k=3))
    Kind(name='The best 3 of 12', one='item', many='items')
    """
    for known, describe in _KINDS:
        if isinstance(oracle, known):
            found: Kind = describe(oracle)
            return found
    return Kind(type(oracle).__name__)


def problem_text(oracle: ArgmaxOracle) -> str:
    """How many components, how many answers."""
    kind = kind_of(oracle)
    return f"{oracle.dim:,} {kind.one if oracle.dim == 1 else kind.many}{_answers_text(oracle.log_cardinality)}"


def _answers_text(size: LogCardinality | None) -> str:
    if size is None:
        return ""
    power = size / log(10)
    number = f"{round(exp(size)):,}" if power < 7 else f"{10 ** (power % 1.0):.1f} × 10{raised(int(power))}"
    return f", {number if size.exact else f'at most {number}'} answers"


def _route(oracle: Any) -> Kind:
    best = "Shortest" if oracle.objective == "min" else "Best"
    return Kind(f"{best} route from {shown(oracle.source)} to {shown(oracle.target)}", "edge", "edges")


def _tree(oracle: Any) -> Kind:
    return Kind("Lightest spanning tree" if oracle.objective == "min" else "Heaviest spanning tree", "edge", "edges")


def _matching(oracle: Any) -> Kind:
    best = "Best" if oracle.unit > 0 else "Cheapest"
    return Kind(f"{best} assignment of {len(oracle.left):,} to {len(oracle.right):,}", "pair", "pairs")


_KINDS: list[tuple[type[ArgmaxOracle], Any]] = [
    (TopKOracle, lambda oracle: Kind(f"The best {oracle.k:,} of {oracle.dim:,}", "item", "items")),
    (ShortestPathOracle, _route),
    (SpanningTreeOracle, _tree),
    (MatchingOracle, _matching),
    (KnapsackOracle, lambda oracle: Kind("The best selection that fits", "item", "items")),
    (PartitionOracle, lambda oracle: Kind(f"The best of each of {len(oracle.groups):,} groups", "item", "items")),
    (MilpOracle, lambda oracle: Kind("The best solution of an integer program", "variable", "variables")),
    (CpSatOracle, lambda oracle: Kind("The best solution of a constraint model", "variable", "variables")),
    (ExplicitOracle, lambda oracle: Kind(f"The best of {len(oracle.Z):,} listed answers", "coordinate", "coordinates")),
]
