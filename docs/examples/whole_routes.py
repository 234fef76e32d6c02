"""Which way through the city is the fastest, if every trip is timed at each corner?

A city of 6 x 6 corners whose streets lead east or south. A courier drives from one end to the other and notes the time
of every street on the way: one trip, ten readings. Which routes should be driven before the fastest one is known?
"""

import networkx as nx
import numpy as np

from combopeps import Problem, Result, ShortestPathOracle, identify

CORNERS = 6
NOISE = 1.0  # standard deviation of the time through one street, in minutes
TYPICAL = 4.0  # minutes; how large these times may be expected to be


def city(seed: int = 6) -> nx.DiGraph:
    """Streets with their average minutes, which the library never sees."""
    rng, streets = np.random.default_rng(seed), nx.DiGraph()
    for x in range(CORNERS):
        for y in range(CORNERS):
            for corner in ((x + 1, y), (x, y + 1)):
                if max(corner) < CORNERS:
                    streets.add_edge((x, y), corner, minutes=round(float(rng.uniform(1.0, 7.0)), 1))
    return streets


def main(budget: int | None = None, seed: int = 0) -> Result:
    """Drive one route after the other until the fastest is known."""
    traffic, streets = np.random.default_rng(seed), city()

    def drive(route: list[tuple[int, int]]) -> list[float]:
        return [streets.edges[street]["minutes"] + NOISE * traffic.normal() for street in nx.utils.pairwise(route)]

    oracle = ShortestPathOracle(streets, (0, 0), (CORNERS - 1, CORNERS - 1))
    problem = Problem(oracle, noise_std=NOISE, prior_std=TYPICAL, actions="answers", prior_mean=0.0)
    result = identify(problem, drive, delta=0.05, budget=budget, rng=seed)

    trips = result.actions
    print(f"{np.exp(oracle.log_cardinality):,.0f} routes over {oracle.dim} streets")
    print(f"Fastest route:  {' '.join(f'{x}{y}' for x, y in result.answer)}")
    print(f"Closest rival:  {' '.join(f'{x}{y}' for x, y in result.runner_up)}")
    print(f"{trips} trips, {result.samples} readings; wrong with probability {result.error_text}")
    return result


if __name__ == "__main__":
    main()
