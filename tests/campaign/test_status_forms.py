"""The status of a campaign for programs and people."""

import json

import pytest
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle
from combopeps.viz.curves import plot_pulls

TRUTH = {"arabica": 4.0, "robusta": 6.5, "<b>liberica</b>": 5.0}


@pytest.fixture
def campaign(tmp_path):
    campaign = Campaign.create(tmp_path / "beans.db", unit_problem(TopKOracle(TRUTH, k=1), prior_std=5.0))
    for query in campaign.ask(12)[:-1]:
        campaign.tell(query, TRUTH[query.label])
    return campaign


def test_json_has_every_field(campaign):
    status = campaign.status()
    document = json.loads(status.to_json())
    assert document == status.to_dict()
    assert set(document) == set(status.__dataclass_fields__)
    assert document["answer"] == ["robusta"]
    assert document["pulls"] == [[label, status.pulls[label]] for label in TRUTH]
    (waiting,) = status.open_queries
    assert document["open_queries"] == [{"id": 11, "label": waiting.label, "arms": [waiting.arm], "action": None}]


def test_html_is_escaped(campaign):
    html = campaign.status()._repr_html_()
    assert "&lt;b&gt;liberica&lt;/b&gt;" in html
    assert "<b>liberica" not in html
    assert "error probability" in html


def test_it_stays_short(tmp_path):
    campaign = Campaign.create(tmp_path / "x.db", unit_problem(TopKOracle(20_000, k=10_000)))
    campaign.ask(200)
    status = campaign.status()
    assert len(status.open_queries) == 200
    for thing in (campaign, status):
        assert len(repr(thing)) < 2000
    assert len(status._repr_html_()) < 10_000


def test_its_pulls_are_drawn(campaign):
    status = campaign.status()
    bars = plot_pulls(status).patches
    assert sorted(bar.get_width() for bar in bars) == sorted(status.pulls.values())
