"""Texts of answers, of their differences, and of the kind and size of a problem, for the command line and reports."""

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
    ProductOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.oracles.base import ArgmaxOracle, LogCardinality
from combopeps.problem import Problem
from combopeps.utils.formatting import sort_mixed, superscript
from combopeps.utils.label_format import label_text, printable


def answer_text(answer: Any, oracle: ArgmaxOracle | None = None, *, most: int = 40, arrow: str = "->") -> str:
    """Return an answer as text; long ones are cut in the middle.

    Routes are written with arrows, assignments pair by pair, sets and trees as sorted lists.

    Parameters
    ----------
    answer
        As `oracle.decode` returns it.
    oracle
        Needed for trees, and for integer programs (variables that are 0 are left out).
    most
        Maximal number of parts.
    arrow
        Separator of the nodes of a route.

    Examples
    --------
    >>> answer_text(["a", "b"]), answer_text({("a", "b"), ("b", "c")})
    ('a -> b', 'a - b, b - c')
    """
    if isinstance(oracle, ProductOracle) and answer is not None:
        each = max(2, most // len(oracle.oracles))
        parts = [
            f"{printable(name)}: {answer_text(one, oracle.oracles[name], most=each, arrow=arrow)}"
            for name, one in _by_question(answer).items()
        ]
        return "; ".join(parts)
    if isinstance(oracle, SpanningTreeOracle) and answer is not None:
        answer = set(answer)  # a list of edges, not a route
    if isinstance(oracle, MilpOracle) and isinstance(answer, dict):
        answer = {label: number for label, number in answer.items() if number}
    if isinstance(answer, MultiPath):
        steps = [
            f"-[{printable(key)}]-> {printable(node)}" for key, node in zip(answer.keys, answer.nodes[1:], strict=True)
        ]
        return " ".join([printable(answer.nodes[0]), *_cut(steps, most)])
    if isinstance(answer, list):
        return f" {arrow} ".join(_cut([printable(node) for node in answer], most))
    if isinstance(answer, dict):
        return ", ".join(_cut([f"{printable(i)}: {_part_text(j)}" for i, j in answer.items()], most))
    if isinstance(answer, (set, frozenset)):
        return ", ".join(_cut([label_text(item) for item in sort_mixed(answer)], most)) or "nothing"
    return label_text(answer)


def _part_text(part: Any) -> str:
    """Return a partner, a number, or the members of a group as text."""
    if isinstance(part, (set, frozenset)):
        return " + ".join(label_text(item) for item in sort_mixed(part)) or "nothing"
    return printable(part)


def difference_text(
    answer: Any, other: Any, oracle: ArgmaxOracle | None = None, *, most: int = 40, arrow: str = "->"
) -> str:
    """Return what another answer contains in place of parts of this one: stretches of a route, partners, members.

    Parameters are those of `answer_text`.

    Examples
    --------
    >>> difference_text(["a", "b", "c", "d", "e"], ["a", "b", "x", "y", "d", "e"])
    'b -> x -> y -> d instead of b -> c -> d'
    >>> difference_text({"ann": "dig", "bob": "plant"}, {"ann": "plant", "bob": "dig"})
    'ann: plant instead of dig, bob: dig instead of plant'
    >>> difference_text({1, 2, 3}, {2, 3, 4})
    '4 instead of 1'
    """
    if isinstance(oracle, ProductOracle):
        old, new = _by_question(answer), _by_question(other)
        changes = [
            f"{printable(name)}: {difference_text(old[name], new[name], oracle.oracles[name], most=most, arrow=arrow)}"
            for name in old
            if old[name] != new[name]
        ]
        return "; ".join(changes)
    if isinstance(oracle, SpanningTreeOracle):
        answer, other = set(answer), set(other)
    if isinstance(answer, (MultiPath, list)):
        differing = _differing_stretches(_steps(answer), _steps(other), most, arrow)
        stretches = [f"{new} instead of {old}" for old, new in differing]
        return "; ".join(_cut(stretches, most))
    if isinstance(answer, dict):
        changed = [(i, other[i], j) for i, j in answer.items() if other[i] != j]
        changes = [f"{printable(i)}: {_part_text(new)} instead of {_part_text(old)}" for i, new, old in changed]
        return ", ".join(_cut(changes, most))
    if isinstance(answer, (set, frozenset)):
        return f"{answer_text(other - answer, most=most)} instead of {answer_text(answer - other, most=most)}"
    return answer_text(other, most=most)


def _by_question(answer: Any) -> dict[Any, Any]:
    """Return the answers of a product by the name of the question."""
    return answer if isinstance(answer, dict) else dict(enumerate(answer))


def _steps(route: Any) -> list[tuple[Any, Any]]:
    """Return (key of the edge to the node, node) along a route; the key is None for the first node and without keys."""
    nodes, keys = route if isinstance(route, MultiPath) else (route, [None] * (len(route) - 1))
    return list(zip([None, *keys], nodes, strict=True))


def _differing_stretches(
    old: list[tuple[Any, Any]], new: list[tuple[Any, Any]], most: int, arrow: str
) -> Iterator[tuple[str, str]]:
    """Yield the stretches in which two routes differ, each from the last common node to the next one."""
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            old_stretch, new_stretch = old[max(0, i - 1) : j + 1], new[max(0, k - 1) : m + 1]
            yield _stretch_text(old_stretch, most, arrow), _stretch_text(new_stretch, most, arrow)


def _stretch_text(steps: list[tuple[Any, Any]], most: int, arrow: str) -> str:
    nodes, keys = [node for _, node in steps], [key for key, _ in steps[1:]]
    route = MultiPath(nodes, keys) if any(key is not None for key in keys) else nodes
    return answer_text(route, most=most, arrow=arrow)


def size_text(oracle: ArgmaxOracle) -> str:
    """Return |Z| as text, as a power of ten if it is large."""
    size = oracle.log_cardinality
    if size is None:
        return "unknown"
    number = f"{round(exp(size)):,}" if size < 16 else f"10^{size / log(10):.1f}"
    return number if size.exact else f"at most {number}"


def samples_text(samples: int, actions: int | None) -> str:
    """Return the number of samples, and of actions where these are measured."""
    return str(samples) if actions is None else f"{samples} readings, from {actions} action{'s' * (actions != 1)}"


def action_oracle(problem: Problem) -> ArgmaxOracle | None:
    """Return the oracle whose answers are measured as actions; None where queries are for single arms."""
    return None if problem.actions is None else problem.actions.oracle


def _cut(parts: list[str], most: int) -> list[str]:
    """Replace the middle of a long list by the number of parts that are left out."""
    half = most // 2
    return parts if len(parts) <= most else [*parts[:half], f"... {len(parts) - 2 * half} more ...", *parts[-half:]]


class Kind(NamedTuple):
    """Kind of a problem: what is sought, and the noun for one and for many components."""

    name: str
    one: str = "component"
    many: str = "components"


def kind_of(oracle: ArgmaxOracle) -> Kind:
    """Return the kind of an oracle; for custom oracles, the name of the class.

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
    """Return the numbers of components and of answers as text."""
    kind = kind_of(oracle)
    return f"{oracle.dim:,} {kind.one if oracle.dim == 1 else kind.many}{_cardinality_text(oracle.log_cardinality)}"


def _cardinality_text(size: LogCardinality | None) -> str:
    if size is None:
        return ""
    power = size / log(10)
    number = f"{round(exp(size)):,}" if power < 7 else f"{10 ** (power % 1.0):.1f} × 10{superscript(int(power))}"
    return f", {number if size.exact else f'at most {number}'} answers"


def _route_kind(oracle: Any) -> Kind:
    best = "Shortest" if oracle.objective == "min" else "Best"
    return Kind(f"{best} route from {printable(oracle.source)} to {printable(oracle.target)}", "edge", "edges")


def _tree_kind(oracle: Any) -> Kind:
    return Kind("Lightest spanning tree" if oracle.objective == "min" else "Heaviest spanning tree", "edge", "edges")


def _matching_kind(oracle: Any) -> Kind:
    best = "Best" if oracle.unit > 0 else "Cheapest"
    return Kind(f"{best} assignment of {len(oracle.left):,} to {len(oracle.right):,}", "pair", "pairs")


_KINDS: list[tuple[type[ArgmaxOracle], Any]] = [
    (TopKOracle, lambda oracle: Kind(f"The best {oracle.k:,} of {oracle.dim:,}", "item", "items")),
    (ShortestPathOracle, _route_kind),
    (SpanningTreeOracle, _tree_kind),
    (MatchingOracle, _matching_kind),
    (KnapsackOracle, lambda oracle: Kind("The best selection that fits", "item", "items")),
    (PartitionOracle, lambda oracle: Kind(f"The best of each of {len(oracle.groups):,} groups", "item", "items")),
    (MilpOracle, lambda oracle: Kind("The best solution of an integer program", "variable", "variables")),
    (CpSatOracle, lambda oracle: Kind("The best solution of a constraint model", "variable", "variables")),
    (ProductOracle, lambda oracle: Kind(f"Answers of {len(oracle.oracles):,} questions")),
    (ExplicitOracle, lambda oracle: Kind(f"The best of {len(oracle.Z):,} listed answers", "coordinate", "coordinates")),
]
