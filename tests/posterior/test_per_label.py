"""Numbers given once for all, by label, or in order; invalid ones are refused with the name of the parameter."""

from fractions import Fraction

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import ComboPepsError, TopKOracle
from combopeps.errors import LabelError, ParameterError
from combopeps.posterior.stated_values import as_array, check_mean, check_scale, numbers_by_label
from combopeps.utils.label_index import LabelIndex

LABELS = ["a", "b", ("c", 1)]
NAN, INF = float("nan"), float("inf")


class Column:
    """A column of a table: has labels and a conversion to a dict."""

    def __init__(self, labels, values):
        self.labels, self.values = labels, values

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)

    def to_dict(self):
        return dict(zip(self.labels, self.values, strict=True))


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.int64(2), Fraction(2), [2, 2.0, 2], {"b": 2, "a": 2, ("c", 1): 2}]
)
def test_one_for_all_is_a_float(value):
    found = numbers_by_label("size", value, LABELS, check_scale)
    assert found == 2.0
    assert type(found) is float


@pytest.mark.parametrize(
    "value",
    [
        [1.0, 2.0, 0.5],
        (1, 2, 0.5),
        np.array([1.0, 2.0, 0.5]),
        np.array([1.0, 2.0, 0.5], dtype=np.float32),
        {("c", 1): 0.5, "a": 1, "b": np.int64(2)},
        Column(["b", ("c", 1), "a"], [2.0, 0.5, 1.0]),
    ],
    ids=["list", "tuple", "array", "float32", "dict", "column"],
)
def test_one_for_each_is_in_the_order_of_the_labels(value):
    found = numbers_by_label("size", value, LABELS, check_scale)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [1.0, 2.0, 0.5])


def test_input_is_copied():
    given = np.array([1.0, 2.0, 3.0])
    found = numbers_by_label("size", given, LABELS, check_scale)
    given[:] = 7.0
    np.testing.assert_array_equal(found, [1.0, 2.0, 3.0])


def test_missing_labels_have_the_default():
    np.testing.assert_array_equal(
        numbers_by_label("mean", {"b": -4.0}, LABELS, check_mean, default=0.0), [0.0, -4.0, 0.0]
    )
    with pytest.raises(ParameterError, match=r"size says nothing about 2 of 3 labels, 'a'"):
        numbers_by_label("size", {"b": 4.0}, LABELS, check_scale)


def test_labels_that_may_be_ignored():
    value = {"a": 1.0, "b": 2.0, ("c", 1): 3.0, "elsewhere": 9.0}
    oracle = TopKOracle(LABELS, k=1)
    oracle.pruned = ("elsewhere",)
    found = numbers_by_label("size", value, LABELS, check_scale, LabelIndex(LABELS, oracle))
    np.testing.assert_array_equal(found, [1.0, 2.0, 3.0])
    with pytest.raises(LabelError, match="size names 'elsewhere'"):
        numbers_by_label("size", value, LABELS, check_scale)


ONE = [0, 0.0, -1.0, NAN, INF, -INF, 1e60, 1e-60, 10**400, None, "1", True, False, 1j]


@pytest.mark.parametrize("number", ONE, ids=lambda number: repr(number)[:10])
def test_bad_numbers_are_refused(number):
    with pytest.raises(ParameterError, match="size"):
        numbers_by_label("size", number, LABELS, check_scale)
    for value in ([1.0, number, 1.0], {"a": 1.0, "b": number, ("c", 1): 1.0}):
        with pytest.raises(ParameterError, match="size of 'b'"):
            numbers_by_label("size", value, LABELS, check_scale)


@pytest.mark.parametrize(
    "number", [NAN, INF, -INF, 1e60, -1e60, 10**400, None, "0", True, 1j], ids=lambda x: repr(x)[:10]
)
def test_a_bad_mean_is_refused(number):
    with pytest.raises(ParameterError, match="mean"):
        numbers_by_label("mean", number, LABELS, check_mean)
    with pytest.raises(ParameterError, match="mean of 'a'"):
        numbers_by_label("mean", [number, 0.0, -1.0], LABELS, check_mean)


SHAPES = {
    "too few": [1.0, 2.0],
    "too many": [1.0, 2.0, 3.0, 4.0],
    "none": [],
    "a matrix": np.ones((3, 3)),
    "a number in an array": np.array(1.0),
    "a set": {1.0, 2.0, 3.0},
    "a word": "abc",
    "bytes": b"abc",
    "a generator": (x for x in (1.0, 2.0, 3.0)),
    "nothing": None,
    "a label twice": Column(["a", "b", ("c", 1), "a"], [1.0, 2.0, 3.0, 4.0]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_bad_shapes_are_refused(shape):
    with pytest.raises(ParameterError, match="size"):
        numbers_by_label("size", SHAPES[shape], LABELS, check_scale)


def test_each_returns_an_array():
    np.testing.assert_array_equal(as_array(2.0, 3), [2.0, 2.0, 2.0])
    value = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(as_array(value, 3), value)
    assert as_array(value, 3) is not value


# ---------------------------------------------------------------- in problems


def oracle():
    return TopKOracle(["a", "b", "c"], k=1)


@pytest.mark.parametrize("key", ["noise_std", "cost", "prior_mean", "prior_std"])
@pytest.mark.parametrize("bad", [NAN, "much", [1.0, 2.0], {"z": 1.0}, [1.0, None, 1.0], True, 1e99], ids=repr)
def test_errors_contain_the_name_of_the_parameter(key, bad):
    with pytest.raises(ComboPepsError, match=key) as caught:
        unit_problem(oracle(), **{key: bad})
    assert isinstance(caught.value, (ParameterError, LabelError))


@pytest.mark.parametrize("key", ["noise_std", "cost", "prior_std"])
@pytest.mark.parametrize("bad", [0.0, -1.0, 1e-99, {"a": 1.0, "b": 0.0, "c": 1.0}], ids=repr)
def test_positive_parameters(key, bad):
    with pytest.raises(ParameterError, match=key):
        unit_problem(oracle(), **{key: bad})


@pytest.mark.parametrize("key", ["noise_std", "cost"])
def test_every_arm_needs_a_number(key):
    with pytest.raises(ParameterError, match=f"{key} says nothing about 1 of 3 labels, 'c'"):
        unit_problem(oracle(), **{key: {"a": 1.0, "b": 2.0}})


def test_components_that_are_left_out_have_the_usual_prior():
    problem = unit_problem(oracle(), prior_mean={"b": 3.0}, prior_std={"a": 0.1})
    np.testing.assert_array_equal(problem.prior_mean, [0.0, 3.0, 0.0])
    np.testing.assert_array_equal(problem.prior_std, [0.1, 1.0, 1.0])


def test_noise_and_cost_are_by_arm_and_the_prior_by_component():
    problem = unit_problem(oracle(), {"x": [1, 1, 0], "y": [0, 1, 1], "w": [1, 0, 1], "u": [1, 0, 0]},
                      {"u": 4.0, "x": 1.0, "y": 2.0, "w": 3.0}, cost=[1, 2, 3, 4], prior_mean=[5, 6, 7])  # fmt: skip
    np.testing.assert_array_equal(problem.noise, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(problem.noise_std, problem.noise)
    np.testing.assert_array_equal(problem.cost, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(problem.prior_mean, [5.0, 6.0, 7.0])
    np.testing.assert_allclose(
        problem.signal.row(np.arange(4)), problem.arms.row(np.arange(4)) / problem.noise[:, None]
    )
    assert problem.signal.labels == problem.arms.labels


def test_equal_noise_is_one_number():
    problem = unit_problem(oracle(), noise_std={"a": 2, "b": 2, "c": 2})
    assert problem.noise_std == 2.0
    np.testing.assert_array_equal(problem.noise, [2.0, 2.0, 2.0])


def test_noise_of_one_does_not_scale_the_arms():
    problem = unit_problem(oracle())
    assert problem.signal is problem.arms


def test_unknown_noise_has_ratios():
    assert unit_problem(oracle(), noise_std=None).noise_std is None
    np.testing.assert_array_equal(unit_problem(oracle(), noise_std=None).noise, [1.0, 1.0, 1.0])
    problem = unit_problem(oracle(), noise_std=None, noise_ratio={"a": 1, "b": 1, "c": 3})
    np.testing.assert_array_equal(problem.noise, [1.0, 1.0, 3.0])
    with pytest.raises(ParameterError, match="noise_ratio is for noise_std=None"):
        unit_problem(oracle(), noise_std=1.0, noise_ratio=[1, 1, 3])
    with pytest.raises(ParameterError, match="noise_ratio of 'b'"):
        unit_problem(oracle(), noise_std=None, noise_ratio=[1, -1, 3])


def test_a_direction_with_too_much_noise_is_not_identifiable():
    """Arms 1e20 times as noisy as the others contribute nothing in double precision."""
    rows = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 1.0]])
    unit_problem(oracle(), rows, [1.0, 1.0, 10.0])
    with pytest.raises(ComboPepsError):
        unit_problem(oracle(), rows, [1.0, 1.0, 1e20])


def test_repr_states_parameters_by_label():
    assert "noise_std=0.5..2" in repr(unit_problem(oracle(), noise_std=[0.5, 1, 2]))
    assert "cost=1..3" in repr(unit_problem(oracle(), cost=[1, 2, 3]))
    assert "noise_std=estimated" in repr(unit_problem(oracle(), noise_std=None))
