"""Guaranteed rules at delta = 0.3, where errors would show: near ties, and a history that was stopped when it misled.

Measurements before the run go on until the worse answer is ahead, which any-time guarantees must bear. A rule that keeps
its promise is accused with probability 1e-4 at most in each cell; rules with a known fault are caught by the same test.
"""

import warnings

import networkx as nx
import numpy as np
import pytest
from runs import Instance, Outcome, is_decided
from test_unit import Sets
from unit_problem import unit_problem
from unlisted import Unlisted

from combopeps import (
    Box,
    CertifiedRule,
    ExplicitOracle,
    MatchingOracle,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    VerifiedRule,
    identify,
)
from combopeps.errors import LinearityWarning, NoiseWarning
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.doubling_peps import DoublingPEPS
from combopeps.policies.registry import policy_class
from combopeps.posterior.least_squares import Measurements
from combopeps.stopping import verified
from combopeps.stopping.certificates.lagrangian import _Search

DELTA, GAP, RUNS = 0.3, 0.02, 1000
RULES = {"certified": CertifiedRule, "verified": VerifiedRule}


class General(ArgmaxOracle):
    """Answers that are neither listed nor 0/1: only the sphere test is left."""

    def __init__(self, Z):
        super().__init__(range(Z.shape[1]))
        self.Z = Z

    def _argmax_batch(self, thetas):
        return self.Z[(thetas @ self.Z.T).argmax(axis=1)]

    def decode(self, z):
        return int(np.abs(self.Z - z).sum(axis=1).argmin())


def cycle():
    oracle = ShortestPathOracle(nx.cycle_graph(4), 0, 2)
    short = set(oracle.decode(oracle.argmax(np.arange(1.0, 5.0))))
    return unit_problem(oracle), np.array([1.0 if {u, v} <= short else 1.0 + GAP / 2 for u, v in oracle.components])


ARMS = np.array([[1.0, 1.0], [1.0, -1.0], [0.5, 1.0]])
CELLS = {
    "top-1": lambda: (unit_problem(TopKOracle(2, k=1)), np.array([0.0, GAP])),
    "matching": lambda: (unit_problem(MatchingOracle(2, 2)), np.array([GAP / 2, 0.0, 0.0, GAP / 2])),
    "cycle": cycle,
    "general arms, listed": lambda: (unit_problem(ExplicitOracle(np.eye(2)), ARMS), np.array([GAP, 0.0])),
    "general arms, sphere": lambda: (
        unit_problem(General(np.array([[1.0, 0.2], [0.2, 1.0]])), ARMS),
        np.array([GAP, 0.0]),
    ),
}


def misled(problem, theta, rng, most=40):
    """A policy whose history ends when a wrong answer is clearly ahead, or after `most` measurements."""
    policy = TopTwo(problem, int(rng.integers(1 << 30)))
    means, best = problem.arms.dot(theta), problem.oracle.argmax(theta)
    for i in range(most):
        arm = i % len(means)
        policy.learn(arm, float(means[arm] + problem.noise_std * rng.normal()))
        z = policy.z_hat()[0]
        if i > 2 * len(means) and (best - z) @ theta > 0 and (z - best) @ policy.posterior.theta_hat[0] > 0.5:
            break
    return policy


def outcome(cell, make, runs, delta, *, seed=0, budget=160, prepare=misled):
    """Of runs that go on where their history ended: no more than it takes to know if they refute delta."""
    problem, theta = CELLS[cell]() if isinstance(cell, str) else cell
    stopped = errors = 0
    samples = np.zeros(runs, dtype=int)
    for i in range(runs):
        rng = np.random.default_rng([seed, i])
        instance = Instance(problem, theta, budget)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)  # a false alarm in a thousand runs is as promised
            warnings.simplefilter("ignore", LinearityWarning)
            policy = prepare(problem, theta, rng)
            result = identify(problem, instance.measure(rng), policy=policy, stopping=make(), budget=budget)
        ended = result.stop_reason not in ("budget", "indistinguishable")
        stopped += ended
        errors += ended and instance.is_wrong(result.z)
        samples[i] = result.samples
        if is_decided(errors, runs - i - 1, runs, delta):
            break
    return Outcome(runs, stopped, errors, samples)


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("rule", RULES)
def test_errors_are_as_rare_as_promised(rule, cell):
    found = outcome(cell, lambda: RULES[rule](DELTA), RUNS, DELTA)
    assert found.stopped > 0
    assert not found.refutes(DELTA)


@pytest.mark.parametrize("rule", RULES)
def test_a_few_of_them(rule):
    assert not outcome("matching", lambda: RULES[rule](DELTA), 12, DELTA).refutes(DELTA)


def unmisled(problem, theta, rng):
    return TopTwo(problem, int(rng.integers(1 << 30)))


def doubling(problem, theta, rng):
    return policy_class("doubling-peps")(problem, int(rng.integers(1 << 30)))


NEAR_TIE_OF_SETS = np.array(
    [3.0, GAP / 2, 0.0, -3.0, -3.0]
)  # the second and the third of five, of which two are wanted
OFFSET = (
    unit_problem(TopKOracle(2, k=1), prior_std=100.0, space=Box(-300.0, 300.0)),
    np.array([100.0, 100.0 + GAP]),
)


@pytest.mark.slow
def test_a_penalty_that_ignores_the_unit_is_caught(monkeypatch):
    """With unit = 2 the evidence then counts four times. For sets that cannot be listed: others need no penalty."""
    cell, delta = (unit_problem(Unlisted(Sets(2.0)), prior_std=3.0), NEAR_TIE_OF_SETS), 0.05
    sound = outcome(cell, lambda: VerifiedRule(delta), 60, delta, prepare=unmisled, budget=300)
    assert not sound.refutes(delta)
    start = _Search.__init__

    def ignorant(self, *arguments):
        start(self, *arguments)
        self.size = 1.0

    monkeypatch.setattr(_Search, "__init__", ignorant)
    assert outcome(cell, lambda: VerifiedRule(delta), 250, delta, prepare=unmisled, budget=300).refutes(delta)


@pytest.mark.slow
def test_a_rival_that_is_dropped_is_caught(monkeypatch):
    """A history that misled, and no bet against the answer that is better in truth: the worse one is confirmed."""
    cell = unit_problem(TopKOracle(3, k=1)), np.array([-3.0, 0.0, GAP])
    sound = outcome(cell, lambda: VerifiedRule(DELTA), 200, DELTA)
    assert not sound.refutes(DELTA)
    true = verified.rival_rows
    monkeypatch.setattr(verified, "rival_rows", lambda *arguments: true(*arguments)[[0]])
    assert outcome(cell, lambda: VerifiedRule(DELTA), 200, DELTA).refutes(DELTA)


class ReadOff(DoublingPEPS):
    """Negative control: sums that are read off the posterior, which this policy begins anew."""

    def measurements(self):
        return Measurements(self.problem.signal, self.pulls[0].astype(float), self.posterior.moment[0].copy())


def read_off(problem, theta, rng):
    return ReadOff(problem, int(rng.integers(1 << 30)))


@pytest.mark.slow
def test_differences_across_posteriors_are_caught():
    sound = outcome(OFFSET, lambda: CertifiedRule(0.1), 100, 0.1, prepare=doubling)
    assert not sound.refutes(0.1)
    assert outcome(OFFSET, lambda: CertifiedRule(0.1), 100, 0.1, prepare=read_off).refutes(0.1)


@pytest.mark.slow
def test_a_proof_on_fresh_results_does_not_rest_on_the_sums_of_the_policy():
    assert not outcome(OFFSET, lambda: VerifiedRule(0.1), 100, 0.1, prepare=read_off).refutes(0.1)
