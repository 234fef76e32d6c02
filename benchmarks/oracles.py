"""Time per argmax, single and in batches of 64, beside a named reference: `python -m benchmarks.oracles`.

Every row is one run in which the rivals take turns. Single calls go through 64 different thetas: on one theta
repeated, the branch predictor would learn the answer, and flatter small problems up to threefold. "ratio" is reference
time / our time for what must be faster, and our time / reference time for overheads; the last column says what is
wanted and whether it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from time import process_time

import networkx as nx
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from tqdm import tqdm

from benchmarks._table import markdown
from benchmarks._timing import best_times
from combopeps import (
    CpSatOracle,
    KnapsackOracle,
    MatchingOracle,
    MilpOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)

BATCH = 64
SOLVED = 16  # thetas in a batch where one takes milliseconds


@dataclass(frozen=True)
class Row:
    """One comparison: microseconds per theta, and the wanted ratio."""

    problem: str
    ours: float
    reference: str
    theirs: float
    at_least: float | None = None  # wanted: theirs / ours >= at_least
    at_most: float | None = None  # wanted: ours / theirs <= at_most

    def cells(self) -> list[str]:
        overhead = self.at_most is not None
        ratio = self.ours / self.theirs if overhead else self.theirs / self.ours
        if self.at_most is not None:
            verdict = f"<= {self.at_most:g} {'yes' if ratio <= self.at_most else 'NO'}"
        elif self.at_least is not None:
            verdict = f">= {self.at_least:g} {'yes' if ratio >= self.at_least else 'NO'}"
        else:
            verdict = "-"
        return [
            self.problem,
            f"{self.ours * 1e6:.2f}",
            self.reference,
            f"{self.theirs * 1e6:.2f}",
            f"{ratio:.2f}",
            verdict,
        ]


def rotating(call: Callable[[np.ndarray], object], items: np.ndarray) -> Callable[[], object]:
    """Call with the next item each time."""
    turn = cycle(items)
    return lambda: call(next(turn))


def assign(matrix: np.ndarray) -> object:
    return linear_sum_assignment(matrix, maximize=True)


def topk() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for d, k, batch in ((1_000, 50, BATCH), (1_000, 50, 1), (100_000, 100, 4)):
        oracle = TopKOracle(d, k)
        thetas = rng.normal(size=(batch, d))
        z = oracle.argmax(thetas[0])
        best = best_times(
            {
                "argmax": lambda o=oracle, t=thetas: o.argmax(t),
                "membership": lambda o=oracle, t=thetas, z=z: o.membership(z, t),
                "numpy": lambda t=thetas, k=k: np.argpartition(t, -k, axis=1)[:, -k:],
            }
        )
        per = {name: seconds / batch for name, seconds in best.items()}
        name = f"top-k {d} choose {k}, batch {batch}"
        wanted = 1.5 if batch == BATCH else None
        yield Row(name, per["argmax"], "np.argpartition", per["numpy"], at_most=wanted)
        if batch == BATCH:
            yield Row(f"{name}, membership", per["membership"], "np.argpartition", per["numpy"], at_least=4)


def grids() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for n, batch_wanted, single_wanted in ((10, None, None), (30, 200, 100), (100, 300, 300)):
        graph = nx.grid_2d_graph(n, n, create_using=nx.DiGraph)
        graph.remove_edges_from([(u, v) for u, v in graph.edges if sum(v) < sum(u)])
        oracle = ShortestPathOracle(graph, (0, 0), (n - 1, n - 1))
        thetas = rng.uniform(size=(BATCH, oracle.dim))
        for (u, v), length in zip(oracle.components, thetas[0], strict=True):
            graph[u][v]["weight"] = length
        best = best_times(
            {
                "single": rotating(oracle.argmax, thetas),
                "batch": lambda o=oracle, t=thetas: o.argmax(t),
                "networkx": lambda g=graph, n=n: nx.bellman_ford_path(g, (0, 0), (n - 1, n - 1)),
            }
        )
        name, reference = f"grid {n} x {n}", "networkx.bellman_ford_path"
        yield Row(f"{name}, single", best["single"], reference, best["networkx"], at_least=single_wanted)
        yield Row(f"{name}, batch 64", best["batch"] / BATCH, reference, best["networkx"], at_least=batch_wanted)


def cyclic() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    graph = road_network(nodes=24, arcs=76, seed=0)
    oracle = ShortestPathOracle(graph, 0, 23, prune=False)
    thetas = rng.uniform(1, 10, size=(BATCH, oracle.dim))
    for (u, v), length in zip(oracle.components, thetas[0], strict=True):
        graph[u][v]["weight"] = length
    best = best_times(
        {
            "single": rotating(oracle.argmax, thetas),
            "batch": lambda: oracle.argmax(thetas),
            "networkx": lambda: nx.dijkstra_path(graph, 0, 23),
        }
    )
    name, reference = "cyclic 24 nodes 76 arcs", "networkx.dijkstra_path"
    yield Row(f"{name}, single", best["single"], reference, best["networkx"])
    yield Row(f"{name}, batch 64", best["batch"] / BATCH, reference, best["networkx"], at_least=10)


def dense_matchings() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for n in (10, 30, 100, 300):
        oracle = MatchingOracle(n, n)
        thetas = rng.normal(size=(BATCH if n <= 100 else 4, oracle.dim))
        matrices = thetas.reshape(-1, n, n)
        best = best_times(
            {
                "single": rotating(oracle.argmax, thetas),
                "scipy": rotating(assign, matrices),
                "batch": lambda o=oracle, t=thetas: o.argmax(t),
                "scipy batch": lambda ms=matrices: [assign(m) for m in ms],
            }
        )
        wanted, name, reference = 1.5 if n >= 30 else None, f"matching {n} x {n}", "linear_sum_assignment"
        size = len(thetas)
        yield Row(f"{name}, single", best["single"], reference, best["scipy"], at_most=wanted)
        yield Row(f"{name}, batch {size}", best["batch"] / size, reference, best["scipy batch"] / size, at_most=wanted)


def sparse_matchings() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for n, degree, wanted in ((100, 10, None), (300, 10, None), (2000, 10, 15)):
        oracle = MatchingOracle(n, n, edges=sparse_edges(n, degree, seed=1))
        theta = rng.normal(size=oracle.dim)
        dense = np.full((n, n), -np.inf)
        dense[tuple(np.array(oracle.components).T)] = theta
        best = best_times(
            {
                "ours": lambda o=oracle, t=theta: o.argmax(t),
                "scipy": lambda m=dense: assign(m),
            }
        )
        name = f"matching n={n} degree {degree} ({oracle.engine})"
        yield Row(name, best["ours"], "dense linear_sum_assignment", best["scipy"], at_least=wanted)


def trees() -> Iterator[Row]:
    """Weights are positive: SciPy takes a zero for a missing edge. Time on the processor: others matter less."""
    rng = np.random.default_rng(0)
    graphs = {
        "200 nodes": (nx.gnm_random_graph(200, 1000, seed=1), 30, 2),
        "500 nodes": (nx.connected_watts_strogatz_graph(500, 4, 0.3, seed=1), 30, 2),
        "complete": (nx.complete_graph(100), 30, 2),
        "grid": (nx.convert_node_labels_to_integers(nx.grid_2d_graph(100, 100)), None, None),
    }
    for name, (graph, networkx_wanted, scipy_wanted) in graphs.items():
        oracle = SpanningTreeOracle(graph)
        thetas = rng.uniform(size=(BATCH, oracle.dim))
        z, same = oracle.argmax(thetas[0]), thetas[:1].repeat(BATCH, axis=0)
        ends, size = tuple(np.array(oracle.components).T), (len(graph), len(graph))
        matrices = [csr_array((theta, ends), shape=size) for theta in thetas]
        for edge, weight in zip(oracle.components, thetas[0], strict=True):
            graph.edges[edge]["weight"] = weight
        best = best_times(
            {
                "single": rotating(oracle.argmax, thetas),
                "batch": lambda o=oracle, t=thetas: o.argmax(t),
                "membership": lambda o=oracle, z=z, t=same: o.membership(z, t),
                "networkx": lambda g=graph: nx.minimum_spanning_tree(g),
                "scipy": rotating(minimum_spanning_tree, matrices),
            },
            clock=process_time,
        )
        name, batch = f"trees, {name}, {oracle.dim} edges", best["batch"] / BATCH
        reference = "networkx.minimum_spanning_tree"
        yield Row(f"{name}, single", best["single"], "csgraph.minimum_spanning_tree", best["scipy"])
        yield Row(f"{name}, batch 64", batch, "csgraph.minimum_spanning_tree", best["scipy"], at_least=scipy_wanted)
        yield Row(f"{name}, batch 64", batch, reference, best["networkx"], at_least=networkx_wanted)
        yield Row(f"{name}, membership of the best", best["membership"] / BATCH, "our argmax", batch)


def programs() -> Iterator[Row]:
    """Lists and tables beside HiGHS; HiGHS beside CP-SAT; batches side by side, and one row after the other."""
    rng = np.random.default_rng(0)
    weights = rng.integers(5, 60, size=60)
    capacity = int(weights.sum() // 3)
    table, solver = KnapsackOracle(weights, capacity), MilpOracle(60, weights[None], -np.inf, capacity)
    thetas = rng.normal(size=(BATCH, 60))
    best = best_times({"table": lambda: table.argmax(thetas), "highs": rotating(solver.argmax, thetas)})
    yield Row("knapsack 60 items, batch 64", best["table"] / BATCH, "HiGHS, single", best["highs"], at_least=20)
    for d, rows in ((12, 3), (30, 5), (60, 5)):
        A = rng.integers(0, 10, size=(rows, d))
        upper = A.sum(axis=1) // 3
        auto, highs = (MilpOracle(d, A, -np.inf, upper, engine=engine) for engine in ("auto", "highs"))
        sat, thetas = cp_sat(A, upper), rng.normal(size=(SOLVED, d))
        calls = {
            "auto": lambda o=auto, t=thetas: o.argmax(t),
            "highs": lambda o=highs, t=thetas: o.argmax(t),
            "highs, one by one": lambda o=highs, t=thetas: o._argmax_batch(t),
            "cp-sat": lambda o=sat, t=thetas: o.argmax(t),
            "cp-sat, one by one": lambda o=sat, t=thetas: o._argmax_batch(t),
        }
        best = {name: seconds / SOLVED for name, seconds in best_times(calls, rounds=3).items()}
        name = f"program {d} variables {rows} rows, batch {SOLVED}"
        if auto.engine == "list":
            yield Row(f"{name}, listed", best["auto"], "HiGHS", best["highs"], at_least=50)
        for engine in ("highs", "cp-sat"):
            yield Row(f"{name}, {engine}", best[engine], "one row after the other", best[f"{engine}, one by one"])
        yield Row(f"{name}, cp-sat", best["cp-sat"], "HiGHS", best["highs"])


def cp_sat(A: np.ndarray, upper: np.ndarray) -> CpSatOracle:
    """The same program as a constraint model."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    x = {i: model.new_bool_var(f"x{i}") for i in range(A.shape[1])}
    for row, most in zip(A.tolist(), upper.tolist(), strict=True):
        model.add(cp_model.LinearExpr.weighted_sum(list(x.values()), row) <= most)
    return CpSatOracle(model, x)


def road_network(nodes: int, arcs: int, seed: int) -> nx.DiGraph:
    """Two-way streets: a random spanning tree plus random chords, from node 0 to node `nodes - 1`."""
    rng = np.random.default_rng(seed)
    graph = nx.DiGraph()
    for v in range(1, nodes):
        u = int(rng.integers(max(0, v - 4), v))
        graph.add_edges_from([(u, v), (v, u)])
    while graph.number_of_edges() < arcs:
        u, v = (int(i) for i in rng.choice(nodes, size=2, replace=False))
        if abs(u - v) <= 6:
            graph.add_edges_from([(u, v), (v, u)])
    return graph


def sparse_edges(n: int, degree: int, seed: int) -> list[tuple[int, int]]:
    """The diagonal, so that a perfect matching exists, and degree - 1 random others per left node."""
    rng = np.random.default_rng(seed)
    others = [rng.choice(n - 1, size=degree - 1, replace=False) for _ in range(n)]
    return [(i, int((i + 1 + j) % n) if j >= 0 else i) for i in range(n) for j in (-1, *others[i])]


FAMILIES: list[Callable[[], Iterator[Row]]] = [
    topk,
    grids,
    cyclic,
    dense_matchings,
    sparse_matchings,
    trees,
    programs,
]


def main() -> None:
    rows = [row for family in tqdm(FAMILIES, desc="families") for row in family()]
    header = ["problem", "us per argmax", "reference", "us", "ratio", "wanted"]
    print(markdown(header, [row.cells() for row in rows]))


if __name__ == "__main__":
    main()
