"""`python -m benchmarks.costs` in its smallest form: blind runs are priced as they would have paid, and costs are used."""

import numpy as np
import pytest
from unit_problem import unit_problem

from benchmarks import costs
from combopeps import TopKOracle, TopTwo, simulate

QUICK = costs.Place("soare", 0.25, 250)


def test_blind_runs_are_priced_as_if_they_had_paid():
    problem, theta, cost = unit_problem(TopKOracle(3, k=1)), np.array([1.0, 0.0, -1.0]), np.array([1.0, 4.0, 9.0])

    class Paying(TopTwo):
        @property
        def spent(self):
            return np.asarray(self.pulls @ cost, dtype=float)

    paid = simulate(problem, theta, Paying, budget=30, replications=260, rng=0)  # more than one group
    blind = costs.Blind(problem, theta, TopTwo, 30, 260).priced(cost)
    np.testing.assert_array_equal(blind.cost, paid.cost)
    np.testing.assert_array_equal(blind.correct, paid.correct)
    np.testing.assert_array_equal(blind.cost[:, -1], blind.pulls @ cost)


def test_twins_have_the_same_rows_and_another_noise():
    plain, _ = costs.PLACES[0].problem()
    both = costs.twins(plain, 0.5)
    K = len(plain.arms)
    np.testing.assert_array_equal(costs.twins(plain, 1.0).arms.matrix[K:], plain.arms.matrix)
    np.testing.assert_allclose(both.noise, np.repeat([1.0, 0.5], K))


@pytest.mark.parametrize("policy", costs.POLICIES)
def test_a_cheap_arm_is_preferred_to_its_dear_twin(policy):
    pattern = {"twins": costs.PATTERNS["twins, 0.9 of the noise for 10"]}
    (row,) = costs.compare(QUICK, policy, 60, pattern)
    assert row["predicted"] == pytest.approx(0.1 / 0.81, rel=1e-3)
    assert row["measured"] <= costs.WANTED
    assert costs.holds(row).startswith("<= 0.7 yes")


def test_what_is_wanted_depends_on_what_is_predicted():
    row = {"predicted": 0.9, "measured": 1.02, "low": 0.9, "high": 1.2}
    assert costs.holds(row) == "<= 1.05 yes, within chance"
    assert costs.holds(row | {"measured": 1.2, "low": 1.1, "high": 1.3}) == "<= 1.05 NO"
    assert costs.holds(row | {"predicted": 0.5, "measured": 0.5, "low": 0.4, "high": 0.6}) == "<= 0.7 yes"


def test_tables_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "OUT", tmp_path)
    (row,) = costs.compare(QUICK, "TopTwo", 20, {"random": costs.PATTERNS["random"]})
    costs.write([row], 20)
    assert (tmp_path / "costs.csv").read_text().startswith(",".join(costs.HEADER))
    assert "| soare" in (tmp_path / "costs.md").read_text()
