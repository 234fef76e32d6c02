"""Pictures of problems for the report page: rankings, groups, listed answers, matchings, and estimates of components.

Routes and trees are drawn by `network_figure`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles import ExplicitOracle, MatchingOracle, PartitionOracle, TopKOracle
from combopeps.oracles.base import Array
from combopeps.utils.formatting import mean_std_text
from combopeps.viz.answers import columns_shown
from combopeps.viz.network_figure import has_network_picture, network_picture
from combopeps.viz.svg import LegendEntry, Line, Node, Picture, Row, Tick, number_text, round_ticks
from combopeps.viz.text_descriptions import kind_of
from combopeps.viz.view_model import PictureData, clipped_label, clipped_node

Indices = NDArray[np.intp]
_MAX_ROWS = 40
_IN_ANSWER = LegendEntry("k-in", "in the answer")
_NOT_IN_ANSWER = LegendEntry("k-out", "not in the answer")
_IN_RUNNER_UP = LegendEntry("k-runner-up", "in the runner-up only")
_INTERVAL = LegendEntry("k-none", "line: two standard deviations either way")

# Matchings.
_ROW_HEIGHT, _TOP_MARGIN = 30, 18  # pixels
_MAX_OTHER_PAIRS = 120  # pairs that are drawn although they are in neither answer
_MAX_LABEL_LENGTH = 15  # characters
_MAX_EXTRA_WIDTH = 5.0  # of the line with the most measurements


def picture_of(data: PictureData) -> Picture:
    """Return the picture that suits the kind of the problem."""
    if isinstance(data.oracle, TopKOracle):
        return _ranking(data)
    if has_network_picture(data.oracle):
        return network_picture(data)
    if isinstance(data.oracle, MatchingOracle):
        return _matching(data)
    return _listed_answers(data) if isinstance(data.oracle, ExplicitOracle) else _components(data)


def _ranking(data: PictureData) -> Picture:
    """Rank the items of a top-k problem by their estimates, with the cut; of many items, those near the cut."""
    oracle = cast(TopKOracle, data.oracle)
    is_in = data.z != 0
    order = np.lexsort((-data.mean, ~is_in))
    start = max(0, min(oracle.k - _MAX_ROWS // 2, oracle.dim - _MAX_ROWS))
    shown = order[start : start + _MAX_ROWS]
    rows, ticks = _rows(data, shown)
    after = oracle.dim - start - len(shown)
    return Picture(
        "rows",
        f"Estimates on both sides of the cut between {oracle.k:,} in and {oracle.dim - oracle.k:,} out",
        f"The best {oracle.k:,} of {oracle.dim:,} items by their estimates, with intervals.",
        _legend(data),
        rows=rows,
        ticks=ticks,
        cut=oracle.k - start if oracle.k < oracle.dim and data.z.any() else None,
        cut_text=f"cut: the best {oracle.k:,} are above",
        before=f"and {start:,} more above" + (", in the answer" if data.z.any() else "") if start else "",
        after=f"and {after:,} more below" if after else "",
    )


def _components(data: PictureData) -> Picture:
    """List components by their estimates; of many, those of the answer and the runner-up first."""
    oracle = data.oracle
    kind = kind_of(oracle)
    groups: list[str] | None = None
    if isinstance(oracle, PartitionOracle):
        groups = [clipped_label(name) for name, members in oracle.groups.items() for _ in members]
        shown = _shown_groups(data, oracle)
    else:
        shown = _shown_components(data)
        shown = shown[np.lexsort((shown, -np.sign(oracle.unit) * data.mean[shown]))]
    rows, ticks = _rows(data, shown, groups)
    omitted = oracle.dim - len(shown)
    return Picture(
        "rows",
        f"Estimates of the {kind.many}, and which of them are in the answer",
        f"{len(shown)} of {oracle.dim:,} {kind.many} by their estimates, with intervals.",
        _legend(data),
        rows=rows,
        ticks=ticks,
        after=f"and {omitted:,} more" if omitted else "",
    )


def _listed_answers(data: PictureData) -> Picture:
    """List answers by their estimated values z @ theta, with intervals."""
    oracle = cast(ExplicitOracle, data.oracle)
    values, stds = oracle.Z @ data.mean, np.sqrt(np.maximum(0.0, data.posterior.quadratic(oracle.Z)))
    order = np.argsort(-values, kind="stable")[:_MAX_ROWS]
    equal_runner_up = np.flatnonzero((data.runner_up == oracle.Z).all(axis=1))
    runner_up = int(equal_runner_up[0]) if len(equal_runner_up) else -1
    if runner_up >= 0 and runner_up not in order:
        order = np.array([*order[:-1], runner_up])
    is_answer = (oracle.Z[order] == data.z).all(axis=1)
    *places, ticks = _axis_positions(values[order], 2.0 * stds[order])
    rows = []
    for i, row in enumerate(order):
        is_runner_up = row == runner_up
        status, note = ("in", "") if is_answer[i] else ("runner-up", "runner-up") if is_runner_up else ("out", "")
        at, low, high = (round(float(place[i]), 2) for place in places)
        text = mean_std_text(values[row], stds[row])
        rows.append(Row(clipped_label(oracle.decode(oracle.Z[row])), at, low, high, text, None, status, note))
    omitted = len(oracle.Z) - len(order)
    legend = (
        LegendEntry("k-in", "the answer"),
        LegendEntry("k-runner-up", "the runner-up"),
        LegendEntry("k-out", "others"),
        _INTERVAL,
    )
    title = f"Estimated values of the {len(oracle.Z):,} answers"
    after = f"and {omitted:,} more" if omitted else ""
    return Picture("rows", title, title, legend, rows=tuple(rows), ticks=ticks, after=after)


def _matching(data: PictureData) -> Picture:
    """Draw the answer in full, the runner-up where it differs, and other pairs as wide as they were measured often."""
    oracle = cast(MatchingOracle, data.oracle)
    pairs = cast("tuple[tuple[Hashable, Hashable], ...]", oracle.components)
    widths, is_chosen = data.relative_counts, data.z != 0
    columns = columns_shown(oracle, pairs, data.z, data.runner_up, np.nan_to_num(data.counts))
    left, right = ({node: _TOP_MARGIN + _ROW_HEIGHT * i for i, node in enumerate(column)} for column in columns)

    longest = max(len(clipped_node(name)) for column in columns for name in column)
    margin = round(5.0 + 1.8 * min(longest, _MAX_LABEL_LENGTH), 1)  # percent, for the labels

    def line(c: int, css_class: str, width: float) -> Line:
        i, j = pairs[c]
        ends = (margin + 1, left[i], 99 - margin, right[j])
        return Line(css_class, round(width, 1), ends=ends, title=data.tooltip(c))

    candidates = [c for c in _candidate_pairs(data) if pairs[c][0] in left and pairs[c][1] in right]
    rest = sorted(
        (c for c in candidates if not is_chosen[c] and not data.added[c] and widths[c] > 0), key=lambda c: -widths[c]
    )[:_MAX_OTHER_PAIRS]
    lines = [line(c, "e-seen e-soft", 0.6 + _MAX_EXTRA_WIDTH * widths[c]) for c in reversed(rest)]
    lines += [line(c, "e-in", 2.5 + _MAX_EXTRA_WIDTH * widths[c]) for c in candidates if is_chosen[c]]
    lines += [line(c, "e-runner-up", 2.5 + _MAX_EXTRA_WIDTH * widths[c]) for c in candidates if data.added[c]]
    nodes = [_node(name, y, margin, "end") for name, y in left.items()]
    nodes += [_node(name, y, 100 - margin, "start") for name, y in right.items()]
    legend = [LegendEntry("k-answer", "the answer")]
    legend += [LegendEntry("k-dashed", "the runner-up, where it differs")] if data.added.any() else []
    legend += [LegendEntry("k-seen", "other pairs: the thicker, the more often measured")] if rest else []
    hidden = len(oracle.left) - len(left)
    return Picture(
        "columns",
        "The assignment",
        f"The assignment of {len(oracle.left):,} to {len(oracle.right):,}, as lines between two columns.",
        tuple(legend),
        height=_TOP_MARGIN * 2 + _ROW_HEIGHT * (max(len(left), len(right)) - 1),
        lines=tuple(lines),
        nodes=tuple(nodes),
        after=f"and {hidden:,} more rows; shown are those of the runner-up and the most measured" if hidden else "",
    )


def _candidate_pairs(data: PictureData) -> list[int]:
    """Return pairs that may be drawn; their number is bounded, whatever the number of pairs."""
    most_measured = np.argsort(-data.relative_counts, kind="stable")[: 20 * _MAX_OTHER_PAIRS]
    found: list[int] = np.union1d(most_measured, np.flatnonzero((data.z != 0) | (data.runner_up != 0))).tolist()
    return found


def _node(name: Hashable, y: float, x: float, anchor: str) -> Node:
    full = clipped_node(name)
    short = full if len(full) <= _MAX_LABEL_LENGTH else full[: _MAX_LABEL_LENGTH - 1] + "…"
    return Node(x, y, short, "" if short == full else full, -8.0 if anchor == "end" else 8.0, 4.0, anchor)


def _legend(data: PictureData) -> tuple[LegendEntry, ...]:
    """Return the legend of rows of components."""
    status = (_IN_ANSWER, _NOT_IN_ANSWER) if data.z.any() else ()
    return (*status, *((_IN_RUNNER_UP,) if data.added.any() else ()), _INTERVAL)


def _rows(
    data: PictureData, shown: Indices, groups: Sequence[str] | None = None
) -> tuple[tuple[Row, ...], tuple[Tick, ...]]:
    """Return a row for each component that is shown, with a heading where a group begins, and the ticks of the axis."""
    mean, half_width = data.mean[shown], 2.0 * data.std[shown]
    at, low, high, ticks = _axis_positions(mean, half_width)
    is_in, added, removed = data.z != 0, data.added, data.removed
    rows, last = [], ""
    for i, c in enumerate(shown.tolist()):
        status = "in" if is_in[c] else "runner-up" if added[c] else "out"
        note = "runner-up: out" if removed[c] else "runner-up: in" if added[c] else ""
        amount = data.z[c] / data.oracle.unit  # of an integer variable; 1 for a member of a set
        if is_in[c] and amount != 1.0:
            note = f"× {number_text(amount)}" + (f", {note}" if note else "")
        heading = "" if groups is None or groups[c] == last else groups[c]
        last = heading or last
        count = None if np.isnan(data.counts[c]) else int(data.counts[c])
        text = mean_std_text(data.mean[c], data.std[c])
        places = round(float(at[i]), 2), round(float(low[i]), 2), round(float(high[i]), 2)
        rows.append(Row(clipped_label(data.oracle.components[c]), *places, text, count, status, note, heading))
    return tuple(rows), ticks


def _axis_positions(mean: Array, half_width: Array) -> tuple[Array, Array, Array, tuple[Tick, ...]]:
    """Return means and ends of intervals in percent of a common axis, and its ticks.

    The axis need not show wide intervals in full: those of components that were never measured are as wide as the
    prior, and would compress all others.
    """
    low, high = mean - half_width, mean + half_width
    is_narrow = half_width <= 3.0 * max(float(np.median(half_width)), 1e-300)
    start = min(float(mean.min()), float(low[is_narrow].min()))
    end = max(float(mean.max()), float(high[is_narrow].max()))
    margin = (end - start) * 0.03 or abs(end) or 1.0
    start, end = start - margin, end + margin

    def percent(value: Array) -> Array:
        return np.asarray(np.clip((value - start) / (end - start) * 100.0, 0.0, 100.0))

    ticks = tuple(Tick(round(float(percent(np.array(t))), 2), number_text(t)) for t in round_ticks(start, end, 4))
    return percent(mean), percent(low), percent(high), ticks


def _shown_components(data: PictureData) -> Indices:
    """Return components where answer and runner-up differ, then the answer, the most measured, and the best others."""
    dim, sign = data.oracle.dim, np.sign(data.oracle.unit)
    differs = data.added | data.removed
    order = np.lexsort((-sign * data.mean, -np.nan_to_num(data.counts), data.z == 0, ~differs))
    return np.asarray(order[: min(dim, _MAX_ROWS)])


def _shown_groups(data: PictureData, oracle: PartitionOracle) -> Indices:
    """Return the members of whole groups, at least of one.

    Groups in which answer and runner-up differ come first, then those with the most measurements.
    """
    sizes = np.array([len(members) for members in oracle.groups.values()])
    group = np.repeat(np.arange(len(sizes)), sizes)
    differing = np.bincount(group, weights=(data.added | data.removed).astype(float))
    measured = np.bincount(group, weights=np.nan_to_num(data.counts))
    order = np.lexsort((-measured, differing == 0))
    kept = order[: max(1, int((np.cumsum(sizes[order]) <= _MAX_ROWS).sum()))]
    shown = np.flatnonzero(np.isin(group, kept))
    by_estimate = np.lexsort((-np.sign(oracle.unit) * data.mean[shown], group[shown]))
    shown = shown[by_estimate]
    return np.asarray(shown[:_MAX_ROWS] if len(kept) == 1 else shown)
