"""Cost per round against |Z|: one panel per family, LinGame's line as long as Z can be listed."""

from __future__ import annotations

from pathlib import Path

from benchmarks._store import read_csv
from combopeps.viz.canvas import new_axes, save
from combopeps.viz.curves import plot_cost

FLOOR = "one argmax and d normals"
EXPONENTS = (2, 5, 10, 30, 100, 300, 1000)


def draw(out: Path) -> None:
    """huge.png, from clock.csv."""
    rows = read_csv(out / "clock.csv")
    families = list(dict.fromkeys(row["family"] for row in rows))
    lines = max(2, -(-(len(families) + 1) // 3))  # the last panel is the legend's
    first = new_axes(10.0, 3.2 * lines)
    figure = first.figure
    figure.clear()
    panels = figure.subplots(lines, 3, sharex=True, sharey=True).ravel()
    for ax, family in zip(panels, families, strict=False):
        mine = [row for row in rows if row["family"] == family]
        plot_cost(_series(mine), end="Z can no longer be listed", ax=ax)
        handles, labels = ax.get_legend_handles_labels()
        ax.get_legend().remove()
        ax.set(xscale="log", title=family, xlabel="", ylabel="")
        ax.set_xticks(EXPONENTS, [f"$10^{{{e}}}$" for e in EXPONENTS])
        ax.set_xticks([], minor=True)
        ax.tick_params(labelbottom=True)
    for ax in panels[len(families) :]:
        ax.axis("off")
    panels[-1].legend(handles, labels, loc="center", frameon=False)
    figure.supylabel("seconds per round")
    figure.supxlabel("number of answers |Z|")
    save(first, out / "huge.png")


def _series(rows: list[dict[str, str]]) -> dict[str, tuple[list[float], list[float]]]:
    """By policy, and what the oracle and the draws alone would take."""
    found = {FLOOR: _points([row for row in rows if row["policy"] == "PEPS"], "floor_us")}
    for policy in ("TopTwo", "PEPS", "LinGame"):
        points = _points([row for row in rows if row["policy"] == policy], "us_per_round")
        if points[0]:
            found[policy] = points
    return found


def _points(rows: list[dict[str, str]], column: str) -> tuple[list[float], list[float]]:
    return [float(row["log10_Z"]) for row in rows], [1e-6 * float(row[column]) for row in rows]
