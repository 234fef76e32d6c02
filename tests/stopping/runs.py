"""Many runs of `identify` on one instance: how often a rule stops, how often with a wrong answer."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import binom, binomtest
from unit_problem import unit_problem
from unlisted import Unlisted

from combopeps import (
    ExplicitOracle,
    MatchingOracle,
    Problem,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
    identify,
)
from combopeps.errors import LinearityWarning, NoiseWarning, PriorWarning


@dataclass(frozen=True)
class Instance:
    """A problem, the truth, how long a run may take, and by which factor the noise is larger than stated."""

    problem: Problem
    theta: np.ndarray
    budget: int
    factor: float = 1.0

    def measure(self, rng):
        """Normal noise of the size that the problem states for the arm, times the factor."""
        arms = self.problem.arms
        means = dict(zip(arms.labels, arms.dot(self.theta), strict=True))
        noise = dict(zip(arms.labels, self.factor * self.problem.noise, strict=True))
        return lambda label: means[label] + noise[label] * rng.normal()

    def is_wrong(self, z, epsilon=0.0):
        best = self.problem.oracle.argmax(self.theta)
        return float((best - z) @ self.theta) > epsilon + 1e-12


@dataclass(frozen=True)
class Outcome:
    """Runs that stopped by their rule, wrong ones among these, and the measurements of each run."""

    runs: int
    stopped: int
    errors: int
    samples: np.ndarray

    def refutes(self, delta, false_alarm=1e-4):
        """More errors than delta explains; a rule that keeps its promise is accused with this probability at most."""
        return binomtest(self.errors, self.runs, delta, alternative="greater").pvalue < false_alarm


def is_decided(errors, to_come, runs, delta, false_alarm=1e-4):
    """Is it certain by now whether `Outcome.refutes`, whatever the runs to come bring?"""
    enough = binom.isf(false_alarm, runs, delta) + 1  # the fewest errors that refute delta
    return errors >= enough or errors + to_come < enough


def run_many(make_rule, instance, runs, seed, *, policy="top-two", epsilon=0.0, against=None):
    """Independent runs with a fresh rule each; no more of them than it takes to know if they refute `against`."""
    stopped = errors = 0
    samples = np.zeros(runs, dtype=int)
    for i in range(runs):
        noise = instance.measure(np.random.default_rng([seed, i, 1]))
        rng = np.random.default_rng([seed, i, 0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)  # a false alarm in a thousand runs is as promised
            warnings.simplefilter("ignore", LinearityWarning)
            warnings.simplefilter("ignore", PriorWarning)  # noise beyond what is stated, in negative controls
            result = identify(
                instance.problem, noise, stopping=make_rule(), budget=instance.budget, rng=rng, policy=policy
            )
        samples[i] = result.samples
        ended = result.stop_reason not in ("budget", "indistinguishable")
        stopped += ended
        errors += ended and instance.is_wrong(result.z, epsilon)
        if against is not None and is_decided(errors, runs - i - 1, runs, against):
            break
    return Outcome(runs, stopped, errors, samples)


def near_tie(gap=0.02, budget=400, bad=0):
    """The last item is better than the one before by a gap that the budget cannot see; the first ones are bad."""
    theta = np.concatenate([np.full(bad, -1.0), [0.0, gap]])
    return Instance(unit_problem(TopKOracle(len(theta), k=1)), theta, budget)


def crowd(d=12, gap=0.02, budget=400):
    """One good item among many that are almost as good."""
    return Instance(unit_problem(TopKOracle(d, k=1)), np.concatenate([[gap], np.zeros(d - 1)]), budget)


def top_k(gap=0.3, budget=4000):
    return Instance(unit_problem(TopKOracle(5, k=2)), np.array([gap, gap, 0.0, 0.0, -gap]), budget)


def path(gap=0.02, budget=400):
    """Two routes almost alike, and a bad one."""
    import networkx as nx

    graph = nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3), (0, 3)])
    oracle = ShortestPathOracle(graph, 0, 3)
    length = {(0, 1): 0.5, (1, 3): 0.5, (0, 2): 0.5, (2, 3): 0.5 + gap, (0, 3): 2.5}
    return Instance(unit_problem(oracle), np.array([length[label] for label in oracle.components]), budget)


def cyclic(gap=0.02, budget=150):
    """Two routes almost alike, and a long street between them, both ways."""
    import networkx as nx

    oracle = ShortestPathOracle(nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3), (1, 2), (2, 1)]), 0, 3)
    length = {(0, 1): 0.5, (1, 3): 0.5, (0, 2): 0.5, (2, 3): 0.5 + gap, (1, 2): 2.0 + gap, (2, 1): 2.0 + gap}
    problem = unit_problem(oracle, noise_std={edge: 1.0 if edge[0] < edge[1] else 0.5 for edge in oracle.components})
    return Instance(problem, np.array([length[label] for label in oracle.components]), budget)


def matching(gap=0.02, budget=400):
    return Instance(unit_problem(MatchingOracle(2, 2)), np.array([gap / 2, 0.0, 0.0, gap / 2]), budget)


def tree(gap=0.02, budget=400):
    """A bridge, and a triangle of which two edges are almost alike."""
    import networkx as nx

    oracle = SpanningTreeOracle(nx.Graph([(0, 1), (1, 2), (0, 2), (2, 3)]), "max")
    reward = {(0, 1): 1.5, (1, 2): gap, (0, 2): 0.0, (2, 3): 0.5}
    return Instance(unit_problem(oracle), np.array([reward[label] for label in oracle.components]), budget)


def dense(gap=0.02, budget=400):
    """Listed answers, arms that measure sums and differences."""
    arms = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 1.0, 1.0], [0.5, 0.0, 1.0]])
    oracle = ExplicitOracle([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [0.5, 0.5, 0.2]])
    return Instance(unit_problem(oracle, arms), np.array([gap, 0.0, -0.5]), budget)


def unlisted(instance):
    """The same instance, whose answers no rule can list."""
    problem = instance.problem
    return replace(instance, problem=unit_problem(Unlisted(problem.oracle)))


FAMILIES = {
    "top-k": near_tie,
    "crowd": crowd,
    "path": path,
    "cyclic": cyclic,
    "matching": matching,
    "tree": tree,
    "dense": dense,
}
