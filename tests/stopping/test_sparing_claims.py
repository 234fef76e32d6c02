"""Claims about answers of an oracle that is not quick: valid, and false where a term of the bound is left out."""

import itertools

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, Box, PosteriorRule, TopTwo, identify
from combopeps.alternatives import AutoSampler
from combopeps.alternatives.answer_cache import AnswerCache
from combopeps.alternatives.base import SamplingTask
from combopeps.alternatives.budgeted_cone import BudgetedCone
from combopeps.stopping import posterior as confirming
from combopeps.stopping.posterior import error_bound


class Own(ArgmaxOracle):
    """A user's own oracle around a list of answers; it counts the rows it is asked for."""

    def __init__(self, Z):
        self.Z, self.rows = np.asarray(Z, dtype=float), 0
        super().__init__(range(self.Z.shape[1]))

    def _argmax_batch(self, thetas):
        self.rows += len(thetas)
        return self.Z[(thetas @ self.Z.T).argmax(axis=1)]

    def decode(self, z):
        return tuple(z.tolist())

    def encode(self, answer):
        return np.array(answer)


PAIRS = [z for z in itertools.product((0.0, 1.0), repeat=4) if sum(z) == 2]


def moment(Z, theta, times, known, **options):
    """Question and sampler of a run that has measured each component so often, and has seen these answers only."""
    policy = TopTwo(unit_problem(Own(Z), **options), 0)
    policy.learn_many(range(len(theta)), theta, [float(times)] * len(theta), [times] * len(theta))
    question = SamplingTask(policy.posterior, policy.problem.oracle, policy.z_hat()[0], policy.problem.space)
    sampler = AutoSampler()
    sampler.cone = anew(BudgetedCone(question.oracle, question.z_hat, question.space), known)
    return sampler, question


def anew(cone, known):
    """The same cone, in a run that can afford a look."""
    memory = AnswerCache(cone.oracle, np.asarray(known, dtype=float))
    memory.chosen = 1000
    return BudgetedCone(cone.oracle, cone.z_hat, cone.space, memory)


def attempt(sampler, question, seed, threshold=0.09, epsilon=0.0, t=100):
    rng = np.random.default_rng(seed)
    return error_bound(sampler, question, rng, threshold=threshold, nu=0.01, t=t, epsilon=epsilon, delta=0.1)


def probability(question, epsilon=0.0, draws=200_000):
    """By brute force over the listed answers; in a box by the draws that fall into it."""
    noise = np.random.default_rng(5).standard_normal((draws, question.oracle.dim))
    thetas = question.posterior.theta_hat[0] + noise * question.posterior.std[0]
    thetas = thetas[question.space.contains(thetas)]
    values = thetas @ question.oracle.Z.T
    return float((values.max(axis=1) > thetas @ question.z_hat + epsilon).mean())


CASES = {
    "one that is known, one that is not": {"theta": [1.0, 0.45, 0.5], "times": 10, "known": [[0, 1, 0]]},
    "nothing is known": {"theta": [1.0, 0.3, 0.2], "times": 20, "known": [[1, 0, 0]]},
    "all is known": {"theta": [1.0, 0.3, 0.2], "times": 20, "known": np.eye(3)},
    "in a box": {"theta": [1.0, 0.3, 0.2], "times": 20, "known": [[0, 1, 0]], "space": Box(-1.0, 2.0)},
}


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("case", CASES)
def test_a_bound_lies_above_the_truth(case, epsilon):
    """Of 40 bounds none may fail: the chance of that is below 40 * 0.01 * (share_at(100) + share_at(1)) / 2 < 0.11 for
    bounds that are tight, and far below it for these; the seeds are fixed."""
    sampler, question = moment(np.eye(3), **CASES[case])
    truth = probability(question, epsilon)
    assert 0.005 < truth < 0.3
    for seed in range(40):
        sampler.cone = anew(sampler.cone, CASES[case]["known"])
        bound, _ = attempt(sampler, question, seed, threshold=truth + 0.05, epsilon=epsilon)
        assert bound >= truth


@pytest.mark.parametrize("forgotten", [False, True])
def test_what_no_known_answer_tells_is_part_of_the_bound(forgotten, monkeypatch):
    """An unknown answer is better with probability 0.2, at a threshold of 0.09; without the second term: a claim."""
    if forgotten:
        monkeypatch.setattr(confirming, "oracle_beats", lambda cone, thetas, epsilon: np.zeros(len(thetas), bool))
    known = [[1, 0, 0], [0, 1, 0]]
    sampler, question = moment(np.eye(3), [1.0, -3.0, 1.0 - 0.85 * np.sqrt(0.2)], 10, known, prior_std=100.0)
    assert probability(question) == pytest.approx(norm.sf(0.85), abs=0.01)
    claims = 0
    for seed in range(30):
        sampler.cone = anew(sampler.cone, known)
        claims += attempt(sampler, question, seed)[0] <= 0.09
    assert claims == (30 if forgotten else 0)


def test_a_claim_that_fails_costs_few_rows_and_one_that_holds_no_more_than_it_must():
    known = [[1, 0, 0], [0, 1, 0]]
    sampler, question = moment(np.eye(3), [1.0, -3.0, 0.5], 10, known, prior_std=100.0)
    assert attempt(sampler, question, 0)[1] <= 128  # hits come early
    sampler, question = moment(np.eye(3), [1.0, -3.0, -2.0], 10, known, prior_std=100.0)
    bound, rows = attempt(sampler, question, 0)
    assert bound <= 0.09
    assert rows <= np.log(1000 * 6) / 0.08


def test_rows_that_a_run_does_not_afford_are_not_asked_for():
    sampler, question = moment(np.eye(3), [1.0, -3.0, -2.0], 10, [[1, 0, 0], [0, 1, 0]], prior_std=100.0)
    sampler.cone.memory.aside = 100_000
    before = question.oracle.rows
    assert attempt(sampler, question, 0) == (1.0, 0)
    assert question.oracle.rows == before


def wrong_under_the_prior(runs, delta, **options):
    """Runs that stop with a wrong answer, where theta itself is drawn from the prior."""
    wrong = 0
    for seed in range(runs):
        rng = np.random.default_rng([7, seed])
        theta = rng.normal(size=4)
        problem, rule = unit_problem(Own(PAIRS), noise_std=0.7), PosteriorRule(delta, **options)

        def measure(label, theta=theta, rng=rng):
            return theta[label] + 0.7 * rng.normal()

        result = identify(problem, measure, stopping=rule, rng=seed, budget=3000)
        best = np.sort(theta)[-2:].sum()
        wrong += result.stop_reason == "posterior" and best - result.z @ theta > rule.epsilon + 1e-12
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_runs_are_wrong_as_rarely_as_promised(epsilon):
    """A rule that keeps its promise is accused with probability 1e-4."""
    wrong = wrong_under_the_prior(500, 0.1, epsilon=epsilon)
    assert binomtest(wrong, 500, 0.1, alternative="greater").pvalue > 1e-4


@pytest.mark.slow
def test_runs_that_promise_less_are_told_apart():
    """The same runs at four times the delta refute it."""
    assert binomtest(wrong_under_the_prior(500, 0.4), 500, 0.1, alternative="greater").pvalue < 1e-4


def test_a_few_of_these_runs():
    assert binomtest(wrong_under_the_prior(15, 0.1), 15, 0.1, alternative="greater").pvalue > 1e-4
