"""The picture on the first screen of the README: `python -m benchmarks.pictures`.

Three runs, as `identify` ended them: the route of the stored instance `town`, and what the example scripts
`assignment.py` and `ranking.py` find.
"""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from combopeps import Result, identify, load_instance
from combopeps.viz.answers import plot_result
from combopeps.viz.canvas import ANSWER, OTHER, RUNNER_UP

EXAMPLES, OUT = Path("docs/examples"), Path("docs/results/readme")
_RANKS = 12


def route(seed: int = 0) -> Result:
    """The fastest way through the town, every street measured with its noise."""
    town = load_instance("town")
    assert town.theta is not None
    minutes, traffic = dict(zip(town.oracle.components, town.theta, strict=True)), np.random.default_rng(seed)
    noise = town.problem.noise_std
    return identify(town.problem, lambda street: minutes[street] + noise * traffic.normal(), delta=0.01, rng=seed)


def example(name: str) -> Result:
    """What a script in docs/examples finds, without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        result: Result = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()
    return result


def focus(result: Result) -> float:
    """How much oftener a part in which answer and runner-up differ was measured than another one."""
    differs = result.session.problem.oracle.encode(result.runner_up) != result.z
    pulls = np.array(list(result.pulls.values()))
    return float(pulls[differs].mean() / pulls[~differs].mean())


def answers() -> Figure:
    """A route, an assignment and a ranking in one row, with one legend."""
    figure = Figure(figsize=(10.4, 3.9), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3, width_ratios=[1.4, 1.0, 0.9])
    results = {
        "the fastest route": route(),
        "the best assignment": example("assignment"),
        "top 5 of 30": example("ranking"),
    }
    for ax, (name, result) in zip(panels, results.items(), strict=True):
        plot_result(result, ax=ax)
        print(f"{name}: parts that tell the answer from the runner-up are measured {focus(result):.1f} times as often")
        ax.get_legend().remove()
        ax.set_title(f"{name}: {result.samples} measurements", fontsize=10)
    panels[2].set_ylim(_RANKS + 0.6, 0.4)  # the rest is not in question, and would be too small to read
    panels[2].tick_params(axis="y", labelsize=9)
    panels[2].set_xlabel("posterior mean ± 2 s.d.")
    keys: list[tuple[str, Any, str]] = [
        (ANSWER, "-", "answer"),
        (RUNNER_UP, "--", "runner-up; in the ranking, the cut"),
        (OTHER, "-", "everything else; width = measurements"),
    ]
    handles = [Line2D([], [], color=c, linestyle=style, linewidth=2.5, label=text) for c, style, text in keys]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=10)
    return figure


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    answers().savefig(OUT / "answers.png", dpi=160)
    print(f"written: {OUT / 'answers.png'}")


if __name__ == "__main__":
    main()
