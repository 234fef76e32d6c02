"""Runs with an oracle that is not quick: rows are counted, answers are remembered, and nothing else changes."""

import itertools
import pickle

import networkx as nx
import numpy as np
import pytest
from slow_oracle import Slow
from unit_problem import unit_problem

from combopeps import (
    BudgetRule,
    ExplicitOracle,
    MatchingOracle,
    PosteriorRule,
    Session,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    identify,
)
from combopeps.alternatives import RejectionSampler
from combopeps.alternatives.answer_cache import MAX_ROW_RATIO, AnswerCache
from combopeps.errors import NoAlternativeError
from combopeps.oracles import CheckedOracle
from combopeps.stopping import View


def roads():
    graph = nx.grid_2d_graph(4, 4, create_using=nx.DiGraph)
    graph.remove_edges_from([(u, v) for u, v in graph.edges if sum(v) < sum(u)])
    return ShortestPathOracle(graph, (0, 0), (3, 3))


def program(most=12.0):
    """0/1 vectors of a knapsack with weights 1 to 8, all of them listed."""
    Z = np.array(list(itertools.product((0.0, 1.0), repeat=8)))
    return ExplicitOracle(Z[Z @ np.arange(1.0, 9.0) <= most])


def integers():
    """General integers, of either sign, with a bound on the sum of squares."""
    Z = np.array([z for z in itertools.product((-1.0, 0.0, 1.0, 2.0), repeat=3) if np.dot(z, z) <= 5])
    return ExplicitOracle(Z)


SETS = {"items": lambda: TopKOracle(12, 4), "pairs": lambda: MatchingOracle(4, 4), "roads": roads, "program": program,
        "integers": integers}  # fmt: skip


def run(name, seed=0, **options):
    oracle = Slow(SETS[name]())
    theta = np.abs(np.random.default_rng([3, seed]).normal(size=oracle.dim))
    noise = np.random.default_rng([4, seed])
    value = dict(zip(oracle.components, theta, strict=True))
    return identify(unit_problem(oracle, noise_std=0.3), lambda x: value[x] + 0.3 * noise.normal(), rng=seed, **options)


@pytest.mark.parametrize("delta", [0.1, 0.02])
@pytest.mark.parametrize("name", SETS)
def test_looks_and_searches_cost_a_multiple_of_what_choosing_costs(name, delta):
    """`AnswerCache` accounts for every row but the first 67, and those of looks after which nothing was chosen."""
    result = run(name, delta=delta, budget=1500)
    counted, memory = result.session.policy.problem.oracle.rows, result.session.policy.alternatives.cones.caches[0]
    assert memory.aside <= MAX_ROW_RATIO * memory.chosen + 64 + 20 / delta
    assert memory.chosen + memory.aside + 67 <= counted + 8
    assert counted <= memory.chosen + memory.aside + 67 + 128  # the search for ties at the end of a budget
    assert memory.chosen <= 2 * result.samples + 128
    assert counted <= 2 * (1 + MAX_ROW_RATIO) * result.samples + 400 + 20 / delta


@pytest.mark.parametrize("name", ["items", "integers"])
def test_neither_a_repetition_nor_reports_change_the_run(name):
    def curious(session, query, y):
        session.status()
        if session.samples % 7 == 0:
            session.top_answers(3)

    first, second = (run(name, delta=0.05, budget=400) for _ in range(2))
    assert first.session.problem.oracle.rows == second.session.problem.oracle.rows
    watched = run(name, delta=0.05, budget=400, callback=curious)
    for other in (second, watched):
        assert other.looks == first.looks
        assert other.pulls == first.pulls
        assert [top.probability for top in other.top_answers] == [top.probability for top in first.top_answers]


def test_a_policy_continues_after_it_was_pickled():
    def go_on(policy):
        noise, mean = np.random.default_rng(9), policy.posterior.theta_hat[0].copy()
        measure, rule = lambda x: mean[x] + 0.3 * noise.normal(), BudgetRule(simulations=0)
        return identify(policy.problem, measure, policy=policy, budget=30, stopping=rule).pulls

    result = run("program", budget=40)
    assert go_on(pickle.loads(pickle.dumps(result.session.policy))) == go_on(result.session.policy)


@pytest.mark.parametrize("name", SETS)
def test_error_probabilities_are_those_of_enumeration(name):
    """Of a long run, and of a short one, where they are large: 64 rows beyond what is known."""
    for budget in (15, 60):
        session = run(name, budget=budget, stopping=BudgetRule(simulations=0)).session
        posterior, oracle, found = session.posterior, session.problem.oracle.oracle, session.status()
        noise = np.random.default_rng(1).standard_normal((20_000, oracle.dim))
        thetas = posterior.theta_hat[0] + noise * posterior.std[0]
        gain = ((oracle.argmax(thetas) - found.z) * thetas).sum(axis=1)
        assert found.error_probability == pytest.approx((gain > 1e-9).mean(), abs=0.15)


LEADING = {"items": (20, 1), "program": (8, 1), "integers": (10, 1), "roads": (20, 4)}


@pytest.mark.parametrize("name", LEADING)
def test_top_answers_are_those_of_enumeration(name):
    """Shares of 50,000 draws over the listed answers; 4,096 draws, of which some hundred rows are asked for."""
    budget, factor = LEADING[name]
    session = run(name, budget=budget * factor, stopping=BudgetRule(simulations=0)).session
    own, posterior, space = session.problem.oracle, session.posterior, session.problem.space
    before = own.rows
    tops = session.top_answers(5)
    assert own.rows - before <= 600
    rng = np.random.default_rng(2)
    thetas = posterior.theta_hat[0] + rng.standard_normal((200_000, own.dim)) * posterior.std[0]
    answers = own.oracle.argmax(thetas[space.contains(thetas)][:50_000])
    for one in tops:
        share = (answers == one.z).all(axis=1).mean()
        assert one.probability == pytest.approx(share, abs=0.03 + 0.1 * share)
    common = np.unique(answers, axis=0, return_counts=True)
    top = common[0][common[1].argmax()]
    assert any(np.array_equal(one.z, top) for one in tops[:2])


def test_rivals_that_are_all_but_impossible_are_ranked():
    result = run("program", delta=0.02)
    session = result.session
    for label in range(8):
        session.observe(label, session.posterior.theta_hat.item(0, label), count=300)
    first, second, *_ = session.top_answers(3)
    assert first.answer == session.status().answer
    assert first.probability > 0.99
    assert 0.0 < second.probability < 0.01


def test_one_answer_is_found_to_be_the_only_one_for_a_few_rows():
    own = Slow(ExplicitOracle([[1.0, 1.0]]))
    policy = TopTwo(unit_problem(own), 0)
    session, before = Session(policy.problem, policy=policy), own.rows
    for _ in range(50):
        session.tell(session.ask(), 1.0)
    assert own.rows - before <= 250
    assert session.status().error_probability == 0.0
    with pytest.raises(NoAlternativeError):
        policy.alternatives.sample(policy.posterior, policy.z_hat(), 1)


def test_a_sampler_that_asks_for_itself_is_counted():
    own = Slow(TopKOracle(6, 2))
    policy = TopTwo(unit_problem(own), 0, sampler=RejectionSampler())
    session, before, noise = Session(policy.problem, policy=policy), own.rows, np.random.default_rng(0)
    for _ in range(20):
        session.tell(session.ask(), noise.normal())
    memory = policy.alternatives.cones.caches[0]
    assert memory.chosen == own.rows - before


def test_a_look_apart_from_a_run_may_cost_what_it_takes():
    """As those of a campaign, each of which begins with nothing but the first answers."""
    policy = TopTwo(unit_problem(Slow(TopKOracle(list("abcd"), 2)), noise_std=0.5), 0)
    policy.learn_many(range(4), [3.0, 2.0, 0.0, -1.0], [30.0] * 4, [30] * 4)
    assert PosteriorRule(0.05).check(View(policy.without_cache(), 1)).stop


def test_quick_oracles_say_so_and_others_do_not():
    for make in (lambda: TopKOracle(4, 2), roads, lambda: MatchingOracle(2, 2), program):
        assert make().quick
        assert CheckedOracle(make()).quick
        assert TopTwo(unit_problem(make()), 0).alternatives.cones.caches == []
    assert not Slow(TopKOracle(4, 2)).quick
    assert not CheckedOracle(Slow(TopKOracle(4, 2))).quick


def test_a_memory_keeps_each_answer_once_and_the_latest():
    memory = AnswerCache(TopKOracle(3, 1), np.eye(3)[[0, 0, 1]])
    answers, number = memory.since(0)
    assert (answers.tolist(), number) == (np.eye(3)[:2].tolist(), 2)
    memory.note(-0.0 * np.eye(3)[:1] + np.eye(3)[:1])
    memory.note(np.eye(3)[2:])
    assert memory.since(number)[0].tolist() == np.eye(3)[2:].tolist()
    many = np.arange(3.0 * 3000).reshape(3000, 3)
    memory.note(many)
    assert len(memory.since(0)[0]) == 2048
    assert memory.since(0)[0][-1].tolist() == many[-1].tolist()
    twin = memory.copy()
    twin.note(-many[:5])
    assert len(memory.since(3003)[0]) == 0
