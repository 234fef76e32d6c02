"""Item 6: what eta_p, the number of alternatives per round, and tracking do to PEPS, on the three instances.

Samples to an identification rate of 90 %, with 95 % bootstrap intervals; the sphere is the first one drawn.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._store import Store, Unit, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.paper import _figures as fig
from benchmarks.paper._cases import INSTANCES, TITLES, recipes, simulation
from benchmarks.paper._scale import Scale
from benchmarks.paper.samples import mean_crossing, shown

TITLE = "effects"
LEVEL = 0.9
VARIANTS: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "eta_p = 0.25": {"eta_p": 0.25},
    "eta_p = 4": {"eta_p": 4.0},
    "5 alternatives": {"alternatives_per_round": 5},
    "20 alternatives": {"alternatives_per_round": 20},
    "tracking": {"tracking": True},
    "projected gain": {"gain": "projected"},
}


def _rounds(instance: str, scale: Scale) -> int:
    return round(scale.budgets[instance] * (scale.effect_share if instance == "topk" else 1.0))


def _unit(instance: str, variant: str, scale: Scale) -> Unit:
    rounds = _rounds(instance, scale)
    return simulation(recipes(instance, 1)[0], "PEPS", scale.effect_runs, rounds, VARIANTS[variant])


def units(scale: Scale) -> list[Unit]:
    """One unit per instance and variant."""
    return [_unit(instance, variant, scale) for instance in INSTANCES for variant in VARIANTS]


def write(scale: Scale, store: Store, out: Path) -> None:
    """effects.csv, effects.md and effects.png."""
    rows = []
    for instance in INSTANCES:
        for variant in VARIANTS:
            trace = store.trace(_unit(instance, variant, scale))
            found = mean_crossing([trace], LEVEL)
            rows.append((instance, variant, *found, _rounds(instance, scale), len(trace.correct)))
    write_csv(out / "effects.csv", ("instance", "variant", "samples", "low", "high", "budget", "runs"), rows)
    (out / "effects.md").write_text(f"{__doc__.split(chr(10), 1)[1].strip()}\n\n{table(out / 'effects.csv')}\n")
    _draw(out)


def _draw(out: Path) -> None:
    rows = read_csv(out / "effects.csv")
    figure, axes = fig.new(3, height=3.8, sharey=True)
    at = np.arange(len(VARIANTS))[::-1]
    for axis, instance in zip(axes, INSTANCES, strict=True):
        mine = [row for row in rows if row["instance"] == instance]
        limit = float(mine[0]["budget"])
        value, low, high = (np.array([float(row[key]) for row in mine]) for key in ("samples", "low", "high"))
        reached = np.isfinite(value)
        clipped = np.minimum([value, low, high], limit)
        axis.errorbar(
            clipped[0], at, xerr=[clipped[0] - clipped[1], clipped[2] - clipped[0]], fmt="none", color=fig.BLUE
        )
        axis.plot(clipped[0][reached], at[reached], "o", color=fig.BLUE, label="samples, 95 % interval")
        axis.plot(clipped[0][~reached], at[~reached], ">", color=fig.RED, label="not reached within the budget")
        axis.axvline(clipped[0][0], color="0.6", linestyle="--", linewidth=1, label="as in the paper")
        axis.set_yticks(at, list(VARIANTS))
        axis.set(title=TITLES[instance], xlabel="samples to 90 %")
        axis.set_xlim(left=0)
    fig.save(figure, out / "effects.png", axes[0])


def table(path: Path) -> str:
    """One row per variant."""
    rows = read_csv(path)
    body = []
    for variant in VARIANTS:
        mine = [row for row in rows if row["variant"] == variant]
        body.append([variant, *map(shown, mine)])
    return markdown(["PEPS", *(TITLES[instance] for instance in INSTANCES)], body)
