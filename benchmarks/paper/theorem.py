"""Item 5, the theorem: -(1/T) ln P(z* is not best) under the final posterior, against T, with the line tau*.

Algorithm 2 (restarts, forced exploration, a bounded Theta) is what the theorem covers: T is the length of the epoch,
and the posterior that of the epoch's own data, eta = 1. The practical variant, TopTwo and fixed allocations are not
covered and are drawn beside it. Exponents of many runs are averaged, never the probabilities.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._store import Arrays, Store, Unit, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.paper import _figures as fig
from benchmarks.paper._cases import SEED, optimum, problem
from benchmarks.paper._scale import Scale
from combopeps import Box, DoublingPEPS, Policy, Problem
from combopeps.alternatives import HalfSpaceSampler
from combopeps.policies.registry import policy_class
from combopeps.utils.parallel import parallel_map

TITLE = "theorem"
RECIPE, SIDE = "soare:d=2,omega=0.1", 2.0
PRACTICAL = ("peps", "top-two", "fixed", "uniform")
DOUBLING = ("proved", "printed")
NAMES = {
    "peps": "PEPS, practical variant",
    "top-two": "TopTwo",
    "fixed": "oracle allocation",
    "uniform": "uniform allocation",
    "proved": "Algorithm 2, constants as proved",
    "printed": "Algorithm 2, constants as printed",
}
LOOKS = {
    "peps": (fig.BLUE, "-", "o"),
    "top-two": (fig.RED, "-", "s"),
    "fixed": (fig.ORANGE, ":", "P"),
    "uniform": (fig.BLACK, ":", "x"),
    "proved": (fig.GREEN, "-.", "^"),
    "printed": (fig.PURPLE, "--", "D"),
}


def exponents(policy: Policy, theta: np.ndarray, looks: dict[int, int], seed: int) -> np.ndarray:
    """-(1/T) ln P(z* is not best), (R, looks): after n measurements, for n: T in `looks`."""
    nature, made = np.random.default_rng(seed), policy.problem
    means, best = made.arms.dot(theta), made.oracle.argmax(theta)
    found = np.zeros((policy.replications, len(looks)))
    at = 0
    for n in range(1, max(looks) + 1):
        arm = policy.choose()
        policy.learn(arm, means[arm] + made.noise_std * nature.standard_normal(policy.replications))
        if n in looks:
            for r in range(policy.replications):
                estimate = HalfSpaceSampler().probability(
                    policy.posterior.row(r), made.oracle, best, n, space=made.space
                )
                found[r, at] = -estimate.log_probability / looks[n]
            at += 1
    return found


def _block(kind: str, replications: int, looks: dict[int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Exponents, and the shares that the policy holds right at the end, (R, K)."""
    made = problem(RECIPE)
    if kind in DOUBLING:
        bounded = Problem(made.oracle, made.arms, space=Box(-SIDE, SIDE), noise_std=1.0, prior_mean=0.0, prior_std=1.0)
        policy = policy_class("doubling-peps")(bounded, seed, constants=kind, replications=replications)
    else:
        extra: dict[str, Any] = {"lam": optimum(RECIPE).allocation} if kind == "fixed" else {}
        policy = policy_class(kind)(made.problem, seed, replications=replications, **extra)
    found = exponents(policy, made.theta, looks, seed + 1)
    if isinstance(policy, DoublingPEPS):
        assert policy._finished is not None
        return found, policy._finished.learner.lam
    return found, policy.pulls / policy.samples


def _unit(kind: str, scale: Scale) -> Unit:
    if kind in DOUBLING:
        looks = {2 ** (epoch + 1) - 1: 2**epoch for epoch in range(4, scale.epochs + 1)}
        runs = scale.epoch_runs
    else:
        looks = {2**k: 2**k for k in range(6, scale.theorem_doublings + 1)}
        runs = scale.theorem_runs
    params = {"kind": kind, "runs": runs, "looks": [[n, T] for n, T in looks.items()], "seed": SEED, "recipe": RECIPE}

    def compute(jobs: int) -> Arrays:
        seeds = (SEED + 10, SEED + 20)  # two halves, whatever the number of processes: the same figures
        halves = parallel_map(_block, ((kind, max(1, runs // 2), looks, seed) for seed in seeds), n_jobs=jobs)
        found, shares = (np.concatenate(parts) for parts in zip(*halves, strict=True))
        return {"T": np.array(list(looks.values())), "exponent": found, "lam": shares}

    return Unit(f"theorem {kind}", params, compute)


def units(scale: Scale) -> list[Unit]:
    """One unit per curve."""
    return [_unit(kind, scale) for kind in (*PRACTICAL, *DOUBLING)]


def attained(lam: np.ndarray) -> float:
    """min_z gap_z^2 / (2 |z - z*|^2_{A(lam)^-1}) of an allocation."""
    made = problem(RECIPE)
    X = made.arms.row(np.arange(len(made.arms)))
    inverse = np.linalg.inv(X.T @ (lam[:, None] * X))
    facets = made.oracle.facets(made.oracle.argmax(made.theta)).toarray()
    widths = np.einsum("fd,de,fe->f", facets, inverse, facets)
    return float(((facets @ made.theta) ** 2 / (2.0 * widths)).min())


def write(scale: Scale, store: Store, out: Path) -> None:
    """theorem.csv, theorem.md and theorem.png."""
    rows = []
    tau, even = optimum(RECIPE).tau_star, attained(np.full(len(problem(RECIPE).arms), 1.0 / len(problem(RECIPE).arms)))
    for kind in (*PRACTICAL, *DOUBLING):
        data = store.load(_unit(kind, scale))
        means, two = data["exponent"].mean(axis=0), 2.0 * data["exponent"].std(axis=0) / np.sqrt(len(data["exponent"]))
        lam = " / ".join(f"{share:.3f}" for share in data["lam"].mean(axis=0))
        for T, mean, error in zip(data["T"], means, two, strict=True):
            shares = lam if data["T"][-1] == T else ""
            rows.append((kind, int(T), len(data["exponent"]), float(mean), float(error), tau, even, shares))
    header = ("kind", "T", "runs", "exponent", "two_se", "tau_star", "tau_uniform", "lam")
    write_csv(out / "theorem.csv", header, rows)
    (out / "theorem.md").write_text(f"{__doc__.split(chr(10), 1)[1].strip()}\n\n{table(out / 'theorem.csv')}\n")
    _draw(out)


def _draw(out: Path) -> None:
    rows = read_csv(out / "theorem.csv")
    figure, (axis,) = fig.new(height=5.2)
    for kind, name in NAMES.items():
        colour, line, marker = LOOKS[kind]
        mine = [row for row in rows if row["kind"] == kind]
        T, mean, two = (np.array([float(row[key]) for row in mine]) for key in ("T", "exponent", "two_se"))
        down = np.minimum(two, 0.95 * np.maximum(mean, 1e-9))  # a logarithmic axis has no zero
        axis.errorbar(
            T, mean, yerr=[down, two], color=colour, linestyle=line, marker=marker, ms=5, elinewidth=1, label=name
        )
    tau, even = float(rows[0]["tau_star"]), float(rows[0]["tau_uniform"])
    axis.axhline(tau, color="0.3", linewidth=1.5, label=f"tau* = {tau:.3g}")
    axis.axhline(even, color="0.6", linewidth=1.5, linestyle="--", label=f"uniform allocation's limit = {even:.3g}")
    axis.set(xscale="log", yscale="log", xlabel="T", ylabel="-(1/T) ln P(Alt), mean ± 2 s.e.")
    axis.set_title("Soare: the exponent of the posterior")
    axis.set_ylim(0.5 * even, 20.0 * tau)
    fig.save(figure, out / "theorem.png", axis, columns=3)


def table(path: Path) -> str:
    """The last points of each curve."""
    rows = read_csv(path)
    body = []
    for kind, name in NAMES.items():
        for row in [row for row in rows if row["kind"] == kind][-3:]:
            exponent, two, tau = (float(row[key]) for key in ("exponent", "two_se", "tau_star"))
            body.append([name, row["T"], row["runs"], f"{exponent:.3g} ± {two:.2g}", f"{exponent / tau:.2f}"])
    return markdown(["policy", "T", "runs", "exponent (± 2 s.e.)", "of tau*"], body)
