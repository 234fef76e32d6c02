"""Thirty people, thirty jobs, one job each: 10^32 possible assignments.

Every person is good at one job of their own, and nobody knows at which: worth 1, every other pair 0. The noise of one
measurement is as large as that gap. Takes less than a minute.
"""

import time

import numpy as np

from combopeps import MatchingOracle, Problem, Result, identify

N = 30
NOISE = 1.0


def main(budget: int | None = None, seed: int = 0) -> Result:
    """Measure one pair at a time until the best assignment is known."""
    rng = np.random.default_rng(seed)
    talent = rng.permutation(N)  # the job of each person

    def measure(pair: tuple[int, int]) -> float:
        person, job = pair
        return float(job == talent[person]) + NOISE * rng.normal()

    oracle = MatchingOracle(N, N)
    print(f"10^{oracle.log_cardinality / np.log(10):.0f} answers, {oracle.dim} unknown numbers")
    began = time.perf_counter()
    result = identify(
        Problem(oracle, noise_std=NOISE, prior_mean=0.0, prior_std=1.0), measure, delta=0.05, budget=budget, rng=seed
    )
    seconds = time.perf_counter() - began

    print(f"Found: {result.answer}")
    print(f"People with the wrong job: {[person for person, job in result.answer.items() if job != talent[person]]}")
    print(f"{result.samples} measurements; wrong with probability {result.error_text}")
    print(f"{seconds:.0f} seconds, {1e3 * seconds / result.samples:.2f} milliseconds per round")
    good = sum(result.pulls[person, int(job)] for person, job in enumerate(talent))
    print(
        f"Measurements per pair: {good / N:.0f} of a good one, {(result.samples - good) / (N * N - N):.0f} of another"
    )
    return result


if __name__ == "__main__":
    main()
