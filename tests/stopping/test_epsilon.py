"""With an epsilon: what is proved by facets, that it holds, and that a larger epsilon does not cost more measurements."""

import warnings

import networkx as nx
import numpy as np
import pytest
from runs import is_decided
from scipy.stats import binomtest

from combopeps import (
    CertifiedRule,
    MatchingOracle,
    Problem,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    VerifiedRule,
    identify,
)
from combopeps.oracles.base import LogCardinality


def problem(oracle, noise=1.0, prior_mean=0.0):
    return Problem(oracle, noise_std=noise, prior_mean=prior_mean, prior_std=1.0)


class Large(TopKOracle):
    """Too many answers to be listed, as far as the rule knows; facets can be."""

    @property
    def log_cardinality(self):
        return LogCardinality(30.0, exact=True)


class Generous(VerifiedRule):
    """Negative control: every facet may be better by all of epsilon."""

    def _facet_epsilon(self, oracle, z):
        return 0.999 * self.epsilon


def wrong_runs(rule, runs, delta, epsilon=1.0):
    """Runs that confirm an answer which three swaps together make worse by 1.02 epsilon; a history speaks for it."""
    wrong, truth = 0, np.r_[np.zeros(3), np.full(3, 0.34 * epsilon)]
    for i in range(runs):
        noise, policy = np.random.default_rng([i, 1]), TopTwo(problem(Large(6, k=3)), i)
        for item in range(6):
            policy.learn(item, 0.4 if item < 3 else 0.0, 40.0, 40)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = identify(
                policy.problem, lambda item, noise=noise: truth[item] + noise.normal(), policy=policy,
                stopping=rule(delta, epsilon=epsilon), budget=400,
            )  # fmt: skip
        wrong += result.stop_reason == "verified" and result.answer == {0, 1, 2}
        if is_decided(wrong, runs - i - 1, runs, delta):
            break
    return wrong


def is_refuted(errors, runs, delta):
    """A rule that keeps its promise is accused with probability 1e-4 at most."""
    return binomtest(errors, runs, delta, alternative="greater").pvalue < 1e-4


def test_facets_with_their_share_of_epsilon_are_a_proof():
    assert not is_refuted(wrong_runs(VerifiedRule, 40, 0.3), 40, 0.3)


def test_facets_with_all_of_epsilon_are_caught():
    assert is_refuted(wrong_runs(Generous, 40, 0.3), 40, 0.3)


def streets(side=6, seed=5):
    oracle = ShortestPathOracle(nx.grid_2d_graph(side, side), (0, 0), (side - 1, side - 1))
    return problem(oracle, 0.3, 1.0), np.random.default_rng(seed).uniform(0.5, 1.5, oracle.dim)


def items():
    return problem(TopKOracle(30, k=5), prior_mean=1.5), np.linspace(0.0, 3.0, 30)


def pairs(seed=0):
    return problem(MatchingOracle(6, 6), 0.5), np.random.default_rng(seed).uniform(0.0, 2.0, 36)


def samples(make, rule, epsilon, seed, budget=60_000):
    stated, theta = make()
    means, noise = dict(zip(stated.arms.labels, stated.arms.dot(theta), strict=True)), np.random.default_rng([seed, 1])
    scale = float(stated.noise[0])
    result = identify(
        stated,
        lambda arm: means[arm] + scale * noise.normal(),
        stopping=rule(0.05, epsilon=epsilon),
        budget=budget,
        rng=seed,
    )
    assert result.evidence.stop
    return result.samples


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "rule", "epsilons"),
    [
        (streets, CertifiedRule, [0.01, 0.1, 0.5]),
        (items, VerifiedRule, [0.02, 0.1, 0.5]),
        (pairs, VerifiedRule, [0.02, 0.1, 0.5]),
    ],
    ids=["streets", "items", "pairs"],
)
def test_a_larger_epsilon_costs_no_more(make, rule, epsilons):
    """Means of 6 runs within 1.4 of those without epsilon, which is 1.1 and three standard errors."""
    without = np.mean([samples(make, rule, 0.0, seed) for seed in range(6)])
    for epsilon in epsilons:
        assert np.mean([samples(make, rule, epsilon, seed) for seed in range(6)]) < 1.4 * without
