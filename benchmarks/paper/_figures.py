"""One look for all figures: colour-blind safe (Okabe and Ito), about 900 pixels wide, legends outside the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PURPLE = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
STYLE: dict[str, dict[str, Any]] = {
    "PEPS": {"color": BLUE, "linestyle": "-", "marker": "o"},
    "PEPS projected": {"color": SKY, "linestyle": "--", "marker": "v"},
    "TopTwo": {"color": RED, "linestyle": "-", "marker": "s"},
    "LinGame": {"color": GREEN, "linestyle": "-.", "marker": "^"},
    "LinGapE": {"color": PURPLE, "linestyle": "--", "marker": "D"},
    "Oracle": {"color": ORANGE, "linestyle": ":", "marker": "P"},
    "Thompson": {"color": BLACK, "linestyle": (0, (5, 1, 1, 1, 1, 1)), "marker": "x"},
}


def line_style(policy: str) -> dict[str, Any]:
    """Without the marker."""
    return {key: value for key, value in STYLE[policy].items() if key != "marker"}


def new(columns: int = 1, *, height: float = 4.2, **options: Any) -> tuple[Any, list[Any]]:
    """A figure of nine inches, and its axes."""
    figure, axes = plt.subplots(1, columns, figsize=(9.0, height), squeeze=False, layout="constrained", **options)
    for axis in axes[0]:
        axis.grid(True, color="0.9", linewidth=0.8)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, list(axes[0])


def save(figure: Any, path: Path, handles_from: Any = None, columns: int = 5) -> None:
    """With one legend for all axes, below them."""
    if handles_from is not None:
        handles, labels = handles_from.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)), frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)
