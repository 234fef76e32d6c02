"""CSV files of items with weights or groups; `.mps` and `.lp` files."""

import contextlib
import importlib.util
from itertools import combinations

import numpy as np
import pytest

from combopeps.errors import DependencyError, FileFormatError, ParameterError, ProgramError
from combopeps.io import read_groups, read_knapsack, read_program

BAG = "item,weight,mean,spread\ntent,5,9,1\nrope,2,3,2\nstove,3,5,1\nboat,80,70,3\nbook,4,1,1\n"
TEAM = "item,role,mean,fee\nann,cook,3,1\ncleo,driver,1,5\nbob,cook,4,2\ndan,driver,2,6\neve,driver,7,7\n"


@pytest.fixture
def write(tmp_path):
    def write(text, name="x.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_knapsack_by_enumeration(write):
    instance = read_knapsack(write(BAG), 9, noise_std="spread")
    items = [line.split(",") for line in BAG.splitlines()[1:]]
    sets = [s for n in range(6) for s in combinations(items, n) if sum(float(item[1]) for item in s) <= 9]
    best = max(sets, key=lambda s: sum(float(item[2]) for item in s))
    assert instance.best == {item[0] for item in best}
    assert instance.labels == ("tent", "rope", "stove", "book")
    assert instance.oracle.pruned == ("boat",)
    assert instance.theta.tolist() == [9.0, 3.0, 5.0, 1.0]
    assert instance.noise_std.tolist() == [1.0, 2.0, 1.0, 1.0]
    assert instance.origin == "column `mean`"


def test_groups_keep_their_columns_together(write):
    instance = read_groups(write(TEAM), {"cook": 1, "driver": 2}, group="role", cost="fee")
    assert instance.labels == ("ann", "bob", "cleo", "dan", "eve")
    assert instance.theta.tolist() == [3.0, 4.0, 1.0, 2.0, 7.0]
    assert instance.problem.cost.tolist() == [1.0, 2.0, 5.0, 6.0, 7.0]
    assert instance.best == {"cook": {"bob"}, "driver": {"dan", "eve"}}
    assert read_groups(write(TEAM), 1, group="role", exactly=False).oracle.exactly is False


def test_without_means_theta_is_unknown(write):
    assert read_knapsack(write("item,weight\na,1\nb,2\n"), 2).theta is None
    assert read_groups(write("item,group\na,1\nb,1\n"), 1).origin == "there is no column `mean`"


@pytest.mark.parametrize(
    ("read", "text", "field"),
    [
        (lambda p: read_knapsack(p, 3), "item,mean\na,1\n", "weight"),
        (lambda p: read_knapsack(p, 3, weight="kg"), BAG, "kg"),
        (lambda p: read_knapsack(p, 3), "item,weight,mena\na,1,2\n", "mean"),
        (lambda p: read_knapsack(p, 3), "item,weight\na,x\n", "weight"),
        (lambda p: read_knapsack(p, 3), "item,weight\na,\n", "weight"),
        (lambda p: read_knapsack(p, 3), "thing,weight\na,1\n", "item"),
        (lambda p: read_groups(p, 1), "item,mean\na,1\n", "group"),
        (lambda p: read_groups(p, 1), "item,group\na,g\nb,\n", "group"),
        (lambda p: read_groups(p, 1), "item,group\na,g\na,h\n", "item"),
    ],
)
def test_invalid_files(write, read, text, field):
    with pytest.raises(FileFormatError) as caught:
        read(write(text))
    assert caught.value.field == field


def test_errors_of_oracles(write):
    with pytest.raises(ProgramError, match="'b' weighs -1"):
        read_knapsack(write("item,weight\na,1\nb,-1\n"), 3)
    with pytest.raises(ParameterError, match="quotas names 'pilot'"):
        read_groups(write(TEAM), {"cook": 1, "driver": 1, "pilot": 1}, group="role")


LP = """Maximize
 obj: 3.4 soup + 2 main + 1.5 wine + 7
Subject To
 purse: 2 soup + main + wine <= 3
 some: main + wine >= 1
Bounds
 wine <= 4
General
 wine
Binary
 soup main
End
"""
MPS = """NAME          MENU
ROWS
 N  COST
 L  PURSE
COLUMNS
    MARKER                 'MARKER'                 'INTORG'
    SOUP      COST         1.0   PURSE     2.0
    MAIN      COST        -2.0   PURSE     1.0
    MARKER                 'MARKER'                 'INTEND'
RHS
    RHS       PURSE        2.0
BOUNDS
 UP BND       SOUP         1.0
 UP BND       MAIN         1.0
ENDATA
"""


def test_missing_highspy_is_named(write, monkeypatch, tmp_path):
    (tmp_path / "highspy.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DependencyError, match=r"pip install 'combopeps\[milp\]'"):
        read_program(write(LP, "menu.lp"))


needs_highspy = pytest.mark.skipif(importlib.util.find_spec("highspy") is None, reason="needs the extra milp")


@needs_highspy
def test_programs(write):
    menu = read_program(write(LP, "menu.lp"), noise_std=0.5)
    assert menu.labels == ("soup", "main", "wine")
    assert menu.theta.tolist() == [3.4, 2.0, 1.5]
    assert menu.best == {"soup": 1, "main": 1, "wine": 0}
    assert menu.oracle.objective == "max"
    cheap = read_program(write(MPS, "menu.mps"))
    assert (cheap.oracle.objective, cheap.best, cheap.oracle.binary) == ("min", {"MAIN"}, True)
    np.testing.assert_array_equal(cheap.theta, [1.0, -2.0])
    unknown = read_program(write(LP.replace("3.4 soup + 2 main + 1.5 wine + 7", ""), "empty.lp"))
    assert unknown.theta is None
    assert "objective of the file is empty" in unknown.origin


@needs_highspy
@pytest.mark.parametrize(
    ("text", "name", "field"),
    [
        (LP.replace("General\n wine\n", ""), "x.lp", "wine"),
        ("Hello,\nworld\n", "x.lp", ""),
        ("Hello,\nworld\n", "x.mps", ""),
        ("", "x.mps", ""),
        (LP.replace("+ 7", "+ [ 2 soup ^ 2 ] / 2"), "x.lp", "objective"),
        (LP, "x.txt", ""),
    ],
    ids=["continuous", "lp", "mps", "empty", "quadratic", "suffix"],
)
def test_invalid_program_files(write, text, name, field):
    with pytest.raises(FileFormatError) as caught:
        read_program(write(text, name))
    assert caught.value.field == field


def test_a_crash_of_the_reader_is_an_error(write, monkeypatch, tmp_path):
    (tmp_path / "highspy.py").write_text("import os\nos.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(FileFormatError, match="HiGHS cannot read this"):
        read_program(write(LP, "menu.lp"))


def test_reader_ignores_modules_in_the_current_folder(write, monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("open('sprung', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(DependencyError):
        read_program(write(LP, "menu.lp"))
    assert not (tmp_path / "sprung").exists()
