"""Plot answers on their problem, with the runner-up and the numbers of samples: routes, trees, rankings, matchings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from combopeps.errors import ParameterError
from combopeps.oracles import MatchingOracle, ShortestPathOracle, SpanningTreeOracle, TopKOracle
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.problem import Problem
from combopeps.session.result import Result
from combopeps.viz.canvas import ANSWER, OTHER, RUNNER_UP, legend_below, literal, new_axes, short
from combopeps.viz.curves import plot_pulls
from combopeps.viz.graph_layout import MAX_LAYOUT_EDGES
from combopeps.viz.graph_plots import draw_on_graph

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from combopeps.session.result import Status

_NETWORKS = ShortestPathOracle, SpanningTreeOracle
_MAX_ITEMS = 30  # of a ranking
_MAX_BARS = 100  # components of theta
_MAX_ROWS, _MAX_OTHER_PAIRS = 30, 150  # of a matching
_MAX_LARGE_LABELS = 16  # rows of a matching up to which labels and lines have their full size
_MAX_EXTRA_WIDTH = 5.0  # of the pair with the most samples


def plot_answer(
    oracle: ArgmaxOracle,
    z: Array | None = None,
    *,
    rival: Array | None = None,
    samples: Array | None = None,
    theta: Array | None = None,
    posterior: GaussianPosterior | None = None,
    pos: Mapping[Hashable, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a route or a tree on its graph, an assignment between two columns, or a ranking with its cut.

    Parameters
    ----------
    oracle
        Oracle of the set Z. For oracles of other kinds, bars are drawn.
    z, rival
        Vectors of the answer, and of the runner-up, which is dashed where it differs.
    samples
        Numbers of samples of the components, (d,): they determine line widths.
    theta
        True parameter, drawn as long as there are no samples.
    posterior
        Posterior; for a ranking, its means and intervals of two standard deviations are drawn.
    pos
        For a route or a tree: a dict from nodes to their coordinates (x, y), which may be degrees of longitude and
        latitude. By default those of the graph of the oracle (`oracle.pos`), else a layout.
    ax
        Axes to draw on; new ones by default.

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
    zeros = np.zeros(oracle.dim)
    answer = zeros if z is None else z
    runner_up = zeros if rival is None else rival
    counts = zeros if samples is None else np.asarray(samples, dtype=np.float64)
    if isinstance(oracle, TopKOracle):
        return _draw_ranking(oracle, answer, posterior, theta, counts, ax)
    if isinstance(oracle, _NETWORKS) and (oracle.dim <= MAX_LAYOUT_EDGES or pos is not None or oracle.pos):
        return draw_on_graph(oracle, answer, runner_up, counts, ax, pos)
    if isinstance(oracle, MatchingOracle):
        return _draw_matching(oracle, answer, runner_up, counts, ax)
    ax.set_title(f"best: {short(oracle.decode(z))}" if z is not None else literal(repr(oracle)), fontsize=10)
    if samples is None and theta is not None:
        at = np.arange(min(oracle.dim, _MAX_BARS))
        ax.bar(at, theta[at], color=ANSWER)
        ax.set(xlabel="component", ylabel="theta")
        return ax
    return plot_pulls({label: int(n) for label, n in zip(oracle.components, counts, strict=True)}, ax=ax)


def component_samples(arms: Arms, pulls: Iterable[int]) -> Array:
    """Return the number of samples of each component, (d,), if all arms are unit vectors; else zeros.

    Parameters
    ----------
    arms
        Arms of the problem.
    pulls
        Number of samples of each arm.
    """
    counts = np.zeros(arms.dim)
    if arms.are_units:
        np.add.at(counts, arms.component, list(pulls))
    return counts


def plot_result(result: Result, *, pos: Mapping[Hashable, Any] | None = None, ax: Axes | None = None) -> Axes:
    """Draw the result of `identify`.

    Parameters
    ----------
    result
        The result.
    pos, ax
        As for `plot_answer`.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> noise = np.random.default_rng(0)
    >>> result = identify(TopKOracle(["a", "b", "c"], k=1), lambda x: "cab".index(x) + noise.normal())
    >>> plot_result(result).get_title().startswith("the best 1 of 3 after")
    True
    """
    return plot_measured(result.session.problem, result, result.posterior, pos=pos, ax=ax)


def plot_measured(
    problem: Problem,
    found: Result | Status,
    posterior: GaussianPosterior,
    *,
    pos: Mapping[Hashable, Any] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the answer of a run or a campaign; the pulls as bars where arms are not single components."""
    oracle, arms = problem.oracle, problem.arms
    if not arms.are_units and not isinstance(oracle, TopKOracle):
        return plot_pulls(found.pulls, ax=ax)
    runner_up = None if found.runner_up is None else oracle.encode(found.runner_up)
    samples = component_samples(arms, found.pulls.values())
    return plot_answer(oracle, found.z, rival=runner_up, samples=samples, posterior=posterior, pos=pos, ax=ax)


def _draw_ranking(
    oracle: TopKOracle, z: Array, posterior: GaussianPosterior | None, theta: Array | None, samples: Array, ax: Axes
) -> Axes:
    """Draw posterior means with intervals of two standard deviations, or the truth, and the cut after the k-th item.

    Of many items, only those near the cut are shown.
    """
    if posterior is not None:
        mean, half_width = posterior.theta_hat[0], 2.0 * posterior.std[0]
    else:
        mean, half_width = (np.zeros(oracle.dim) if theta is None else theta), np.zeros(oracle.dim)
    order = np.lexsort((-mean, z == 0))
    start = max(0, min(oracle.k - _MAX_ITEMS // 2, oracle.dim - _MAX_ITEMS))
    shown = order[start : start + _MAX_ITEMS]
    at = np.arange(start, start + len(shown)) + 1
    for is_chosen, colour, marker in ((True, ANSWER, "o"), (False, OTHER, "s")):
        pick = (z[shown] != 0) == is_chosen
        ax.errorbar(
            mean[shown][pick], at[pick], xerr=half_width[shown][pick], fmt=marker, color=colour, markersize=4,
            capsize=2, label="chosen" if is_chosen else "not chosen",
        )  # fmt: skip
    if z.any():
        ax.axhline(oracle.k + 0.5, color=RUNNER_UP, linestyle="--", linewidth=2.0, label=f"cut at k = {oracle.k}")
    ax.set_yticks(at, [short(oracle.components[i]) for i in shown], fontsize=9 if len(shown) <= 20 else 7)
    ax.set_ylim(at[-1] + 0.7, at[0] - 0.7)
    ax.set_xlabel("posterior mean, with two standard deviations" if posterior is not None else "true mean")
    total = f" after {int(samples.sum()):,} samples" if samples.any() else ""
    ranks = "" if len(shown) == oracle.dim else f", ranks {at[0]} to {at[-1]}"
    ax.set_title(f"the best {oracle.k} of {oracle.dim}{total}{ranks}", fontsize=10, pad=22)
    # Above the axes, where it cannot cover data.
    ax.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=3)
    ax.grid(axis="x", alpha=0.3)
    return ax


def _draw_matching(oracle: MatchingOracle, z: Array, runner_up: Array, samples: Array, ax: Axes) -> Axes:
    """Draw the answer in full, the runner-up where it differs, and other pairs as wide as they were measured often."""
    from matplotlib.collections import LineCollection

    pairs = cast("tuple[tuple[Hashable, Hashable], ...]", oracle.components)
    columns = columns_shown(oracle, pairs, z, runner_up, samples)
    n_rows = max(map(len, columns))
    left, right = ({node: -(i + 0.5) / n_rows for i, node in enumerate(column)} for column in columns)
    is_shown = np.fromiter((i in left and j in right for i, j in pairs), bool, len(pairs))
    lines: Any = np.array(
        [[(0.0, left[i]), (1.0, right[j])] for (i, j), shown in zip(pairs, is_shown, strict=True) if shown]
    )
    share, chosen = samples[is_shown] / max(1.0, samples.max()), z[is_shown] != 0
    differs = (runner_up[is_shown] != 0) & ~chosen
    rest = np.zeros(len(lines), dtype=bool)
    rest[np.argsort(np.where(chosen, -1.0, share))[::-1][:_MAX_OTHER_PAIRS]] = True  # more would fill the picture
    rest &= ~chosen
    extra = _MAX_EXTRA_WIDTH * min(1.0, _MAX_LARGE_LABELS / n_rows)
    alpha = 0.15 + 0.6 * share[rest]
    ax.add_collection(LineCollection(lines[rest], colors=OTHER, linewidths=0.3 + extra * share[rest], alpha=alpha))
    ax.add_collection(LineCollection(lines[chosen], colors=ANSWER, linewidths=1.5 + extra * share[chosen]))
    ax.add_collection(LineCollection(lines[differs], colors=RUNNER_UP, linewidths=2.0, linestyles="--"))
    size = 9 if n_rows <= _MAX_LARGE_LABELS else 7
    for x, column, align, offset in ((0.0, left, "right", -6), (1.0, right, "left", 6)):
        ax.plot([x] * len(column), list(column.values()), "o", color="black", markersize=3)
        for node, y in column.items():
            ax.annotate(
                short(node), (x, y), (offset, 0), textcoords="offset points", ha=align, va="center", fontsize=size
            )
    ax.set(xlim=(-0.35, 1.35), ylim=(-1.02, 0.02))
    ax.set_axis_off()
    entries = (
        (ANSWER, "-", "answer", chosen),
        (RUNNER_UP, "--", "runner-up", differs),
        (OTHER, "-", "other pairs", rest),
    )
    legend_below(ax, *entries)
    total = f": width = samples, {int(samples.sum()):,} in all" if samples.any() else ""
    part = "" if len(left) == len(oracle.left) else f"\n{len(left)} rows, the runner-up's and the most measured"
    ax.set_title(f"{len(oracle.left)} x {len(oracle.right)} assignment{total}{part}", fontsize=10)
    return ax


def columns_shown(
    oracle: MatchingOracle, pairs: tuple[tuple[Hashable, Hashable], ...], z: Array, runner_up: Array, samples: Array
) -> tuple[list[Hashable], list[Hashable]]:
    """Return the left and right nodes of a matching to show, each in their order from top to bottom.

    Left nodes whose partners differ in the runner-up come first, then the most measured. On the right are their
    partners, in the same order, so that lines of the answer are level, then other nodes.
    """
    priority = dict.fromkeys(oracle.left, 0.0)
    for c in np.flatnonzero((runner_up != z) | (samples > 0)):
        priority[pairs[c][0]] += samples[c] + (1e12 if runner_up[c] != z[c] else 0.0)  # more than any count
    shown = set(sorted(priority, key=lambda node: -priority[node])[:_MAX_ROWS])
    left = [node for node in oracle.left if node in shown]
    partner = {pairs[c][0]: pairs[c][1] for c in np.flatnonzero(z)}
    partners = [partner[node] for node in left if node in partner]
    others = [pairs[c][1] for c in np.flatnonzero(runner_up) if pairs[c][0] in shown]
    right = dict.fromkeys([*partners, *others, *(j for i, j in pairs if i in shown), *oracle.right])
    return left, list(right)[:_MAX_ROWS]
