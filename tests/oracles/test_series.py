"""Labels from pandas: the index of a Series."""

import subprocess
import sys

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import TopKOracle, identify
from combopeps.errors import LabelError

pandas = pytest.importorskip("pandas")


def test_the_labels_of_a_series_are_its_index():
    clicks = pandas.Series([3.0, 9.0, 7.0], index=["bees", "flood", "derby"])
    oracle = TopKOracle(clicks, k=2)
    assert oracle.components == ("bees", "flood", "derby")
    assert oracle.decode(oracle.argmax(clicks)) == {"flood", "derby"}
    noise = np.random.default_rng(0)
    result = identify(unit_problem(oracle, prior_std=10.0), lambda item: clicks[item] + noise.normal())
    assert result.answer == {"flood", "derby"}


@pytest.mark.parametrize(
    ("series", "labels"),
    [
        (pandas.Series([0.5, 0.1]), (0, 1)),
        (pandas.Series([5, 1], index=[7, 3]), (7, 3)),
        (pandas.Series([True, False], index=["x", "y"]), ("x", "y")),
        (pandas.Series(["north", "south"], index=["x", "y"]), ("x", "y")),
        (pandas.Series([1, None], index=["x", "y"], dtype="Int64"), ("x", "y")),
        (pandas.Series([1.0, 2.0], index=pandas.MultiIndex.from_tuples([("a", 1), ("a", 2)])), (("a", 1), ("a", 2))),
    ],
)
def test_series_of_all_kinds(series, labels):
    assert TopKOracle(series, k=1).components == labels


def test_indices_and_lists_are_unchanged():
    for labels in (pandas.Index(["a", "b"]), ["a", "b"], np.array(["a", "b"]), {"a": 1, "b": 2}):
        assert TopKOracle(labels, k=1).components == ("a", "b")


def test_duplicate_labels_of_an_index_are_named():
    with pytest.raises(LabelError, match=r"the index of .* holds 'a' twice"):
        TopKOracle(pandas.Series([1.0, 2.0, 3.0], index=["a", "b", "a"]), k=1)


@pytest.mark.parametrize("index", [None, [4, 7]])
def test_ambiguous_series_are_rejected(index):
    names = pandas.Series(["ale", "bock"], index=index)
    with pytest.raises(LabelError, match=r"list\(series\) if .* series.index if"):
        TopKOracle(names, k=1)
    assert TopKOracle(list(names), k=1).components == ("ale", "bock")


def test_tables_are_rejected():
    with pytest.raises(LabelError, match=r"table\.index"):
        TopKOracle(pandas.DataFrame({"score": [1.0, 2.0]}, index=["a", "b"]), k=1)


def test_pandas_is_not_imported():
    code = "import sys\nfrom combopeps import TopKOracle\nTopKOracle(['a', 'b'], 1)\nprint('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
