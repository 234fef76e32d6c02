"""Files of integer programs are read without changes, with suffixes in any case."""

import importlib.util

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import CpSatOracle, MilpOracle
from combopeps.errors import ProgramError
from combopeps.io import Instance, read_program
from combopeps.io.instance_files import from_document, to_document
from combopeps.oracles.cpsat import parse_model


def stored(oracle):
    return to_document(Instance("x", unit_problem(oracle)))["oracle"]


def test_rows_are_saved_unscaled():
    rows = [[0.1, 3.0, 0.0], [2.0, 6.0, 4.0], [0.0, 0.0, 0.0], [1e-9, 0.0, 1.5e6]]
    lower, upper = [-np.inf, 2.0, -1.0, 0.0], [2.7, 8.0, np.inf, 1e7]
    document = stored(MilpOracle(["a", "b", "c"], rows, lower, upper))
    assert document["A"] == [[[0, 0.1], [1, 3]], [[0, 2], [1, 6], [2, 4]], [[0, 1e-9], [2, 1500000]]]
    assert (document["lower"], document["upper"]) == ([None, 2, 0], [2.7, 8, 10000000])
    assert [type(number) for _, number in document["A"][1]] == [int, int, int]


def test_files_are_rewritten_exactly():
    rng = np.random.default_rng(3)
    for _ in range(20):
        A = rng.normal(size=(3, 5)) * 10.0 ** rng.integers(-9, 10, size=(3, 1))
        oracle = MilpOracle(5, A, -np.inf, np.abs(A).sum(axis=1) / 2)
        document = to_document(Instance("x", unit_problem(oracle)))
        assert [[number for _, number in row] for row in document["oracle"]["A"]] == A.tolist()
        assert document["oracle"]["upper"] == (np.abs(A).sum(axis=1) / 2).tolist()
        assert to_document(from_document(document)) == document


def test_engine_choice_is_saved():
    for engine in ("highs", "auto"):
        oracle = MilpOracle(4, [[1, 2, 3, 4]], 0, 6, engine=engine)
        assert from_document(to_document(Instance("x", unit_problem(oracle)))).oracle.engine == oracle.engine


@pytest.mark.skipif(importlib.util.find_spec("highspy") is None, reason="needs the extra milp")
@pytest.mark.parametrize("suffix", [".LP", ".Lp"])
def test_suffixes_in_capitals(suffix, tmp_path):
    path = tmp_path / f"MENU{suffix}"
    path.write_text("Maximize\n obj: 3 soup + 2 main\nSubject To\n c1: soup + main <= 1\nBinary\n soup main\nEnd\n")
    menu = read_program(path)
    assert menu.name == "MENU"
    assert menu.best == {"soup"}


def test_models_have_one_reader_of_their_text():
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    a, b = model.new_bool_var("a"), model.new_bool_var("b")
    model.add_at_most_one(a, b)
    text = CpSatOracle(model, [a, b])._text
    assert str(parse_model(text).proto) == text
    with pytest.raises(ProgramError, match="is no CP-SAT model"):
        parse_model("variables { name: ")
