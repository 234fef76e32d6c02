"""What measurements say against prior and noise is in every account of a campaign, also when it is opened again."""

import json
import warnings

import numpy as np
import pytest
from servers import served
from unit_problem import unit_problem

from combopeps import Campaign, Problem, RemoteCampaign, TopKOracle
from combopeps.cli import main
from combopeps.errors import NoiseWarning, PriorWarning
from combopeps.viz.build_view_model import facts_of
from combopeps.viz.html import render, report

CASES = {
    "prior": (
        PriorWarning,
        {"noise_std": 1.0, "prior_std": 1.0},
        "contradict the stated prior",
        "claims that rest on the prior do not hold then",
    ),
    "smaller noise": (NoiseWarning, {"noise_std": 60.0, "prior_std": 100.0}, "times as large as stated", "claims hold"),
    "larger noise": (
        NoiseWarning,
        {"noise_std": 0.1, "prior_std": 100.0},
        "times as large as stated",
        "no claim holds",
    ),
}
MEANS = {"a": 82.0, "b": 81.0, "c": 70.0}


def told(place, case, **options):
    """Measurements with noise 1, by a table and by queries."""
    category, scales, *_ = CASES[case]
    problem = unit_problem(TopKOracle(MEANS, k=1), prior_mean=0.0, **scales)
    campaign, rng = Campaign.create(place, problem, **options), np.random.default_rng(0)

    def tell():
        campaign.observe_table([(item, mean + rng.normal()) for item, mean in MEANS.items()])
        for _ in range(8):
            campaign.tell_many([(query, MEANS[query.label] + rng.normal()) for query in campaign.ask(4)], confirm=True)

    with pytest.warns(category) as seen:
        tell()
    assert [warning.category for warning in seen] == [category]
    return campaign


@pytest.mark.parametrize("place", ["run.db", "sqlite:///{}/runs.db#beans"])
@pytest.mark.parametrize("case", CASES)
def test_every_account_has_it(tmp_path, case, place, capsys):
    url = place.format(tmp_path) if "{}" in place else str(tmp_path / place)
    campaign = told(url, case)
    says, follows = CASES[case][2:]
    status = Campaign.open(url).status()
    assert says in status.warning
    assert follows in status.warning
    assert status.warning == campaign.status().warning
    assert status.to_dict()["warning"] == status.warning
    main(["status", "--state", url])
    assert status.warning in capsys.readouterr().out
    main(["status", "--state", url, "--json"])
    assert json.loads(capsys.readouterr().out)["warning"] == status.warning
    facts = facts_of(Campaign.open(url))
    assert facts.warnings == (status.warning,)
    assert says in render(facts)
    report(campaign, tmp_path / "page.html")
    assert follows in (tmp_path / "page.html").read_text(encoding="utf-8")
    with served(url) as address:
        remote = RemoteCampaign(address)
        assert remote.status().warning == status.warning
        assert remote.status().claim == status.claim
    if status.stop:
        assert says in status.claim
        assert ("does not hold" in status.claim) == (case != "smaller noise")


def test_a_guarantee_stands_against_the_prior(tmp_path):
    campaign = told(tmp_path / "run.db", "prior", stopping="clucb", delta=0.5)
    status = campaign.status()
    assert "contradict the stated prior" in status.warning
    rng = np.random.default_rng(1)
    while not status.stop:
        campaign.tell_many([(query, MEANS[query.label] + rng.normal()) for query in campaign.ask(40)])
        status = campaign.status()
    assert "on which this claim does not rest" in status.claim
    assert "does not hold" not in status.claim


@pytest.mark.parametrize("case", CASES)
def test_results_of_a_campaign_and_their_pages_have_it(tmp_path, case):
    campaign = told(tmp_path / "run.db", case)
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = campaign.run(lambda item: MEANS[item] + rng.normal(), budget=5)
    assert CASES[case][2] in result.warning
    assert CASES[case][2] in result.claim
    assert facts_of(result).warnings == (result.warning,)


def test_where_measurements_agree_nothing_is_said(tmp_path, capsys):
    problem = Problem(TopKOracle(MEANS, k=1), noise_std=1.0, prior_mean=75.0, prior_std=10.0)
    campaign, rng = Campaign.create(tmp_path / "run.db", problem), np.random.default_rng(0)
    for _ in range(8):
        campaign.tell_many([(query, MEANS[query.label] + rng.normal()) for query in campaign.ask(4)])
    assert campaign.status().warning == ""
    main(["status", "--state", str(tmp_path / "run.db")])
    assert "warning" not in capsys.readouterr().out
