"""The error probability over time, on a fixed grid of sample numbers."""

from math import sqrt

import pytest
from page_cases import measure, measured

from combopeps import Campaign, load_instance
from combopeps.errors import ParameterError
from combopeps.viz.build_view_model import ErrorCurve, report_data

GRID = [1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 56]


def test_points_are_close_to_the_status_at_that_time(tmp_path):
    """Within five standard errors of 64 draws, plus half of small values. Negative control: the points in reverse order."""
    instance = load_instance("topk-paper")
    campaign, said = Campaign.create(tmp_path / "c.db", instance), []
    for samples in GRID:
        measure(campaign, instance.theta, samples, seed=samples)
        said.append((samples, campaign.status().error_probability))
    points = ErrorCurve().follow(campaign).points
    assert [t for t, _ in points] == GRID

    def close(rough, precise):
        return abs(rough - precise) <= 5 * sqrt(precise * (1 - precise) / 64) + 0.5 * min(precise, 0.02)

    assert all(close(q, p) for (_, q), (_, p) in zip(points, said, strict=True))
    assert not all(close(q, p) for (_, q), (_, p) in zip(points[::-1], said, strict=True))


def test_updates_of_a_curve_add_points_only(tmp_path):
    instance = load_instance("town")
    campaign, kept = Campaign.create(tmp_path / "c.db", instance), ErrorCurve()
    for samples in (4, 9, 9, 31):
        before = list(kept.follow(campaign).points)
        measure(campaign, instance.theta, samples, seed=samples)
        assert kept.follow(campaign).points[: len(before)] == before
    assert kept.points == ErrorCurve().follow(campaign).points
    assert [t for t, _ in kept.points] == [t for t in GRID if t <= 31]


def test_no_query_is_chosen_again(tmp_path, monkeypatch):
    from combopeps.policies.peps import PEPS

    campaign = measured(tmp_path, "topk-paper", 12, policy="peps", stopping="verified", initial_design=True)
    monkeypatch.setattr(PEPS, "choose", None)
    assert [t for t, _ in ErrorCurve().follow(campaign).points] == [1, 2, 3, 5, 7, 10]


def test_few_points_up_to_a_hundred_thousand(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", load_instance("topk-paper"))
    campaign.observe_table([(i % 12, 0.1) for i in range(3_000)])
    curve = ErrorCurve().follow(campaign)
    assert len(curve.points) <= 22
    assert curve.points[-1][0] <= 3_000
    campaign.observe(3, 1.0, count=97_000)
    assert len(curve.follow(campaign).points) <= 33
    assert curve.points[-1][0] == 100_000  # one result of many: the point is behind it


def test_points_are_left_out_when_the_time_is_over(tmp_path):
    campaign = measured(tmp_path, "topk-paper", 60)
    hasty = ErrorCurve(seconds=1e-9).follow(campaign)
    assert hasty.left_out > 0
    whole = dict(ErrorCurve().follow(campaign).points)
    assert all(whole[t] == p for t, p in hasty.points)
    assert "left out to save time" in report_data(campaign, curve=hasty).chart.note


def test_actions_are_counted_by_their_readings(tmp_path):
    campaign = measured(tmp_path, "town", 20, actions="answers")
    curve = ErrorCurve().follow(campaign)
    assert all(t <= campaign.samples for t, _ in curve.points)


def test_seconds_are_checked():
    with pytest.raises(ParameterError, match="positive"):
        ErrorCurve(seconds=0.0)
