"""Asking and telling: any order, nothing twice, nothing half, and bad results refused."""

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import (
    PEPS,
    Box,
    DoublingPEPS,
    ExplicitOracle,
    LabelError,
    ParameterError,
    QueryError,
    RewardError,
    TopKOracle,
    TopTwo,
)

ITEMS = ["a", "b", "c", "d"]


def policy(kind=TopTwo, rng=0, **options):
    return kind(unit_problem(TopKOracle(ITEMS, k=2), space=Box(-9.0, 9.0)), rng, **options)


def state(run):
    """Everything that telling may change, as bytes."""
    return run.belief.theta_hat.tobytes(), run.belief.variance.tobytes(), run.pulls.tobytes(), len(run.open_queries)


@pytest.mark.parametrize("kind", [TopTwo, PEPS, DoublingPEPS])
def test_ask_gives_an_open_query_that_names_its_arm(kind):
    run = policy(kind)
    query = run.ask()
    assert run.open_queries == [query]
    assert query.label == ITEMS[query.arm]
    np.testing.assert_array_equal(query.x, np.eye(4)[query.arm])
    run.tell(query, 1.0)
    assert run.open_queries == []
    assert run.samples == run.pulls[0, query.arm] == 1


@pytest.mark.parametrize("kind", [TopTwo, PEPS, DoublingPEPS])
def test_ask_n_gives_n_open_queries(kind):
    run = policy(kind)
    queries = run.ask(7)
    assert len({query.id for query in queries}) == 7
    assert run.open_queries == queries
    assert run.ask(1)[0].id not in {query.id for query in queries}
    assert len({query.arm for query in queries}) > 1


def test_ask_for_nothing_is_refused():
    run = policy()
    for n in (0, -1, 2.5, "2", float("nan"), True):
        with pytest.raises(ParameterError, match=str(n)):
            run.ask(n)
    assert run.open_queries == []


@pytest.mark.parametrize("kind", [TopTwo, PEPS])
def test_results_count_the_same_in_any_order_and_late(kind):
    first, second, third = policy(kind), policy(kind), policy(kind)
    batches = [run.ask(9) for run in (first, second, third)]
    assert batches[0] == batches[1] == batches[2]
    results = [(query, 0.3 * query.id - 1.0) for query in batches[0]]
    for query, y in results:
        first.tell(query, y)
    for query, y in reversed(results):
        second.tell(query, y)
    late = results.pop(4)
    third.tell_many(results)
    third.ask(3)
    third.tell(*late)
    for run in (second, third):
        np.testing.assert_allclose(run.belief.theta_hat, first.belief.theta_hat, rtol=1e-12)
        np.testing.assert_array_equal(run.pulls, first.pulls)


def test_an_identical_repetition_is_harmless():
    run = policy()
    query = run.ask()
    run.tell(query, 1.5)
    before = state(run)
    run.tell(query, 1.5)
    run.tell_many([(query, 1.5), (query, 1.5)])
    assert state(run) == before


def test_a_conflicting_repetition_is_an_error():
    run = policy()
    query = run.ask()
    run.tell(query, 1.5)
    before = state(run)
    with pytest.raises(QueryError, match="observe"):
        run.tell(query, 1.6)
    assert state(run) == before


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), -float("inf"), None, "much", [1.0, 2.0], 1j, 1e200, -1.1e100, 10**400], ids=str
)
def test_what_is_not_a_finite_number_is_refused_and_the_query_stays_open(bad):
    run = policy()
    query = run.ask()
    before = state(run)
    with pytest.raises(RewardError):
        run.tell(query, bad)
    with pytest.raises(RewardError):
        run.tell_many([(query, bad)])
    with pytest.raises(RewardError):
        run.observe("a", bad)
    assert state(run) == before
    run.tell(query, 2.0)
    assert run.samples == 1


@pytest.mark.filterwarnings("ignore::combopeps.NoiseWarning")
@pytest.mark.parametrize("noise_std", [1e-50, 1.0, 1e50])
@pytest.mark.parametrize("arms", [None, np.eye(4) + 0.5], ids=["unit", "general"])
@pytest.mark.filterwarnings("ignore::combopeps.PriorWarning")
def test_the_largest_result_that_is_taken_does_no_harm(arms, noise_std):
    run = TopTwo(unit_problem(TopKOracle(ITEMS, k=2), arms, noise_std=noise_std, prior_std=noise_std), 0)
    for sign in (1, -1, -1, 1):
        run.tell(run.ask(), sign * 1e100 * noise_std)
    assert np.isfinite(run.belief.theta_hat).all()
    assert 0 <= run.recommend().error_probability <= 1


@pytest.mark.parametrize("bad", [0, None, "0", (0, 1), np.int64(0)], ids=repr)
def test_what_is_not_a_query_is_refused_with_the_cure(bad):
    run = policy()
    run.ask()
    before = state(run)
    for act in (lambda: run.tell(bad, 1.0), lambda: run.tell_many([(bad, 1.0)]), lambda: run.abandon(bad)):
        with pytest.raises(QueryError, match=r"ask\(\)"):
            act()
    assert state(run) == before


def test_numpy_numbers_are_numbers():
    run = policy()
    for y in (np.float32(0.5), np.int64(3), np.array(1.5), 2):
        run.tell(run.ask(), y)
    assert run.samples == 4


@pytest.mark.parametrize("fault", ["nan", "closed", "abandoned", "twice"])
def test_tell_many_takes_all_or_nothing(fault):
    run = policy()
    queries = run.ask(4)
    if fault == "closed":
        run.tell(queries[2], 0.0)
    if fault == "abandoned":
        run.abandon(queries[2])
    results = [(query, 1.0) for query in queries]
    if fault == "nan":
        results[2] = (queries[2], float("nan"))
    if fault == "twice":  # the same query with two values in one batch
        results[2] = (queries[0], 2.0)
    before = state(run)
    with pytest.raises((QueryError, RewardError)):
        run.tell_many(results)
    assert state(run) == before


def test_an_abandoned_query_is_closed_for_good():
    run = policy()
    query, other = run.ask(2)
    run.abandon(query)
    assert run.open_queries == [other]
    before = state(run)
    with pytest.raises(QueryError, match="abandoned"):
        run.tell(query, 1.0)
    with pytest.raises(QueryError):
        run.abandon(query)
    assert state(run) == before


def test_an_answered_query_cannot_be_abandoned():
    run = policy()
    query = run.ask()
    run.tell(query, 1.0)
    with pytest.raises(QueryError):
        run.abandon(query)


def foreign_query(run):
    """A query of another policy with a number that `run` has open, for another arm."""
    mine = run.ask()
    for seed in range(100):
        theirs = policy(rng=seed).ask()
        if theirs.arm != mine.arm:
            return mine, theirs
    raise AssertionError("no other arm found")


def test_a_query_of_another_policy_is_refused():
    run = policy()
    mine, theirs = foreign_query(run)
    before = state(run)
    with pytest.raises(QueryError, match="not asked"):
        run.tell(theirs, 1.0)
    assert state(run) == before
    assert run.open_queries == [mine]


def test_a_query_of_another_policy_is_refused_after_its_number_was_answered():
    run = policy()
    mine, theirs = foreign_query(run)
    run.tell(mine, 1.0)
    with pytest.raises(QueryError):
        run.tell(theirs, 1.0)


def test_a_query_of_another_policy_cannot_be_abandoned():
    run = policy()
    mine, theirs = foreign_query(run)
    with pytest.raises(QueryError):
        run.abandon(theirs)
    assert run.open_queries == [mine]


def test_observe_takes_history_by_label():
    run = policy()
    run.observe("c", 4.0)
    np.testing.assert_allclose(run.belief.theta_hat, [[0, 0, 2.0, 0]])
    assert run.samples == run.pulls[0, 2] == 1
    assert run.open_queries == []


def test_observe_knows_the_labels_of_general_arms():
    problem = unit_problem(ExplicitOracle(np.eye(2)), arms={"sum": [1.0, 1.0], "difference": [1.0, -1.0]})
    run = TopTwo(problem, 0)
    run.observe("difference", 3.0)
    np.testing.assert_allclose(run.belief.theta_hat, [[1.0, -1.0]])


@pytest.mark.parametrize("label", ["z", 0, ("a",), ["a"]], ids=repr)
def test_observe_of_an_unknown_label_is_a_typed_error(label):
    run = policy()
    before = state(run)
    with pytest.raises(LabelError):
        run.observe(label, 1.0)
    assert state(run) == before


@pytest.mark.parametrize("kind", [TopTwo, PEPS, DoublingPEPS])
def test_recommend_gives_the_answer_its_rival_and_the_doubt(kind):
    stated = {"noise_std": 1.0, "prior_mean": 0.0, "prior_std": 5.0}
    run = kind(unit_problem(TopKOracle(ITEMS, k=2), space=Box(-9.0, 9.0), **stated), 0)
    for label, y in zip("abcd" * 16, [5.0, 4.0, 3.0, -5.0] * 16, strict=True):
        run.observe(label, y)
    found = run.recommend()
    assert found.answer == {"a", "b"}
    np.testing.assert_array_equal(found.z, [1, 1, 0, 0])
    assert found.alternative == {"a", "c"}
    assert 0 < found.error_probability < 0.1
    assert run.recommend().error_probability == found.error_probability


def test_before_any_data_every_answer_is_equally_doubtful():
    found = TopTwo(unit_problem(TopKOracle(ITEMS, k=2)), 0).recommend()
    assert abs(found.error_probability - 5 / 6) < 5 * np.sqrt(5 / 36 / 64)  # five standard errors of 64 draws
    assert found.alternative != found.answer


@pytest.mark.parametrize("kind", [TopTwo, PEPS])
def test_a_single_answer_needs_no_alternative(kind):
    run = kind(unit_problem(TopKOracle(ITEMS, k=4)), 0)
    for _ in range(8):
        run.tell(run.ask(), 0.3)
    assert run.pulls.tolist() == [[2, 2, 2, 2]]
    found = run.recommend()
    assert (found.answer, found.alternative, found.error_probability) == (set(ITEMS), None, 0.0)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_an_epsilon_makes_the_doubt_that_of_being_worse_by_more(epsilon):
    """Against 200,000 plain draws; five standard errors of the 256 draws behind the estimate."""
    oracle = TopKOracle(ITEMS, k=2)
    run, rng = TopTwo(unit_problem(oracle), 0), np.random.default_rng(1)
    for label, y in zip("abcd" * 2, [1.0, 0.9, 0.8, -1.0] * 2, strict=True):
        run.observe(label, y)
    found = run.recommend(epsilon=epsilon)
    thetas = run.belief.theta_hat[0] + np.sqrt(run.belief.variance[0]) * rng.standard_normal((200_000, 4))
    worse = ((oracle.argmax(thetas) - found.z) * thetas).sum(axis=1) > epsilon
    p = worse.mean()
    assert 0.01 < p < 0.7
    assert abs(found.error_probability - p) < 5 * np.sqrt(p * (1 - p) / 256)
    assert found.error_probability < run.recommend().error_probability
    for bad in (-1.0, float("nan"), "much"):
        with pytest.raises(ParameterError, match="epsilon"):
            run.recommend(epsilon=bad)


@pytest.mark.parametrize("rng", [-1, 1.5, "seed", float("nan")])
def test_what_is_no_seed_is_a_typed_error(rng):
    run = policy()
    for act in (lambda: policy(rng=rng), lambda: run.recommend(rng), lambda: policy(PEPS).sample_answer(rng)):
        with pytest.raises(ParameterError, match="rng"):
            act()


def test_replications_are_not_for_asking():
    run = policy(replications=3)
    query = policy().ask()
    for act in (
        run.ask,
        lambda: run.ask(2),
        lambda: run.observe("a", 1.0),
        run.recommend,
        lambda: run.tell(query, 1.0),
    ):
        with pytest.raises(ParameterError, match="3"):
            act()


def test_a_bare_oracle_is_a_problem():
    assert TopTwo(unit_problem(TopKOracle(3, k=1)), 0).problem.noise_std == 1.0


@pytest.mark.parametrize("scale", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("X", [None, np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1.0, 0, 0, 2]])])
def test_the_doubt_is_the_posterior_probability_of_another_answer(X, scale):
    """Against 500,000 plain draws; 20 per cent is five standard errors of the 400 to 500 draws behind the estimate."""
    oracle = TopKOracle(ITEMS, k=2)
    run, rng = TopTwo(unit_problem(oracle, arms=X), 0), np.random.default_rng(1)
    for arm in range(4):
        for _ in range(10):
            run.learn(arm, scale * run.problem.arms.row(arm) @ [0.5, 0.4, 0.2, -0.5])
    found = run.recommend()
    covariance = np.array([run.belief.covariance_dot(row[None])[0] for row in np.eye(4)])
    draws = rng.multivariate_normal(run.belief.theta_hat[0], covariance, size=500_000)
    wrong = (oracle.argmax(draws) != found.z).any(axis=1).mean()
    assert wrong > 1e-4
    assert found.error_probability == pytest.approx(wrong, rel=0.2)
