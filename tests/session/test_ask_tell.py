"""Asking and telling in memory: results in any order, nothing recorded twice or in part, bad results refused."""

import numpy as np
import pytest
from sessions import session_of
from unit_problem import unit_problem

from combopeps import PEPS, Box, DoublingPEPS, ExplicitOracle, Session, TopKOracle, TopTwo
from combopeps.errors import LabelError, ParameterError, QueryError, RewardError

ITEMS = ["a", "b", "c", "d"]


def run_of(kind=TopTwo, rng=0, session=None, **options):
    return session_of(kind, unit_problem(TopKOracle(ITEMS, k=2), space=Box(-9.0, 9.0), **options), rng, session=session)


def state(run):
    """Everything that telling may change, as bytes."""
    belief = run.belief
    return belief.theta_hat.tobytes(), belief.variance.tobytes(), run.policy.pulls.tobytes(), len(run.open_queries)


@pytest.mark.parametrize("kind", [TopTwo, PEPS, DoublingPEPS])
def test_ask_returns_open_queries_that_name_their_arms(kind):
    run = run_of(kind)
    query = run.ask()
    assert run.open_queries == [query]
    assert query.label == ITEMS[query.arm]
    np.testing.assert_array_equal(query.x, np.eye(4)[query.arm])
    run.tell(query, 1.0)
    assert run.open_queries == []
    assert run.samples == run.policy.pulls[0, query.arm] == 1
    queries = run.ask(7)
    assert run.open_queries == queries
    assert len({query.id, *(query.id for query in queries), run.ask(1)[0].id}) == 9
    assert len({query.arm for query in queries}) > 1


@pytest.mark.parametrize("n", [0, -1, 2.5, "2", float("nan"), True])
def test_a_number_of_queries_that_is_none_is_refused(n):
    run = run_of()
    with pytest.raises(ParameterError, match=str(n)):
        run.ask(n)
    assert run.open_queries == []


@pytest.mark.parametrize("kind", [TopTwo, PEPS])
def test_results_count_the_same_in_any_order_and_late(kind):
    first, second, third = run_of(kind), run_of(kind), run_of(kind)
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
        np.testing.assert_array_equal(run.policy.pulls, first.policy.pulls)


def test_an_identical_repetition_is_harmless_and_another_is_refused():
    run = run_of()
    query = run.ask()
    run.tell_many([(query, 1.5), (query, 1.5)])
    before = state(run)
    run.tell(query, 1.5)
    run.tell_many([(query, 1.5), (query.id, 1.5)])
    assert state(run) == before
    with pytest.raises(QueryError, match="observe"):
        run.tell(query, 1.6)
    with pytest.raises(QueryError, match="closed before"):
        run.abandon(query)
    assert state(run) == before


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), -float("inf"), None, "much", [1.0, 2.0], 1j, 1e200, -1.1e100, 10**400], ids=str
)
def test_what_is_not_a_finite_number_is_refused_and_the_query_stays_open(bad):
    run = run_of()
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
def test_the_largest_result_that_is_accepted_does_no_harm(arms, noise_std):
    run = session_of(TopTwo, unit_problem(TopKOracle(ITEMS, k=2), arms, noise_std=noise_std, prior_std=noise_std))
    for sign in (1, -1, -1, 1):
        run.tell(run.ask(), sign * 1e100 * noise_std, confirm=True)
    assert np.isfinite(run.belief.theta_hat).all()
    assert 0 <= run.status().error_probability <= 1


@pytest.mark.parametrize("bad", [None, "0", (0, 1), True, 0.0, 1, np.int64(-1)], ids=repr)
def test_what_is_not_a_query_is_refused(bad):
    run = run_of()
    run.ask()
    before = state(run)
    known = r"asked" if isinstance(bad, (int, np.integer)) and not isinstance(bad, bool) else r"ask\(\)"
    for act in (lambda: run.tell(bad, 1.0), lambda: run.tell_many([(bad, 1.0)]), lambda: run.abandon(bad)):
        with pytest.raises(QueryError, match=known):
            act()
    assert state(run) == before


def test_numpy_numbers_are_numbers():
    run = run_of()
    for y in (np.float32(0.5), np.int64(3), np.array(1.5), 2):
        run.tell(np.int64(run.ask().id), y)
    assert run.samples == 4


@pytest.mark.parametrize("fault", ["nan", "answered", "abandoned", "twice"])
def test_tell_many_records_all_or_nothing(fault):
    run = run_of()
    queries = run.ask(4)
    if fault == "answered":
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
    if fault == "abandoned":
        with pytest.raises(QueryError):
            run.abandon(queries[2])
    assert state(run) == before


def test_a_query_of_another_session_is_refused():
    run = run_of()
    mine = run.ask()
    theirs = next(query for seed in range(100) if (query := run_of(rng=seed).ask()).arm != mine.arm)
    for act in (lambda: run.tell(theirs, 1.0), lambda: run.abandon(theirs)):
        before = state(run)
        with pytest.raises(QueryError, match=r"not asked|another session"):
            act()
        assert state(run) == before
    assert run.open_queries == [mine]
    run.tell(mine, 1.0)
    with pytest.raises(QueryError):
        run.tell(theirs, 1.0)


def test_observations_are_recorded_by_label():
    run = run_of()
    run.observe("c", 4.0)
    np.testing.assert_allclose(run.belief.theta_hat, [[0, 0, 2.0, 0]])
    assert run.samples == run.policy.pulls[0, 2] == 1
    assert run.open_queries == []
    problem = unit_problem(ExplicitOracle(np.eye(2)), arms={"sum": [1.0, 1.0], "difference": [1.0, -1.0]})
    run = session_of(TopTwo, problem)
    run.observe("difference", 3.0)
    np.testing.assert_allclose(run.belief.theta_hat, [[1.0, -1.0]])


@pytest.mark.parametrize("label", ["z", 0, ("a",), ["a"]], ids=repr)
def test_observe_of_an_unknown_label_is_a_typed_error(label):
    run = run_of()
    before = state(run)
    with pytest.raises(LabelError):
        run.observe(label, 1.0)
    assert state(run) == before


@pytest.mark.parametrize("kind", [TopTwo, PEPS, DoublingPEPS])
def test_status_has_the_answer_the_runner_up_and_the_error_probability(kind):
    run = run_of(kind, prior_std=5.0)
    for label, y in zip("abcd" * 16, [5.0, 4.0, 3.0, -5.0] * 16, strict=True):
        run.observe(label, y)
    found = run.status()
    assert found.answer == {"a", "b"}
    np.testing.assert_array_equal(found.z, [1, 1, 0, 0])
    assert found.runner_up == {"a", "c"}
    assert 0 < found.error_probability < 0.1


def test_before_any_data_every_answer_is_equally_probable():
    found = session_of(TopTwo, TopKOracle(ITEMS, k=2)).status()
    assert abs(found.error_probability - 5 / 6) < 5 * np.sqrt(5 / 36 / 64)  # five standard errors of 64 draws
    assert found.runner_up != found.answer


@pytest.mark.parametrize("kind", [TopTwo, PEPS])
def test_a_single_answer_needs_no_alternative(kind):
    run = session_of(kind, TopKOracle(ITEMS, k=4))
    for _ in range(8):
        run.tell(run.ask(), 0.3)
    assert run.policy.pulls.tolist() == [[2, 2, 2, 2]]
    found = run.status()
    assert (found.answer, found.runner_up, found.error_probability) == (set(ITEMS), None, 0.0)


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_with_an_epsilon_an_error_is_to_be_worse_by_more(epsilon):
    """Against 200,000 plain draws; five standard errors of the 256 draws behind the estimate."""
    oracle, rng = TopKOracle(ITEMS, k=2), np.random.default_rng(1)
    run, exact = (session_of(TopTwo, oracle, session={"epsilon": e}) for e in (epsilon, 0.0))
    for label, y in zip("abcd" * 2, [1.0, 0.9, 0.8, -1.0] * 2, strict=True):
        run.observe(label, y)
        exact.observe(label, y)
    found, belief = run.status(), run.belief
    thetas = belief.theta_hat[0] + np.sqrt(belief.variance[0]) * rng.standard_normal((200_000, 4))
    worse = ((oracle.argmax(thetas) - found.z) * thetas).sum(axis=1) > epsilon
    p = worse.mean()
    assert 0.01 < p < 0.7
    assert abs(found.error_probability - p) < 5 * np.sqrt(p * (1 - p) / 256)
    assert found.error_probability < exact.status().error_probability


@pytest.mark.parametrize("epsilon", [-1.0, float("nan"), "much"])
def test_what_is_no_epsilon_is_a_typed_error(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        Session(TopKOracle(3, k=1), epsilon=epsilon)


@pytest.mark.parametrize("rng", [-1, 1.5, "seed", float("nan")])
def test_what_is_no_seed_is_a_typed_error(rng):
    problem = unit_problem(TopKOracle(3, k=1))
    for act in (
        lambda: TopTwo(problem, rng),
        lambda: Session(problem, rng=rng),
        lambda: PEPS(problem, 0).sample_answer(rng),
    ):
        with pytest.raises(ParameterError, match="rng"):
            act()


def test_a_policy_of_several_replications_or_of_another_problem_is_refused():
    problem = unit_problem(TopKOracle(ITEMS, k=2))
    with pytest.raises(ParameterError, match="runs 3"):
        Session(problem, policy=TopTwo(problem, 0, replications=3))
    with pytest.raises(ParameterError, match="another problem"):
        Session(unit_problem(TopKOracle(ITEMS, k=2)), policy=TopTwo(problem, 0))


@pytest.mark.parametrize("scale", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("X", [None, np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1.0, 0, 0, 2]])])
def test_the_error_probability_is_the_posterior_probability_of_another_answer(X, scale):
    """Against 500,000 plain draws; 20 per cent is five standard errors of the 400 to 500 draws behind the estimate."""
    oracle = TopKOracle(ITEMS, k=2)
    run, rng = session_of(TopTwo, unit_problem(oracle, arms=X)), np.random.default_rng(1)
    for arm in range(4):
        for _ in range(10):
            run.policy.learn(arm, scale * run.problem.arms.row(arm) @ [0.5, 0.4, 0.2, -0.5])
    found, belief = run.status(), run.belief
    covariance = np.array([belief.covariance_dot(row[None])[0] for row in np.eye(4)])
    draws = rng.multivariate_normal(belief.theta_hat[0], covariance, size=500_000)
    wrong = (oracle.argmax(draws) != found.z).any(axis=1).mean()
    assert wrong > 1e-4
    assert found.error_probability == pytest.approx(wrong, rel=0.2)
