"""Invalid programs, knapsacks and models raise errors that name the cause; solver results are verified."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from ortools.sat.python import cp_model
from scipy.sparse import csc_array, csr_matrix

from combopeps import ComboPepsError, CpSatOracle, KnapsackOracle, MilpOracle
from combopeps.errors import (
    AnswerError,
    LabelError,
    NoAlternativeError,
    OracleError,
    ParameterError,
    ProgramError,
    SolverError,
)
from combopeps.oracles.milp import Program


def milp(components, A, lower, upper, **options):
    return lambda: MilpOracle(components, A, lower, upper, **options)


def knapsack(*arguments, **options):
    return lambda: KnapsackOracle(*arguments, **options)


PAIR = list("ab")
NO_END = (0, np.inf)
PROGRAMS = {
    "A of NaN": (milp(PAIR, [[1, 1], [1, np.nan]], 0, 1), ProgramError, "row 1 of A is nan at component 'b'"),
    "A infinite": (milp(PAIR, csr_matrix([[np.inf, 1]]), 0, 1), ProgramError, "row 0 of A is inf at component 'a'"),
    "A too wide": (milp(PAIR, [[1, 1, 1]], 0, 1), ProgramError, r"2 components, got shape \(1, 3\)"),
    "A a vector": (milp(PAIR, [1, 1], 0, 1), ProgramError, r"got shape \(2,\)"),
    "A ragged": (milp(PAIR, [[1, 1], [1]], 0, 1), ProgramError, "rectangular"),
    "A of words": (milp(PAIR, [["x", "y"]], 0, 1), ProgramError, "real numbers"),
    "ends crossed": (milp(PAIR, [[1, 1], [1, 0]], [0, 1], [1, 0]), ProgramError, "row 1 of A is to be between 1 and 0"),
    "end NaN": (milp(PAIR, [[1, 1]], 0, np.nan), ProgramError, "row 0 of A"),
    "lower end infinite": (milp(PAIR, [[1, 1]], np.inf, np.inf), ProgramError, "row 0 of A"),
    "ends too many": (milp(PAIR, [[1, 1]], [0, 0], 1), ProgramError, "length 1"),
    "bounds crossed": (milp(PAIR, [[1, 1]], 0, 1, bounds=([0, 2], 1)), ProgramError, "component 'b' is to be between"),
    "bounds of three": (milp(PAIR, [[1, 1]], 0, 1, bounds=(0, 1, 2)), ProgramError, "two numbers"),
    "no integer": (milp(PAIR, [[1, 1]], 0, 1, bounds=([0, 0.2], [1, 0.8])), ProgramError, "'b' has no integer"),
    "hopeless row": (milp(PAIR, [[1, 1], [1, 2]], [0, 4], 9), ProgramError, "row 1 of A cannot be met"),
    "row of zeros": (milp(PAIR, [[0, 0]], 1, 2), ProgramError, "row 0 of A cannot be met"),
    "contradiction": (
        milp(PAIR, [[1, 1], [1, 0], [1, -1], [0, 1]], [0, 0, 1, 1], [2, 1, 1, 1]),
        ProgramError,
        r"rows \[2, 3\] contradict",
    ),
    "parity": (milp(PAIR, [[2, 2]], 3, 3), ProgramError, "row 0 has no integer solution"),
    "unbounded": (milp(["a", "b", "c"], [[1, 1, -1]], 0, 1, bounds=NO_END), ProgramError, r"limits \['a', 'b', 'c'\]"),
    "unbounded below": (
        milp(PAIR, [[1, -1]], -1, 1, bounds=(-np.inf, [1, 1])),
        ProgramError,
        r"nothing limits \['a', 'b'\].*finite bounds",
    ),
    "infinite and infeasible": (milp(PAIR, [[1, -1], [1, -1]], [1, 3], [2, 4], bounds=NO_END), ProgramError, "contra"),
    "huge bounds": (milp(PAIR, [[1, -1]], 0, 1, bounds=(0, 1e12)), ProgramError, "smaller bounds"),
    "one answer": (milp(PAIR, [[1, 1]], 2, 2), NoAlternativeError, r"one answer only, \['a', 'b'\]"),
    "one answer by HiGHS": (milp(PAIR, [[1, 1]], 2, 2, engine="highs"), NoAlternativeError, "one answer only"),
    "objective": (milp(PAIR, [[1, 1]], 0, 1, objective="best"), ParameterError, '"max" or "min"'),
    "engine": (milp(PAIR, [[1, 1]], 0, 1, engine="cplex"), ParameterError, '"auto" or "highs"'),
    "gap": (milp(PAIR, [[1, 1]], 0, 1, gap=-0.1), ParameterError, "gap"),
    "time limit": (milp(PAIR, [[1, 1]], 0, 1, time_limit=0), ParameterError, "time_limit"),
    "labels repeated": (milp(["a", "a"], [[1, 1]], 0, 1), LabelError, "different"),
    "negative weight": (knapsack({"a": 1, "b": -2}, 3), ProgramError, "item 'b' weighs -2"),
    "weight NaN": (knapsack([1.0, np.nan], 3), ProgramError, "item 1 weighs nan"),
    "weights of words": (knapsack({"a": "x"}, 3), ProgramError, "numbers by item"),
    "weights ragged": (knapsack([[1], [1, 2]], 3), ProgramError, "numbers by item"),
    "no weights": (knapsack([], 3), ComboPepsError, "at least one|numbers by item"),
    "nothing fits": (knapsack({"a": 4, "b": 5}, 3), ProgramError, "lightest weighs 4"),
    "capacity negative": (knapsack([1], -1), ParameterError, "capacity"),
    "capacity NaN": (knapsack([1], np.nan), ParameterError, "capacity"),
    "capacity a word": (knapsack([1], "3"), ParameterError, "capacity"),
    "labels twice over": (knapsack({"a": 1}, 1, labels=["b"]), LabelError, "labels="),
    "labels too few": (knapsack([1, 2], 3, labels=["b"]), LabelError, "2 weights"),
}


@pytest.mark.parametrize(("build", "error", "culprit"), PROGRAMS.values(), ids=PROGRAMS)
def test_invalid_programs(build, error, culprit):
    with pytest.raises(error, match=culprit) as caught:
        build()
    assert isinstance(caught.value, ComboPepsError)


def model_of(d=3):
    model = cp_model.CpModel()
    x = [model.new_bool_var(f"x{i}") for i in range(d)]
    model.add_at_most_one(x)
    return model, x


def wrong_models():
    model, x = model_of()
    _, foreign = model_of()
    _, many = model_of(9)
    number = model.new_int_var(0, 5, "number")
    empty = model.clone()
    empty.add_bool_or(x)
    empty.add(sum(x) == 0)
    lone = model.clone()
    lone.add(sum(x[1:]) == 1)
    lone.add(x[1] == 0)
    unnamed = model.new_bool_var("")
    return {
        "no model": (None, x, ProgramError, "CpModel"),
        "an integer": (model, [*x, number], ProgramError, "'number' is no boolean"),
        "negated": (model, {"not": ~x[0]}, ProgramError, "'not' is a negated boolean"),
        "an expression": (model, {"sum": x[0] + x[1]}, ProgramError, "'sum' is no variable"),
        "words": (model, {"a": "x0"}, ProgramError, "'a' is no variable"),
        "another model's": (model, foreign, ProgramError, "'x0' belongs to another model"),
        "beyond the model": (model, [many[8]], ProgramError, "'x8' belongs to another model"),
        "twice": (model, {"a": x[0], "b": x[1], "c": x[0]}, ProgramError, "'a' and 'c' are one and the same"),
        "same names": (model, [x[0], x[0]], LabelError, "called 'x0'"),
        "nothing": (model, [], LabelError, "at least one"),
        "no list": (model, 5, LabelError, "list of booleans"),
        "infeasible": (
            empty,
            {f"x{i}": empty.get_bool_var_from_proto_index(i) for i in range(3)},
            ProgramError,
            "no sol",
        ),
        "one answer": (
            lone,
            [lone.get_bool_var_from_proto_index(i) for i in range(3)],
            NoAlternativeError,
            r"one answer only, \['x2'\]",
        ),
        "a nameless one is named by its place": (model, [unnamed, 3], ProgramError, "'3' is no variable"),
    }


WRONG_MODELS = wrong_models()


@pytest.mark.parametrize(("model", "variables", "error", "culprit"), WRONG_MODELS.values(), ids=WRONG_MODELS)
def test_invalid_models(model, variables, error, culprit):
    with pytest.raises(error, match=culprit):
        CpSatOracle(model, variables)


@pytest.mark.parametrize("option", [{"objective": "best"}, {"time_limit": -1.0}, {"time_limit": True}])
def test_options_of_models(option):
    with pytest.raises(ParameterError, match=next(iter(option))):
        CpSatOracle(*model_of(), **option)


def test_time_limits_raise_errors():
    rng = np.random.default_rng(0)
    A = rng.integers(1, 100, size=(20, 60))
    oracle = MilpOracle(60, A, -np.inf, A.sum(axis=1) // 2)
    oracle.time_limit = 1e-4
    theta = rng.uniform(1, 2, size=60)
    with pytest.raises(SolverError, match=r"time_limit = 0\.0001 s") as caught:
        oracle.argmax(theta)
    assert isinstance(caught.value, OracleError)
    np.testing.assert_allclose(np.abs(caught.value.theta), theta)

    model = cp_model.CpModel()
    x = [model.new_bool_var(f"x{i}") for i in range(60)]
    for row, most in zip(A.tolist(), (A.sum(axis=1) // 2).tolist(), strict=True):
        model.add(cp_model.LinearExpr.weighted_sum(x, row) <= most)
    slow = CpSatOracle(model, x)
    slow.time_limit = 1e-4
    with pytest.raises(SolverError, match=r"time_limit = 0\.0001 s"):
        slow.argmax(theta)


LIES = {
    "infeasible": ({"x": np.ones(13)}, "violates row 0 of A"),
    "out of bounds": ({"x": np.r_[2.0, np.zeros(12)]}, "bounds of variable 0"),
    "worse": ({"x": np.zeros(13)}, "from the optimum"),
    "no bound": ({"mip_dual_bound": np.nan}, "from the optimum"),
    "failure": ({"status": 4, "x": None}, "HiGHS failed"),
}


@pytest.mark.parametrize(("lie", "said"), LIES.values(), ids=LIES)
def test_solver_results_are_verified(monkeypatch, lie, said):
    oracle = MilpOracle(13, np.ones((1, 13)), 0, 3)
    honest = Program.solve
    oracle.argmax(np.ones(13))

    def lying(self, cost, **options):
        found = honest(self, cost, **options)
        facts = {"status": found.status, "x": found.x, "mip_dual_bound": found.mip_dual_bound, "message": "?"}
        return SimpleNamespace(**(facts | lie))

    monkeypatch.setattr(Program, "solve", lying)
    with pytest.raises(SolverError, match=said):
        oracle.argmax(np.ones(13))


def test_gap_is_included_in_the_resolution():
    rows = (np.ones((1, 13)), 0, 3)
    assert MilpOracle(13, *rows, gap=0.05).resolution == pytest.approx(0.05)
    assert MilpOracle(13, *rows).resolution < 1e-10
    assert MilpOracle(13, *rows, bounds=(0, 4), gap=0.05).resolution == pytest.approx(0.2)


def test_infinite_bounds_are_replaced_by_implied_bounds():
    oracle = MilpOracle(PAIR, [[1, 1], [1, -1]], [-np.inf, -2], [7, 3], bounds=(0, np.inf))
    assert oracle.decode(oracle.argmax([1.0, 2.0])) == {"a": 2, "b": 4} or oracle.argmax([1.0, 2.0]) @ [1, 2] == 11
    assert oracle._program.high.tolist() == [5.0, 4.0]
    with pytest.raises(AnswerError, match="row 0"):
        oracle.encode({"a": 5, "b": 4})
    with pytest.raises(AnswerError, match="dict"):
        oracle.encode(["a"])
    with pytest.raises(AnswerError, match="integrality"):
        oracle.decode([0.5, 0.0])


@pytest.mark.parametrize("form", [np.array, csc_array, csr_matrix])
def test_dense_and_sparse_rows_are_equivalent_and_unchanged(form):
    A = form([[1.0, 0.0, 2.0], [0.0, -1.0, 1.0]])
    before = A.copy()
    oracle = MilpOracle(3, A, -np.inf, [2, 0])
    assert oracle.decode(oracle.argmax([1.0, -1.0, 3.0])) == {1, 2}
    assert abs(A - before).max() == 0


def test_infeasible_answers_are_rejected():
    model, x = model_of()
    for oracle in (CpSatOracle(model, x), MilpOracle([v.name for v in x], [[1, 1, 1]], 0, 1)):
        assert oracle.decode(oracle.encode(["x1"])) == {"x1"}
        with pytest.raises(AnswerError, match="not an answer"):
            oracle.encode(["x0", "x1"])
    with pytest.raises(AnswerError, match="weigh 5, the capacity is 4"):
        KnapsackOracle([2, 3], 4).encode([0, 1])


def test_models_are_copied_and_unchanged():
    model, x = model_of()
    model.maximize(x[0] - 5 * x[1])
    before = str(model.proto)
    oracle = CpSatOracle(model, x)
    oracle.argmax([1.0, 2.0, 3.0])
    assert str(model.proto) == before
    model.add(x[2] == 0)
    twin = pickle.loads(pickle.dumps(oracle))
    for either in (oracle, twin):
        assert either.decode(either.argmax([1.0, 2.0, 3.0])) == {"x2"}


def test_items_above_the_capacity_are_pruned():
    pandas = pytest.importorskip("pandas")
    oracle = KnapsackOracle(pandas.Series({"a": 2, "b": 30, "c": 1}), 3)
    assert oracle.components == ("a", "c")
    assert oracle.pruned == ("b",)
    assert oracle.why_pruned("b") == "item 'b' weighs 30, more than the capacity 3"


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_scaling_theta_does_not_change_answers(size):
    """Including mixed sizes: a difference of 1e-9 decides, with entries of 1."""
    rng = np.random.default_rng(1)
    A = rng.integers(1, 9, size=(2, 14))
    oracle = MilpOracle(14, A, -np.inf, A.sum(axis=1) // 2)
    theta = rng.integers(-2, 4, size=14) + 1e-9 * rng.normal(size=14)
    Z = (np.arange(1 << 14)[:, None] >> np.arange(14) & 1).astype(float)
    loads, room = Z @ A.T, A.sum(axis=1) // 2
    Z = Z[(loads <= room).all(axis=1)]
    np.testing.assert_array_equal(oracle.argmax(size * theta), Z[(Z @ theta).argmax()])
