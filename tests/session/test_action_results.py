"""Results of runs that measure whole actions: actions and readings are both counted, and pictures show components."""

import json

import numpy as np
from unit_problem import unit_problem

from combopeps import BudgetRule, Campaign, TopKOracle, identify, load_instance
from combopeps.viz.answers import plot_measured, plot_result
from combopeps.viz.curves import plot_pulls

TOWN = load_instance("town")


def driven(problem, **options):
    rng, actions = np.random.default_rng(0), problem.actions

    def drive(route):
        return [TOWN.theta[i] + rng.normal() for i in actions.spell_out(actions.find(route))[1]]

    return identify(problem, drive, **options)


def test_actions_and_readings_are_counted():
    result = driven(TOWN.problem.restated(actions="answers", cost=1.0), budget=400)
    assert result.actions == result.session.policy.actions[0] == result.cost
    assert result.samples == sum(result.pulls.values()) > result.actions
    assert json.loads(result.to_json())["actions"] == result.actions
    assert f'<th style="text-align:left">actions</th><td style="text-align:left">{result.actions}</td>' in (
        result._repr_html_()
    )
    frame = result.to_frame()
    assert frame["pulls"].tolist() == list(result.pulls.values())


def test_single_measurements_have_none():
    noise = np.random.default_rng(0)
    result = identify(unit_problem(TopKOracle(["a", "b"], k=1)), lambda x: "ab".index(x) + noise.normal(), budget=5)
    assert result.actions is None
    assert result.to_dict()["actions"] is None
    assert "actions" not in result._repr_html_()


def test_a_sweep_reads_every_component_so_often():
    problem = unit_problem(TopKOracle(9, k=3), actions="answers")
    result = identify(problem, lambda team: [0.0] * 3, sweep=2, stopping=BudgetRule(simulations=0), budget=6)
    assert set(result.pulls.values()) == {2}


def test_pictures_show_readings_of_components(tmp_path):
    result = driven(TOWN.problem.restated(actions="answers", cost=1.0), budget=30, stopping=BudgetRule(simulations=0))
    ax = plot_pulls(result)
    assert sum(bar.get_width() for bar in ax.patches) <= result.samples
    assert f"{result.samples:,}" in plot_result(result).get_title()
    campaign = Campaign.create(tmp_path / "run", unit_problem(TopKOracle(["a", "b", "c"], k=2), actions="answers"))
    campaign.tell(campaign.ask(), [1.0, 2.0])
    status = campaign.status()
    assert "after 2 samples" in plot_measured(campaign.problem, status, campaign.belief).get_title()
    assert "actions" in status._repr_html_()
    plot_pulls(status)
