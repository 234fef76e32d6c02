"""Stopping rules in `identify`: names, objects, results, and what happens at the edges."""

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import (
    BudgetRule,
    CertifiedRule,
    ExplicitOracle,
    PosteriorRule,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    VerifiedRule,
    any_of,
    identify,
)
from combopeps.errors import ParameterError
from combopeps.stopping import HeuristicRule, stopping_rule

NAMES = ["posterior", "certified", "verified", "heuristic"]
KINDS = {"posterior": PosteriorRule, "certified": CertifiedRule, "verified": VerifiedRule, "heuristic": HeuristicRule}
TRUTH = np.array([1.5, 0.0, 0.3])


def noisy(problem, theta, seed=0):
    """A measurement of an arm, by label or by list of labels, and a record of everything that was asked."""
    noise, arms = np.random.default_rng(seed), problem.arms
    means = dict(zip(arms.labels, arms.dot(np.asarray(theta, dtype=float)), strict=True))

    def measure(label):
        if isinstance(label, list):
            return [measure(one) for one in label]
        return means[label] + problem.noise_std * noise.normal()

    return measure


def run(stopping="certified", problem=None, theta=TRUTH, **options):
    problem = problem or unit_problem(TopKOracle(3, k=1))
    return identify(problem, noisy(problem, theta), stopping=stopping, **{"budget": 3000, "delta": 0.1} | options)


@pytest.mark.parametrize("name", NAMES)
def test_every_rule_by_name(name):
    result = run(name)
    assert (result.stop_reason, result.rule, result.answer, result.delta) == (name, name, {0}, 0.1)
    assert result.evidence.stop
    assert result.evidence.claim == result.claim
    assert result.tied == []
    assert ("0.1" in result.claim) == (name != "heuristic")
    if name == "posterior":
        assert result.evidence.statistic <= result.evidence.threshold
    else:
        assert result.evidence.statistic >= result.evidence.threshold > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_object_has_its_own_delta_and_does_as_its_name(name):
    by_object, by_name = run(KINDS[name](0.1), delta=0.5), run(name)
    assert by_object.delta == 0.1
    assert (by_object.samples, by_object.pulls, by_object.claim) == (by_name.samples, by_name.pulls, by_name.claim)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_run(name):
    first, second = run(name, rng=3), run(name, rng=3)
    assert (first.samples, first.pulls, first.evidence) == (second.samples, second.pulls, second.evidence)


@pytest.mark.parametrize("name", NAMES)
def test_batches(name):
    result = run(name, batch_size=7)
    assert (result.stop_reason, result.answer) == (name, {0})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [10.0, 1e6, 1e-6])
def test_units_do_not_matter(name, scale):
    plain = run(name)
    problem = unit_problem(TopKOracle(3, k=1), noise_std=scale, prior_std=scale)
    scaled = run(name, problem, scale * TRUTH)
    assert (scaled.samples, scaled.pulls, scaled.answer) == (plain.samples, plain.pulls, plain.answer)
    assert scaled.evidence.statistic == pytest.approx(plain.evidence.statistic, rel=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_ends_a_short_run_without_a_claim(name):
    result = run(name, budget=9)
    assert (result.stop_reason, result.rule, result.samples, result.tied) == ("budget", name, 9, [])
    assert result.claim.startswith("none: the run was ended by its budget")
    assert not result.evidence.stop


@pytest.mark.parametrize("name", NAMES)
def test_ties_are_named(name):
    result = run(name, theta=[1.0, 1.0, -1.0], budget=700, delta=1e-3, rng=1)
    assert result.stop_reason == "indistinguishable"
    assert {0, 1} == {*result.answer, *result.tied[0]}
    assert len(result.tied) == 1
    assert result.claim.startswith("none")


@pytest.mark.parametrize("name", NAMES)
def test_an_epsilon_accepts_ties(name):
    result = run(name, theta=[1.0, 1.0, -1.0], epsilon=0.8, budget=600)
    assert result.stop_reason == name
    assert result.answer in ({0}, {1})
    if name != "heuristic":
        assert "by more than 0.8" in result.claim


def test_budget_rules_stop_when_they_say():
    for budget in (5, 20, 25, 33):
        result = run(BudgetRule(budget), budget=None)
        assert (result.samples, result.stop_reason) == (budget, "budget")


def test_the_first_rule_of_several_makes_the_claim():
    result = run(any_of(VerifiedRule(0.05), PosteriorRule(0.3)))
    assert (result.stop_reason, result.rule) == ("posterior", "posterior")
    assert "posterior probability at most 0.3" in result.claim
    assert result.delta == pytest.approx(0.35)
    result = run(any_of(CertifiedRule(1e-9), BudgetRule(10)))
    assert (result.stop_reason, result.samples) == ("budget", 10)


def test_a_rule_goes_on_with_a_policy():
    problem = unit_problem(TopKOracle(3, k=1))
    measure = noisy(problem, TRUTH)
    first = identify(problem, measure, stopping="certified", budget=12)
    second = identify(problem, measure, stopping="certified", policy=first.session.policy, budget=3000)
    assert (first.stop_reason, second.stop_reason, second.answer) == ("budget", "certified", {0})
    assert second.samples > 12


@pytest.mark.parametrize("name", NAMES)
def test_general_arms_and_listed_answers(name):
    arms = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 1.0, 1.0]])
    problem = unit_problem(ExplicitOracle([[1.0, 0, 0], [0, 1.0, 0], [0.3, 0.2, 0.1]]), arms)
    result = run(name, problem)
    assert (result.stop_reason, result.answer) == (name, 0)


@pytest.mark.parametrize("name", NAMES)
def test_general_arms_and_a_set_that_is_not_listed(name):
    """Only the sphere test is left."""
    graph = nx.DiGraph([(0, 1), (1, 2), (0, 2)])
    oracle = ShortestPathOracle(graph, 0, 2)
    arms = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [0.0, 1.0, 1.0]])
    theta = [{(0, 1): 0.5, (1, 2): 0.5, (0, 2): 4.0}[label] for label in oracle.components]
    result = run(name, unit_problem(oracle, arms, prior_std=3.0), theta)
    assert (result.stop_reason, result.answer) == (name, [0, 1, 2])


@pytest.mark.parametrize("name", ["posterior", "certified", "verified"])
def test_general_arms_and_top_k_with_an_epsilon(name):
    """Facets are no longer enough: the sphere test again."""
    arms = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0, 0, 1.0, -1.0]])
    result = run(name, unit_problem(TopKOracle(4, k=2), arms), [1.5, 1.5, -1.5, -1.5], epsilon=0.5)
    assert (result.stop_reason, result.answer) == (name, {0, 1})


@pytest.mark.parametrize("name", ["posterior", "certified", "verified"])
def test_a_network_with_cycles(name):
    graph = nx.Graph([(0, 1), (1, 2), (0, 2), (1, 3), (2, 3)])
    oracle = ShortestPathOracle(graph, 0, 3)
    theta = [3.0 if label == (0, 2) else 0.5 for label in oracle.components]
    result = run(name, unit_problem(oracle), theta)
    assert (result.stop_reason, result.answer) == (name, [0, 1, 3])


@pytest.mark.parametrize("name", NAMES)
def test_a_component_without_an_arm(name):
    """All routes begin with the same edge: it need not be measured."""
    oracle = ShortestPathOracle(nx.MultiDiGraph([(0, 1), (1, 2), (1, 2), (1, 2)]), 0, 2)
    theta = [9.0 if label[:2] == (0, 1) else 0.2 + 1.5 * label[2] for label in oracle.components]
    problem = unit_problem(oracle, [label for label in oracle.components if label[:2] == (1, 2)])
    result = run(name, problem, theta)
    assert (result.stop_reason, list(result.answer.keys)) == (name, [0, 0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("oracle", [TopKOracle(2, k=2), ExplicitOracle([[1.0, 1.0]])], ids=["top-k", "listed"])
def test_a_single_answer_needs_no_proof(name, oracle):
    result = run(name, unit_problem(oracle), [1.0, 1.0], budget=200)
    assert result.stop_reason == name
    assert result.error_probability == 0.0


@pytest.mark.parametrize("kind", KINDS.values())
@pytest.mark.parametrize(
    "options",
    [
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": float("nan")},
        {"epsilon": -1.0},
        {"epsilon": float("inf")},
        {"epsilon": float("nan")},
        {"ratio": 1.0},
        {"ratio": float("inf")},
    ],
)
def test_bad_parameters(kind, options):
    with pytest.raises(ParameterError):
        kind(**options)


def test_other_bad_parameters():
    for make in (lambda: VerifiedRule(explore=0.0), lambda: VerifiedRule(explore=1.0), lambda: BudgetRule(0), any_of):
        with pytest.raises(ParameterError):
            make()
    with pytest.raises(ParameterError, match="there are posterior"):
        stopping_rule("lucky", 0.1)
    with pytest.raises(ParameterError, match="needs a budget"):
        run("budget", budget=None)
    with pytest.raises(ParameterError, match="epsilon"):
        run("posterior", epsilon="much")
    with pytest.raises(ParameterError, match="epsilon must be a number"):
        run("posterior", epsilon=True)


def test_certified_rules_measure_every_arm():
    problem = unit_problem(TopKOracle(4, k=1))
    result = identify(problem, noisy(problem, [5.0, 0, 0, 0]), stopping="certified", rng=0, policy=TopTwo(problem, 0))
    assert min(result.pulls.values()) >= 1
