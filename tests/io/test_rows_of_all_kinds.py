"""Rows from lists, dicts, arrays and data frames: what is read, what is refused, and by which row."""

import csv
import io
import subprocess
import sys
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from combopeps.errors import LabelError, ParameterError, RewardError
from combopeps.session.measurement_table import read_rows

Measured = namedtuple("Measured", ["Index", "label", "value"])


def read(rows):
    found = read_rows(rows)
    found.faults.check()
    return found.rows


class Column:
    def __init__(self, entries):
        self.entries = entries

    def to_list(self):
        return list(self.entries)


class Frame:
    """The least that a data frame can be."""

    def __init__(self, **columns):
        self.data = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return Column(self.data[name])


PLAIN = [("a", 1.5, None, 1), ("b", -2.0, None, 1)]


@pytest.mark.parametrize(
    "rows",
    [
        [("a", 1.5), ("b", -2)],
        [["a", "1.5"], ["b", "-2"]],
        (row for row in [("a", 1.5, None), ("b", -2, float("nan"), None)]),
        [{"label": "a", "value": 1.5}, {"Value": -2, "item": "b", "day": 7}],
        [{"label": "a", "value": 1.5, "sem": None, "count": ""}, ("b", -2)],
        [Measured(0, "a", 1.5), Measured(1, "b", -2)],
        [("a", Decimal("1.5")), ("b", Fraction(-2))],
        [("a", np.float32(1.5)), (np.str_("b"), np.int8(-2))],
        Frame(day=[1, 2], label=["a", "b"], value=[1.5, -2]),
        Frame(y=["1.5", "-2"], item=["a", "b"], n=[1, 1.0]),
        csv.DictReader(io.StringIO("label,value\na,1.5\nb,-2\n")),
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_people_have_at_hand(rows):
    assert read(rows) == PLAIN


def test_labels_of_parts():
    wanted = [((1, 2), 0.5, 0.25, 3)]
    assert read([{"source": 1, "target": 2, "value": 0.5, "sem": 0.25, "count": 3}]) == wanted
    assert read(Frame(left=[1], right=[2], value=[0.5], stderr=[0.25], n=[3])) == wanted
    assert read([((1, 2), 0.5, 0.25, 3)]) == read([[[1, 2], 0.5, 0.25, 3]]) == wanted
    assert read([[[[0, 0], [0, 1]], 0.5]]) == [(((0, 0), (0, 1)), 0.5, None, 1)]


def test_arrays():
    assert read(np.array([[0.0, 1.5], [1.0, 2.5]])) == [(0.0, 1.5, None, 1), (1.0, 2.5, None, 1)]
    rows = np.array([("a", 1.5), ("b", -2.0)], dtype=[("label", "U5"), ("value", "f8")])
    assert read(rows) == PLAIN


def test_nothing_is_nothing():
    assert read([]) == []
    assert read(Frame(label=[], value=[])) == []


@pytest.mark.parametrize("rows", [{"a": 1.5}, {"label": ["a"], "value": [1.5]}, b"x.csv", 3, None])
def test_what_is_no_table(rows):
    with pytest.raises(ParameterError, match="give a data frame, the path of a CSV file"):
        read(rows)


@pytest.mark.parametrize(
    ("bad", "error", "part"),
    [
        (("b", None), RewardError, "there is none"),
        (("b", float("nan")), RewardError, "there is none"),
        (("b", float("inf")), RewardError, "must be a finite number"),
        (("b", 10**400), RewardError, "must be a finite number"),
        (("b", "NA"), RewardError, "there is none"),
        (("b", "1,5"), RewardError, "decimals with a point"),
        (("b", "much"), RewardError, "must be a finite number"),
        (("b", [1.0]), RewardError, "must be a finite number"),
        (("b", 1j), RewardError, "must be a finite number"),
        (("b", 1.0, 0.0), ParameterError, "above 0"),
        (("b", 1.0, float("inf")), ParameterError, "above 0"),
        (("b", 1.0, None, 0), ParameterError, "whole number"),
        (("b", 1.0, None, 1.5), ParameterError, "whole number"),
        (("b", 1.0, None, float("inf")), ParameterError, "whole number"),
        ((None, 1.0), LabelError, "say what was measured"),
        (((1, float("nan")), 1.0), LabelError, "say what was measured"),
        (("b",), ParameterError, "give a data frame"),
        (("b", 1.0, 2.0, 3, 4), ParameterError, "give a data frame"),
        ("b", ParameterError, "give a data frame"),
        (7, ParameterError, "give a data frame"),
        ({"label": "b"}, ParameterError, "name it value"),
        ({"value": 1.0}, ParameterError, "name it label"),
        ({"label": "b", "value": 1.0, "std": 2.0}, ParameterError, "name it sem"),
    ],
    ids=str,
)
def test_bad_rows_are_named_and_counted(bad, error, part):
    with pytest.raises(error) as caught:
        read([("a", 1.0), ("a", 1.0), bad, ("a", 1.0), bad])
    assert str(caught.value).startswith("row 2 (counted from 0), ")
    assert part in str(caught.value)
    assert "2 of 5 rows are wrong, the next in row 4; nothing was taken" in str(caught.value)


def test_columns_of_frames_are_named():
    for frame, part in ((Frame(a=[1], value=[2]), "label"), (Frame(label=[1], a=[2]), "value")):
        with pytest.raises(ParameterError, match=f"^{part}: .*there are "):
            read(frame)


def test_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"label": ["a", "b", "b"], "value": [1.5, -2.0, -4.0]})
    assert read(frame) == [*PLAIN, ("b", -4.0, None, 1)]
    assert read(frame.set_index("label")) == read(frame)
    assert read(frame.itertuples()) == read(frame.to_dict("records")) == read(frame)
    means = frame.groupby("label")["value"].agg(["mean", "sem", "count"])
    assert read(means) == [("a", 1.5, None, 1), ("b", -3.0, 1.0, 2)]
    edges = pandas.DataFrame({"source": [1], "target": [2], "value": [0.5]})
    assert read(edges) == read(edges.set_index(["source", "target"])) == [((1, 2), 0.5, None, 1)]
    odd = pandas.DataFrame({"label": ["a", "b"], "value": pandas.array([1, None], dtype="Int64")})
    with pytest.raises(RewardError, match=r"row 1 .*there is none: got <NA>"):
        read(odd)
    with pytest.raises(LabelError, match="row 1"):
        read(pandas.DataFrame({"label": ["a", None], "value": [1, 2]}))


def test_pandas_is_not_needed():
    code = (
        "import sys\nsys.modules['pandas'] = None\n"
        "from combopeps import Session, TopKOracle\n"
        "session = Session(TopKOracle(['a', 'b'], k=1))\n"
        "print(session.observe_table([('a', 1.0), {'label': 'b', 'value': 2.0}]), session.samples)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "all 2 rows taken 2\n"


def test_rows_that_cannot_be_gone_through_leave_their_own_error():
    def rows():
        yield ("a", 1.0)
        raise OSError("the instrument is gone")

    with pytest.raises(OSError, match="gone"):
        read(rows())
