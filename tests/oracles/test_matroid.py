"""`MatroidOracle`: greedy on anyone's test, against enumeration and other solvers; what the test may do wrong."""

import networkx as nx
import numpy as np
import pytest
from brute_force import assert_agrees, rows_of
from matroids import MATROIDS, Graphic, Linear, Uniform, independent_sets, random_matroid
from unit_problem import unit_problem

from combopeps import MatroidOracle, TopKOracle, identify, simulate
from combopeps.errors import AnswerError, LabelError, OracleError, ParameterError


@pytest.mark.parametrize("part", range(5))
def test_agrees_with_enumeration(part):
    """500 random matroids of six kinds; ties, zeros, negative values and components in no answer included."""
    rng = np.random.default_rng(part)
    for seed in range(100):
        components, test = random_matroid(rng)
        bases, objective = bool(rng.random() < 0.6), "max" if rng.random() < 0.5 else "min"
        oracle = MatroidOracle(components, test, bases=bases, objective=objective)
        found = independent_sets(components, test, bases=bases)
        labels = [[oracle.components[i] for i in chosen] for chosen in found]
        Z = rows_of(labels, oracle.components, oracle.unit)
        assert_agrees(oracle, Z, seed)
        assert oracle.rank == max(map(len, found))
        assert oracle.facets(Z[seed % len(Z)]).shape[0] <= oracle.facet_count


@pytest.mark.parametrize("bases", [True, False])
@pytest.mark.parametrize("name", MATROIDS)
def test_beaten_exactly_where_behind_a_facet(name, bases):
    rng = np.random.default_rng(len(name))
    oracle = MatroidOracle(*MATROIDS[name], bases=bases)
    for centre in rng.normal(size=(3, oracle.dim)):
        z = oracle.argmax(centre)
        rows = oracle.facets(z)
        thetas = centre + rng.uniform(0.05, 1.0) * rng.normal(size=(60, oracle.dim))
        beaten = (oracle.argmax(thetas) != z).any(axis=1)
        np.testing.assert_array_equal(((rows @ thetas.T) > 0).any(axis=0), beaten)
        np.testing.assert_array_equal(oracle.membership(z, thetas), ~beaten)


def test_trees_are_those_of_networkx():
    rng = np.random.default_rng(0)
    graph = nx.gnp_random_graph(30, 0.3, seed=1)
    assert nx.is_connected(graph)
    oracle = MatroidOracle(graph.edges, Graphic(), objective="min")
    for theta in rng.normal(size=(5, oracle.dim)):
        for (u, v), length in zip(oracle.components, theta, strict=True):
            graph[u][v]["weight"] = length
        tree = nx.minimum_spanning_tree(graph)
        assert oracle.decode(oracle.argmax(theta)) == {(min(e), max(e)) for e in tree.edges}


def test_a_uniform_matroid_is_top_k():
    one, top = MatroidOracle([f"i{i}" for i in range(30)], Uniform(7)), TopKOracle(30, 7)
    thetas = np.random.default_rng(1).integers(-2, 3, size=(20, 30)).astype(float)
    np.testing.assert_array_equal(one.argmax(thetas), top.argmax(thetas))
    assert one.log_cardinality == pytest.approx(top.log_cardinality)
    assert not one.log_cardinality.exact  # it cannot know
    assert one.facet_count == top.facet_count == one.facets(one.argmax(thetas[0])).shape[0]
    assert one.confusions().log_count == top.confusions().log_count


def test_facets_are_listed_only_where_that_is_affordable():
    tested = []

    def independent(chosen):
        tested.append(1)
        return len(chosen) <= 60

    oracle = MatroidOracle(120, independent)
    z = oracle.argmax(np.arange(120.0))
    tested.clear()
    assert oracle.facet_count is None
    assert oracle.facets(z) is None
    assert oracle.facets_up_to(z, 3599) is None
    assert tested == []
    assert oracle.facets_up_to(z, 3600).shape == (3600, 120)
    assert len(tested) == 3601
    oracle.facets_up_to(z, 3600)
    assert len(tested) == 3601  # known from the last time


def test_facets_that_are_handed_out_are_the_callers_own():
    oracle = MatroidOracle(*MATROIDS["graphic"])
    z = oracle.argmax(np.arange(10.0))
    rows = oracle.facets(z)
    rows.data[:] = 7.0
    assert set(oracle.facets(z).data) == {-1.0, 1.0}
    assert oracle.membership(z, np.arange(10.0))


def test_an_argmax_takes_no_more_tests_than_components():
    tested = []

    def independent(chosen):
        tested.append(1)
        return len(chosen) <= 3

    oracle = MatroidOracle(50, independent)
    assert len(tested) == 1 + 50 + 50
    tested.clear()
    oracle.argmax(np.random.default_rng(0).normal(size=(4, 50)))
    assert len(tested) == 4 * 3  # a basis is complete when it has as many components as the others


def test_one_answer_only():
    oracle = MatroidOracle(4, Uniform(4))
    assert (float(oracle.log_cardinality), oracle.log_cardinality.exact) == (0.0, True)
    assert oracle.facets(np.ones(4)).shape == (0, 4)


def test_components_in_no_answer():
    oracle = MatroidOracle(3, Linear([[1, 0, 1], [0, 0, 1]]))
    assert oracle.rank == 2
    np.testing.assert_array_equal(oracle.argmax([[1, 9, 1]]), [[1, 0, 1]])
    np.testing.assert_array_equal(oracle.equalities().toarray(), [[0, 1, 0], [1, 1, 1]])
    oracle = MatroidOracle(3, Linear([[1, 0, 1], [0, 0, 1]]), bases=False)
    np.testing.assert_array_equal(oracle.equalities().toarray(), [[0, 1, 0]])


def test_the_test_may_spoil_the_list_it_is_given():
    def spoils(chosen):
        size = len(chosen)
        chosen.clear()
        chosen.append("nonsense")
        return size <= 2

    oracle = MatroidOracle(["a", "b", "c"], spoils)
    assert oracle.decode(oracle.argmax([1, 3, 2])) == {"b", "c"}
    assert oracle.facets(oracle.argmax([1, 3, 2])).shape == (2, 3)


def test_the_test_sees_labels_in_order():
    seen = []

    def sees(chosen):
        seen.append(list(chosen))
        return len(chosen) <= 2

    oracle = MatroidOracle(["c", "a", "b"], sees)
    oracle.argmax([1, 2, 3])
    assert all(chosen == [label for label in "cab" if label in chosen] for chosen in seen)


def test_the_list_of_components_may_change_afterwards():
    labels = ["a", "b", "c"]
    oracle = MatroidOracle(labels, Uniform(1))
    labels.reverse()
    assert oracle.decode(oracle.argmax([3, 2, 1])) == {"a"}


def raises_on_pairs(chosen):
    if len(chosen) == 2:
        raise ZeroDivisionError("no pairs, please")
    return True


BAD = {
    "not a function": (3, [True], ParameterError, "must be a function"),
    "a component twice": (["a", "a"], Uniform(1), LabelError, "different"),
    "no components": ([], Uniform(1), LabelError, "at least one"),
    "one string": ("abc", Uniform(1), LabelError, "in a list"),
    "the empty set is dependent": (3, lambda chosen: len(chosen) > 0, OracleError, "empty set is independent"),
    "a number for an answer": (3, len, OracleError, r"independent\(\[\]\) returned 0; return True or False"),
    "nothing for an answer": (3, lambda chosen: None, OracleError, "returned None"),
    "a number later on": (["a", "b"], lambda chosen: len(chosen) < 1 or 1, OracleError, r"\(\['a'\]\) returned 1"),
    "an exception": (["a", "b"], raises_on_pairs, OracleError, r"\['a', 'b'\]\) raised ZeroDivisionError: no pairs"),
    "another number of arguments": (3, lambda: True, OracleError, "raised TypeError"),
    "nothing is independent": (3, lambda chosen: not chosen, ParameterError, "nothing to choose"),
}


@pytest.mark.parametrize(("components", "test", "error", "words"), BAD.values(), ids=BAD)
def test_bad_input(components, test, error, words):
    with pytest.raises(error, match=words) as caught:
        MatroidOracle(components, test)
    if "raised" in words:
        assert isinstance(caught.value.__cause__, (ZeroDivisionError, TypeError))


def test_bad_options():
    with pytest.raises(ParameterError, match="True or False"):
        MatroidOracle(3, Uniform(1), bases=1)
    with pytest.raises(ParameterError, match='"min" or "max"'):
        MatroidOracle(3, Uniform(1), objective="best")


def test_an_exception_during_a_run_is_typed_too():
    calls = []

    def tires(chosen):
        calls.append(1)
        if len(calls) > 60:
            raise MemoryError("tired")
        return len(chosen) <= 2

    oracle = MatroidOracle(5, tires)
    with pytest.raises(OracleError, match="tired") as caught:
        oracle.argmax(np.random.default_rng(0).normal(size=(100, 5)))
    assert isinstance(caught.value.__cause__, MemoryError)


def test_what_is_no_answer():
    oracle = MatroidOracle(nx.cycle_graph(4).edges, Graphic())
    for answer in ({(0, 1)}, {(0, 1), (1, 2), (2, 3), (0, 3)}, {(0, 1), (1, 2), (5, 6)}, 3, "abc"):
        with pytest.raises(AnswerError):
            oracle.encode(answer)
    parallel = MatroidOracle([(0, 1, "a"), (0, 1, "b"), (1, 2, "c")], Graphic())
    with pytest.raises(AnswerError, match="not independent"):
        parallel.decode([1, 1, 0])


@pytest.mark.parametrize("stopping", ["posterior", "certified"])
def test_a_run_finds_the_tree(stopping):
    graph = nx.complete_graph(4)
    oracle = MatroidOracle(graph.edges, Graphic(), objective="min")
    length = dict(zip(oracle.components, [0.1, 1.4, 1.5, 0.2, 1.6, 0.3], strict=True))
    noise = np.random.default_rng(1)
    problem = unit_problem(oracle, noise_std=0.5, prior_std=2.0)
    result = identify(problem, lambda e: length[e] + 0.5 * noise.normal(), stopping=stopping, delta=0.1, rng=1)
    assert result.answer == {(0, 1), (1, 2), (2, 3)}
    assert result.stop_reason == stopping


def test_a_test_defined_in_a_function_goes_to_other_processes():
    most = 2
    oracle = MatroidOracle(4, lambda chosen: len(chosen) <= most)
    alone, together = (
        simulate(unit_problem(oracle), [1.0, 0.5, 0.0, 0.2], budget=5, replications=4, rng=1, n_jobs=jobs)
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(alone.pulls, together.pulls)
