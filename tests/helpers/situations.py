"""Small problems at a wanted P(Alt), with and without a box, for the statistical tests."""

from dataclasses import dataclass
from functools import cache
from math import log

import networkx as nx
import numpy as np

from benchmarks._problems import Problem, at_probability, grid, matching, sphere, topk
from combopeps import Box, ShortestPathOracle
from combopeps.alternatives import HalfSpaceSampler, RejectionSampler, current_answer
from combopeps.posterior import Arms, GaussianPosterior, RealSpace

PROBLEMS = {
    "top-k": lambda: topk(12, 3),
    "grid": lambda: grid(6),
    "matching": lambda: matching(5),
    "sphere": lambda: sphere(20, 6, dense=True),
}


@dataclass(frozen=True)
class Situation:
    posterior: GaussianPosterior
    oracle: object
    space: object = None

    @property
    def z_hat(self):
        return current_answer(self.posterior, self.oracle, self.space)

    def draw(self, sampler, n, seed):
        return sampler.sample(self.posterior, self.oracle, self.z_hat, n, seed, space=self.space)


@cache
def at(name, p, *, boxed=False):
    """A problem of PROBLEMS with P(Alt), given the box if there is one, close to p."""
    problem = PROBLEMS[name]()
    posterior = at_probability(problem, p)
    if not boxed:
        return Situation(posterior, problem.oracle)
    return _boxed(problem, posterior, p)


def _boxed(problem, posterior, p):
    """Half a standard deviation on one side of theta_hat, two on the other, sides at random.

    Such a box cuts off most of the tails, so theta is scaled down again until P(Alt | box) is close to p.
    """
    rng = np.random.default_rng(7)
    near, far = np.where(rng.random((1, problem.oracle.dim)) < 0.5, [[1.0], [2.5]], [[2.5], [1.0]])
    spread = np.sqrt(np.diag(_covariance(posterior)))
    full = posterior.theta_hat[0]
    z_hat = problem.oracle.argmax(full)
    low, high = 0.0, 1.0
    for _ in range(12):
        scale = 0.5 * (low + high)
        trial = _scaled(problem, posterior, scale)
        box = Box(trial.theta_hat[0] - near * spread, trial.theta_hat[0] + far * spread)
        found = HalfSpaceSampler(max_rays=512).probability(trial, problem.oracle, z_hat, 0, draws=4000, space=box)
        low, high = (low, scale) if found.log_probability < log(p) else (scale, high)
    return Situation(trial, problem.oracle, box)


def _scaled(problem, posterior, scale):
    reference = problem.posterior(1.0).theta_hat[0]
    return problem.posterior(scale * float(posterior.theta_hat[0] @ reference / (reference @ reference)))


def _covariance(posterior):
    return np.stack([posterior.covariance_dot(e[None])[0] for e in np.eye(posterior.dim)])


@cache
def reference(name, p, n, *, boxed=False):
    """A long rejection run."""
    return at(name, p, boxed=boxed).draw(RejectionSampler(cap=200_000_000), n, seed=11)


def road_network(side=4, seed=3):
    """Two-way streets on a square: theta >= 0."""
    graph = nx.grid_2d_graph(side, side).to_directed()
    return ShortestPathOracle(graph, (0, 0), (side - 1, side - 1))


def measured(oracle, theta, count, arms=None, noise_std=1.0, **options):
    """The posterior after `count` noiseless measurements of every arm."""
    arms = Arms.of(oracle, arms)
    posterior = GaussianPosterior.start(arms.scaled(np.full(len(arms), 1.0 / noise_std)), **options)
    for arm in range(len(posterior.arms)):
        posterior.update(arm, float(posterior.arms.row(arm) @ theta), count=count)
    return posterior


__all__ = ["PROBLEMS", "Problem", "RealSpace", "Situation", "at", "measured", "reference", "road_network"]
