"""A run searches the facets of an answer once, and its policy and stopping rule use the same sampler."""

from collections import Counter

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import MatchingOracle, TopKOracle, TopTwo, identify
from combopeps.alternatives import RejectionSampler
from combopeps.alternatives.cone import Cone
from combopeps.stopping import base


def measured(problem, theta, seed=0):
    noise = np.random.default_rng(seed)
    truth = dict(zip(problem.oracle.components, theta, strict=True))
    return lambda label: truth[label] + problem.noise_std * noise.normal()


@pytest.mark.parametrize("stopping", ["posterior", "certified"])
@pytest.mark.parametrize("lists", [True, False])
def test_each_answer_is_explored_once(monkeypatch, lists, stopping):
    explored = Counter()
    explore = Cone._explore

    def counted(cone, *args):
        explored[cone.z_hat.tobytes()] += 1
        return explore(cone, *args)

    monkeypatch.setattr(Cone, "_explore", counted)
    oracle = MatchingOracle(4, 4)
    if not lists:
        monkeypatch.setattr(MatchingOracle, "facets_up_to", lambda self, z, most: None)
    theta = 0.2 * np.random.default_rng(3).uniform(size=16) + 0.8 * np.eye(4).ravel()
    problem = unit_problem(oracle, noise_std=0.3)
    drawn = {"policy": "top-two", "stopping": stopping}  # greedy information needs no draws where facets are listed
    result = identify(problem, measured(problem, theta), delta=1e-3, budget=5000, **drawn)
    assert result.stop_reason == stopping
    assert explored, "nothing was explored: the test is vacuous"
    assert explored[result.z.tobytes()] == 1


class CountingSampler(RejectionSampler):
    """A user-defined sampler that counts its calls."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def __deepcopy__(self, memo):
        return CountingSampler()

    def _sample(self, question, n, rng):
        self.calls[n] += 1
        return super()._sample(question, n, rng)

    def _probability(self, question, draws, rng):
        self.calls["probability"] += 1
        return super()._probability(question, draws, rng)


def test_a_custom_sampler_is_used_by_policy_and_rule():
    problem = unit_problem(TopKOracle(5, 2), noise_std=0.3)
    sampler = CountingSampler()
    policy = TopTwo(problem, rng=0, sampler=sampler)
    result = identify(problem, measured(problem, np.array([1.0, 0.9, 0.3, 0.2, 0.1])), policy=policy, delta=0.02)
    assert result.stop_reason == "posterior"
    assert sampler.calls[1] > 10  # the policy's challengers
    assert sampler.calls["probability"] >= 2  # the estimate, and the rule's bound


def test_a_custom_sampler_is_used_for_the_report_of_ties():
    problem = unit_problem(TopKOracle(3, 1), noise_std=0.1)
    sampler = CountingSampler()
    policy = TopTwo(problem, rng=0, sampler=sampler)
    result = identify(problem, measured(problem, np.array([1.0, 1.0, 0.0])), policy=policy, delta=0.01, budget=600)
    assert result.stop_reason == "indistinguishable"
    assert sampler.calls[base._TIE_DRAWS] == 1
