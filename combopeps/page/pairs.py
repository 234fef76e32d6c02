"""A matching: two columns of names, and lines between partners."""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

import numpy as np

from combopeps.oracles import MatchingOracle
from combopeps.page.seen import Seen, clipped_node
from combopeps.page.shapes import Key, Line, Node, Picture
from combopeps.plotting.answers import columns_shown

_STEP, _TOP = 30, 18  # pixels
_OTHERS = 120  # lines of pairs that are in neither
_NARROW = 15  # characters of a label beside a narrow picture
_WIDEST = 5.0


def matching(seen: Seen) -> Picture:
    """The answer in full, the rival dashed where it differs, other pairs as wide as they were measured."""
    oracle = cast(MatchingOracle, seen.oracle)
    pairs = cast("tuple[tuple[Hashable, Hashable], ...]", oracle.components)
    share, chosen = seen.share, seen.z != 0
    columns = columns_shown(oracle, pairs, seen.z, seen.rival, np.nan_to_num(seen.counts))
    left, right = ({node: _TOP + _STEP * i for i, node in enumerate(column)} for column in columns)

    longest = max(len(clipped_node(name)) for column in columns for name in column)
    edge = round(5.0 + 1.8 * min(longest, _NARROW), 1)  # percent

    def line(c: int, look: str, width: float) -> Line:
        i, j = pairs[c]
        return Line(look, round(width, 1), ends=(edge + 1, left[i], 99 - edge, right[j]), title=seen.about(c))

    seen_here = [c for c in _candidates(seen) if pairs[c][0] in left and pairs[c][1] in right]
    rest = sorted(
        (c for c in seen_here if not chosen[c] and not seen.added[c] and share[c] > 0), key=lambda c: -share[c]
    )[:_OTHERS]
    lines = [line(c, "e-seen e-soft", 0.6 + _WIDEST * share[c]) for c in reversed(rest)]
    lines += [line(c, "e-in", 2.5 + _WIDEST * share[c]) for c in seen_here if chosen[c]]
    lines += [line(c, "e-rival", 2.5 + _WIDEST * share[c]) for c in seen_here if seen.added[c]]
    nodes = [_node(name, y, edge, "end") for name, y in left.items()]
    nodes += [_node(name, y, 100 - edge, "start") for name, y in right.items()]
    keys = [Key("k-answer", "the answer"), Key("k-dashed", "its rival, where it differs")]
    keys += [Key("k-seen", "other pairs: the thicker, the more often measured")] if rest else []
    hidden = len(oracle.left) - len(left)
    return Picture(
        "columns",
        "Who goes with whom",
        f"The assignment of {len(oracle.left):,} to {len(oracle.right):,}, as lines between two columns.",
        tuple(keys if seen.added.any() else [keys[0], *keys[2:]]),
        height=_TOP * 2 + _STEP * (max(len(left), len(right)) - 1),
        lines=tuple(lines),
        nodes=tuple(nodes),
        after=f"and {hidden:,} more rows; shown are those of the rival and the most measured" if hidden else "",
    )


def _candidates(seen: Seen) -> list[int]:
    """Pairs that may be drawn: few, whatever the number of pairs."""
    most = np.argsort(-seen.share, kind="stable")[: 20 * _OTHERS]
    found: list[int] = np.union1d(most, np.flatnonzero((seen.z != 0) | (seen.rival != 0))).tolist()
    return found


def _node(name: Hashable, y: float, x: float, anchor: str) -> Node:
    whole = clipped_node(name)
    short = whole if len(whole) <= _NARROW else whole[: _NARROW - 1] + "…"
    return Node(x, y, short, "" if short == whole else whole, -8.0 if anchor == "end" else 8.0, 4.0, anchor)
