"""What a round with actions costs, beside one argmax and d normals in the same process."""

from __future__ import annotations

from time import process_time

import numpy as np

from benchmarks._table import markdown
from benchmarks._timing import best_times
from benchmarks.policies import POLICIES, instances
from combopeps import Policy, Problem, Session

FACTOR, SLACK = 6.0, 300e-6
SIZES = ("grid 100 x 100", "matching 100 x 100", "trees of 100 nodes")


def round_times(policy: Policy, theta: np.ndarray, rounds: int, seed: int) -> np.ndarray:
    """Seconds of every round, of the processor, measuring left out."""
    session, rng, seconds = Session(policy.problem, policy=policy), np.random.default_rng(seed), np.empty(rounds)
    for t in range(rounds):
        start = process_time()
        query = session.ask()
        middle = process_time()
        parts = np.array(query.arms)
        values = (theta[parts] + policy.problem.noise_std * rng.standard_normal(len(parts))).tolist()
        resume = process_time()
        session.tell(query, values, confirm=True)
        seconds[t] = middle - start + process_time() - resume
    return seconds


def table(rounds: int) -> str:
    """One row per instance and policy."""
    rows, places = [], instances()
    for name in SIZES:
        oracle, theta, noise, _ = places[name]
        rng = np.random.default_rng(1)
        floor = best_times({"floor": lambda o=oracle, g=rng: o.argmax(g.standard_normal(o.dim))}, clock=process_time)
        limit = FACTOR * floor["floor"] + SLACK
        problem = Problem(oracle, noise_std=noise, actions="answers", prior_mean=0.0, prior_std=1.0)
        for kind, make in POLICIES.items():
            round_times(make(problem, rng=0), theta, 30, seed=0)  # compiles
            seconds = round_times(make(problem, rng=2), theta, rounds, seed=3)
            early, late = seconds[: rounds // 2].mean(), seconds[rounds // 2 :].mean()
            good = "yes" if seconds.mean() <= limit else "NO"
            figures = [f"{1e6 * value:,.0f}" for value in (floor["floor"], seconds.mean(), early, late)]
            rows.append([name, oracle.dim, kind, rounds, *figures, f"<= {1e6 * limit:,.0f} {good}"])
            print(*rows[-1], sep="   ", flush=True)
    header = ["instance", "d", "policy", "rounds", "argmax and d normals, us", "a round, us", "first half",
              "second half", "wanted"]  # fmt: skip
    return markdown(header, rows)
