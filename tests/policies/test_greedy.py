"""GreedyInformation takes the arm with the largest gain, summed over all rivals.

    sum_f Phi(-b_f) (x' V^-1 y_f)^2 / (|y_f|^2_{V^-1} (1 + |x|^2_{V^-1})) / cost_x

The direct computation has V as a full matrix, all answers in a list, and facets by definition: rivals that beat the
answer somewhere where no other does.
"""

from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog
from sessions import session_of
from slow_oracle import Slow
from unit_problem import unit_problem

from combopeps import (
    ExplicitOracle,
    GreedyInformation,
    MatchingOracle,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    identify,
    simulate,
)
from combopeps.alternatives import RejectionSampler, facets

ALARM = 1e-6
GENERAL = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.5], [0.3, 0.0, 1.0], [1.0, 1.0, 1.0], [0.2, -1.0, 0.4]])
SCALED = np.array([[1.0, 0, 0], [0, 2.0, 0], [0, 0, -0.5], [0.7, 0, 0]])
Z = np.array([[1.0, 0.0, 0.1], [0.2, 1.0, 0.0], [0.0, 0.5, 1.0], [0.6, 0.6, 0.4]])


def neighbours(answers, z):
    """y of the answers that alone beat z somewhere: the facets of its cone, by one linear program for each."""
    rows = np.array([other - z for other in answers if (other != z).any()])
    for k in range(len(rows)):
        others = np.delete(rows, k, axis=0)
        found = linprog(-rows[k], others, np.zeros(len(others)), bounds=(-1.0, 1.0))
        if -found.fun > 1e-9:
            yield rows[k]


def gains(X, noise, rivals, pulls, sums, prior=1.0):
    """The formula in logarithms, relative to the largest weight; X are rows as measured, `sums` those of results."""
    X, sums = X / noise[:, None], sums / noise
    V = prior * np.eye(X.shape[1]) + X.T @ (pulls[:, None] * X)
    S = np.linalg.inv(V)
    theta = S @ (X.T @ sums)
    y = np.array(list(rivals(theta)))
    width = np.einsum("fd,de,fe->f", y, S, y)
    log_w = stats.norm.logsf(-(y @ theta) / np.sqrt(width))
    along = X @ S @ y.T
    return (np.exp(log_w - log_w.max()) * along**2 / width).sum(axis=1) / (1 + np.einsum("kd,de,ke->k", X, S, X))


def chosen(problem, pulls, sums, **options):
    """The arm after so many measurements of every arm, all equal to the mean of its results."""
    policy = GreedyInformation(problem, rng=0, **options)
    for arm, (n, total) in enumerate(zip(pulls, sums, strict=True)):
        for _ in range(int(n)):
            policy.learn(arm, total / n)
    return set(policy.choose().tolist())


def best_of(answers):
    return lambda theta: neighbours(answers, answers[(answers @ theta).argmax()])


def others(answers):
    """Of a listed set every other answer is a rival, whether it is a facet or not."""
    return lambda theta: (
        z - answers[(answers @ theta).argmax()] for z in np.delete(answers, (answers @ theta).argmax(), 0)
    )


@pytest.mark.parametrize("stated", ["noise 1", "noise 0.3", "noise and costs"])
@pytest.mark.parametrize("X", [GENERAL, SCALED], ids=["general arms", "unit arms"])
def test_the_choice_is_that_of_the_formula(X, stated):
    rng, seen, changed = np.random.default_rng(1), set(), 0
    noise, cost = np.full(len(X), 0.3 if stated == "noise 0.3" else 1.0), np.ones(len(X))
    for _ in range(60):
        if stated == "noise and costs":
            noise, cost = rng.uniform(0.5, 2.0, len(X)), rng.uniform(1.0, 10.0, len(X))
        problem = unit_problem(ExplicitOracle(Z), X, dict(enumerate(noise)), cost=dict(enumerate(cost)))
        pulls = rng.integers(0, 6, len(X))
        sums = pulls * (X @ rng.normal(size=3) + noise * rng.normal(size=len(X)))
        free = gains(X, noise, others(Z), pulls, sums)
        expected = free * np.where(problem.worth > 0.0, 1.0 / cost, 0.0)
        assert chosen(problem, pulls, sums) == {int(expected.argmax())}
        seen.add(int(expected.argmax()))
        changed += expected.argmax() != free.argmax()
    assert len(seen) > 1
    assert (changed > 0) == (stated == "noise and costs")


@pytest.mark.parametrize(
    ("oracle", "answers"),
    [
        (TopKOracle(6, k=2), np.array([np.isin(range(6), pair) for pair in combinations(range(6), 2)], float)),
        (MatchingOracle(3, 3), np.array([np.eye(3)[list(order)].ravel() for order in permutations(range(3))])),
    ],
    ids=["top-k", "matching"],
)
@pytest.mark.parametrize("given", [False, True], ids=["usual sampler", "own sampler"])
def test_all_facets_count_where_they_can_be_listed(oracle, answers, given):
    rng, d = np.random.default_rng(2), oracle.dim
    options = {"sampler": RejectionSampler()} if given else {}
    for _ in range(25):
        pulls = rng.integers(1, 9, d)
        sums = pulls * rng.normal(size=d)
        expected = gains(np.eye(d), np.ones(d), best_of(answers), pulls, sums)
        assert chosen(unit_problem(oracle), pulls, sums, **options) == {int(expected.argmax())}


def test_far_rivals_keep_their_order_when_every_probability_underflows():
    pulls = np.full(4, 10**6)
    for means in ([5.0, 0.0, 1.0, 2.0], [0.5, 9.0, 8.0, 0.0]):
        policy = GreedyInformation(unit_problem(TopKOracle(4, k=1)), rng=0)
        policy.learn_many(range(4), means, pulls.astype(float), pulls)
        first, second = np.argsort(means)[::-1][:2]
        assert stats.norm.sf((means[first] - means[second]) * 500) == 0.0
        assert policy.choose()[0] in (first, second)


def test_ties_are_broken_at_random_in_every_row():
    policy = GreedyInformation(unit_problem(ExplicitOracle(np.eye(4))), rng=0, replications=4000)
    for arm in range(4):
        policy.learn(arm, [3.0, 1.0, 1.0, 1.0][arm])
    policy.learn(0, 3.0)
    counts = np.bincount(policy.choose(), minlength=4)
    one = gains(np.eye(4), np.ones(4), others(np.eye(4)), np.array([2, 1, 1, 1]), np.array([6.0, 1, 1, 1]))
    assert one[1] == pytest.approx(one[2])
    if one[0] > one[1]:
        assert counts[0] == 4000
    else:
        assert counts[0] == 0
        assert stats.chisquare(counts[1:]).pvalue > ALARM


@pytest.mark.parametrize("quick", [True, False])
def test_rivals_that_are_not_listed_are_found(quick):
    oracle = Slow(TopKOracle(12, k=2))
    oracle.quick = quick
    theta = np.r_[1.0, 1.0, np.zeros(10)]
    trace = simulate(unit_problem(oracle, noise_std=0.5), theta, "greedy", budget=250, replications=8, rng=0)
    assert trace.correct[:, -1].mean() >= 7 / 8
    assert (trace.pulls > 0).all()  # each item may be one of the two


def test_some_facets_stand_for_all_of_them():
    oracle = TopKOracle(60, k=20)
    rng = np.random.default_rng(5)
    policy = GreedyInformation(unit_problem(oracle), rng=0, sampler=RejectionSampler())
    policy.learn_many(np.arange(60), rng.normal(size=60))
    cone = policy.alternatives.cones.at(0, policy.z_hat()[0])
    assert cone.list_if_few()
    cone.sync(policy.posterior, 1.0)
    weights, n, picks = cone.weights, 200, 64
    every, some, mean, equal = np.zeros((4, 60))
    facets.information(cone.rows, weights.each, cone.width, every)
    facets.information(cone.rows, np.ones(cone.size), cone.width, equal)
    for shift in (np.arange(n) + 0.5) / n:
        facets.sampled_information(
            cone.rows, weights.each, weights.blocks, weights.total, cone.width, shift, picks, some
        )
        mean += some / n
    # How often a facet is picked, averaged over shifts at a distance of 1/n, is off by 1/n at most.
    assert (np.abs(mean - picks * every / weights.total) <= equal / n).all()
    assert (np.abs(mean - picks * equal / cone.size) > equal / n).any()


def test_no_facet_counts_twice_after_the_sampler_has_listed_them_all():
    oracle = TopKOracle(80, k=30)  # too many to be listed at once, few enough for a search
    assert oracle.facet_count > 1024
    policy = GreedyInformation(unit_problem(oracle, noise_std=0.01), rng=0)
    policy.learn_many(np.arange(80), (np.arange(80) < 30) * 1.0)
    for _ in range(5):
        policy.learn(int(policy.choose()[0]), 0.5)
    cone = policy.alternatives.cones.at(0, policy.z_hat()[0])
    assert cone.complete
    assert cone.size == 30 * 50


def test_routes_in_a_graph_with_cycles():
    graph = nx.DiGraph([("s", "a"), ("a", "b"), ("b", "a"), ("s", "b"), ("a", "t"), ("b", "t")])
    lengths = {("s", "a"): 1.0, ("a", "t"): 1.0, ("s", "b"): 2.0, ("b", "t"): 2.0, ("a", "b"): 1.0, ("b", "a"): 1.0}
    noise = np.random.default_rng(0)
    problem = unit_problem(ShortestPathOracle(graph, "s", "t"), noise_std=0.5, prior_std=5.0)
    result = identify(problem, lambda edge: lengths[edge] + 0.5 * noise.normal(), policy="greedy", rng=0)
    assert result.answer == ["s", "a", "t"]
    assert result.stop_reason == "posterior"


def test_noise_of_unknown_size_and_several_queries_at_once():
    noise = np.random.default_rng(1)
    session = session_of(GreedyInformation, unit_problem(TopKOracle(4, k=1), noise_std=None), initial_design=2)
    for _ in range(12):
        queries = session.ask(5)
        session.tell_many((query, float(query.label == 2) + 0.1 * noise.normal()) for query in queries)
    assert session.status().answer == {2}
    assert session.status().error_probability < 0.05


def test_actions_are_weighed_as_top_two_does():
    problem = unit_problem(MatchingOracle(3, 3), actions="answers")
    greedy, two = session_of(GreedyInformation, problem, 4), session_of(TopTwo, problem, 4)
    for _ in range(20):
        queries = greedy.ask(), two.ask()
        assert queries[0].components == queries[1].components
        for session, query in zip((greedy, two), queries, strict=True):
            session.tell(query, [float(len(str(part)) % 3) for part in query.components])
