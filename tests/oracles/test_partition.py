"""`PartitionOracle` against enumeration, against MILP, and against the oracles it generalises."""

from itertools import product
from math import comb, log

import numpy as np
import pytest
from brute_force import assert_agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from matroids import Laminar
from scipy.optimize import LinearConstraint, milp
from unit_problem import unit_problem

from combopeps import MatroidOracle, PartitionOracle, TopKOracle, check_oracle, identify
from combopeps.errors import AnswerError, LabelError, ParameterError


def split(sizes):
    ends = np.cumsum(sizes)
    return [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def listed(groups, quotas, exactly, unit):
    """All subsets by counting: every 0/1 vector, kept if its groups are right."""
    d = sum(map(len, groups))
    rows = np.array(list(product((0.0, 1.0), repeat=d)))
    held = np.stack([rows[:, list(group)].sum(axis=1) for group in groups], axis=1)
    return unit * rows[((held == quotas) if exactly else (held <= quotas)).all(axis=1)]


@settings(deadline=None, max_examples=500)
@given(
    data=st.data(),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3).filter(lambda sizes: sum(sizes) <= 9),
    exactly=st.booleans(),
    objective=st.sampled_from(["max", "min"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_agrees_with_enumeration(data, sizes, exactly, objective, seed):
    quotas = data.draw(st.tuples(*(st.integers(0, size) for size in sizes)).filter(any))
    oracle = PartitionOracle(split(sizes), quotas, exactly=exactly, objective=objective)
    Z = listed(split(sizes), quotas, exactly, oracle.unit)
    assert oracle.log_cardinality.exact
    assert_agrees(oracle, Z, seed)
    counts = [oracle.facets(z).shape[0] for z in Z]
    assert max(counts) == oracle.facet_count
    assert not exactly or min(counts) == oracle.facet_count


@pytest.mark.parametrize("exactly", [True, False])
@pytest.mark.parametrize("sizes", [[3, 2, 4], [5, 5], [1, 6, 1], [30, 40]])
def test_beaten_exactly_where_behind_a_facet(sizes, exactly):
    """Random thetas, and those close to the cone: `facets` describes the alternatives, no more and no less."""
    rng = np.random.default_rng(sum(sizes))
    oracle = PartitionOracle(split(sizes), [(size + 1) // 2 for size in sizes], exactly=exactly)
    for centre in rng.normal(size=(10, oracle.dim)):
        z = oracle.argmax(centre)
        rows = oracle.facets(z)
        thetas = centre + rng.uniform(0.05, 1.0) * rng.normal(size=(300, oracle.dim))
        behind = ((rows @ thetas.T) > 0).any(axis=0)
        beaten = (oracle.argmax(thetas) != z).any(axis=1)
        np.testing.assert_array_equal(behind, beaten)
        np.testing.assert_array_equal(oracle.membership(z, thetas), ~beaten)


@pytest.mark.parametrize("exactly", [True, False])
def test_no_facet_can_be_left_out(exactly):
    rng = np.random.default_rng(5)
    oracle = PartitionOracle(split([3, 4]), [2, 2], exactly=exactly)
    for z in oracle.argmax(rng.normal(size=(20, 7))):
        rows = oracle.facets(z).toarray()
        behind = rows @ (z + 0.6 * rng.normal(size=(6000, 7))).T > 0
        assert behind[:, behind.sum(axis=0) == 1].any(axis=1).all()  # each one is crossed alone somewhere


@pytest.mark.parametrize("objective", ["max", "min"])
@pytest.mark.parametrize("exactly", [True, False])
@pytest.mark.parametrize("sizes", [[5] * 200, [800, 300, 100], [1, 90, 2, 25, 9, 8, 24, 130]])
def test_agrees_with_a_program_and_with_top_k_group_by_group(sizes, exactly, objective):
    """Larger ones: SciPy's MILP, one TopKOracle for each group, and NumPy's sort."""
    rng = np.random.default_rng(len(sizes))
    quotas = [int(rng.integers(0, size + 1)) for size in sizes]
    quotas[0] = max(1, quotas[0])
    oracle = PartitionOracle(split(sizes), quotas, exactly=exactly, objective=objective)
    thetas = np.concatenate([rng.normal(size=(4, oracle.dim)), rng.integers(-3, 4, size=(4, oracle.dim))])
    best = oracle.argmax(thetas)
    values = (best * thetas).sum(axis=1)
    members = np.repeat(np.eye(len(sizes)), sizes, axis=1)
    limits = LinearConstraint(members, quotas if exactly else 0, quotas)
    for theta, value in zip(thetas[[0, 4]], values[[0, 4]], strict=True):
        solved = milp(-oracle.unit * theta, integrality=1, bounds=(0, 1), constraints=limits)
        assert value == pytest.approx(-solved.fun, rel=1e-9, abs=1e-7)
    for group, quota in zip(split(sizes), quotas, strict=True):
        worth = oracle.unit * thetas[:, list(group)]
        chosen = best[:, list(group)] != 0.0
        if exactly and quota:
            np.testing.assert_array_equal(chosen, TopKOracle(len(group), quota).argmax(worth) != 0.0)
        top = -np.sort(-worth, axis=1)[:, :quota]
        np.testing.assert_allclose((worth * chosen).sum(axis=1), (top if exactly else top.clip(0)).sum(axis=1))


@pytest.mark.parametrize("exactly", [True, False])
def test_agrees_with_the_same_matroid_by_its_test(exactly):
    rng = np.random.default_rng(3)
    groups, quotas = split([6, 9, 5]), [2, 4, 1]
    test = Laminar([(set(group), quota) for group, quota in zip(groups, quotas, strict=True)])
    one = PartitionOracle(groups, quotas, exactly=exactly, objective="min")
    two = MatroidOracle(20, test, bases=exactly, objective="min")
    thetas = np.concatenate([rng.normal(size=(10, 20)), rng.integers(-2, 3, size=(10, 20))]).astype(float)
    np.testing.assert_array_equal(one.argmax(thetas), two.argmax(thetas))
    for z in one.argmax(thetas):
        rows = [{tuple(row) for row in oracle.facets_up_to(z, 1000).toarray().tolist()} for oracle in (one, two)]
        assert rows[0] == rows[1]


def test_one_group_is_top_k():
    one, top = PartitionOracle([range(9)], 4), TopKOracle(9, 4)
    assert one.facet_count == top.facet_count
    assert one.log_cardinality == pytest.approx(top.log_cardinality)
    for whole in (False, True):
        np.testing.assert_allclose(one.confusions(whole=whole).charge, top.confusions(whole=whole).charge)
        found, known = one.confusions(whole=whole).log_count, top.confusions(whole=whole).log_count
        assert known - 1e-4 < found <= known
    np.testing.assert_array_equal(one.equalities().toarray(), top.equalities().toarray())


def test_many_groups_cost_no_more_than_their_swaps():
    """Union bounds do not grow with the groups beyond the number of pairs: exp(1) - 1 of them for whole answers."""
    oracle = PartitionOracle(split([10] * 500), 3)
    assert oracle.confusions().log_count == pytest.approx(log(500 * 21))
    assert oracle.confusions(whole=True).log_count == pytest.approx(log(np.e - 1), abs=1e-3)
    assert oracle.confusions(whole=True).charge[0] == pytest.approx(log(500 * 21))


def test_how_many_there_are():
    assert PartitionOracle(split([50] * 100), 5).log_cardinality == pytest.approx(100 * log(comb(50, 5)))
    some = sum(comb(2000, i) for i in range(1001))
    assert PartitionOracle([range(2000)], 1000, exactly=False).log_cardinality == pytest.approx(log(some), abs=1e-8)


def test_one_answer_only():
    """As `TopKOracle(d, k=d)`: everything is said of it, and there is nothing to find out."""
    oracle = PartitionOracle(split([2, 3]), [2, 3])
    assert check_oracle(oracle).ok
    assert (oracle.log_cardinality, oracle.facet_count, oracle.facets(np.ones(5)).shape) == (0.0, 0, (0, 5))
    assert np.linalg.matrix_rank(oracle.equalities().toarray()) == 5


def test_components_that_cannot_differ_are_known():
    """All or none of a group: each of its components is the same in all answers."""
    exact = PartitionOracle(split([3, 2, 2]), [1, 2, 0]).equalities().toarray()
    np.testing.assert_array_equal(exact, np.vstack([[1, 1, 1, 0, 0, 0, 0], np.eye(7)[3:]]))
    np.testing.assert_array_equal(
        PartitionOracle(split([2, 1]), [1, 0], exactly=False).equalities().toarray(), [[0, 0, 1]]
    )
    assert PartitionOracle(split([2, 1]), [1, 1], exactly=False).equalities() is None


def test_answers_are_sets_by_group():
    team = PartitionOracle({"cook": ["ann", "bob"], "driver": ["dan", "eve", "fay"]}, {"driver": 2, "cook": 1})
    assert team.quotas == {"cook": 1, "driver": 2}
    assert team.components == ("ann", "bob", "dan", "eve", "fay")
    answer = team.decode(team.argmax([1, 2, 3, 4, 5]))
    assert answer == {"cook": {"bob"}, "driver": {"eve", "fay"}}
    np.testing.assert_array_equal(team.encode({"driver": ["fay", "eve"], "cook": iter(["bob"])}), [0, 1, 0, 1, 1])
    some = PartitionOracle(team.groups, 2, exactly=False)
    np.testing.assert_array_equal(some.encode({"cook": ["ann"]}), [1, 0, 0, 0, 0])
    assert some.decode(np.zeros(5)) == {"cook": set(), "driver": set()}
    assert "exactly 3 of 5 in 2 groups" in repr(team)


def test_what_was_passed_may_change_afterwards():
    groups, quotas = {"a": [0, 1], "b": [2, 3]}, {"a": 1, "b": 1}
    oracle = PartitionOracle(groups, quotas)
    groups["a"].append(2)
    quotas["a"] = 2
    np.testing.assert_array_equal(oracle.argmax([1, 2, 3, 4]), [0, 1, 0, 1])
    assert oracle.groups == {"a": (0, 1), "b": (2, 3)}


NO_GROUPS = {
    "overlap": ({"a": [1, 2], "b": [3, 2]}, LabelError, r"2 is in group 'a' and in group 'b'"),
    "twice in one": ({"a": [1, 1]}, LabelError, "group 'a' holds 1 twice"),
    "empty group": ({"a": [1], "b": []}, LabelError, "group 'b' is empty"),
    "no groups": ({}, LabelError, "at least one group"),
    "a string": ("ab", LabelError, "list of lists"),
    "a number": (3, LabelError, "list of lists"),
    "nothing": (None, LabelError, "list of lists"),
    "group names by component": ({"ann": "cook", "bob": "cook"}, LabelError, "group 'ann' must be a sequence"),
    "numbers of groups by component": ([0, 0, 1], LabelError, "group 0 must be a sequence"),
    "unhashable": ([[1, [2]]], LabelError, "tuple"),
}


@pytest.mark.parametrize(("groups", "error", "words"), NO_GROUPS.values(), ids=NO_GROUPS)
def test_bad_groups(groups, error, words):
    with pytest.raises(error, match=words):
        PartitionOracle(groups, 1)


NO_QUOTAS = {
    "beyond a group": ({"a": 2, "b": 4}, r"group 'b' must be in 0\.\.3 .*got 4"),
    "beyond the smallest group": (3, r"group 'a' must be in 0\.\.2"),
    "missing": ({"a": 1}, "no number for group 'b'"),
    "unknown": ({"a": 1, "b": 1, "c": 1}, "names 'c'"),
    "negative": ({"a": -1, "b": 1}, "group 'a' must be in"),
    "a float": ({"a": 1.0, "b": 1}, "whole number, got 1.0"),
    "NaN": ([1, float("nan")], "group 'b' must be a whole number, got nan"),
    "a bool": (True, "whole number"),
    "a string": ("1", "whole number"),
    "nothing": (None, "whole number"),
    "too few": ([1], "1 numbers for 2 groups"),
    "too many": ([1, 1, 1], "3 numbers for 2 groups"),
    "all zero": (0, "nothing to choose"),
    "an array of floats": (np.array([1.0, 1.0]), "whole number"),
}


@pytest.mark.parametrize(("quotas", "words"), NO_QUOTAS.values(), ids=NO_QUOTAS)
def test_bad_quotas(quotas, words):
    with pytest.raises(ParameterError, match=words):
        PartitionOracle({"a": [1, 2], "b": [3, 4, 5]}, quotas)


def test_other_bad_options():
    with pytest.raises(ParameterError, match="True or False"):
        PartitionOracle([[1, 2]], 1, exactly="no")
    with pytest.raises(ParameterError, match='"min" or "max"'):
        PartitionOracle([[1, 2]], 1, objective="best")


def test_quotas_of_every_kind():
    wanted = {0: 1, 1: 2}
    for quotas in (wanted, [1, 2], (1, 2), np.array([1, 2]), iter([1, 2])):
        assert PartitionOracle([[1, 2], [3, 4, 5]], quotas).quotas == wanted
    assert PartitionOracle([[1, 2], [3, 4, 5]], np.int64(2)).quotas == {0: 2, 1: 2}


NO_ANSWERS = {
    "a set": {"ann", "dan"},
    "unknown group": {"cook": ["ann"], "pilot": ["dan"]},
    "in the wrong group": {"cook": ["dan"], "driver": ["ann"]},
    "too few": {"cook": ["ann"]},
    "too many": {"cook": ["ann", "bob"], "driver": ["dan"]},
    "twice": {"cook": ["ann", "ann"], "driver": ["dan"]},
    "unknown": {"cook": ["zoe"], "driver": ["dan"]},
    "a string": {"cook": "ann", "driver": ["dan"]},
    "unhashable": {"cook": [["ann"]], "driver": ["dan"]},
}


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_encoding_what_is_no_answer(answer):
    with pytest.raises(AnswerError):
        PartitionOracle({"cook": ["ann", "bob"], "driver": ["dan", "eve"]}, 1).encode(answer)


@pytest.mark.parametrize("z", [[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, -1, 0], [1, 0, 0.5, 0.5], [1, 0, 1, 1]])
def test_vectors_that_are_no_answers(z):
    oracle = PartitionOracle([[0, 1], [2, 3]], 1)
    for question in (oracle.decode, oracle.facets, lambda z: oracle.membership(z, np.zeros(4))):
        with pytest.raises(AnswerError):
            question(z)


TEAM = PartitionOracle(
    {"cook": ["ann", "bob", "cleo"], "driver": ["dan", "eve", "fay", "gus"]}, {"cook": 1, "driver": 2}
)
SKILL = dict(zip(TEAM.components, [0.2, 1.6, 0.4, 1.7, 0.1, 1.5, 0.3], strict=True))


@pytest.mark.parametrize("stopping", ["posterior", "certified", "verified"])
def test_a_run_finds_the_team(stopping):
    noise = np.random.default_rng(1)
    problem = unit_problem(TEAM, noise_std=0.5)
    result = identify(problem, lambda who: SKILL[who] + 0.5 * noise.normal(), stopping=stopping, delta=0.1, rng=1)
    assert result.answer == {"cook": {"bob"}, "driver": {"dan", "fay"}}
    assert result.stop_reason == stopping


@pytest.mark.parametrize("stopping", ["posterior", "certified", "verified"])
def test_a_run_finds_who_is_worth_having(stopping):
    """At most two of each: one cook is worth more than nothing, and two of three drivers are enough."""
    worth = dict(zip(TEAM.components, [-1.5, 1.6, -1.2, 1.7, -1.0, 1.5, 0.2], strict=True))
    noise = np.random.default_rng(2)
    problem = unit_problem(PartitionOracle(TEAM.groups, 2, exactly=False), noise_std=0.5)
    result = identify(problem, lambda who: worth[who] + 0.5 * noise.normal(), stopping=stopping, delta=0.1, rng=1)
    assert result.answer == {"cook": {"bob"}, "driver": {"dan", "fay"}}
    assert result.stop_reason == stopping
