"""The best 50 of 1000 items: 10^85 possible answers.

Fifty items, nobody knows which, are worth 1, all others 0, and the noise of one measurement is as large as that gap. So
one look at an item tells little, and looking at all of them often enough is expensive. Takes less than a minute.
"""

import time

import numpy as np

from combopeps import Problem, Result, TopKOracle, identify

NOISE = 1.0


def main(budget: int | None = None, seed: int = 0) -> Result:
    """Measure one item at a time until the best 50 are known."""
    rng = np.random.default_rng(seed)
    oracle = TopKOracle(1000, k=50)
    worth = np.zeros(1000)
    worth[rng.choice(1000, size=50, replace=False)] = 1.0

    def measure(item: int) -> float:
        return worth[item] + NOISE * rng.normal()

    print(f"10^{oracle.log_cardinality / np.log(10):.0f} answers, {oracle.dim} unknown numbers")
    began = time.perf_counter()
    result = identify(
        Problem(oracle, noise_std=NOISE, prior_mean=0.0, prior_std=1.0), measure, delta=0.05, budget=budget, rng=seed
    )
    seconds = time.perf_counter() - began

    print(f"Found: {sorted(result.answer)}")
    print(f"Items that do not belong there: {sorted(set(result.answer) - set(np.flatnonzero(worth)))}")
    print(f"{result.samples} measurements; wrong with probability {result.error_text}")
    print(f"{seconds:.0f} seconds, {1e3 * seconds / result.samples:.2f} milliseconds per round")
    good = sum(pulls for item, pulls in result.pulls.items() if worth[item])
    print(f"Measurements per item: {good / 50:.0f} of a good one, {(result.samples - good) / 950:.0f} of another")
    return result


if __name__ == "__main__":
    main()
