"""Programs from pandas and NumPy: labels are matched, and mismatches are named."""

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import KnapsackOracle, MilpOracle
from combopeps.errors import NoAlternativeError, ProgramError

pandas = pytest.importorskip("pandas")


def answers(oracle):
    return {z.tobytes() for z in oracle._program.points(4096)}


def test_table_columns_are_matched_by_name():
    table = pandas.DataFrame({"b": [1.0], "a": [5.0]})
    assert answers(MilpOracle(["a", "b"], table, 0, 2)) == answers(MilpOracle(["a", "b"], [[5, 1]], 0, 2))
    unnamed = pandas.DataFrame([[5.0, 1.0]])
    assert answers(MilpOracle(["a", "b"], unnamed, 0, 2)) == answers(MilpOracle(["a", "b"], [[5, 1]], 0, 2))


def test_bounds_are_matched_by_name():
    low, high = pandas.Series({"b": 0, "a": 0}), pandas.Series({"b": 3, "a": 1})
    table = pandas.DataFrame({"a": [1, 2], "b": [1, 0]}, index=["both", "first"])
    upper = pandas.Series({"first": 2, "both": 3})
    stated = MilpOracle(["a", "b"], [[1, 1], [2, 0]], 0, [3, 2], bounds=([0, 0], [1, 3]))
    assert answers(MilpOracle(["a", "b"], table, 0, upper, bounds=(low, high))) == answers(stated)


def test_names_that_do_not_match_are_rejected():
    with pytest.raises(ProgramError, match=r"columns of A.*'c'"):
        MilpOracle(["a", "b"], pandas.DataFrame({"a": [1.0], "c": [5.0]}), 0, 2)
    with pytest.raises(ProgramError, match=r"bounds.*'c'"):
        MilpOracle(["a", "b"], [[1, 1]], 0, 2, bounds=(0, pandas.Series({"a": 1, "c": 2})))


def test_a_table_of_weights_is_rejected():
    with pytest.raises(ProgramError, match="one column"):
        KnapsackOracle(pandas.DataFrame({"w": [1, 2]}), 3)


@pytest.mark.parametrize("weight", ["heavy", None, "nan"])
def test_the_item_without_a_weight_is_named(weight):
    with pytest.raises(ProgramError, match="'vase'"):
        KnapsackOracle({"lamp": 1, "vase": float("nan") if weight == "nan" else weight}, 3)
    if weight is None:
        with pytest.raises(ProgramError, match="'vase'"):
            KnapsackOracle(pandas.Series([1, None], index=["lamp", "vase"], dtype="Int64"), 3)


def test_numbers_of_numpy_are_numbers():
    oracle = MilpOracle(2, [[1, 1]], 0, 1, gap=np.float32(0.25), time_limit=np.int64(5))
    assert (oracle.gap, oracle.time_limit) == (0.25, 5.0)
    assert type(oracle.gap) is type(oracle.time_limit) is float


@pytest.mark.parametrize("engine", ["auto", "highs"])
def test_integer_programs_with_one_answer_are_rejected(engine):
    with pytest.raises(NoAlternativeError, match=r"\{0: 5, 1: 2\}"):
        MilpOracle(2, [[1, 1]], 7, 7, bounds=(0, [5, 2]), engine=engine)


def test_two_neighbours_among_large_integers_are_two_answers():
    assert MilpOracle(2, [[1, 1]], 1999999999, 2000000000, bounds=(1e9 - 1, 1e9), engine="highs").dim == 2


def test_problems_solve_few_programs_on_creation():
    class Counted(MilpOracle):
        rows = 0

        def _argmax_batch(self, thetas):
            type(self).rows += len(thetas)
            return super()._argmax_batch(thetas)

    unit_problem(Counted(6, [[3, 5, 2, 4, 1, 6]], -np.inf, 9, engine="highs"))
    assert Counted.rows == 67
