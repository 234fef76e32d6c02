"""Answers, probabilities and sizes as people read them, in commands and on pages.

What a problem is about, in words: for any oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from math import exp, log
from typing import Any, NamedTuple

from combopeps.oracles import (
    CpSatOracle,
    ExplicitOracle,
    KnapsackOracle,
    MatchingOracle,
    MilpOracle,
    MultiPath,
    PartitionOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.oracles.base import ArgmaxOracle, LogCardinality
from combopeps.problem import Problem
from combopeps.utils.formatting import in_order, raised
from combopeps.utils.label_format import label_text, shown


def answer_text(answer: Any, oracle: ArgmaxOracle | None = None, *, most: int = 40, arrow: str = "->") -> str:
    """A route by arrows, an assignment pair by pair, a set or a tree sorted; long ones are cut in the middle.

    Examples
    --------
    >>> answer_text(["a", "b"]), answer_text({("a", "b"), ("b", "c")})
    ('a -> b', 'a - b, b - c')
    """
    if isinstance(oracle, SpanningTreeOracle) and answer is not None:
        answer = set(answer)  # no route, though a list
    if isinstance(oracle, MilpOracle) and isinstance(answer, dict):
        answer = {label: number for label, number in answer.items() if number}
    if isinstance(answer, MultiPath):
        steps = [f"-[{shown(key)}]-> {shown(node)}" for key, node in zip(answer.keys, answer.nodes[1:], strict=True)]
        return " ".join([shown(answer.nodes[0]), *_cut(steps, most)])
    if isinstance(answer, list):
        return f" {arrow} ".join(_cut([shown(node) for node in answer], most))
    if isinstance(answer, dict):
        return ", ".join(_cut([f"{shown(i)}: {_part_text(j)}" for i, j in answer.items()], most))
    if isinstance(answer, (set, frozenset)):
        return ", ".join(_cut([label_text(item) for item in in_order(answer)], most)) or "nothing"
    return label_text(answer)


def _part_text(part: Any) -> str:
    """A partner, a number, or the members of a group."""
    if isinstance(part, (set, frozenset)):
        return " + ".join(label_text(item) for item in in_order(part)) or "nothing"
    return shown(part)


def difference_text(
    answer: Any, other: Any, oracle: ArgmaxOracle | None = None, *, most: int = 40, arrow: str = "->"
) -> str:
    """What another answer has instead of parts of this one: stretches of a route, partners, members.

    Examples
    --------
    >>> difference_text(["a", "b", "c", "d", "e"], ["a", "b", "x", "y", "d", "e"])
    'b -> x -> y -> d instead of b -> c -> d'
    >>> difference_text({"ann": "dig", "bob": "plant"}, {"ann": "plant", "bob": "dig"})
    'ann: plant instead of dig, bob: dig instead of plant'
    >>> difference_text({1, 2, 3}, {2, 3, 4})
    '4 instead of 1'
    """
    if isinstance(oracle, SpanningTreeOracle):
        answer, other = set(answer), set(other)
    if isinstance(answer, (MultiPath, list)):
        stretches = [f"{new} instead of {old}" for old, new in _detours(_steps(answer), _steps(other), most, arrow)]
        return "; ".join(_cut(stretches, most))
    if isinstance(answer, dict):
        changed = [(i, other[i], j) for i, j in answer.items() if other[i] != j]
        changes = [f"{shown(i)}: {_part_text(new)} instead of {_part_text(old)}" for i, new, old in changed]
        return ", ".join(_cut(changes, most))
    if isinstance(answer, (set, frozenset)):
        return f"{answer_text(other - answer, most=most)} instead of {answer_text(answer - other, most=most)}"
    return answer_text(other, most=most)


def _steps(route: Any) -> list[tuple[Any, Any]]:
    """Each node, with the key of the edge that leads to it; None for the first, and where there are no keys."""
    nodes, keys = route if isinstance(route, MultiPath) else (route, [None] * (len(route) - 1))
    return list(zip([None, *keys], nodes, strict=True))


def _detours(
    old: list[tuple[Any, Any]], new: list[tuple[Any, Any]], most: int, arrow: str
) -> Iterator[tuple[str, str]]:
    """Stretches in which two routes differ, from the last node that they share to the next."""
    for same, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if same != "equal":
            before, after = old[max(0, i - 1) : j + 1], new[max(0, k - 1) : m + 1]
            yield _stretch(before, most, arrow), _stretch(after, most, arrow)


def _stretch(steps: list[tuple[Any, Any]], most: int, arrow: str) -> str:
    nodes, keys = [node for _, node in steps], [key for key, _ in steps[1:]]
    route = MultiPath(nodes, keys) if any(key is not None for key in keys) else nodes
    return answer_text(route, most=most, arrow=arrow)


def size_text(oracle: ArgmaxOracle) -> str:
    """|Z|, in powers of ten when it is large."""
    size = oracle.log_cardinality
    if size is None:
        return "unknown"
    number = f"{round(exp(size)):,}" if size < 16 else f"10^{size / log(10):.1f}"
    return number if size.exact else f"at most {number}"


def samples_text(samples: int, actions: int | None) -> str:
    """How much was measured."""
    return str(samples) if actions is None else f"{samples} readings, from {actions} action{'s' * (actions != 1)}"


def asked_of(problem: Problem) -> ArgmaxOracle | None:
    """The oracle whose answers queries are for; None where they are for single arms."""
    return None if problem.actions is None else problem.actions.oracle


def _cut(parts: list[str], most: int) -> list[str]:
    half = most // 2
    return parts if len(parts) <= most else [*parts[:half], f"... {len(parts) - 2 * half} more ...", *parts[-half:]]


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
