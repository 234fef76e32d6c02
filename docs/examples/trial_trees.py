"""Which cables join all sites at the least cost, if costs are only known after a bid?

Eight sites, 28 possible cables. A contractor who bids for a network that joins all sites names a price for each of its
seven cables, more or less by luck. Which networks should be put out to tender before the cheapest one is known?
"""

import networkx as nx
import numpy as np

from combopeps import Problem, Result, SpanningTreeOracle, identify

SITES = ["archive", "barn", "clinic", "depot", "exchange", "farm", "garage", "hall"]
NOISE = 1.0  # standard deviation of one bid for one cable, in thousands
TYPICAL = 12.0  # thousands; how large prices may be expected to be


def prices(seed: int = 3) -> dict[tuple[str, str], float]:
    """What a cable costs on average, which the library never sees."""
    rng = np.random.default_rng(seed)
    return {pair: round(float(rng.uniform(4.0, 20.0)), 1) for pair in nx.complete_graph(SITES).edges}


def main(budget: int | None = None, seed: int = 0) -> Result:
    """Put one network after the other out to tender until the cheapest is known."""
    luck, price = np.random.default_rng(seed), prices()

    def tender(cables: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
        return {cable: price[cable] + NOISE * luck.normal() for cable in cables}

    oracle = SpanningTreeOracle(nx.complete_graph(SITES))
    problem = Problem(oracle, noise_std=NOISE, prior_std=TYPICAL, actions="answers", prior_mean=0.0)
    result = identify(problem, tender, delta=0.05, budget=budget, rng=seed)

    bids = result.actions
    print(f"{np.exp(oracle.log_cardinality):,.0f} networks of {len(SITES) - 1} cables")
    print(f"Cheapest:       {', '.join(f'{here} - {there}' for here, there in result.answer)}")
    print(f"Closest rival:  {', '.join(f'{here} - {there}' for here, there in result.runner_up)}")
    print(f"{bids} tenders, {result.samples} prices; wrong with probability {result.error_text}")
    return result


if __name__ == "__main__":
    main()
