"""Rows of intervals: rankings with their cut, groups, listed answers, and whatever has no picture of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles import ExplicitOracle, PartitionOracle, TopKOracle
from combopeps.oracles.base import Array
from combopeps.page.aims import kind_of
from combopeps.page.scale import number_text, round_ticks
from combopeps.page.seen import Seen, clipped, estimate_text
from combopeps.page.shapes import Key, Picture, Row, Tick

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
