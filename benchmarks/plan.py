"""What `plan` says, against real runs: `python -m benchmarks.plan [--quick] [--jobs N] [--scheduler ADDRESS]`.

A plan with 100 runs from the true theta, and 200 runs of `identify` with other seeds and noise of numpy's own. Wanted:
the mean of the 200 lies in the interval of the plan, and the share of right answers within 5 points of it. The interval
is made for the mean of 100 runs again; with 200 a plan that is right misses it in 2.4 % of rows by chance.

And what a plan takes with all its defaults, from the true theta and from the prior: less than 60 s is wanted. That part
is measured on the wall, of a machine that does other things as well.

Writes docs/results/plan/plan.csv, seconds.csv and plan.md. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from benchmarks._store import Arrays, Store, Unit, package_mark, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks._work import work
from combopeps import identify, load_instance, plan
from combopeps.errors import PriorWarning
from combopeps.oracles.base import has_equal_value
from combopeps.session.forecast import censored_mean
from combopeps.utils.formatting import Proportion

OUT = Path("docs/results/plan")
DELTA, PLANNED, REAL = 0.05, 100, 200
POINTS, LIMIT = 0.05, 60.0  # of the share right, and seconds
CASES = (
    ("topk-paper", "posterior"),
    ("two-nets", "posterior"),
    ("cyclic-matching", "posterior"),
    ("nsfnet", "posterior"),  # a network with cycles
    ("two-nets", "verified"),
    ("cyclic-matching", "verified"),
    ("nsfnet", "verified"),
)
TIMED = (
    "topk-paper",
    "two-nets",
    "cyclic-matching",
    "nsfnet",
    "matching-10",
    "grid-10",
    "hard-grid",
    "matching-sparse",
)
HEADER = (
    "instance", "rule", "planned_runs", "planned_mean", "low", "high", "real_runs", "real_mean", "real_two_se",
    "within", "planned_right", "real_right", "close",
)  # fmt: skip
TIMES = ("instance", "d", "theta", "runs", "cut_off", "median", "seconds", "cores")
_APART = 10_000_000  # seeds of real runs begin here


def unit(name: str, rule: str, planned: int, real: int) -> Unit:
    """A plan, and real runs."""
    params = {"instance": name, "rule": rule, "planned": planned, "real": real, "delta": DELTA}

    def compute(jobs: int) -> Arrays:
        instance = load_instance(name)
        ahead = plan(
            instance.problem, theta=instance.theta, stopping=rule, delta=DELTA, runs=planned, seconds=None, n_jobs=1
        )
        forecast = ahead[rule]
        found = [_real(name, rule, _APART + seed) for seed in range(real)]
        samples, right = (np.array(column) for column in zip(*found, strict=True))
        return {
            "planned": forecast.samples, "planned_ended": forecast.ended, "planned_right": forecast.right,
            "real": samples, "real_right": right,
        }  # fmt: skip

    return Unit(f"plan {name} {rule}", params, compute)


def _real(name: str, rule: str, seed: int) -> tuple[int, bool]:
    """One run without a plan."""
    instance, noise = load_instance(name), np.random.default_rng([seed, 3])
    problem, theta = instance.problem, np.asarray(instance.theta)
    means, std = (
        dict(zip(problem.arms.labels, each, strict=True)) for each in (problem.arms.dot(theta), problem.noise)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = identify(
            problem, lambda arm: means[arm] + std[arm] * noise.normal(), delta=DELTA, stopping=rule, rng=seed
        )
    return result.samples, has_equal_value(result.z, problem.oracle.argmax(theta), theta)


def compared(one: Unit, data: Arrays) -> tuple[Any, ...]:
    """A row: see `HEADER`."""
    mean = censored_mean(data["planned"].astype(float), data["planned_ended"])
    real, share, seen = data["real"], data["planned_right"].mean(), data["real_right"].mean()
    within, close = mean.low <= real.mean() <= mean.high, abs(share - seen) <= POINTS
    two = 2.0 * real.std(ddof=1) / np.sqrt(len(real))
    name, rule = one.params["instance"], one.params["rule"]
    return (
        name, rule, len(data["planned"]), mean.value, mean.low, mean.high, len(real), float(real.mean()), float(two),
        _word(within), float(share), float(seen), _word(close),
    )  # fmt: skip


def timed(name: str, guessed: bool) -> tuple[Any, ...]:
    """What a plan with all defaults takes; see `TIMES`."""
    instance, begin = load_instance(name), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorWarning)
        forecast = plan(instance.problem, theta=instance.theta if guessed else None)["posterior"]
    seconds, theta = time.perf_counter() - begin, "true" if guessed else "prior"
    cut = int((~forecast.ended).sum())
    return name, instance.oracle.dim, theta, forecast.runs, cut, forecast.quantile(0.5), seconds, effective_n_jobs(-1)


def _word(yes: Any) -> str:
    return "yes" if yes else "NO"


def page(rows: Sequence[dict[str, str]], times: Sequence[dict[str, str]]) -> str:
    """plan.md, from the two CSV files."""
    body = [
        [
            row["instance"], row["rule"], f"{float(row['planned_mean']):,.0f}",
            f"{float(row['low']):,.0f} to {float(row['high']):,.0f}",
            f"{float(row['real_mean']):,.0f} ± {float(row['real_two_se']):,.0f}", row["within"],
            str(Proportion.of(round(float(row["planned_right"]) * int(row["planned_runs"])), int(row["planned_runs"]))),
            f"{100 * float(row['real_right']):.1f} %", row["close"],
        ]
        for row in rows
    ]  # fmt: skip
    titles = [
        "instance", "rule", "planned mean", "its interval", "real mean (± 2 s.e.)", "within", "planned right [95 %]",
        "real", "within 5 points",
    ]  # fmt: skip
    good = sum(row["within"] == row["close"] == "yes" for row in rows)
    clock = [
        [*(row[key] for key in TIMES[:5]), _median(row), f"{float(row['seconds']):.0f}"]
        for row in times
    ]  # fmt: skip
    in_time = sum(float(row["seconds"]) < LIMIT for row in times)
    said = [
        "# Plans against real runs",
        f"Made by `python -m benchmarks.plan`: {rows[0]['planned_runs']} planned runs from the true theta, "
        f"{rows[0]['real_runs']} real ones with other seeds, delta = {DELTA:g}.",
        markdown(titles, body),
        f"{good} of {len(rows)} rows hold. A plan that is right misses its interval in 2.4 % of rows.",
    ]
    if times:
        said += [
            "## With defaults",
            markdown(["instance", "d", "theta", "runs made of 100", "cut off", "median samples", "seconds"], clock),
            f"{in_time} of {len(times)} plans took less than {LIMIT:g} s, on {times[0]['cores']} core"
            f"{'s' * (times[0]['cores'] != '1')} of a machine that did other things as well: with less to do, more "
            "runs fit into the time.",
        ]
    return "\n\n".join(said) + "\n"


def _median(row: dict[str, str]) -> str:
    return "later" if row["median"] == "inf" else f"{float(row['median']):,.0f}"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plan", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="few runs on the small instances, no times")
    parser.add_argument("--only", choices=("runs", "seconds"), help="one of the two parts; the other stays as it is")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--scheduler", help="a Dask cluster to run on")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    if given.only != "seconds":
        store, cases = Store(given.out), CASES[1:4] if given.quick else CASES
        units = [unit(*case, *((20, 20) if given.quick else (PLANNED, REAL))) for case in cases]
        work(units, store, given.jobs, given.scheduler, "plans")
        write_csv(given.out / "plan.csv", HEADER, [compared(one, store.load(one)) for one in units])
        (given.out / "made.json").write_text(json.dumps({"package": package_mark()}) + "\n")
    if given.only != "runs" and not given.quick:
        times = [timed(name, guessed) for name in TIMED for guessed in (True, False)]
        write_csv(given.out / "seconds.csv", TIMES, times)
    clock = given.out / "seconds.csv"
    text = page(read_csv(given.out / "plan.csv"), read_csv(clock) if clock.exists() else [])
    (given.out / "plan.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
