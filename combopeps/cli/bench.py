"""`compare` and `bench`: policies side by side on one instance, and the measuring commands of a checkout."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from combopeps.cli.commands import LEAST, MOST
from combopeps.cli.options import OK, WRONG
from combopeps.cli.output import show, show_json, shown
from combopeps.cli.show import tau_star
from combopeps.cli.source import load, seed, truth
from combopeps.errors import ParameterError
from combopeps.instances import Instance
from combopeps.plotting import plot_identification, save
from combopeps.plotting.canvas import axes_for
from combopeps.policies.registry import policy_class
from combopeps.run.simulate import simulate
from combopeps.run.trace import Trace

LEVELS = (0.8, 0.9, 0.95)
_UNKNOWN = 5_000  # the default budget where there is no tau*


def run_compare(args: argparse.Namespace) -> int:
    """Simulate every policy, and set the table."""
    instance = load(args)
    theta = truth(instance)
    names = [name.strip() for name in args.policies.split(",") if name.strip()]
    if not names or len(set(names)) != len(names):
        raise ParameterError("--policies takes different names separated by commas, such as peps,top-two")
    if args.jobs < 1:
        raise ParameterError(f"--jobs must be at least 1, got {args.jobs}")
    for name in names:
        policy_class(name)(instance.problem, 0)  # what it refuses is refused before the others have run
    axes = axes_for(args.plot)
    budget = args.budget
    if budget is None:
        tau = tau_star(instance)["tau_star"]
        budget = _UNKNOWN if tau is None else min(MOST, max(LEAST, round(12.0 / tau)))
    options: dict[str, Any] = {"budget": budget, "replications": args.runs, "rng": seed(args), "n_jobs": args.jobs}
    nature = options["noise"] = args.nature or instance.nature
    options["progress"] = sys.stderr.isatty() and not args.json
    traces = {name: simulate(instance.problem, theta, name, **options) for name in names}
    if axes is not None:
        save(plot_identification(traces, ax=axes), args.plot)
    (_say_json if args.json else _say)(instance, traces, budget, nature, args)
    return OK


def _say(instance: Instance, traces: dict[str, Trace], budget: int, nature: str, args: argparse.Namespace) -> None:
    print(f"{shown(instance.name)}: samples until the share of right answers exceeds a level;", end=" ")
    print(f"{args.runs} runs, budget {budget}{'' if nature == 'normal' else f', true noise {nature}'}")
    print(f"{'policy':<16}" + "".join(f"{f'{level:.0%}':<24}" for level in LEVELS) + "right at the end")
    for name, trace in traces.items():
        cells = [_cell(trace, level, budget) for level in LEVELS]
        rate, error = (part[-1] for part in trace.identification_rate())
        print(f"{name:<16}" + "".join(f"{cell:<24}" for cell in cells) + f"{rate:.1%} +- {error:.1%}")
    if args.plot is not None:
        print(f"picture: {shown(args.plot)}")


def _cell(trace: Trace, level: float, budget: int) -> str:
    found = trace.samples_to(level)
    middle, low, high = (f"{x:.0f}" if x <= budget else f"> {budget}" for x in (found.samples, found.low, found.high))
    return f"{middle} [{low}, {high}]"


def _say_json(instance: Instance, traces: dict[str, Trace], budget: int, nature: str, args: argparse.Namespace) -> None:
    rows = []
    for name, trace in traces.items():
        to = {level: trace.samples_to(level) for level in LEVELS}
        levels = [{"level": p, "samples": c.samples, "low": c.low, "high": c.high} for p, c in to.items()]
        rows.append(
            {"policy": name, "samples_to": levels, "right_at_the_end": float(trace.identification_rate()[0][-1])}
        )
    facts = {"problem": instance.name, "runs": args.runs, "budget": budget, "nature": nature}
    show_json({**facts, "policies": rows, "plot": args.plot})


def _checkout() -> Path | None:
    """Where benchmarks/ is: beside the package, or here."""
    for folder in (Path(__file__).resolve().parents[2], Path.cwd()):
        if (folder / "benchmarks" / "_table.py").is_file() and (folder / "pyproject.toml").is_file():
            return folder
    return None


def run_bench(args: argparse.Namespace) -> int:
    """A process of its own, in the folder of the checkout."""
    root = _checkout()
    if root is None:
        raise ParameterError(
            "benchmarks are not part of the installed package; run this in a checkout of the repository"
        )
    modules = [path.stem for path in root.glob("benchmarks/*.py") if not path.stem.startswith("_")]
    names = sorted(modules + [path.parent.name for path in root.glob("benchmarks/*/__main__.py")])
    if args.name is None:
        show(args.json, {"benchmarks": names}, names)
        return OK
    if args.name not in names:
        raise ParameterError(f"no benchmark is called {args.name!r:.40}; there are {', '.join(names)}")
    as_json = args.json or "--json" in args.rest  # no benchmark has this option
    rest = [word for word in args.rest if word != "--json"]
    command = [sys.executable, "-m", f"benchmarks.{args.name}", *rest]
    done = subprocess.run(command, cwd=root, check=False, stdout=2 if as_json else None)  # 2: stderr
    if as_json:
        show_json({"benchmark": args.name, "exit_code": done.returncode})
    return OK if done.returncode == 0 else WRONG
