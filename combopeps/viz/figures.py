"""Rows of intervals: rankings with their cut, groups, listed answers, and whatever has no picture of its own.

A matching: two columns of names, and lines between partners.

The picture that suits a problem.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles import ExplicitOracle, MatchingOracle, PartitionOracle, TopKOracle
from combopeps.oracles.base import Array
from combopeps.viz.answers import columns_shown
from combopeps.viz.describe import kind_of
from combopeps.viz.network_figure import has_picture, network
from combopeps.viz.svg import Key, Line, Node, Picture, Row, Tick, number_text, round_ticks
from combopeps.viz.view_model import Seen, clipped, clipped_node, estimate_text

MOST = 40  # rows
_ANSWER, _RIVAL = Key("k-in", "in the answer"), Key("k-rival", "not in it; the rival would take it in")
_OUT, _SPREAD = Key("k-out", "not in the answer"), "line: two standard deviations either way"
Numbers = NDArray[np.intp]


def ranking(seen: Seen) -> Picture:
    """The items of a top-k problem by their estimates, and the cut between in and out; those near it, if many."""
    oracle = cast(TopKOracle, seen.oracle)
    inside = seen.z != 0
    order = np.lexsort((-seen.mean, ~inside))
    start = max(0, min(oracle.k - MOST // 2, oracle.dim - MOST))
    shown = order[start : start + MOST]
    rows, ticks = _rows(seen, shown)
    after = oracle.dim - start - len(shown)
    return Picture(
        "rows",
        f"Estimates on both sides of the cut between {oracle.k:,} in and {oracle.dim - oracle.k:,} out",
        f"The best {oracle.k:,} of {oracle.dim:,} items by their estimates, with intervals.",
        _legend(seen),
        rows=rows,
        ticks=ticks,
        cut=oracle.k - start if oracle.k < oracle.dim and seen.z.any() else None,
        cut_text=f"cut: the best {oracle.k:,} are above",
        before=f"and {start:,} more above" + (", in the answer" if seen.z.any() else "") if start else "",
        after=f"and {after:,} more below" if after else "",
    )


def components(seen: Seen) -> Picture:
    """The components by their estimates, those of the answer and the rival first if there are too many."""
    oracle = seen.oracle
    kind = kind_of(oracle)
    groups: list[str] | None = None
    if isinstance(oracle, PartitionOracle):
        groups = [clipped(name) for name, members in oracle.groups.items() for _ in members]
        shown = _whole_groups(seen, oracle)
    else:
        shown = _most_interesting(seen)
        shown = shown[np.lexsort((shown, -np.sign(oracle.unit) * seen.mean[shown]))]
    rows, ticks = _rows(seen, shown, groups)
    left = oracle.dim - len(shown)
    return Picture(
        "rows",
        f"Estimates of the {kind.many}, and which of them are in the answer",
        f"{len(shown)} of {oracle.dim:,} {kind.many} by their estimates, with intervals.",
        _legend(seen),
        rows=rows,
        ticks=ticks,
        after=f"and {left:,} more" if left else "",
    )


def listed(seen: Seen) -> Picture:
    """The values of listed answers: z @ theta, with intervals, the best first."""
    oracle = cast(ExplicitOracle, seen.oracle)
    values, widths = oracle.Z @ seen.mean, np.sqrt(np.maximum(0.0, seen.belief.quadratic(oracle.Z)))
    order = np.argsort(-values, kind="stable")[:MOST]
    rival = int(np.flatnonzero((seen.rival == oracle.Z).all(axis=1))[0]) if _is_row(oracle, seen.rival) else -1
    if rival >= 0 and rival not in order:
        order = np.array([*order[:-1], rival])
    best = (oracle.Z[order] == seen.z).all(axis=1)
    place = _places(values[order], 2.0 * widths[order])
    rows = []
    for i, row in enumerate(order):
        look, note = ("in", "") if best[i] else ("rival", "its rival") if row == rival else ("out", "")
        at = [round(float(part[i]), 2) for part in place[:3]]
        text = estimate_text(values[row], widths[row])
        rows.append(Row(clipped(oracle.decode(oracle.Z[row])), at[0], at[1], at[2], text, None, look, note))
    left = len(oracle.Z) - len(order)
    keys = (Key("k-in", "the answer"), Key("k-rival", "its rival"), Key("k-out", "others"), Key("k-none", _SPREAD))
    title = f"What each of the {len(oracle.Z):,} answers is worth, as far as is known"
    after = f"and {left:,} more" if left else ""
    return Picture("rows", title, title, keys, rows=tuple(rows), ticks=place[3], after=after)


def _legend(seen: Seen) -> tuple[Key, ...]:
    known = [_ANSWER, _OUT] if seen.z.any() else []
    return (*known, *([_RIVAL] if seen.added.any() else []), Key("k-none", _SPREAD))


def _is_row(oracle: ExplicitOracle, z: Array) -> bool:
    return bool((z == oracle.Z).all(axis=1).any())


def _rows(seen: Seen, shown: Numbers, groups: Sequence[str] | None = None) -> tuple[tuple[Row, ...], tuple[Tick, ...]]:
    mean, width = seen.mean[shown], 2.0 * seen.std[shown]
    at, low, high, ticks = _places(mean, width)
    inside, added, dropped = seen.z != 0, seen.added, seen.dropped
    rows, last = [], ""
    for i, c in enumerate(shown.tolist()):
        look = "in" if inside[c] else "rival" if added[c] else "out"
        note = "rival: out" if dropped[c] else "rival: in" if added[c] else ""
        amount = seen.z[c] / seen.oracle.unit
        if inside[c] and amount != 1.0:
            note = f"× {number_text(amount)}" + (f", {note}" if note else "")
        heading = "" if groups is None or groups[c] == last else groups[c]
        last = heading or last
        count = None if np.isnan(seen.counts[c]) else int(seen.counts[c])
        text = estimate_text(seen.mean[c], seen.std[c])
        places = round(float(at[i]), 2), round(float(low[i]), 2), round(float(high[i]), 2)
        rows.append(Row(clipped(seen.oracle.components[c]), *places, text, count, look, note, heading))
    return tuple(rows), ticks


def _places(mean: Array, width: Array) -> tuple[Array, Array, Array, tuple[Tick, ...]]:
    """Middles and ends in percent of an axis that fits what matters, and its ticks.

    What was never measured is as wide as the prior: the axis need not show all of that.
    """
    low, high = mean - width, mean + width
    narrow = width <= 3.0 * max(float(np.median(width)), 1e-300)
    start = min(float(mean.min()), float(low[narrow].min()))
    end = max(float(mean.max()), float(high[narrow].max()))
    room = (end - start) * 0.03 or abs(end) or 1.0
    start, end = start - room, end + room

    def place(value: Array) -> Array:
        return np.asarray(np.clip((value - start) / (end - start) * 100.0, 0.0, 100.0))

    ticks = tuple(Tick(round(float(place(np.array(t))), 2), number_text(t)) for t in round_ticks(start, end, 4))
    return place(mean), place(low), place(high), ticks


def _most_interesting(seen: Seen) -> Numbers:
    """The answer and its rival, then what was measured most, then the best of the rest."""
    dim, sign = seen.oracle.dim, np.sign(seen.oracle.unit)
    differs = seen.added | seen.dropped
    order = np.lexsort((-sign * seen.mean, -np.nan_to_num(seen.counts), seen.z == 0, ~differs))
    return np.asarray(order[: min(dim, MOST)])


def _whole_groups(seen: Seen, oracle: PartitionOracle) -> Numbers:
    """Groups with all their members, those that are contested or measured most first; at least one."""
    sizes = np.array([len(members) for members in oracle.groups.values()])
    group = np.repeat(np.arange(len(sizes)), sizes)
    contested = np.bincount(group, weights=(seen.added | seen.dropped).astype(float))
    measured = np.bincount(group, weights=np.nan_to_num(seen.counts))
    order = np.lexsort((-measured, contested == 0))
    kept = order[: max(1, int((np.cumsum(sizes[order]) <= MOST).sum()))]
    shown = np.flatnonzero(np.isin(group, kept))
    by_estimate = np.lexsort((-np.sign(oracle.unit) * seen.mean[shown], group[shown]))
    shown = shown[by_estimate]
    return np.asarray(shown[:MOST] if len(kept) == 1 else shown)


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


def picture_of(seen: Seen) -> Picture:
    """A network, a matching, a ranking, listed answers; anything else by its components."""
    if isinstance(seen.oracle, TopKOracle):
        return ranking(seen)
    if has_picture(seen.oracle):
        return network(seen)
    if isinstance(seen.oracle, MatchingOracle):
        return matching(seen)
    return listed(seen) if isinstance(seen.oracle, ExplicitOracle) else components(seen)
