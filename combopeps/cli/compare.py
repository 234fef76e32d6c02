"""Commands `compare`, which simulates several policies on one instance, and `bench`, which runs benchmarks."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from combopeps.cli.options import ERROR, OK
from combopeps.cli.output import print_json, print_result, printable
from combopeps.cli.parser import MAX_BUDGET, MIN_BUDGET
from combopeps.cli.problem_source import load, seed, true_theta
from combopeps.cli.show import tau_star
from combopeps.errors import ComboPepsError, ParameterError, ServerError
from combopeps.io.instance import Instance
from combopeps.policies.registry import policy_class
from combopeps.session.simulate import simulate
from combopeps.session.trace import Trace
from combopeps.utils.parallel import connected
from combopeps.viz.canvas import axes_for, save
from combopeps.viz.curves import plot_identification

_LEVELS = (0.8, 0.9, 0.95)  # shares of right answers for which the necessary samples are reported
_DEFAULT_BUDGET = 5_000  # where tau* is unknown


def run_compare(args: argparse.Namespace) -> int:
    """Simulate all policies, and print a table of the samples that they need."""
    instance = load(args)
    theta = true_theta(instance, args)
    names = [name.strip() for name in args.policies.split(",") if name.strip()]
    if not names or len(set(names)) != len(names):
        raise ParameterError("--policies takes different names separated by commas, such as peps,top-two")
    if args.jobs < 1:
        raise ParameterError(f"--jobs must be at least 1, got {args.jobs}")
    policies = {name: policy_class(name) for name in names}  # raises for unknown names, before anything runs
    axes = axes_for(args.plot)
    failed: dict[str, ComboPepsError] = {}
    for name, policy in policies.items():
        try:
            policy(instance.problem, 0)
        except ComboPepsError as cause:
            failed[name] = cause
    _raise_if_all_failed(names, failed)
    budget = args.budget
    if budget is None:
        tau = tau_star(instance)["tau_star"]
        budget = _DEFAULT_BUDGET if tau is None else min(MAX_BUDGET, max(MIN_BUDGET, round(12.0 / tau)))
    options: dict[str, Any] = {"budget": budget, "replications": args.runs, "rng": seed(args), "n_jobs": args.jobs}
    nature = options["noise"] = args.nature or instance.nature
    if instance.problem.noise_std is None:
        options["true_noise_std"] = 1.0  # the unit of the ratios that the problem states
    options["progress"] = sys.stderr.isatty() and not args.json
    found: dict[str, Trace | ComboPepsError] = {}
    with connected(args.scheduler) as client:
        for name in names:
            try:
                found[name] = (
                    failed[name]
                    if name in failed
                    else simulate(instance.problem, theta, name, scheduler=client, **options)
                )
            except ServerError:  # a failure of the cluster, not of the policy
                raise
            except ComboPepsError as cause:
                found[name] = failed[name] = cause
    _raise_if_all_failed(names, failed)
    if axes is not None:
        traces = {name: trace for name, trace in found.items() if isinstance(trace, Trace)}
        save(plot_identification(traces, ax=axes), args.plot)
    (_print_json if args.json else _print_text)(instance, found, budget, nature, args)
    return OK


def _raise_if_all_failed(names: list[str], failed: dict[str, ComboPepsError]) -> None:
    if len(failed) == len(names):
        raise ParameterError("no policy can run here: " + "; ".join(f"{name}: {why}" for name, why in failed.items()))


def _print_text(
    instance: Instance, found: dict[str, Trace | ComboPepsError], budget: int, nature: str, args: argparse.Namespace
) -> None:
    unit = "actions" if instance.problem.measures_actions else "samples"
    print(f"{printable(instance.name)}: {unit} until the share of right answers exceeds a level;", end=" ")
    print(f"{args.runs} runs, budget {budget}{'' if nature == 'normal' else f', true noise {nature}'}")
    print(f"{'policy':<16}" + "".join(f"{f'{level:.0%}':<24}" for level in _LEVELS) + "right at the end")
    for name, trace in found.items():
        if isinstance(trace, ComboPepsError):
            print(f"{name:<16}cannot run: {printable(' '.join(str(trace).split()))}")
            continue
        cells = [_cell(trace, level, budget) for level in _LEVELS]
        rate, error = (part[-1] for part in trace.identification_rate())
        print(f"{name:<16}" + "".join(f"{cell:<24}" for cell in cells) + f"{rate:.1%} +- {error:.1%}")
        if instance.problem.costs_differ:
            print(f"{'  cost':<16}" + "".join(f"{_cost_cell(trace, level):<24}" for level in _LEVELS))
    if args.plot is not None:
        print(f"picture: {printable(args.plot)}")


def _cell(trace: Trace, level: float, budget: int) -> str:
    found = trace.samples_to(level)
    middle, low, high = (f"{x:.0f}" if x <= budget else f"> {budget}" for x in (found.samples, found.low, found.high))
    return f"{middle} [{low}, {high}]"


def _cost_cell(trace: Trace, level: float) -> str:
    found, max_cost = trace.cost_to(level), trace.cost[:, -1].min()
    values = found.samples, found.low, found.high
    middle, low, high = (f"{x:.4g}" if x <= max_cost else f"> {max_cost:.4g}" for x in values)
    return f"{middle} [{low}, {high}]"


def _print_json(
    instance: Instance, found: dict[str, Trace | ComboPepsError], budget: int, nature: str, args: argparse.Namespace
) -> None:
    rows: list[dict[str, Any]] = []
    for name, trace in found.items():
        if isinstance(trace, ComboPepsError):
            rows.append(
                {"policy": name, "error": str(trace), "samples_to": [], "cost_to": [], "right_at_the_end": None}
            )
            continue
        crossings = {level: trace.samples_to(level) for level in _LEVELS}
        samples = [{"level": p, "samples": c.samples, "low": c.low, "high": c.high} for p, c in crossings.items()]
        crossings = {level: trace.cost_to(level) for level in _LEVELS}
        costs = [{"level": p, "cost": c.samples, "low": c.low, "high": c.high} for p, c in crossings.items()]
        rate = float(trace.identification_rate()[0][-1])
        rows.append({"policy": name, "error": None, "samples_to": samples, "cost_to": costs, "right_at_the_end": rate})
    options = {"problem": instance.name, "runs": args.runs, "budget": budget, "nature": nature}
    print_json({**options, "policies": rows, "plot": args.plot})


def _checkout() -> Path | None:
    """Return the folder that contains benchmarks/: the parent of the package, or the current folder."""
    for folder in (Path(__file__).resolve().parents[2], Path.cwd()):
        if (folder / "benchmarks" / "_table.py").is_file() and (folder / "pyproject.toml").is_file():
            return folder
    return None


def run_bench(args: argparse.Namespace) -> int:
    """Run a benchmark in a new process in the folder of the checkout, or list all benchmarks."""
    root = _checkout()
    if root is None:
        raise ParameterError(
            "benchmarks are not part of the installed package; run this in a checkout of the repository"
        )
    modules = [path.stem for path in root.glob("benchmarks/*.py") if not path.stem.startswith("_")]
    names = sorted(modules + [path.parent.name for path in root.glob("benchmarks/*/__main__.py")])
    if args.name is None:
        print_result(args.json, {"benchmarks": names}, names)
        return OK
    if args.name not in names:
        raise ParameterError(f"no benchmark is called {args.name!r:.40}; there are {', '.join(names)}")
    as_json = args.json or "--json" in args.rest  # benchmarks do not have this option themselves
    rest = [word for word in args.rest if word != "--json"]
    command = [sys.executable, "-m", f"benchmarks.{args.name}", *rest]
    # With --json, stdout has one JSON object only: the output of the benchmark goes to stderr.
    done = subprocess.run(command, cwd=root, check=False, stdout=2 if as_json else None)
    if as_json:
        print_json({"benchmark": args.name, "exit_code": done.returncode})
    return OK if done.returncode == 0 else ERROR
