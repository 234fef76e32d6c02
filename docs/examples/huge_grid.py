"""The shortest way across a 50 x 50 grid, right and up only: 10^28 possible answers.

All streets take 1 minute, except those along one hidden way, which take none. The noise of one measurement is as large
as that gap. Streets far from the good way need hardly be measured; the question is to find out which these are. Takes
less than a minute.
"""

import time
from itertools import pairwise

import networkx as nx
import numpy as np

from combopeps import Problem, Result, ShortestPathOracle, identify

SIDE = 50
NOISE = 1.0

Corner = tuple[int, int]


def city() -> nx.DiGraph:
    """One-way streets to the right and up."""
    streets = nx.DiGraph()
    for x in range(SIDE):
        for y in range(SIDE):
            if x + 1 < SIDE:
                streets.add_edge((x, y), (x + 1, y))
            if y + 1 < SIDE:
                streets.add_edge((x, y), (x, y + 1))
    return streets


def hidden_way(rng: np.random.Generator) -> list[Corner]:
    """49 steps to the right and 49 up, in random order."""
    steps = rng.permutation([(1, 0)] * (SIDE - 1) + [(0, 1)] * (SIDE - 1))
    return [(0, 0), *((int(x), int(y)) for x, y in steps.cumsum(axis=0))]


def main(budget: int | None = None, seed: int = 0) -> Result:
    """Measure one street at a time until the shortest way is known."""
    rng = np.random.default_rng(seed)
    way = hidden_way(rng)
    fast = set(pairwise(way))

    def measure(street: tuple[Corner, Corner]) -> float:
        return float(street not in fast) + NOISE * rng.normal()

    oracle = ShortestPathOracle(city(), (0, 0), (SIDE - 1, SIDE - 1))
    print(f"10^{oracle.log_cardinality / np.log(10):.0f} answers, {oracle.dim} unknown numbers")
    began = time.perf_counter()
    result = identify(
        Problem(oracle, noise_std=NOISE, prior_mean=0.0, prior_std=1.0), measure, delta=0.05, budget=budget, rng=seed
    )
    seconds = time.perf_counter() - began

    turns = ["right" if here[0] < there[0] else "up" for here, there in pairwise(result.answer)]
    print(f"Found: {' '.join(turns)}")
    print(f"Corners that do not belong there: {sorted(set(result.answer) - set(way))}")
    print(f"{result.samples} measurements; wrong with probability {result.error_text}")
    print(f"{seconds:.0f} seconds, {1e3 * seconds / result.samples:.2f} milliseconds per round")
    on_the_way = sum(result.pulls[street] for street in fast)
    print(f"{on_the_way} measurements of the {len(fast)} streets along the hidden way", end="; ")
    print(f"{sum(n == 0 for n in result.pulls.values())} of the others were never measured")
    return result


if __name__ == "__main__":
    main()
