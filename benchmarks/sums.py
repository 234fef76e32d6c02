"""Only the sum of a whole route is seen, on maps with cycles: `python -m benchmarks.sums [--quick]`.

Towns of 24 crossings and 38 two-way streets, the size of the Sioux Falls network; 40 routes can be measured, each with
noise on its total length. One table has whole runs, from the first measurement to the posterior stop, looks included.
The other has one town after n measurements of every route: how probable it is that theta >= 0 under the posterior on R^d,
what share of proposals is kept, and the time of a draw in the box and of an alternative, one after each measurement.
Times are of the processor. Writes docs/results/sums/sums.md. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from math import log
from pathlib import Path

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from benchmarks._table import markdown
from combopeps import Problem, ShortestPathOracle, identify
from combopeps.alternatives import HalfSpaceSampler, current_answer
from combopeps.alternatives.truncated_normal import tilted_box
from combopeps.posterior import GaussianPosterior

OUT = Path("docs/results/sums")
CROSSINGS, STREETS, ROUTES = 24, 38, 40
TOWNS, DELTA = (0, 2, 4, 5), 0.05
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Town:
    """Its routes as rows, and the true lengths of its streets."""

    oracle: ShortestPathOracle
    routes: Floats
    lengths: Floats

    def problem(self, noise: float) -> Problem:
        return Problem(self.oracle, arms=self.routes, noise_std=noise, prior_mean=0.0, prior_std=1.0)


def town(seed: int) -> Town:
    """Crossings at random, joined by the shortest streets that do not cross; from one end of the town to the other."""
    from scipy.spatial import Delaunay

    rng = np.random.default_rng(seed)
    places = rng.uniform(size=(CROSSINGS, 2))
    distance = np.linalg.norm(places[:, None] - places, axis=2)
    possible: nx.Graph[int] = nx.Graph()
    for corner in Delaunay(places).simplices.tolist():
        for a, b in zip(corner, corner[1:] + corner[:1], strict=True):
            possible.add_edge(a, b, weight=float(distance[a, b]))
    streets = nx.Graph(nx.minimum_spanning_tree(possible))
    for a, b in sorted(possible.edges, key=lambda edge: distance[edge]):
        if streets.number_of_edges() < STREETS:
            streets.add_edge(a, b)
    start, end = np.unravel_index(distance.argmax(), distance.shape)
    oracle = ShortestPathOracle(streets.to_directed(), int(start), int(end), prune="cuts")
    return Town(oracle, _routes(oracle, rng), rng.uniform(0.2, 1.0, oracle.dim))


def _routes(oracle: ShortestPathOracle, rng: np.random.Generator) -> Floats:
    """The best routes at random lengths, the most frequent first, those that show something new before the others."""
    best = np.abs(oracle.argmax(np.abs(rng.normal(size=(4000, oracle.dim)))))
    rows, counts = np.unique(best, axis=0, return_counts=True)
    rows = rows[np.argsort(-counts, kind="stable")]
    new, seen = np.zeros(len(rows), dtype=bool), np.empty((0, oracle.dim))
    for k, row in enumerate(rows):
        more = np.vstack([seen, row])
        if np.linalg.matrix_rank(more) > len(seen):
            new[k], seen = True, more
    return np.asarray(np.concatenate([rows[new], rows[~new]])[:ROUTES])


def run(seed: int, noise: float) -> list[object]:
    """One line of the first table."""
    place, results = town(seed), np.random.default_rng(100 + seed)
    begin = time.process_time()
    result = identify(
        place.problem(noise),
        lambda x: float(place.routes[x] @ place.lengths + noise * results.normal()),
        delta=DELTA,
        budget=20_000,
    )
    each = 1e3 * (time.process_time() - begin) / result.samples
    right = result.answer == place.oracle.decode(place.oracle.argmax(place.lengths))
    size = f"{place.oracle.dim} streets, rank {np.linalg.matrix_rank(place.routes)}"
    return [seed, size, noise, result.samples, result.stop_reason, "yes" if right else "no", f"{each:.1f}"]


def alternatives(seed: int, counts: tuple[int, ...], rounds: int) -> list[list[object]]:
    """The second table."""
    place, rng, rows = town(seed), np.random.default_rng(seed), []
    oracle, problem = place.oracle, place.problem(1.0)
    for n in counts:
        posterior, sampler = GaussianPosterior.start(problem.signal), HalfSpaceSampler()
        for arm, route in enumerate(place.routes):
            posterior.update(arm, float(route @ place.lengths), count=n)
        z_hat = current_answer(posterior, oracle)
        found = sampler.probability(posterior, oracle, z_hat, rng, draws=4000)
        begin = time.process_time()
        kept, tries = tilted_box(posterior, problem.space).draw(rng, 200, 1_000_000)
        draw = 1e3 * (time.process_time() - begin) / len(kept)
        begin = time.process_time()
        for _ in range(rounds):
            arm = int(rng.integers(len(place.routes)))
            posterior.update(arm, float(place.routes[arm] @ place.lengths + rng.normal()))
            sampler.sample(posterior, oracle, z_hat, 1, rng)
        each = 1e3 * (time.process_time() - begin) / rounds
        theta = found.log_space + log(found.inside / found.tries)
        powers = [f"1e{value / log(10):.0f}" for value in (theta, found.log_probability)]
        shares = [f"{100 * share:.1f} %" for share in (len(kept) / tries, found.accepted / found.proposals)]
        facets = sampler.cone.size if sampler.cone else 0
        rows.append([n, *powers, facets, *shares, f"{draw:.2f}", f"{each:.1f}"])
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one town, written nowhere")
    said = parser.parse_args(arguments)
    seeds, noises = (TOWNS[:1], (0.2,)) if said.quick else (TOWNS, (0.3, 1.0))
    run(seeds[0], 0.1)  # compiles
    runs = [run(seed, noise) for seed in seeds for noise in noises]
    header = ["town", "size", "noise", "measurements", "stop", "right", "ms a measurement"]
    text = markdown(header, runs)
    print(text)
    header = ["n", "P(theta >= 0)", "P(Alt)", "facets", "kept in the box", "kept behind facets"]
    header += ["ms a draw in the box", "ms an alternative"]
    counts = (10, 1000) if said.quick else (10, 30, 100, 1000, 10_000)
    more = markdown(header, alternatives(seeds[-1], counts, 5 if said.quick else 30))
    print(more)
    if not said.quick:
        OUT.mkdir(parents=True, exist_ok=True)
        title = "# Sums of routes on maps with cycles\n\nMade by `python -m benchmarks.sums`."
        (OUT / "sums.md").write_text(f"{title}\n\n{text}\n\n{more}\n")


if __name__ == "__main__":
    main()
