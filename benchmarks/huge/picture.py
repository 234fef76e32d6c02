"""Cost per round against |Z|: one panel per family, LinGame's line as long as Z can be listed."""

from __future__ import annotations

from pathlib import Path

from benchmarks._store import read_csv
from combopeps.plotting.canvas import ANSWER, CYCLE, OTHER, RIVAL, new_axes, save

STYLES = {"TopTwo": (RIVAL, "s", "-"), "PEPS": (ANSWER, "o", "-"), "LinGame": (CYCLE[2], "^", "-.")}
FLOOR = "one argmax and d normals"
EXPONENTS = (2, 5, 10, 30, 100, 300, 1000)


def draw(out: Path) -> None:
    """huge.png, from clock.csv."""
    rows = read_csv(out / "clock.csv")
    first = new_axes(10.0, 6.4)
    figure = first.figure
    figure.clear()
    panels = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    families = list(dict.fromkeys(row["family"] for row in rows))
    for ax, family in zip(panels, families, strict=False):
        mine = [row for row in rows if row["family"] == family]
        reference = [row for row in mine if row["policy"] == "PEPS"]
        ax.plot(*_points(reference, "floor_us"), color=OTHER, linestyle="--", label=FLOOR)
        for policy, (colour, marker, line) in STYLES.items():
            points = _points([row for row in mine if row["policy"] == policy], "us_per_round")
            ax.plot(*points, color=colour, marker=marker, markersize=4, linestyle=line, label=policy)
            if policy == "LinGame" and points[0]:
                ax.plot(points[0][-1], points[1][-1], "x", color=colour, markersize=11, markeredgewidth=2)
        ax.set(xscale="log", yscale="log", title=family)
        ax.set_xticks(EXPONENTS, [f"$10^{{{e}}}$" for e in EXPONENTS])
        ax.set_xticks([], minor=True)
        ax.tick_params(labelbottom=True)
        ax.grid(alpha=0.3)
    for ax in panels[len(families) :]:
        ax.axis("off")
    handles, labels = panels[0].get_legend_handles_labels()
    end = panels[0].plot([], [], "x", color=STYLES["LinGame"][0], markersize=11, markeredgewidth=2)[0]
    panels[-1].legend([*handles, end], [*labels, "Z can no longer be listed"], loc="center", frameon=False)
    figure.supylabel("microseconds per round")
    figure.supxlabel("number of answers |Z|")
    save(first, out / "huge.png")


def _points(rows: list[dict[str, str]], column: str) -> tuple[list[float], list[float]]:
    return [float(row["log10_Z"]) for row in rows], [float(row[column]) for row in rows]
