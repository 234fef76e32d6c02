"""`Problem`: arms in every form, noise, cycles, and one answer only."""

import warnings

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import coo_array, csr_matrix
from sessions import session_of
from unit_problem import unit_problem

from combopeps import Box, ExplicitOracle, ShortestPathOracle, TopKOracle, TopTwo, identify, simulate
from combopeps.errors import LabelError, ParameterError, PriorWarning, ReachError
from combopeps.policies.registry import POLICIES

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
