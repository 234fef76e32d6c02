"""`Trace`: rates, crossings and their intervals by hand, and a round trip through a file."""

import numpy as np
import pytest

from combopeps.errors import ParameterError
from combopeps.session import Trace


def trace(correct, t=None):
    correct = np.asarray(correct, dtype=bool)
    runs, looks = correct.shape
    times = np.arange(1, looks + 1) * 10 if t is None else np.asarray(t)
    cost = np.broadcast_to(times.astype(float), correct.shape)
    return Trace(times, correct, np.full((runs, 2), 5), np.ones(looks), np.ones(looks), 3, cost)


def staircase(runs, looks=50, seed=0):
    """Run r is right from a random look on."""
    start = np.random.default_rng(seed).integers(0, looks, size=runs)
    return trace(np.arange(looks) >= start[:, None])


def test_the_rate_and_its_two_standard_errors():
    rate, error = trace([[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 1]]).identification_rate()
    np.testing.assert_allclose(rate, [0.0, 0.25, 0.75, 1.0])
    np.testing.assert_allclose(error, [0.0, 2 * np.sqrt(0.1875 / 4), 2 * np.sqrt(0.1875 / 4), 0.0])


def test_the_first_time_above_the_level_counts_though_the_rate_falls_again():
    seen = trace([[0, 1, 1, 1], [0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 1]], t=[1, 4, 9, 16])
    assert seen.samples_to(0.7).samples == 4.0
    assert seen.samples_to(0.75).samples == 16.0  # exceeding, not reaching
    assert seen.samples_to(0.2).samples == 4.0


def test_a_level_never_reached_is_infinite():
    crossing = trace([[0, 1], [0, 0]]).samples_to(0.6)
    assert crossing.samples == np.inf
    assert crossing.high == np.inf


def test_the_interval_contains_the_point_and_narrows_with_runs():
    few, many = (staircase(runs).samples_to(0.5) for runs in (40, 4000))
    for crossing in (few, many):
        assert crossing.low <= crossing.samples <= crossing.high
    assert 0 < many.high - many.low < (few.high - few.low) / 3


def test_the_interval_covers_the_truth_as_often_as_it_says():
    """The rate exceeds 1/2 from look 26 of 50 on; 200 intervals at 80 %, and five standard deviations to both sides."""
    covered = 0
    for seed in range(200):
        crossing = staircase(100, seed=seed).samples_to(0.5, confidence=0.8, resamples=200)
        covered += crossing.low <= 260 <= crossing.high
    assert 160 - 5 * np.sqrt(200 * 0.16) <= covered <= 199


def test_a_wider_confidence_has_a_wider_interval():
    narrow, wide = (staircase(100).samples_to(0.5, confidence=level) for level in (0.5, 0.99))
    assert wide.low < narrow.low <= narrow.high < wide.high


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, float("nan")])
def test_levels_lie_between_0_and_1(level):
    with pytest.raises(ParameterError, match="level"):
        staircase(5).samples_to(level)


@pytest.mark.parametrize("name", ["run.npz", "run", "run.v2"])
def test_what_was_saved_is_loaded_from_the_same_path(tmp_path, name):
    before = staircase(7)
    before.save(tmp_path / name)
    after = Trace.load(tmp_path / name)
    for field in ("t", "correct", "pulls", "draws", "seconds", "cost"):
        np.testing.assert_array_equal(getattr(after, field), getattr(before, field))
        assert getattr(after, field).dtype == getattr(before, field).dtype
    assert after.seed == 3
    assert after.samples_to(0.5) == before.samples_to(0.5)


def test_joined_traces_weigh_costs_by_runs():
    one, two = trace([[0, 1]]), trace([[1, 1], [1, 1], [1, 1]])
    joined = Trace.join([one, Trace(two.t, two.correct, two.pulls, 5 * two.draws, two.seconds, two.seed, 7 * two.cost)])
    np.testing.assert_array_equal(joined.correct, [[0, 1], [1, 1], [1, 1], [1, 1]])
    np.testing.assert_allclose(joined.draws, [4.0, 4.0])
    assert len(joined.pulls) == 4
    np.testing.assert_array_equal(joined.cost, [[10, 20], [70, 140], [70, 140], [70, 140]])
