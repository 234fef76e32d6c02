"""Lines through points, what they say of larger ones, and a page that is written from the files alone."""

import json

import numpy as np
import pytest
from scipy.stats import linregress

from benchmarks._store import write_csv
from benchmarks.scale import page
from benchmarks.scale.__main__ import HEADER, units
from benchmarks.scale.axes import AXES, digits, measure
from benchmarks.scale.fits import Line, beyond, power


def test_slope_and_error_are_those_of_a_regression():
    rng = np.random.default_rng(0)
    x, y = np.arange(6.0), 2.0 * np.arange(6.0) + rng.normal(size=6)
    line, other = Line.through(x, y), linregress(x, y)
    assert (line.b, line.error, line.a) == pytest.approx((other.slope, other.stderr, other.intercept))


def test_intervals_hold_another_point_in_95_of_100_cases():
    """The false alarm of 4 standard errors: 6e-5."""
    rng, x, inside, runs = np.random.default_rng(1), np.arange(5.0), 0, 4000
    for _ in range(runs):
        _, low, high = Line.through(x, 1.0 + x + rng.normal(size=5)).at(9.0)
        inside += low <= 10.0 + rng.normal() <= high
    assert abs(inside / runs - 0.95) < 4 * np.sqrt(0.95 * 0.05 / runs)


def test_growth_is_never_taken_for_less_than_in_proportion():
    x = np.array([1e4, 2e4, 5e4, 1e5])
    assert beyond(x, 100.0 + 0.01 * x, 1e6)[0] == pytest.approx(11_000.0)  # 1,100 at 10^5
    middle, low, high = beyond(x, x**1.5, 1e6)
    assert middle == pytest.approx(1e9)
    assert low <= middle <= high
    assert power(x, x**1.5).b == pytest.approx(1.5)


def test_every_axis_has_points_for_a_line_and_a_quick_form():
    assert {unit.params["axis"] for unit in units(True)} == set(AXES)
    assert max(unit.params["size"] for unit in units(False) if not unit.params["fit"]) == 1_000_000
    assert all(list(axis.sizes) == sorted(axis.sizes) for axis in AXES.values())
    assert digits(2, 4) == pytest.approx(np.log10(6))


@pytest.mark.parametrize("axis", ["dense", "runs"])
def test_a_point_is_measured(axis):
    found = measure(axis, 64, 5)
    assert (found["x"], found["rounds"]) == (64, 5)
    assert found["round"] > 0
    assert found["megabytes"] > 10


def test_the_page_is_written_from_the_files(tmp_path):
    rows = [
        (name, size, True, size, 1000, 1000, 10, 50.0 + 0.01 * size, 50.0, 0.1, 180.0 + 0.001 * size)
        for name, axis in AXES.items()
        for size in axis.sizes
    ]
    rows.append(("top-k", 1_000_000, False, 1_000_000, 10**6, 10**6, 10, 12_345.0, 1.0, 0.1, 1180.0))
    write_csv(tmp_path / "growth.csv", HEADER, rows)
    made = {"command": "a command", "combopeps": "1", "numpy": "2", "python": "3"}
    (tmp_path / "made.json").write_text(json.dumps(made))
    text = page.text(tmp_path, tmp_path / "scale.md")
    assert "12.3 ms" in text
    assert "top-k, 1,000,000: a round took 12.3 ms, 1.18 times" in text
    assert "{" not in text
