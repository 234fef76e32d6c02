"""Greedy information and TopTwo until the posterior rule stops: `python -m benchmarks.greedy_stops`.

delta = 0.05. "Under the prior": a theta drawn from it in every run, so that the rule may be wrong in 5 % of the runs
that it stops. Those that reach the budget are not among them. "Planted": problems of `benchmarks.huge`.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from benchmarks._store import Arrays, Store, Unit, write_csv
from benchmarks._table import markdown
from benchmarks._work import add_options, work
from benchmarks.huge.families import FAMILIES, Size, planted
from combopeps import ArgmaxOracle, MatchingOracle, Problem, TopKOracle, identify
from combopeps.oracles.base import has_equal_value

OUT = Path("docs/results/greedy")
POLICIES = ("greedy", "top-two")
DELTA, BUDGET = 0.05, 1000
PRIOR: dict[str, ArgmaxOracle] = {"2 of 6": TopKOracle(6, k=2), "3 x 3": MatchingOracle(3, 3)}
PLANTED: dict[str, Size] = {"grid": (10,), "matching": (8,), "rings": (5, 3)}


def unit(name: str, policy: str, runs: int) -> Unit:
    """`runs` runs of a policy."""
    params = {"problem": name, "policy": policy, "runs": runs, "budget": BUDGET}

    def compute(jobs: int) -> Arrays:
        return {key: np.array(values) for key, values in _runs(name, policy, runs).items()}

    return Unit(f"stops {name} {policy}", params, compute)


def _runs(name: str, policy: str, runs: int) -> dict[str, list[float]]:
    oracle = PRIOR[name] if name in PRIOR else FAMILIES[name].oracle(*PLANTED[name])
    problem = Problem(oracle, noise_std=1.0 if name in PRIOR else 0.3, prior_mean=0.0, prior_std=1.0)
    found: dict[str, list[float]] = {"samples": [], "stopped": [], "right": []}
    for seed in range(runs):
        rng = np.random.default_rng([seed, 1])
        theta = rng.normal(size=oracle.dim) if name in PRIOR else planted(oracle)
        means = dict(zip(problem.arms.labels, theta, strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = identify(
                problem,
                lambda label, m=means, s=problem.noise[0], g=rng: m[label] + s * g.normal(),
                delta=DELTA,
                budget=BUDGET,
                policy=policy,
                rng=seed,
            )
        found["samples"].append(result.samples)
        found["stopped"].append(result.stop_reason == "posterior")
        found["right"].append(has_equal_value(result.z, oracle.argmax(theta), theta))
    return found


def write(store: Store, pieces: list[Unit], out: Path) -> None:
    """stops.csv and stops.md."""
    rows, body = [], []
    for one in pieces:
        data = store.load(one)
        stopped, n = data["stopped"].astype(bool), data["samples"]
        wrong, ends = int((stopped & ~data["right"].astype(bool)).sum()), int(stopped.sum())
        error = binomtest(wrong, max(1, ends)).proportion_ci(method="exact")
        two = 2.0 * n.std() / np.sqrt(len(n))
        name, policy = one.params["problem"], one.params["policy"]
        rows.append((name, policy, len(n), float(n.mean()), float(two), ends, wrong, error.low, error.high))
        share = f"{wrong} of {ends} ({100 * error.low:.1f} - {100 * error.high:.1f} %)"
        kind = "under the prior" if name in PRIOR else "planted"
        body.append([f"{name}, {kind}", policy, str(len(n)), f"{n.mean():.1f} ± {two:.1f}", share])
    header = ("problem", "policy", "runs", "samples", "two_se", "stopped", "wrong", "low", "high")
    write_csv(out / "stops.csv", header, rows)
    titles = ["problem", "policy", "runs", "samples (± 2 s.e.)", "wrong, of those that the rule stopped (95 %)"]
    (out / "stops.md").write_text(f"# Posterior stops under greedy information\n\n{markdown(titles, body)}\n")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.greedy_stops", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=400, help="under the prior; a tenth of them on planted problems")
    add_options(parser, jobs=1)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    store, sizes = Store(given.out), {**dict.fromkeys(PRIOR, given.runs), **dict.fromkeys(PLANTED, given.runs // 10)}
    pieces = [unit(name, policy, max(2, runs)) for name, runs in sizes.items() for policy in POLICIES]
    work(pieces, store, given.jobs, given.scheduler)
    write(store, pieces, given.out)
    print((given.out / "stops.md").read_text())


if __name__ == "__main__":
    main()
