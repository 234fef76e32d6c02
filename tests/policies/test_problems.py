"""`Problem`: arms in every form, noise and prior by label, their ranges, graphs with cycles, and one answer only."""

import warnings

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import coo_array, csr_matrix
from sessions import POLICY_NAMES, covariance_of, session_of
from unit_problem import unit_problem

from combopeps import Box, ExplicitOracle, Problem, Session, ShortestPathOracle, TopKOracle, TopTwo, identify, simulate
from combopeps.errors import IdentifiabilityError, LabelError, ParameterError, PriorWarning

THETA = np.array([0.0, 3.0, 1.0])
MATRIX = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0]])
ORACLE = TopKOracle(["a", "b", "c"], k=1)


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
    problem = unit_problem(ORACLE, arms=arms, noise_std=0.5)
    means = dict(zip(problem.arms.labels, problem.arms.row(np.arange(3)) @ THETA, strict=True))
    assert list(means) == labels
    noise = np.random.default_rng(0)
    result = identify(problem, lambda label: means[label] + 0.5 * noise.normal(), delta=0.01)
    assert result.answer == {"b"}
    assert list(result.pulls) == labels


def one_arm(size):
    return {"a": [size, 0, 0], "b": [0, 1, 0], "c": [0, 0, 1]}


@pytest.mark.parametrize(
    ("stated", "error", "words"),
    [
        *[({"noise_std": bad}, ParameterError, "noise_std") for bad in (0.0, -1.0, np.nan, np.inf, True, "loud")],
        (
            {"noise_std": np.array([1.0, -0.5, 1.0])},
            ParameterError,
            r"noise_std of 'b' must be a positive number, got -0\.5$",
        ),
        ({"prior_std": 1e-200}, ParameterError, "prior_std must lie between 1e-50 and 1e\\+50"),
        ({"prior_std": 1e160}, ParameterError, "prior_std must lie"),
        ({"noise_std": 1e-160}, ParameterError, "noise_std must lie"),
        ({"noise_std": 10**400}, ParameterError, "noise_std must"),
        ({"noise_std": 5e-324}, ParameterError, "noise_std must lie"),
        ({"noise_std": 1e-40, "prior_std": 1e40}, ParameterError, "prior_std / noise_std must lie"),
        ({"noise_std": 1e40, "prior_std": 1e-40}, ParameterError, "prior_std / noise_std must lie"),
        ({"arms": one_arm(1e200)}, ParameterError, "entry of an arm"),
        ({"arms": one_arm(1e-200)}, ParameterError, "entry of an arm"),
        ({"arms": 1e40 * MATRIX, "prior_std": 1e20}, ParameterError, "entry of an arm"),
        ({"arms": 1e-40 * MATRIX, "noise_std": 1e20}, ParameterError, "entry of an arm"),
        ({"arms": MATRIX, "prior_std": 1e15}, ParameterError, "several components at once"),
        ({"arms": []}, ParameterError, None),
        ({"arms": ["a", "x"]}, LabelError, None),
        ({"arms": np.eye(4)}, ParameterError, None),
        ({"arms": np.zeros((3, 3))}, ParameterError, None),
        ({"arms": ["a", "b"]}, IdentifiabilityError, None),  # which cannot tell answers apart
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_and_the_range_is_stated(stated, error, words):
    with pytest.raises(error, match=words):
        unit_problem(ORACLE, **stated)


def test_what_is_not_an_oracle_is_refused():
    with pytest.raises(ParameterError, match="list"):
        unit_problem([1, 2, 3])


def test_a_data_frame_is_not_one_number_for_each():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ParameterError, match=r"noise_std must be a number, \{label: number\}, or one number for each"):
        unit_problem(ORACLE, noise_std=pandas.DataFrame({"std": [1.0, 2.0, 3.0]}))
    with pytest.raises(LabelError, match=r"names 0, which is not one of 'a', 'b', 'c'; .* given as a list"):
        unit_problem(ORACLE, noise_std=pandas.Series([1.0, 2.0, 3.0]))


EVEN = [(1.0, 1e-12), (1.0, 1e12), (1.0, 1e-50), (1e50, 1.0), (1e50, 1e50), (1e-50, 1e-50)]
UNEVEN = [(1e-50, 1.0), (1.0, 1e50)]  # for one arm per component only
ENDS = [(name, None, *scales) for name in POLICY_NAMES for scales in EVEN + UNEVEN]
ENDS += [(name, MATRIX, *scales) for name in ("top-two", "peps", "lingame", "lingape") for scales in EVEN]


@pytest.mark.parametrize(("name", "arms", "noise_std", "prior_std"), ENDS)
def test_at_the_ends_of_the_range_everything_stays_finite(name, arms, noise_std, prior_std):
    space = Box(-5.0 * prior_std, 5.0 * prior_std) if name == "doubling-peps" else None
    session = Session(unit_problem(ORACLE, arms, noise_std, space, prior_std=prior_std), policy=name)
    noise = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            query = session.ask()
            session.tell(query, query.x @ (prior_std * THETA / 3.0) + noise_std * noise.normal())
    assert np.isfinite(session.posterior.theta_hat).all()
    assert 0.0 <= session.status().error_probability <= 1.0


# ---------------------------------------------------------------- graphs, and sets of one answer


LENGTHS = {frozenset("sx"): 1.0, frozenset("xt"): 4.0, frozenset("sy"): 3.0, frozenset("yt"): 1.0, frozenset("xy"): 0.5}
RING = ShortestPathOracle(nx.Graph(["sx", "xt", "sy", "yt", "xy"]), "s", "t")


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_a_graph_with_cycles_has_lengths_of_zero_or_more(policy):
    problem, noise = unit_problem(RING, noise_std=0.5), np.random.default_rng(0)
    assert problem.space == Box(0.0, np.inf)
    measure = lambda edge: LENGTHS[frozenset(edge)] + 0.5 * noise.normal()  # noqa: E731
    result = identify(problem, measure, policy=policy, delta=0.02, budget=5000)
    assert result.answer == ["s", "x", "y", "t"]
    assert result.stop_reason == "posterior"


def test_a_cyclic_graph_with_results_below_zero():
    """theta_hat leaves Theta; the answer is the one at its projection, and alternatives stay inside."""
    session = session_of(TopTwo, RING)
    for query in session.ask(20):
        session.tell(query, -1.0)
    assert (session.posterior.theta_hat <= 0).all()
    found = session.status()
    assert (found.answer[0], found.answer[-1]) == ("s", "t")
    assert 0 < found.error_probability < 1


def test_a_single_answer_is_certain_at_once():
    result = identify(unit_problem(TopKOracle(3, k=3)), lambda item: 1.0)
    assert (result.answer, result.error_probability, result.runner_up) == ({0, 1, 2}, 0.0, None)
    assert [(top.answer, top.probability) for top in result.top_answers] == [({0, 1, 2}, 1.0)]


@pytest.mark.parametrize("name", ["peps", "lingame", "lingape", "clucb", "uniform"])
def test_a_single_answer_can_be_simulated(name):
    assert simulate(unit_problem(TopKOracle(3, k=3)), THETA, name, budget=8, replications=4).correct.all()


def test_one_arm_one_direction():
    problem = unit_problem(ExplicitOracle([[1.0], [-1.0]], labels=["plus", "minus"]))
    noise = np.random.default_rng(0)
    assert identify(problem, lambda _: -1.0 + noise.normal(), policy="peps").answer == "minus"


# ---------------------------------------------------------------- edges as labels

ROADS = [("s", "a"), ("a", "t"), ("s", "b"), ("b", "t"), ("b", "pier")]


def roads(kind=nx.Graph, **stated):
    return unit_problem(ShortestPathOracle(kind(ROADS), "s", "t"), **stated)


def test_edges_without_direction_may_be_turned_round_and_those_on_no_route_named():
    plain, turned = ({road[::way]: float(i + 1) for i, road in enumerate(ROADS)} for way in (1, -1))
    names = "noise_std", "cost", "prior_mean", "prior_std"
    straight, reverse = (roads(**dict.fromkeys(names, values)) for values in (plain, turned))
    assert straight.noise.tolist() == [1.0, 3.0, 2.0, 4.0]  # as graph.edges lists them; the pier is on no route
    for name in ("noise", *names[1:]):
        np.testing.assert_array_equal(getattr(straight, name), getattr(reverse, name))


def test_edges_named_wrongly_are_refused():
    known = dict.fromkeys(ROADS, 1.0)
    with pytest.raises(ParameterError, match=r"cost names .* twice"):
        roads(cost=known | {("t", "a"): 2.0})
    with pytest.raises(LabelError, match="noise_std names"):
        roads(nx.DiGraph, noise_std={road[::-1]: 1.0 for road in ROADS})
    with pytest.raises(LabelError, match="moon"):
        roads(cost=known | {("s", "moon"): 1.0})
    with pytest.raises(ParameterError, match="says nothing about 1 of 4"):
        roads(cost=dict.fromkeys(ROADS[1:], 1.0))


# ---------------------------------------------------------------- priors component by component

MEAN, STD = np.array([0.5, -2.0, 0.0, 10.0]), np.array([0.1, 1.0, 3.0, 20.0])
ROWS = np.array([[1.0, 1, 0, 0], [0, 1, -1, 0], [0, 0, 1, 2], [1, 0, 0, 1], [3, 0, 0, 0]])
NOISE = np.array([0.5, 1.0, 2.0, 0.3, 1.5])
KINDS = {"diagonal": (None, NOISE[:4]), "dense": (ROWS, NOISE)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 7, 600])
def test_the_posterior_is_the_prior_conditioned_on_the_results(kind, count):
    """By conditioning the joint normal of theta and y one by one, not by precisions."""
    problem, rng = Problem(TopKOracle(4, k=2), *KINDS[kind], prior_mean=MEAN, prior_std=STD), np.random.default_rng(1)
    parallel_backend, one, many = TopTwo(problem, 0, replications=3), TopTwo(problem, 0), TopTwo(problem, 0)
    arms, ys = rng.integers(0, len(problem.arms), size=(count, 3)), rng.normal(size=(count, 3))
    for arm, y in zip(arms, ys, strict=True):
        parallel_backend.learn(arm, y)
        one.learn(int(arm[0]), float(y[0]))
    many.learn_many(arms[:, 0], ys[:, 0])
    np.testing.assert_array_equal(many.posterior.theta_hat, one.posterior.theta_hat)
    for posterior, r in ((one.posterior, 0), *((parallel_backend.posterior, r) for r in range(3))):
        mean, C = MEAN, np.diag(STD**2)
        for arm, y in zip(arms[:, r], ys[:, r], strict=True):
            x = problem.arms.row(int(arm))
            gain = C @ x / (x @ C @ x + problem.noise[arm] ** 2)
            mean, C = mean + gain * (y - x @ mean), C - np.outer(gain, x @ C)
        at = 0 if posterior is one.posterior else r
        np.testing.assert_allclose(posterior.theta_hat[at], mean, rtol=1e-7, atol=1e-9 * (count > 0))
        np.testing.assert_allclose(
            covariance_of(posterior, at), C, rtol=1e-6 if count else 1e-13, atol=1e-9 * (count > 0)
        )


def test_a_prior_by_label():
    problem = unit_problem(ORACLE, prior_mean={"c": 4.0}, prior_std={"a": 0.5})
    posterior = TopTwo(problem, 0).posterior
    np.testing.assert_array_equal(posterior.theta_hat[0], [0.0, 0.0, 4.0])
    np.testing.assert_allclose(posterior.variance[0], [0.25, 1.0, 1.0])
    assert session_of(TopTwo, problem).status().answer == {"c"}


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_every_policy_begins_with_the_prior(name):
    space = Box(-20.0, 20.0) if "doubling" in name else None
    problem = unit_problem(TopKOracle(4, k=1), prior_mean=[0, 5.0, 0, 0], prior_std=[1, 0.1, 2, 1], space=space)
    session = Session(problem, policy=name)
    np.testing.assert_array_equal(session.posterior.theta_hat[0], [0.0, 5.0, 0.0, 0.0])
    np.testing.assert_allclose(session.posterior.prior_precision, [1.0, 100.0, 0.25, 1.0])
    assert session.status().answer == {1}
    for _ in range(8):
        query = session.ask()
        session.tell(query, [0.0, 5.0, 0.0, 0.0][query.arm])
    assert session.status().answer == {1}


def test_a_shift_of_the_prior_does_not_matter():
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


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e6, 1e12])
def test_no_index_is_favoured_by_a_common_mean(mean):
    """Ties between equal means are broken at random, however large the mean is."""
    policy = TopTwo(unit_problem(TopKOracle(4, k=1), prior_mean=mean), 0, replications=400)
    assert np.bincount(policy.z_hat().argmax(axis=1), minlength=4).min() > 60


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
    assert TopTwo(unit_problem(TopKOracle(3, k=1), **options), 0).posterior.prior_in_words == words


def test_the_option_of_a_policy_takes_the_place_of_the_width():
    problem = unit_problem(TopKOracle(3, k=1), prior_mean=[1, 2, 3], prior_std=[1, 2, 3])
    posterior = TopTwo(problem, 0, prior_precision=4.0).posterior
    np.testing.assert_array_equal(posterior.theta_hat[0], [1.0, 2.0, 3.0])
    np.testing.assert_allclose(posterior.variance[0], 0.25)
