"""A set of answers of your own: which roads should be dug up to connect all villages by cable, at the least cost?

Answers are spanning trees, which the library does not know. All it needs is a class with one method that finds the
best answer when costs are known: ten lines, with networkx. `check_oracle` tells whether they keep the promises that
everything else relies on. After that, `identify` finds the cheapest tree from noisy estimates of single roads.
"""

import networkx as nx
import numpy as np

from combopeps import ArgmaxOracle, Problem, Result, check_oracle, identify

NOISE = 2.0  # standard deviation of one estimate, in thousands
TYPICAL = 10.0  # thousands; how large the costs may be expected to be, before anything is known

# True cost of each road, in thousands. The library never sees this table, only noisy estimates.
COSTS = {
    ("Aldham", "Birch"): 6, ("Aldham", "Copford"): 9, ("Birch", "Copford"): 4, ("Birch", "Easthorpe"): 11,
    ("Copford", "Dedham"): 8, ("Copford", "Easthorpe"): 5, ("Dedham", "Fingringhoe"): 7, ("Dedham", "Great Tey"): 12,
    ("Easthorpe", "Fingringhoe"): 10, ("Easthorpe", "Great Tey"): 6, ("Fingringhoe", "Great Tey"): 13,
}  # fmt: skip


class SpanningTreeOracle(ArgmaxOracle):
    """The spanning tree of least total cost; answers are minus an indicator, since the library maximises."""

    unit = -1.0
    binary = antichain = True  # entries 0 and unit, and no tree contains another: certificates then cost few calls

    def __init__(self, edges):
        super().__init__(edges)  # one label per coordinate of theta

    def _argmax_batch(self, thetas):
        best = np.zeros(thetas.shape)
        for z, theta in zip(best, thetas, strict=True):
            graph = nx.Graph((*edge, {"weight": theta[i], "i": i}) for i, edge in enumerate(self.components))
            z[[road["i"] for _, _, road in nx.minimum_spanning_edges(graph)]] = self.unit
        return best


def main(budget: int | None = None, seed: int = 0) -> Result:
    """Check the oracle, then have one road at a time estimated until the cheapest tree is known."""
    surveyors = np.random.default_rng(seed)

    def estimate(road: tuple[str, str]) -> float:
        return COSTS[road] + NOISE * surveyors.normal()

    oracle = SpanningTreeOracle(COSTS)
    print(check_oracle(oracle))

    problem = Problem(oracle, noise_std=NOISE, prior_std=TYPICAL, prior_mean=0.0)
    result = identify(problem, estimate, delta=0.05, budget=budget, rng=seed)

    print(f"{result.samples} estimates; wrong with probability {result.error_text}")
    print("Estimates per road:")
    for road, estimates in result.pulls.items():
        mark = "dig" if road in result.answer else "maybe" if road in result.runner_up else ""
        print(f"  {' - '.join(road):26}{estimates:4}  {mark}")
    return result


if __name__ == "__main__":
    main()
