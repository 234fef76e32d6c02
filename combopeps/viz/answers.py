"""The answer on its problem, the runner-up, and where the measurements went; rankings and assignments drawn."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from combopeps.errors import ParameterError
from combopeps.oracles import MatchingOracle, ShortestPathOracle, SpanningTreeOracle, TopKOracle
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.problem import Problem
from combopeps.session.result import Result
from combopeps.viz.canvas import ANSWER, OTHER, RIVAL, legend_below, literal, new_axes, short
from combopeps.viz.curves import plot_pulls
from combopeps.viz.maps import draw_on_graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from combopeps.session.result import Status

_NETWORKS = ShortestPathOracle, SpanningTreeOracle
_MOST_EDGES = 20_000  # without coordinates: a layout of more takes too long
_MOST_ITEMS = 30
_MOST_ROWS, _MOST_LARGE_LABELS, _MOST_OTHERS = 30, 16, 150
_WIDEST = 5.0


def plot_answer(
    oracle: ArgmaxOracle,
    z: Array | None = None,
    *,
    rival: Array | None = None,
    samples: Array | None = None,
    theta: Array | None = None,
    belief: GaussianBelief | None = None,
    pos: Mapping[Hashable, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A route or a tree on its graph, an assignment between its two sides, a ranking with its cut.

    Parameters
    ----------
    oracle
        Z. Oracles of other kinds get bars.
    z, rival
        The answer, and the runner-up, which is dashed where it differs.
    samples
        How often each component was measured: line widths.
    theta
        The truth, when nothing has been measured yet.
    belief
        For a ranking: posterior means, and intervals of two standard deviations.
    pos
        For a route or a tree: a dict from nodes to their coordinates (x, y), degrees of longitude and latitude
        included. By default those that the oracle found at its graph's nodes (`oracle.pos`), and a layout where there
        are none.
    ax
        Where to draw; new axes by default.

    Examples
    --------
    >>> from combopeps import load_instance
    >>> town = load_instance("town")
    >>> ax = plot_answer(town.oracle, town.oracle.argmax(town.theta))
    >>> len(ax.patches) >= town.oracle.dim
    True
    """
    ax = new_axes() if ax is None else ax
    if pos is not None and not isinstance(oracle, _NETWORKS):
        raise ParameterError(f"pos places the nodes of a network, and {oracle!r} has none; leave it out")
    blank = np.zeros(oracle.dim)
    answer = blank if z is None else z
    other = blank if rival is None else rival
    counts = blank if samples is None else np.asarray(samples, dtype=np.float64)
    if isinstance(oracle, TopKOracle):
        return _draw_ranking(oracle, answer, belief, theta, counts, ax)
    if isinstance(oracle, _NETWORKS) and (oracle.dim <= _MOST_EDGES or pos is not None or oracle.pos):
        return draw_on_graph(oracle, answer, other, counts, ax, pos)
    if isinstance(oracle, MatchingOracle):
        return _draw_matching(oracle, answer, other, counts, ax)
    ax.set_title(f"best: {short(oracle.decode(z))}" if z is not None else literal(repr(oracle)), fontsize=10)
    if samples is None and theta is not None:
        at = np.arange(min(oracle.dim, 100))
        ax.bar(at, theta[at], color=ANSWER)
        ax.set(xlabel="component", ylabel="theta")
        return ax
    return plot_pulls({label: int(n) for label, n in zip(oracle.components, counts, strict=True)}, ax=ax)


def component_samples(arms: Arms, pulls: Iterable[int]) -> Array:
    """How often each component was measured, from the pulls of unit arms; zeros for others."""
    counts = np.zeros(arms.dim)
    if arms.are_units:
        np.add.at(counts, arms.component, list(pulls))
    return counts


def plot_result(result: Result, *, pos: Mapping[Hashable, Any] | None = None, ax: Axes | None = None) -> Axes:
    """What `identify` found; `pos` as for `plot_answer`.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> noise = np.random.default_rng(0)
    >>> result = identify(TopKOracle(["a", "b", "c"], k=1), lambda x: "cab".index(x) + noise.normal())
    >>> plot_result(result).get_title().startswith("the best 1 of 3 after")
    True
    """
    return plot_measured(result.session.problem, result, result.belief, pos=pos, ax=ax)


def plot_measured(
    problem: Problem,
    found: Result | Status,
    belief: GaussianBelief,
    *,
    pos: Mapping[Hashable, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The answer of a run or a campaign; of arms that measure no single components, bars."""
    oracle, arms = problem.oracle, problem.arms
    if not arms.are_units and not isinstance(oracle, TopKOracle):
        return plot_pulls(found.pulls, ax=ax)
    rival = None if found.runner_up is None else oracle.encode(found.runner_up)
    samples = component_samples(arms, found.pulls.values())
    return plot_answer(oracle, found.z, rival=rival, samples=samples, belief=belief, pos=pos, ax=ax)


def _draw_ranking(
    oracle: TopKOracle, z: Array, belief: GaussianBelief | None, theta: Array | None, samples: Array, ax: Axes
) -> Axes:
    """Posterior means with intervals of two standard deviations, or the truth; only items near the cut if many.

    The cut comes after the k-th.
    """
    if belief is not None:
        mean, width = belief.theta_hat[0], 2.0 * belief.std[0]
    else:
        mean, width = (np.zeros(oracle.dim) if theta is None else theta), np.zeros(oracle.dim)
    order = np.lexsort((-mean, z == 0))
    start = max(0, min(oracle.k - _MOST_ITEMS // 2, oracle.dim - _MOST_ITEMS))
    shown = order[start : start + _MOST_ITEMS]
    at = np.arange(start, start + len(shown)) + 1
    for inside, colour, marker in ((True, ANSWER, "o"), (False, OTHER, "s")):
        pick = (z[shown] != 0) == inside
        ax.errorbar(
            mean[shown][pick], at[pick], xerr=width[shown][pick], fmt=marker, color=colour, markersize=4, capsize=2,
            label="chosen" if inside else "not chosen",
        )  # fmt: skip
    if z.any():
        ax.axhline(oracle.k + 0.5, color=RIVAL, linestyle="--", linewidth=2.0, label=f"cut at k = {oracle.k}")
    ax.set_yticks(at, [short(oracle.components[i]) for i in shown], fontsize=9 if len(shown) <= 20 else 7)
    ax.set_ylim(at[-1] + 0.7, at[0] - 0.7)
    ax.set_xlabel("posterior mean, with two standard deviations" if belief is not None else "true mean")
    total = f" after {int(samples.sum()):,} samples" if samples.any() else ""
    some = "" if len(shown) == oracle.dim else f", ranks {at[0]} to {at[-1]}"
    ax.set_title(f"the best {oracle.k} of {oracle.dim}{total}{some}", fontsize=10, pad=22)
    ax.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=3)  # never on the data
    ax.grid(axis="x", alpha=0.3)
    return ax


def _draw_matching(oracle: MatchingOracle, z: Array, rival: Array, samples: Array, ax: Axes) -> Axes:
    """The answer in full, the runner-up dashed where it differs, other pairs as thick as they were measured."""
    from matplotlib.collections import LineCollection

    pairs = cast("tuple[tuple[Hashable, Hashable], ...]", oracle.components)
    columns = columns_shown(oracle, pairs, z, rival, samples)
    rows = max(map(len, columns))
    left, right = ({node: -(i + 0.5) / rows for i, node in enumerate(column)} for column in columns)
    seen = np.fromiter((i in left and j in right for i, j in pairs), bool, len(pairs))
    lines: Any = np.array([[(0.0, left[i]), (1.0, right[j])] for (i, j), see in zip(pairs, seen, strict=True) if see])
    share, chosen = samples[seen] / max(1.0, samples.max()), z[seen] != 0
    differs = (rival[seen] != 0) & ~chosen
    rest = np.zeros(len(lines), dtype=bool)
    rest[np.argsort(np.where(chosen, -1.0, share))[::-1][:_MOST_OTHERS]] = True  # more would fill the picture
    rest &= ~chosen
    widest = _WIDEST * min(1.0, _MOST_LARGE_LABELS / rows)
    faint = 0.15 + 0.6 * share[rest]
    ax.add_collection(LineCollection(lines[rest], colors=OTHER, linewidths=0.3 + widest * share[rest], alpha=faint))
    ax.add_collection(LineCollection(lines[chosen], colors=ANSWER, linewidths=1.5 + widest * share[chosen]))
    ax.add_collection(LineCollection(lines[differs], colors=RIVAL, linewidths=2.0, linestyles="--"))
    size = 9 if rows <= _MOST_LARGE_LABELS else 7
    for x, column, align, away in ((0.0, left, "right", -6), (1.0, right, "left", 6)):
        ax.plot([x] * len(column), list(column.values()), "o", color="black", markersize=3)
        for node, y in column.items():
            ax.annotate(
                short(node), (x, y), (away, 0), textcoords="offset points", ha=align, va="center", fontsize=size
            )
    ax.set(xlim=(-0.35, 1.35), ylim=(-1.02, 0.02))
    ax.set_axis_off()
    keys = (ANSWER, "-", "answer", chosen), (RIVAL, "--", "runner-up", differs), (OTHER, "-", "other pairs", rest)
    legend_below(ax, *keys)
    total = f": width = samples, {int(samples.sum()):,} in all" if samples.any() else ""
    some = "" if len(left) == len(oracle.left) else f"\n{len(left)} rows, the runner-up's and the most measured"
    ax.set_title(f"{len(oracle.left)} x {len(oracle.right)} assignment{total}{some}", fontsize=10)
    return ax


def columns_shown(
    oracle: MatchingOracle, pairs: tuple[tuple[Hashable, Hashable], ...], z: Array, rival: Array, samples: Array
) -> tuple[list[Hashable], list[Hashable]]:
    """The left nodes that are shown, and the right ones: first their partners, in the same order, then others."""
    interest = dict.fromkeys(oracle.left, 0.0)
    for c in np.flatnonzero((rival != z) | (samples > 0)):
        interest[pairs[c][0]] += samples[c] + (1e12 if rival[c] != z[c] else 0.0)
    shown = set(sorted(interest, key=lambda node: -interest[node])[:_MOST_ROWS])
    left = [node for node in oracle.left if node in shown]
    partner = {pairs[c][0]: pairs[c][1] for c in np.flatnonzero(z)}
    level = [partner[node] for node in left if node in partner]
    instead = [pairs[c][1] for c in np.flatnonzero(rival) if pairs[c][0] in shown]
    right = dict.fromkeys([*level, *instead, *(j for i, j in pairs if i in shown), *oracle.right])
    return left, list(right)[:_MOST_ROWS]
