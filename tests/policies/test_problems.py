"""`Problem`: arms in every form, noise, cycles, and one answer only.

What is stated by label: edges without direction may be turned round, and those on no route may be named.

Priors component by component: the belief before data, after data, and in words.
"""

import warnings

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import coo_array, csr_matrix
from sessions import session_of
from unit_problem import unit_problem

from combopeps import (
    Box,
    ExplicitOracle,
    LabelError,
    ParameterError,
    PriorWarning,
    Problem,
    ReachError,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    identify,
    simulate,
)
from combopeps.policies.registry import POLICIES, policy_class

THETA = np.array([0.0, 3.0, 1.0])
MATRIX = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])


def oracle():
    return TopKOracle(["a", "b", "c"], k=1)


@pytest.mark.parametrize(
    ("arms", "labels"),
    [
        (None, ["a", "b", "c"]),
        (["c", "b", "a"], ["c", "b", "a"]),
        (MATRIX, [0, 1, 2]),
        (csr_matrix(MATRIX), [0, 1, 2]),
        (coo_array(MATRIX), [0, 1, 2]),
        ({"ab": MATRIX[0], "bc": MATRIX[1], "ca": MATRIX[2]}, ["ab", "bc", "ca"]),
    ],
    ids=["default", "labels", "matrix", "sparse matrix", "sparse array", "dict"],
)
def test_arms_in_every_form(arms, labels):
    problem = unit_problem(oracle(), arms=arms, noise_std=0.5)
    means = dict(zip(problem.arms.labels, problem.arms.row(np.arange(3)) @ THETA, strict=True))
    assert list(means) == labels
    noise = np.random.default_rng(0)
    result = identify(problem, lambda label: means[label] + 0.5 * noise.normal(), delta=0.01)
    assert result.answer == {"b"}
    assert list(result.pulls) == labels


def samples_with_noise(std):
    noise = np.random.default_rng(1)
    return identify(
        unit_problem(oracle(), noise_std=std), lambda x: THETA["abc".index(x)] + std * noise.normal()
    ).samples


def test_less_noise_needs_fewer_measurements():
    assert samples_with_noise(0.1) < samples_with_noise(4.0) / 2


def test_noise_enters_the_belief():
    policy = TopTwo(unit_problem(oracle(), noise_std=2.0), 0)
    policy.learn(0, 5.0)
    np.testing.assert_allclose(policy.belief.theta_hat[0, 0], (5.0 / 4) / (1 + 1 / 4))


def test_the_prior_enters_the_belief():
    policy = TopTwo(unit_problem(oracle(), prior_std=3.0), 0)
    policy.learn(0, 5.0)
    np.testing.assert_allclose(policy.belief.theta_hat[0, 0], 5.0 / (1 + 1 / 9))


def test_a_result_out_of_all_proportion_warns_once_and_is_taken():
    session = session_of(TopTwo, oracle())
    with pytest.warns(PriorWarning, match="prior_std"):
        session.tell(session.ask(), 100.0)
    session.tell(session.ask(), 100.0)  # a second warning would be an error
    assert session.samples == 2


def test_results_of_the_announced_scale_do_not_warn():
    session = session_of(TopTwo, unit_problem(oracle(), prior_std=100.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session.tell(session.ask(), 100.0)
    assert session.samples == 1


@pytest.mark.parametrize("noise_std", [0.0, -1.0, float("nan"), float("inf"), True, "loud"])
def test_noise_must_be_a_positive_number(noise_std):
    with pytest.raises(ParameterError, match="noise_std"):
        unit_problem(oracle(), noise_std=noise_std)


@pytest.mark.parametrize(
    ("scales", "words"),
    [
        ({"prior_std": 1e-200}, "prior_std must lie between 1e-50 and 1e\\+50"),
        ({"prior_std": 1e160}, "prior_std must lie"),
        ({"noise_std": 1e-160}, "noise_std must lie"),
        ({"noise_std": 10**400}, "noise_std must"),
        ({"noise_std": 5e-324}, "noise_std must lie"),
        ({"noise_std": 1e-40, "prior_std": 1e40}, "prior_std / noise_std must lie"),
        ({"noise_std": 1e40, "prior_std": 1e-40}, "prior_std / noise_std must lie"),
        ({"arms": {"a": [1e200, 0, 0], "b": [0, 1, 0], "c": [0, 0, 1]}}, "entry of an arm"),
        ({"arms": {"a": [1e-200, 0, 0], "b": [0, 1, 0], "c": [0, 0, 1]}}, "entry of an arm"),
        ({"arms": 1e40 * MATRIX, "prior_std": 1e20}, "entry of an arm"),
        ({"arms": 1e-40 * MATRIX, "noise_std": 1e20}, "entry of an arm"),
        ({"arms": MATRIX, "prior_std": 1e15}, "several components at once"),
    ],
    ids=str,
)
def test_scales_whose_squares_would_not_be_finite_are_refused_with_the_range(scales, words):
    with pytest.raises(ParameterError, match=words):
        unit_problem(oracle(), **scales)


EVEN = [(1.0, 1e-12), (1.0, 1e12), (1.0, 1e-50), (1e50, 1.0), (1e50, 1e50), (1e-50, 1e-50)]
UNEVEN = [(1e-50, 1.0), (1.0, 1e50)]  # for one arm per component only
ENDS = [(name, None, *scales) for name in sorted(POLICIES.keys() - {"fixed"}) for scales in EVEN + UNEVEN]
ENDS += [(name, MATRIX, *scales) for name in ("top-two", "peps", "lingame", "lingape") for scales in EVEN]


@pytest.mark.parametrize(("name", "arms", "noise_std", "prior_std"), ENDS)
def test_at_the_ends_of_the_range_everything_stays_finite(name, arms, noise_std, prior_std):
    space = Box(-5.0 * prior_std, 5.0 * prior_std) if name == "doubling-peps" else None
    session = session_of(POLICIES[name], unit_problem(oracle(), arms, noise_std, space, prior_std=prior_std))
    noise = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            query = session.ask()
            session.tell(query, query.x @ (prior_std * THETA / 3.0) + noise_std * noise.normal())
    assert np.isfinite(session.belief.theta_hat).all()
    assert 0.0 <= session.status().error_probability <= 1.0


def test_what_is_not_an_oracle_is_refused():
    with pytest.raises(ParameterError, match="list"):
        unit_problem([1, 2, 3])


@pytest.mark.parametrize(
    ("arms", "error"),
    [([], ParameterError), (["a", "x"], LabelError), (np.eye(4), ParameterError), (np.zeros((3, 3)), ParameterError)],
    ids=["none", "unknown label", "wrong width", "zero rows"],
)
def test_arms_that_make_no_sense_are_typed_errors(arms, error):
    with pytest.raises(error):
        unit_problem(oracle(), arms=arms)


def test_arms_that_cannot_tell_answers_apart_are_refused():
    with pytest.raises(ReachError):
        unit_problem(oracle(), arms=["a", "b"])


def ring():
    graph = nx.Graph([("s", "x"), ("x", "t"), ("s", "y"), ("y", "t"), ("x", "y")])
    lengths = {
        frozenset("sx"): 1.0,
        frozenset("xt"): 4.0,
        frozenset("sy"): 3.0,
        frozenset("yt"): 1.0,
        frozenset("xy"): 0.5,
    }
    return ShortestPathOracle(graph, "s", "t"), lengths


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_a_graph_with_cycles_has_lengths_of_zero_or_more(policy):
    routes, lengths = ring()
    problem = unit_problem(routes, noise_std=0.5)
    assert problem.space == Box(0.0, np.inf)
    noise = np.random.default_rng(0)
    result = identify(
        problem, lambda edge: lengths[frozenset(edge)] + 0.5 * noise.normal(), policy=policy, delta=0.02, budget=5000
    )
    assert result.answer == ["s", "x", "y", "t"]
    assert result.stop_reason == "posterior"


def test_a_cyclic_graph_with_results_below_zero():
    """theta_hat leaves Theta; the answer is the one at its projection, and alternatives stay inside."""
    routes, _ = ring()
    session = session_of(TopTwo, routes)
    for query in session.ask(20):
        session.tell(query, -1.0)
    assert (session.belief.theta_hat <= 0).all()
    found = session.status()
    assert (found.answer[0], found.answer[-1]) == ("s", "t")
    assert 0 < found.error_probability < 1


def test_a_single_answer_is_certain_at_once():
    result = identify(unit_problem(TopKOracle(3, k=3)), lambda item: 1.0)
    assert (result.answer, result.error_probability, result.runner_up) == ({0, 1, 2}, 0.0, None)


def test_a_single_answer_can_be_simulated():
    assert simulate(unit_problem(TopKOracle(3, k=3)), THETA, "peps", budget=6, replications=4).correct.all()


def test_one_arm_one_direction():
    problem = unit_problem(ExplicitOracle([[1.0], [-1.0]], labels=["plus", "minus"]))
    noise = np.random.default_rng(0)
    assert identify(problem, lambda _: -1.0 + noise.normal(), policy="peps").answer == "minus"


ROADS = [("s", "a"), ("a", "t"), ("s", "b"), ("b", "t"), ("b", "pier")]


def roads_problem(kind, **stated):
    return unit_problem(ShortestPathOracle(kind(ROADS), "s", "t"), **stated)


def test_turned_round():
    plain, turned = ({road[::way]: float(i + 1) for i, road in enumerate(ROADS)} for way in (1, -1))
    straight = roads_problem(nx.Graph, noise_std=plain, cost=plain, prior_mean=plain, prior_std=plain)
    reverse = roads_problem(nx.Graph, noise_std=turned, cost=turned, prior_mean=turned, prior_std=turned)
    assert straight.noise.tolist() == [1.0, 3.0, 2.0, 4.0]  # as graph.edges lists them; the pier is on no route
    for name in ("noise", "cost", "prior_mean", "prior_std"):
        np.testing.assert_array_equal(getattr(straight, name), getattr(reverse, name))


def test_one_edge_by_two_names_is_refused():
    known = dict.fromkeys(ROADS, 1.0)
    with pytest.raises(ParameterError, match=r"cost names .* twice"):
        roads_problem(nx.Graph, cost=known | {("t", "a"): 2.0})


def test_directed_edges_are_not_turned():
    with pytest.raises(LabelError, match="noise_std names"):
        roads_problem(nx.DiGraph, noise_std={road[::-1]: 1.0 for road in ROADS})


def test_unknown_and_missing_components_are_refused():
    known = dict.fromkeys(ROADS, 1.0)
    with pytest.raises(LabelError, match="moon"):
        roads_problem(nx.Graph, cost=known | {("s", "moon"): 1.0})
    with pytest.raises(ParameterError, match="says nothing about 1 of 4"):
        roads_problem(nx.Graph, cost=dict.fromkeys(ROADS[1:], 1.0))


MEAN, STD = np.array([0.5, -2.0, 0.0, 10.0]), np.array([0.1, 1.0, 3.0, 20.0])
ROWS = np.array(
    [[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, -1.0, 0.0], [0.0, 0.0, 1.0, 2.0], [1.0, 0.0, 0.0, 1.0], [3.0, 0.0, 0.0, 0.0]]
)
NOISE = np.array([0.5, 1.0, 2.0, 0.3, 1.5])
KINDS = {
    "diagonal": lambda: Problem(TopKOracle(4, k=2), noise_std=NOISE[:4], prior_mean=MEAN, prior_std=STD),
    "dense": lambda: Problem(TopKOracle(4, k=2), ROWS, NOISE, prior_mean=MEAN, prior_std=STD),
}


def covariance(belief, r=0):
    alone = belief.row(r)
    return np.stack([alone.covariance_dot(e[None])[0] for e in np.eye(belief.dim)])


def posterior(problem, arms, ys):
    """By conditioning the joint normal of theta and y one by one, not by precisions."""
    mean, C = MEAN, np.diag(STD**2)
    for arm, y in zip(arms, ys, strict=True):
        x = problem.arms.row(int(arm))
        gain = C @ x / (x @ C @ x + problem.noise[arm] ** 2)
        mean, C = mean + gain * (y - x @ mean), C - np.outer(gain, x @ C)
    return mean, C


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replications", [1, 3])
def test_before_any_measurement_the_prior_stands(kind, replications):
    belief = TopTwo(KINDS[kind](), 0, replications=replications).belief
    for r in range(replications):
        np.testing.assert_array_equal(belief.theta_hat[r], MEAN)
        np.testing.assert_allclose(covariance(belief, r), np.diag(STD**2), rtol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 7, 600])
def test_after_measurements_it_is_conditioned(kind, count):
    problem, rng = KINDS[kind](), np.random.default_rng(1)
    policy = TopTwo(problem, 0)
    arms, ys = rng.integers(0, len(problem.arms), size=count), rng.normal(size=count)
    for arm, y in zip(arms, ys, strict=True):
        policy.learn(int(arm), float(y))
    mean, spread = posterior(problem, arms, ys)
    np.testing.assert_allclose(policy.belief.theta_hat[0], mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(covariance(policy.belief), spread, rtol=1e-6, atol=1e-9)
    many = TopTwo(problem, 0)
    many.learn_many(arms, ys)
    np.testing.assert_array_equal(many.belief.theta_hat, policy.belief.theta_hat)


@pytest.mark.parametrize("kind", KINDS)
def test_replications_side_by_side_have_it_too(kind):
    problem, rng = KINDS[kind](), np.random.default_rng(2)
    policy = TopTwo(problem, 0, replications=3)
    arms, ys = rng.integers(0, len(problem.arms), size=(20, 3)), rng.normal(size=(20, 3))
    for arm, y in zip(arms, ys, strict=True):
        policy.learn(arm, y)
    for r in range(3):
        mean, spread = posterior(problem, arms[:, r], ys[:, r])
        np.testing.assert_allclose(policy.belief.theta_hat[r], mean, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(covariance(policy.belief, r), spread, rtol=1e-7, atol=1e-9)


def test_a_prior_by_label():
    problem = unit_problem(TopKOracle(["a", "b", "c"], k=1), prior_mean={"c": 4.0}, prior_std={"a": 0.5})
    belief = TopTwo(problem, 0).belief
    np.testing.assert_array_equal(belief.theta_hat[0], [0.0, 0.0, 4.0])
    np.testing.assert_allclose(belief.variance[0], [0.25, 1.0, 1.0])
    assert session_of(TopTwo, problem).status().answer == {"c"}


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if policy.by_name])
def test_every_policy_begins_with_it(name):
    space = Box(-20.0, 20.0) if "doubling" in name else None
    problem = unit_problem(TopKOracle(4, k=1), prior_mean=[0, 5.0, 0, 0], prior_std=[1, 0.1, 2, 1], space=space)
    session = session_of(policy_class(name), problem)
    np.testing.assert_array_equal(session.belief.theta_hat[0], [0.0, 5.0, 0.0, 0.0])
    np.testing.assert_allclose(session.belief.prior_precision, [1.0, 100.0, 0.25, 1.0])
    assert session.status().answer == {1}
    for _ in range(8):
        query = session.ask()
        session.tell(query, [0.0, 5.0, 0.0, 0.0][query.arm])
    assert session.status().answer == {1}


def test_the_currency_of_the_prior_does_not_matter():
    """theta shifted by a constant shifts no difference of answers of equal size: the same arms are asked for."""

    def arms(shift):
        problem = unit_problem(TopKOracle(5, k=2), prior_mean=shift + np.arange(5.0), prior_std=2.0)
        policy, truth = TopTwo(problem, 3), shift + np.arange(5.0)[::-1]
        found = []
        for _ in range(40):
            arm = int(policy.next_arms()[0])
            policy.learn(arm, float(truth[arm]))
            found.append(arm)
        return found

    assert arms(0.0) == arms(1024.0)


def test_no_index_is_favoured_by_a_common_mean():
    """Ties between equal means are broken at random, however large the mean is."""
    for mean in (0.0, 1.0, 1e6, 1e12):
        problem = unit_problem(TopKOracle(4, k=1), prior_mean=mean)
        answers = TopTwo(problem, 0, replications=400).z_hat().argmax(axis=1)
        assert np.bincount(answers, minlength=4).min() > 60


def test_a_strong_prior_is_believed_and_said():
    truth, rng = [0.0, 0.0, 0.3], np.random.default_rng(0)
    problem = unit_problem(TopKOracle(3, k=1), prior_mean=[0, 0, 3.0], prior_std=[0.1, 0.1, 0.1])
    with pytest.warns(PriorWarning, match="2 is .* standard deviations off its prior mean 3"):
        result = identify(problem, lambda x: truth[x] + rng.normal(), delta=0.05)
    assert result.answer == {2}
    assert result.samples <= 20
    assert "the prior stated for each component" in result.claim


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "prior N(0, 1) in every component"),
        ({"prior_std": 2.0}, "prior N(0, 2^2) in every component"),
        ({"prior_mean": 1.5, "prior_std": 2.0}, "prior N(1.5, 2^2) in every component"),
        ({"prior_mean": [1, 1, 1]}, "prior N(1, 1) in every component"),
        ({"prior_mean": [1, 1, 2]}, "the prior stated for each component"),
        ({"prior_std": {1: 0.5}}, "the prior stated for each component"),
    ],
)
def test_the_prior_in_words(options, words):
    assert TopTwo(unit_problem(TopKOracle(3, k=1), **options), 0).belief.prior_in_words == words


def test_the_guard_of_the_prior_looks_at_every_component():
    problem = unit_problem(TopKOracle(2, k=1), prior_mean=[100.0, 0.0], prior_std=[1.0, 50.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        session = session_of(TopTwo, problem)
        session.observe(0, 101.0)
        session.observe(1, 80.0)
    with pytest.warns(PriorWarning, match=r"0 is 14 standard deviations off its prior mean 100 \(prior_std = 1\)"):
        session_of(TopTwo, problem).observe(0, 80.0)


def test_the_guard_of_the_prior_looks_along_general_arms():
    rows = np.array([[1.0, 1.0], [1.0, -1.0]])
    problem = Problem(ExplicitOracle(np.eye(2)), rows, [2.0, 1.0], prior_mean=[3.0, 4.0], prior_std=[3.0, 4.0])
    with pytest.warns(PriorWarning, match=r"\d is 9.8 standard deviations off its prior mean"):
        session_of(TopTwo, problem).observe(0, 60.0)


def test_the_option_of_a_policy_takes_the_place_of_the_width():
    problem = unit_problem(TopKOracle(3, k=1), prior_mean=[1, 2, 3], prior_std=[1, 2, 3])
    belief = TopTwo(problem, 0, prior_precision=4.0).belief
    np.testing.assert_array_equal(belief.theta_hat[0], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(belief.variance[0], 0.25)
