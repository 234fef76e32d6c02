"""Errors of results name the query or the label, and in a table the cell."""

from __future__ import annotations

import numpy as np
import pytest
from sessions import session_of
from unit_problem import unit_problem

from combopeps import TopKOracle, TopTwo, identify
from combopeps.errors import ParameterError, RewardError

ORACLE = TopKOracle(["ale", "bock", "stout"], k=1)


@pytest.mark.parametrize(
    ("y", "sem"), [(1.0, 0.0), (1.0, float("nan")), (float("inf"), None), (1e200, None), ("x", None)]
)
def test_errors_name_the_query_or_the_label(y: object, sem: float | None) -> None:
    session = session_of(TopTwo, ORACLE)
    query = session.ask()
    with pytest.raises(RewardError, match=f"query 0 \\({query.label}\\)"):
        session.tell(query, y, sem)  # type: ignore[arg-type]
    with pytest.raises(RewardError, match="'bock'") as error:
        session.observe("bock", y, sem)  # type: ignore[arg-type]
    assert "query" not in str(error.value)


def test_the_bad_one_of_a_batch_is_named() -> None:
    session = session_of(TopTwo, ORACLE)
    queries = session.ask(5)
    results = [(query, 0.5, -1.0 if query.id == 3 else 1.0) for query in queries]
    with pytest.raises(RewardError, match="sem of query 3"):
        session.tell_many(results)
    assert session.samples == 0
    with pytest.raises(RewardError, match="query 0"):
        identify(unit_problem(ORACLE), lambda _: (1.0, 0.0), rng=0)


@pytest.mark.parametrize("result", [[1.0, 0.1], (1.0, 0.1, 3), (1.0,)], ids=["list", "three", "one"])
def test_the_error_states_what_measure_may_return(result: object) -> None:
    with pytest.raises(RewardError, match=r"a tuple \(y, sem\)"):
        identify(unit_problem(ORACLE), lambda _: result, rng=0)


CELLS = {
    "value": ("bock", 1e200),
    "sem": ("bock", 1.0, 1e-9),
    "count": ("bock", 1.0, None, 10**13),
}


@pytest.mark.parametrize("cell", CELLS)
def test_in_a_table_the_cell_is_named(cell: str) -> None:
    with pytest.raises((RewardError, ParameterError), match=rf"row 1 \(counted from 0\), {cell}: "):
        session_of(TopTwo, ORACLE).observe_table([("ale", 1.0), CELLS[cell]])


def test_a_sem_where_the_noise_is_unknown_is_the_fault_of_that_cell() -> None:
    with pytest.raises(ParameterError, match=r"row 1 \(counted from 0\), sem: "):
        session_of(TopTwo, unit_problem(ORACLE, noise_std=None)).observe_table([("ale", 1.0), ("bock", 1.0, 0.1)])


@pytest.mark.parametrize("column", [2, 3])
def test_a_truth_value_is_no_standard_error_and_no_count(column: int) -> None:
    row = ["bock", 1.0, None, None]
    row[column] = True
    with pytest.raises(ParameterError, match="row 0"):
        session_of(TopTwo, ORACLE).observe_table([row])


def test_a_count_of_many_digits_is_not_written_out() -> None:
    with pytest.raises(ParameterError) as error:
        session_of(TopTwo, ORACLE).observe("ale", 1.0, count=10**400)
    assert len(str(error.value)) < 200


def test_a_truth_value_is_no_budget() -> None:
    with pytest.raises(ParameterError, match="budget_cost"):
        identify(unit_problem(ORACLE), lambda _: 1.0, rng=0, budget_cost=True)


def test_other_labels_are_not_suggested_for_their_quotes() -> None:
    with pytest.raises(ValueError, match="there are 'a', 'b'") as error:
        session_of(TopTwo, TopKOracle(["a", "b", "c"], k=1)).observe("d", 1.0)
    assert "did you mean" not in str(error.value)


def test_numbers_are_shown_as_python_floats() -> None:
    with pytest.raises(ParameterError, match=r"noise_std of 'bock' must be a positive number, got -0\.5$"):
        unit_problem(ORACLE, noise_std=np.array([1.0, -0.5, 1.0]))


def test_a_table_is_not_one_number_for_each() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ParameterError, match=r"noise_std must be a number, \{label: number\}, or one number for each"):
        unit_problem(ORACLE, noise_std=pandas.DataFrame({"std": [1.0, 2.0, 3.0]}))
    with pytest.raises(ValueError, match=r"names 0, which is not one of 'ale', 'bock', 'stout'; .* given as a list"):
        unit_problem(ORACLE, noise_std=pandas.Series([1.0, 2.0, 3.0]))


def test_a_table_without_rows() -> None:
    assert repr(session_of(TopTwo, ORACLE).observe_table([])) == "no rows"


SHAPES = {
    "of four": [(0, 1.0, 0.1, 3)],
    "of one": [(0,)],
    "empty": [()],
    "text": ["ab"],
    "a number": 5,
    "nothing": None,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_results_of_another_shape_are_refused(shape: str) -> None:
    session = session_of(TopTwo, ORACLE)
    query = session.ask()
    with pytest.raises(ParameterError, match=r"\(query, y\) or \(query, y, sem\)"):
        session.tell_many(SHAPES[shape])  # type: ignore[arg-type]
    assert (session.samples, session.open_queries) == (0, [query])
