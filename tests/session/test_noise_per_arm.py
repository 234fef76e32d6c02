"""Noise stated arm by arm is the same as rows and results divided by it: the same runs.

With powers of two the division is exact, and so the runs agree measurement by measurement; else the numbers of samples
agree on average. On a network, what it is worth to state the noise of every edge.
"""

import warnings

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Problem, ShortestPathOracle, identify, load_instance
from combopeps.errors import NoiseWarning, PriorWarning
from combopeps.io.generators import generate

BUDGET = 250


def case(name):
    """An instance, its truth, and noise over two decades, in powers of two or not."""
    made = generate(name) if ":" in name else load_instance(name)
    scale = {"soare": 0.05, "topk-paper": 0.1, "two-nets": 0.5}.get(name, 0.03 if name.startswith("grid") else 0.2)
    return made.problem, np.asarray(made.theta), scale


CASES = ("topk-paper", "two-nets", "matching:n=4,degree=4,seed=0", "soare", "grid:n=4,seed=0")


def rows_of(problem):
    return np.stack([problem.arms.dot(unit) for unit in np.eye(problem.oracle.dim)], axis=1)


def pair(name, exact):
    """The problem with a noise for every label, and the one whose rows are divided by it."""
    plain, theta, scale = case(name)
    rows, labels = rows_of(plain), plain.arms.labels
    decades = np.random.default_rng(3).uniform(-1.0, 1.0, len(labels))
    noise = scale * 10.0**decades
    if exact:
        noise = 2.0 ** np.round(np.log2(noise))
    arms = dict(zip(labels, rows, strict=True))
    stated = unit_problem(
        plain.oracle, arms, dict(zip(labels, noise, strict=True)), plain.space, prior_std=plain.prior_std
    )
    scaled = {label: row / std for (label, row), std in zip(arms.items(), noise, strict=True)}
    return stated, unit_problem(plain.oracle, scaled, 1.0, plain.space, prior_std=plain.prior_std), theta, noise


def run(problem, theta, noise, divisor, seed):
    means = dict(
        zip(problem.arms.labels, zip(problem.arms.dot(theta) * divisor, noise, divisor, strict=True), strict=True)
    )
    rng, asked = np.random.default_rng([seed, 1]), []

    def measure(label):
        asked.append(label)
        mean, std, by = means[label]
        return (mean + std * rng.normal()) / by

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        warnings.simplefilter("ignore", PriorWarning)
        result = identify(problem, measure, delta=0.1, budget=BUDGET, rng=seed)
    return asked, result


@pytest.mark.parametrize("name", CASES)
def test_powers_of_two_give_the_same_runs(name):
    stated, scaled, theta, noise = pair(name, exact=True)
    for seed in range(3):
        asked, result = run(stated, theta, noise, np.ones(len(noise)), seed)
        same, other = run(scaled, theta, noise, noise, seed)
        assert asked == same
        assert (result.stop_reason, result.error_probability) == (other.stop_reason, other.error_probability)


@pytest.mark.parametrize("name", CASES)
def test_as_many_samples_on_average(name):
    stated, scaled, theta, noise = pair(name, exact=False)
    runs = (stated, np.ones(len(noise))), (scaled, noise)
    counts = [[run(problem, theta, noise, by, seed)[1].samples for problem, by in runs] for seed in range(8)]
    one, other = np.mean(counts, axis=0)
    assert np.median(counts) < BUDGET  # or the comparison would be of two budgets
    assert 1 / 1.05 <= one / other <= 1.05


def network(n=13):
    """A grid whose lengths spread over a decade and a half, with noise of 30 % of each."""
    graph = nx.DiGraph((u, v) if u < v else (v, u) for u, v in nx.grid_2d_graph(n, n).edges)
    oracle = ShortestPathOracle(graph, (0, 0), (n - 1, n - 1))
    return oracle, np.random.default_rng(1).lognormal(0.0, 1.0, oracle.dim)


def samples(problem, lengths, noise, seed, budget):
    means = dict(zip(problem.oracle.components, zip(lengths, noise, strict=True), strict=True))
    rng = np.random.default_rng([seed, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PriorWarning)
        measure = lambda edge: means[edge][0] + means[edge][1] * rng.normal()  # noqa: E731
        return identify(problem, measure, delta=0.1, budget=budget, rng=seed).samples


def test_relative_noise_that_is_stated_saves_most_of_the_samples():
    oracle, lengths = network()
    assert oracle.dim > 300
    noise = 0.3 * lengths
    known = Problem(oracle, noise_std=noise, prior_mean=1.5, prior_std=2.0)
    largest = known.copy_with(noise_std=float(noise.max()))
    few = samples(known, lengths, noise, 0, 3000)
    assert few < 3000
    assert samples(largest, lengths, noise, 0, 6 * few) >= 5 * few
