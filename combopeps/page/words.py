"""Answers, probabilities and sizes as people read them, in commands and on pages."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from math import exp, log
from typing import Any

from combopeps.forms import in_order
from combopeps.oracles import MilpOracle, MultiPath, SpanningTreeOracle
from combopeps.oracles.base import ArgmaxOracle
from combopeps.problem import Problem
from combopeps.tables.written import label_text, shown


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
