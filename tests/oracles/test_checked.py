"""`CheckedOracle` detects faulty answers, and its errors contain the theta."""

import pickle

import broken_oracles as broken
import broken_promises as promises
import numpy as np
import pytest

from combopeps import check_oracle
from combopeps.errors import AnswerError, OracleError
from combopeps.oracles import CheckedOracle


def thetas_of(oracle, batch=30):
    thetas = np.random.default_rng(0).normal(size=(batch, oracle.dim))
    thetas[batch // 2] = 0.0
    return thetas


def ask_one_by_one(oracle, thetas):
    for theta in thetas:
        oracle.argmax(theta)


def fails_with(error, function, argument):
    try:
        function(argument)
    except error:
        return True
    return False


def has_other_shape(oracle, theta):
    return np.shape(oracle.argmax(theta)) != theta.shape


def is_no_array(oracle, theta):
    return isinstance(oracle.argmax(theta[None]), list)


def is_not_finite(oracle, theta):
    return not np.isfinite(oracle.argmax(theta)).all()


def is_changed(oracle, theta):
    given = theta.copy()
    oracle.argmax(given)
    return not np.array_equal(given, theta)


def is_raised(oracle, theta):
    return fails_with(ZeroDivisionError, oracle.argmax, theta.copy())


def cannot_write(oracle, theta):
    return fails_with(ValueError, oracle.argmax, theta)


def is_no_answer(oracle, theta):
    return fails_with(AnswerError, oracle.decode, oracle.argmax(theta))


def is_not_given_back(oracle, theta):
    z = oracle.argmax(theta)
    return not np.array_equal(oracle.encode(oracle.decode(z)), z)


def is_beaten(oracle, theta):
    honest = broken.MatchingOracle(4, 4) if isinstance(oracle, broken.MatchingOracle) else broken.Honest()
    return honest.argmax(theta) @ theta > oracle.argmax(theta) @ theta + 1e-9


def cannot_decode(oracle, theta):
    return fails_with(KeyError, oracle.decode, oracle.argmax(theta))


LIES = [
    (broken.ShortAnswer, "one float vector per row", has_other_shape),
    (broken.ListAnswer, "list", is_no_array),
    (broken.NanAnswer, "NaN", is_not_finite),
    (broken.InfiniteAnswer, "infinity", is_not_finite),
    (broken.MutatesThroughTheView, "work on a copy", cannot_write),
    (broken.NegatesTheta, "work on a copy", is_changed),
    (broken.ClipsTheta, "work on a copy", is_changed),
    (broken.Raises, "ZeroDivisionError: solver gave up", is_raised),
    (broken.SpoilsThetaAndRaises, "ZeroDivisionError: solver gave up", is_raised),
    (broken.RoundsToIntegers, "not an argmax", is_beaten),
    (broken.WrongSign, "not an argmax", is_beaten),
    (broken.GreedyMatching, "not an argmax", is_beaten),
    (broken.OneItemTooMany, "outside Z", is_no_answer),
    (promises.UnitForgotten, "outside Z", is_no_answer),
    (promises.LosesTheSign, r"encode\(decode\(z\)\) is not z", is_not_given_back),
    (promises.DecodeCrashes, "KeyError", cannot_decode),
]


@pytest.mark.parametrize(("kind", "words", "shows"), LIES, ids=[lie[0].__name__ for lie in LIES])
def test_faults_are_detected_and_reproduced_by_the_theta_of_the_error(kind, words, shows):
    oracle = kind()
    asked = thetas_of(oracle)
    before = asked.copy()
    with pytest.raises(OracleError, match=words) as caught:
        CheckedOracle(oracle, mode="always").argmax(asked)
    np.testing.assert_array_equal(asked, before)
    kept = caught.value.theta
    assert np.array_equal(kept, before) if kept.ndim == 2 else kept.tolist() in before.tolist()
    assert any(shows(oracle, theta) for theta in np.atleast_2d(kept))


@pytest.mark.parametrize(("kind", "words", "shows"), LIES, ids=[lie[0].__name__ for lie in LIES])
def test_faults_are_detected_for_single_thetas(kind, words, shows):
    oracle = kind()
    checked = CheckedOracle(oracle, mode="always")
    with pytest.raises(OracleError, match=words) as caught:
        ask_one_by_one(checked, thetas_of(oracle, 60))
    assert any(shows(oracle, theta) for theta in np.atleast_2d(caught.value.theta))


def test_shared_rows_are_detected_by_earlier_answers():
    oracle = broken.SharedRows()
    checked = CheckedOracle(oracle, mode="always")
    thetas = np.array([[0.0, 0, 1, 1, 1], [1.0, 1, 1, 0, 0]])
    for theta in thetas:
        checked.argmax(theta)
    with pytest.raises(OracleError, match="not an argmax") as caught:
        checked.argmax(thetas)
    np.testing.assert_array_equal(caught.value.theta, thetas[1])


def test_the_cause_of_an_exception_is_kept():
    with pytest.raises(OracleError) as caught:
        CheckedOracle(broken.Raises()).argmax([2.0, 0, 0, 0, 0])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_errors_keep_theta_when_pickled():
    with pytest.raises(OracleError) as caught:
        CheckedOracle(broken.Raises()).argmax([2.0, 0, 0, 0, 0])
    back = pickle.loads(pickle.dumps(caught.value))
    assert str(back) == str(caught.value)
    np.testing.assert_array_equal(np.ravel(back.theta), [2.0, 0, 0, 0, 0])


def test_sampled_mode_checks_shape_and_type_of_every_answer():
    checked = CheckedOracle(broken.NanAnswer(), mode="sampled")
    for theta in np.random.default_rng(0).normal(size=(5, 5)):
        checked.argmax(theta)
    with pytest.raises(OracleError, match="NaN"):
        checked.argmax(np.zeros(5))


@pytest.mark.parametrize("kind", [broken.OneItemTooMany, broken.NegatesTheta, broken.WrongSign, promises.LosesTheSign])
def test_sampled_mode_finds_other_faults_within_a_few_dozen_calls(kind):
    with pytest.raises(OracleError):
        ask_one_by_one(CheckedOracle(kind(), mode="sampled"), np.random.default_rng(0).normal(size=(60, 5)))


@pytest.mark.parametrize("mode", ["sampled", "always"])
def test_correct_oracles_raise_no_errors(mode):
    checked = CheckedOracle(broken.Honest(), mode=mode)
    thetas = np.random.default_rng(0).normal(size=(200, 5))
    tied = np.random.default_rng(0).integers(-1, 2, size=(200, 5)).astype(float)
    for batch in (thetas, tied, thetas + 1e-9, tied + 1e-12 * thetas):
        np.testing.assert_array_equal(checked.argmax(batch), broken.Honest().argmax(batch))
    assert check_oracle(checked).ok


def test_exceptions_of_membership_are_converted():
    class Crashes(broken.Honest):
        def _membership_batch(self, z, thetas):
            raise ZeroDivisionError("no")

    theta = np.arange(5.0)
    with pytest.raises(OracleError, match="ZeroDivisionError") as caught:
        CheckedOracle(Crashes()).membership(broken.Honest().argmax(theta), theta)
    np.testing.assert_array_equal(np.ravel(caught.value.theta), theta)
