"""Oracle rows per sample, for oracles that are not quick: a 12-variable program, and sets of the package in disguise.

Each is user-defined: ten lines around a solver. Declared `quick`, it is asked as the package's own oracles are; as it
is, rows are counted and answers remembered.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks._counting import Calls
from benchmarks._problems import grid_oracle
from benchmarks._table import markdown
from benchmarks._work import Workers
from combopeps import ArgmaxOracle, ExplicitOracle, MatchingOracle, Problem, StoppingRule, TopKOracle, identify
from combopeps.oracles.base import has_equal_value
from combopeps.stopping import Verdict, View
from combopeps.stopping.registry import stopping_rule

DELTA, NOISE, BUDGET = 0.05, 0.5, 4000
WANTED = 10  # times less, on the program


class Program(ArgmaxOracle):
    """max theta @ z  subject to  A z <= b,  z in {0, 1}^d: by HiGHS, one row after the other."""

    binary = True

    def __init__(self, A: np.ndarray, b: np.ndarray) -> None:
        super().__init__(range(A.shape[1]))
        self.limits, self.whole = LinearConstraint(A, ub=b), np.ones(A.shape[1])

    def _argmax_batch(self, thetas: np.ndarray) -> np.ndarray:
        answers = [milp(-t, constraints=self.limits, bounds=Bounds(0, 1), integrality=self.whole).x for t in thetas]
        return np.round(np.array(answers).reshape(thetas.shape))


class Own(ArgmaxOracle):
    """Another oracle, of which nothing is said."""

    def __init__(self, oracle: ArgmaxOracle) -> None:
        super().__init__(oracle.components)
        self.oracle, self.unit, self.binary = oracle, oracle.unit, oracle.binary

    def _argmax_batch(self, thetas: np.ndarray) -> np.ndarray:
        return self.oracle.argmax(thetas)


def program(*, listed: bool) -> tuple[ArgmaxOracle, np.ndarray]:
    """Twelve items, three capacities, each half of all weights; solved, or looked up among its 1,419 answers."""
    rng = np.random.default_rng(17)
    A = rng.integers(1, 10, (3, 12)).astype(float)
    b, theta = np.floor(A.sum(axis=1) / 2), rng.normal(0.5, 1.0, 12)
    if not listed:
        return Program(A, b), theta
    Z = np.array(list(itertools.product((0.0, 1.0), repeat=12)))
    return Own(ExplicitOracle(Z[(b >= Z @ A.T).all(axis=1)])), theta


def items() -> tuple[ArgmaxOracle, np.ndarray]:
    return Own(TopKOracle(30, 10)), np.linspace(2.0, 0.0, 30) + 0.7 * (np.arange(30) < 10)


def roads() -> tuple[ArgmaxOracle, np.ndarray]:
    oracle = grid_oracle(5)
    return Own(oracle), 1.0 + 0.7 * oracle.argmax(np.random.default_rng(0).uniform(size=oracle.dim))


def pairs() -> tuple[ArgmaxOracle, np.ndarray]:
    return Own(MatchingOracle(7, 7)), np.eye(7).ravel()


Make = Callable[[], tuple[ArgmaxOracle, np.ndarray]]
PROGRAM, LISTED = "12-variable program", "the same, looked up"
INSTANCES: dict[str, Make] = {
    PROGRAM: lambda: program(listed=False),
    LISTED: lambda: program(listed=True),
    "30 items, take 10": items,
    "grid 5 x 5": roads,
    "matching 7 x 7": pairs,
}


class Watched(StoppingRule):
    """A rule, and the rows that its looks ask for."""

    def __init__(self, rule: StoppingRule, calls: Calls) -> None:
        self.rule, self.calls, self.rows = rule, calls, 0
        self.name, self.delta, self.ratio = rule.name, rule.delta, rule.ratio

    def check(self, view: View) -> Verdict:
        before = self.calls.rows
        verdict = self.rule.check(view)
        self.rows += self.calls.rows - before
        return verdict


@dataclass(frozen=True)
class Run:
    """How one run ended, and what it has cost."""

    samples: int
    wrong: bool
    rows: int
    looks: int
    seconds: float


def one(name: str, rule: str, quick: bool, seed: int) -> Run:
    """One run, from the construction of the problem on."""
    oracle, theta = INSTANCES[name]()
    best = oracle.argmax(theta)
    oracle.quick = quick
    value, noise = dict(zip(oracle.components, theta, strict=True)), np.random.default_rng([seed, 1])
    calls, start = Calls(oracle), time.perf_counter()
    watched = Watched(stopping_rule(rule, DELTA, 0.0), calls)
    result = identify(
        Problem(oracle, noise_std=NOISE, prior_mean=0.0, prior_std=1.0),
        lambda label: value[label] + NOISE * noise.normal(),
        stopping=watched,
        budget=BUDGET,
        rng=seed,
    )
    seconds = time.perf_counter() - start
    wrong = result.stop_reason == rule and not has_equal_value(result.z, best, theta)
    return Run(result.samples, wrong, calls.rows, watched.rows, seconds)


Results = dict[tuple[str, str, bool], list[Run]]


def measure(runs: int, workers: Workers, names: Iterable[str] = INSTANCES) -> Results:
    """The same seeds both ways; fewer of the program, of which a row takes milliseconds."""
    found: Results = {}
    for name in names:
        one(name, "posterior", False, 10**6)  # compile
        times = max(2, runs // 5) if name == PROGRAM else runs
        for rule in ("posterior", "certified", "verified") if name == LISTED else ("posterior",):
            for quick in (True, False):
                tasks = ((name, rule, quick, seed) for seed in range(times))
                found[name, rule, quick] = workers.spread(one, tasks, f"rows, {name}, {rule}")
    return found


def table(results: Results) -> str:
    rows = []
    for (name, rule, quick), done in results.items():
        samples, asked, looks, seconds = (
            np.array([getattr(run, part) for run in done]) for part in ("samples", "rows", "looks", "seconds")
        )
        rows.append(
            [name, rule, "as if quick" if quick else "counted", len(done),
             f"{samples.mean():,.0f} ± {2 * samples.std() / len(done) ** 0.5:,.0f}", sum(run.wrong for run in done),
             f"{asked.mean():,.0f}", f"{asked.sum() / samples.sum():.1f}", f"{looks.sum() / samples.sum():.1f}",
             f"{seconds.mean():.2f}"]
        )  # fmt: skip
    header = ["set", "rule", "rows are", "runs", "samples ± 2 s.e.", "wrong", "oracle calls", "calls per sample",
              "in looks", "seconds"]  # fmt: skip
    return markdown(header, rows)


def verdict(results: Results) -> str:
    """Is the program as fast as wanted?"""
    then, now = (sum(run.seconds for run in results[PROGRAM, "posterior", quick]) for quick in (True, False))
    reached = "yes" if then >= WANTED * now else "NO"
    return f"{PROGRAM}: {then / now:.1f} times faster (wanted: at least {WANTED}): {reached}"
