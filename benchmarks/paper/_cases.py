"""The three instances of the paper, the policies compared on them, and one simulation of each pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks._bundled import stored
from benchmarks._store import Arrays, Unit, as_arrays
from benchmarks.paper._scale import Scale
from combopeps import ExplicitOracle, Problem, lower_bound, simulate
from combopeps.io.generators import generate
from combopeps.io.instance import Instance
from combopeps.oracles.constrained_argmax import enumerate_answers
from combopeps.stopping.lower_bound import LowerBound

SEED = 20240613
CHECKPOINTS = 1200  # geometrically spaced: the crossing is read to within a percent

INSTANCES = ("soare", "sphere", "topk")
TITLES = {"soare": "Soare", "sphere": "Sphere", "topk": "Top-k"}
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "PEPS": ("peps", {}),
    "PEPS projected": ("peps", {"gain": "projected", "tracking": True}),
    "TopTwo": ("top-two", {}),
    "LinGame": ("lingame", {}),
    "LinGapE": ("lingape", {}),
    "Oracle": ("fixed", {}),
    "Thompson": ("thompson", {}),
}
LONG = ("PEPS", "Oracle")  # on top-k they need the whole budget


def policies(instance: str) -> list[str]:
    """Thompson sampling measures answers, and on top-k no arm is one: the paper leaves it out as well."""
    return [name for name in POLICIES if not (instance == "topk" and name == "Thompson")]


def recipes(instance: str, spheres: int) -> list[str]:
    """What an instance stands for: one problem, or several drawn spheres."""
    if instance == "sphere":
        return [f"sphere:d=6,arms=20,seed={seed}" for seed in range(spheres)]
    return ["soare:d=2,omega=0.1" if instance == "soare" else "topk-paper"]


@cache
def problem(recipe: str) -> Instance:
    """The instance of a recipe; "unit ..." measures its components, "listed ..." has its answers in a list."""
    way, _, name = recipe.rpartition(" ")
    made = generate(name) if ":" in name else stored(name)
    if way == "unit":
        return replace(
            made, problem=Problem(made.oracle, noise_std=made.problem.noise_std, prior_mean=0.0, prior_std=1.0)
        )
    if way == "listed":
        answers = enumerate_answers(made.oracle, limit=1000)
        assert answers is not None
        return replace(
            made,
            problem=Problem(ExplicitOracle(answers), noise_std=made.problem.noise_std, prior_mean=0.0, prior_std=1.0),
        )
    return made


@cache
def optimum(recipe: str) -> LowerBound:
    """tau* and its allocation."""
    made = problem(recipe)
    return lower_bound(made.problem, made.theta)


def budget(instance: str, policy: str, scale: Scale) -> int:
    """Measurements per run."""
    full = scale.budgets[instance]
    return full if instance != "topk" or policy in LONG else round(full * scale.short)


def simulation(recipe: str, policy: str, runs: int, rounds: int, options: Mapping[str, Any] | None = None) -> Unit:
    """`runs` runs of a policy; with `options` beyond its own."""
    name, own = POLICIES[policy]
    given = {**own, **(options or {})}
    params = {"recipe": recipe, "policy": name, "options": given, "runs": runs, "budget": rounds, "seed": SEED}

    def compute(jobs: int) -> Arrays:
        made = problem(recipe)
        extra = {"lam": optimum(recipe).allocation} if name == "fixed" else {}
        times = np.unique(np.geomspace(1, rounds, min(rounds, CHECKPOINTS)).round().astype(np.int64))
        trace = simulate(
            made.problem,
            made.theta,
            name,
            budget=rounds,
            replications=runs,
            rng=SEED,
            checkpoints=times,
            n_jobs=jobs,
            **given,
            **extra,
        )
        return as_arrays(trace)

    return Unit(f"simulate {recipe.replace(':', ' ').replace(',', ' ')} {policy}", params, compute)


def many_runs(instance: str, policy: str, scale: Scale) -> Unit:
    """Several times as many runs on Soare or top-k, which end soon after the smallest delta of the tables."""
    return simulation(
        recipes(instance, 1)[0], policy, scale.runs * scale.blocks[instance], scale.many_budgets[instance]
    )


def main_simulations(instance: str, policy: str, scale: Scale) -> list[Unit]:
    """The runs behind the tables and the curves."""
    runs = scale.sphere_runs if instance == "sphere" else scale.runs
    rounds = budget(instance, policy, scale)
    return [simulation(recipe, policy, runs, rounds) for recipe in recipes(instance, scale.spheres)]
