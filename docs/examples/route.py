"""Which way from the station to the hospital is the fastest?

A town of 20 junctions and 34 two-way streets. The time a street takes varies from trip to trip, and a trip tells the
time of one street only. Which streets should be driven, and how often, before the fastest route is known?

Streets lead both ways, so the graph has cycles, and the library assumes that no street takes less than no time.
"""

import networkx as nx
import numpy as np

from combopeps import Problem, Result, ShortestPathOracle, identify

NOISE = 1.0  # standard deviation of one trip through one street, in minutes
TYPICAL = 5.0  # minutes; how large the travel times may be expected to be, before anything is measured

# Average minutes through each street. The library never sees this table, only noisy trips.
MINUTES = {
    ("station", "market"): 4.0,
    ("station", "brewery"): 3.0,
    ("station", "post office"): 5.0,
    ("market", "town hall"): 2.0,
    ("market", "brewery"): 2.5,
    ("market", "church"): 3.0,
    ("brewery", "mill"): 3.5,
    ("brewery", "canal lock"): 6.0,
    ("post office", "town hall"): 3.0,
    ("post office", "theatre"): 4.5,
    ("town hall", "theatre"): 2.5,
    ("town hall", "library"): 4.0,
    ("church", "library"): 2.0,
    ("church", "mill"): 4.0,
    ("church", "school"): 5.5,
    ("mill", "old bridge"): 2.0,
    ("mill", "canal lock"): 2.0,
    ("canal lock", "harbour"): 5.0,
    ("old bridge", "harbour"): 4.5,
    ("old bridge", "school"): 3.0,
    ("old bridge", "park"): 3.0,
    ("theatre", "museum"): 3.5,
    ("library", "museum"): 3.0,
    ("library", "university"): 5.0,
    ("museum", "stadium"): 6.0,
    ("museum", "university"): 4.0,
    ("school", "university"): 3.5,
    ("school", "park"): 2.5,
    ("harbour", "new bridge"): 3.0,
    ("park", "new bridge"): 2.0,
    ("park", "hospital"): 5.5,
    ("new bridge", "hospital"): 6.0,
    ("university", "hospital"): 4.0,
    ("stadium", "hospital"): 3.0,
}


def main(budget: int | None = None, seed: int = 0) -> Result:
    """Drive through one street at a time until the fastest route is known."""
    traffic = np.random.default_rng(seed)
    town = nx.Graph()
    town.add_edges_from((here, there, {"minutes": minutes}) for (here, there), minutes in MINUTES.items())

    def drive(street: tuple[str, str]) -> float:
        return town.edges[street]["minutes"] + NOISE * traffic.normal()

    oracle = ShortestPathOracle(town, "station", "hospital")
    problem = Problem(oracle, noise_std=NOISE, prior_std=TYPICAL, prior_mean=0.0)
    result = identify(problem, drive, delta=0.05, budget=budget, rng=seed)

    print(f"{oracle.dim} streets lie on a route; there are at most {np.exp(oracle.log_cardinality):,.0f} routes")
    print(f"Fastest route:  {' - '.join(result.answer)}")
    print(f"Closest rival:  {' - '.join(result.runner_up)}")
    print(f"{result.samples} trips; wrong with probability {result.error_text}")
    print("Driven most often (all other streets less):")
    for (here, there), trips in sorted(result.pulls.items(), key=lambda pull: -pull[1])[:8]:
        print(f"  {here} - {there}: {trips} trips")
    return result


if __name__ == "__main__":
    main()
