"""Runs in which nothing is stated: error rates of the posterior rule with prior and noise estimated from the data.

A rule that is wrong with probability delta is reported with probability below 1/1000 (binomial test). The negative
control states the prior N(0, 1) and unit noise for data that are far from it.
"""

import warnings

import networkx as nx
import numpy as np
import pytest
from scipy.stats import binom

from combopeps import (
    Box,
    DoublingPEPS,
    ExplicitOracle,
    MatchingOracle,
    Policy,
    Problem,
    Session,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
    identify,
    load_instance,
    plan,
    simulate,
)
from combopeps.errors import ParameterError
from combopeps.posterior import hierarchical

ROWS = np.random.default_rng(5).normal(size=(10, 4))
ITEMS = {"a": 82.0, "b": 81.0, "c": 70.0, "d": 60.0}


def most_errors(runs, delta):
    """Errors that a rule with error rate delta exceeds with probability below 1/1000."""
    return int(binom.isf(1e-3, runs, delta))


def wrong_runs(problem, runs, delta):
    wrong = 0
    for seed in range(runs):
        noise = np.random.default_rng([1, seed])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = identify(problem, lambda item, noise=noise: ITEMS[item] + noise.normal(), delta=delta, rng=seed)
        wrong += result.answer != {"a"}
    return wrong


@pytest.mark.parametrize(("delta", "control"), [(0.1, 40), (0.3, 150)])
def test_errors_about_items_far_from_zero_are_as_rare_as_claimed(delta, control):
    oracle = TopKOracle(list(ITEMS), k=1)
    assert wrong_runs(oracle, 60, delta) <= most_errors(60, delta)
    stated = Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    assert wrong_runs(stated, control, delta) > most_errors(control, delta)


ROUTES = ShortestPathOracle(nx.DiGraph([(i, j) for i in range(5) for j in range(i + 1, min(6, i + 4))]), 0, 5)
FAMILIES = {  # an oracle, and its arms where they are not its components
    "top-k": (TopKOracle(8, k=2), None),
    "path": (ROUTES, None),
    "matching": (MatchingOracle(range(4), range(4)), None),
    "tree": (SpanningTreeOracle(nx.complete_graph(5)), None),
    "general": (ExplicitOracle(ROWS), ROWS / np.linalg.norm(ROWS, axis=1)[:, None]),
}
FAR = (80.0, 10.0, 0.1), (1e6, 1e-3, 1.0), (-50.0, 1e3, 3.0)
CELLS = [("top-k", *cell) for cell in FAR] + [
    (name, *cell) for name in ("path", "matching", "tree", "general") for cell in ((0.0, 1.0, 1.0), FAR[0])
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "offset", "scale", "noise"), CELLS)
def test_error_rates(name, offset, scale, noise):
    """theta_i ~ N(offset, scale^2), noise in units of the scale; runs that the budget ends make no claim."""
    oracle, rows = FAMILIES[name]
    problem, runs = Problem(oracle, rows), 300
    matrix = np.eye(oracle.dim) if rows is None else rows
    for delta in (0.1, 0.3):
        wrong = 0
        for seed in range(runs):
            rng = np.random.default_rng([2, seed])
            theta = offset + scale * rng.normal(size=oracle.dim)

            means = dict(zip(problem.arms.labels, matrix @ theta, strict=True))
            measure = lambda label, rng=rng, means=means: means[label] + noise * scale * rng.normal()  # noqa: E731
            result = identify(problem, measure, delta=delta, budget=150, rng=seed)
            off = oracle.argmax(theta) - result.z
            gap = float(off @ (theta - offset)) + offset * float(off.sum())
            wrong += result.stop_reason == "posterior" and gap > 1e-9 * scale
        assert wrong <= most_errors(runs, delta)


def wrong_claims(runs, delta, budget=1000):
    """Of runs for the best of 4 whose noise is 10 times the spread of theta."""
    wrong = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 7])
        theta = 80.0 + 10.0 * rng.normal(size=4)
        measure = lambda item, rng=rng, theta=theta: theta[item] + 100.0 * rng.normal()  # noqa: E731
        result = identify(TopKOracle(4, k=1), measure, delta=delta, budget=budget, rng=seed)
        wrong += result.stop_reason == "posterior" and result.answer != {int(theta.argmax())}
    return wrong


@pytest.mark.slow
def test_noise_far_above_the_spread():
    assert wrong_claims(300, 0.2) <= most_errors(300, 0.2)


@pytest.mark.slow
def test_a_spread_that_is_overestimated_is_caught(monkeypatch):
    """Negative control: an upper quantile of tau, and no second estimate."""
    monkeypatch.setattr(hierarchical, "_QUANTILE", 0.9)
    monkeypatch.setattr(Policy, "second_posterior", lambda policy: None)
    assert wrong_claims(100, 0.2) > most_errors(100, 0.2)


def test_the_initial_design_covers_random_components_and_repeats_some():
    designs = set()
    for seed in range(5):
        session = Session(TopKOracle(40, k=3), rng=seed)
        for _ in range(12):
            query = session.ask()
            session.tell(query, float(query.arm))
        measured = {arm: count for arm, count in session.status().pulls.items() if count}
        assert len(measured) == 8
        assert max(measured.values()) == 2
        designs.add(tuple(measured))
    assert len(designs) == 5
    stated = Session(Problem(TopKOracle(40, k=3), noise_std=1.0))
    for _ in range(8):
        stated.tell(stated.ask(), 1.0)
    assert max(stated.status().pulls.values()) == 1


def test_choices_do_not_depend_on_units():
    """An affine change of units by powers of two changes no query."""
    asked = []
    for shift, scale in ((0.0, 1.0), (0.0, 1024.0), (0.0, 2.0**-30)):
        rng, session = np.random.default_rng(0), Session(TopKOracle(6, k=2), policy="peps")
        labels = []
        for _ in range(60):
            query = session.ask()
            labels.append(query.label)
            session.tell(query, shift + scale * (query.arm / 3 + rng.normal()))
        asked.append(labels)
    assert asked[0] == asked[1] == asked[2]


def test_the_claim_names_the_estimates():
    rng = np.random.default_rng(0)
    result = identify(TopKOracle(list(ITEMS), k=1), lambda item: ITEMS[item] + rng.normal())
    assert "prior estimated from the data: N(7" in result.claim
    assert "noise estimated from the data" in result.claim
    assert result.posterior.prior is not None


def test_instances_of_the_paper_state_everything():
    for name in ("topk-paper", "soare", "sphere"):
        problem = load_instance(name).problem
        assert (problem.noise_std, problem.prior_mean, problem.prior_std) == (1.0, 0.0, 1.0)


def test_what_needs_a_stated_prior_says_so():
    with pytest.raises(ParameterError, match="state prior_mean and prior_std"):
        plan(Problem(TopKOracle(3, k=1), noise_std=1.0))
    with pytest.raises(ParameterError, match="state prior_mean and prior_std"):
        DoublingPEPS(Problem(TopKOracle(3, k=1), noise_std=1.0, space=Box(-1, 1)))
    with pytest.raises(ParameterError, match="true_noise_std"):
        simulate(TopKOracle(3, k=1), [0.0, 1.0, 2.0], budget=10, replications=2)


def test_equal_results_without_any_noise():
    """Constant results: no scatter, no exception, no claim that cannot be made."""
    result = identify(TopKOracle(4, k=1), lambda item: 5.0, budget=60)
    assert result.stop_reason != "posterior" or result.error_probability <= 0.05
    exact = identify(TopKOracle(4, k=1), float, budget=60)
    assert exact.answer == {3}


def easy_run(**options):
    noise = np.random.default_rng(3)
    oracle = TopKOracle(list(ITEMS), k=1)
    return identify(Problem(oracle, **options), lambda item: ITEMS[item] + 0.1 * noise.normal(), budget=60)


def test_a_claim_has_to_hold_under_the_second_estimate(monkeypatch):
    assert easy_run().stop_reason == "posterior"
    usual = Policy.second_posterior

    def of_noisier_results(policy):
        posterior = usual(policy)
        posterior.restate(1000.0 * posterior.sigma, posterior.dof, policy.weights, policy.totals)
        return posterior

    monkeypatch.setattr(Policy, "second_posterior", of_noisier_results)
    assert easy_run().stop_reason in ("budget", "indistinguishable")


def test_a_stated_prior_has_no_second_estimate():
    stated = easy_run(noise_std=0.1, prior_mean=70.0, prior_std=20.0).session.policy
    assert stated.second_posterior() is None
    estimated = easy_run().session.policy
    second = estimated.second_posterior()
    assert (second.sigma > estimated.posterior.sigma).all()
    assert (second.prior.spread > estimated.posterior.prior.spread).all()
    np.testing.assert_allclose(second.theta_hat, estimated.posterior.theta_hat, rtol=1e-2)
