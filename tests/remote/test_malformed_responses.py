"""Responses that are not those of the campaign's server: a `RemoteError`, and no result is taken for recorded."""

import json
import random

import httpx
import pytest
from cases import problems

from combopeps import RemoteCampaign, RemoteError
from combopeps.remote import wire

VALUES = [None, True, -1, 1.5, "x", [], {}, [[0]], 10**30, [None], {"id": 0}]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(wire, "_FIRST_PAUSE", 0.001)


def through(monkeypatch, change):
    """From now on, all responses pass `change(document) -> document` on their way; their headers stay."""
    request = httpx.Client.request

    def changed(self, method, url, **options):
        answer = request(self, method, url, **options)
        if not answer.headers["content-type"].startswith("application/json"):
            return answer
        headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return httpx.Response(answer.status_code, headers=headers, content=json.dumps(change(answer.json())))

    monkeypatch.setattr(httpx.Client, "request", changed)


def acts(campaign, query):
    return {
        "ask": lambda: campaign.ask(2),
        "tell": lambda: campaign.tell(query, 1.0),
        "observe": lambda: campaign.observe("a", 1.0),
        "observe_table": lambda: campaign.observe_table([("a", 1.0), ("b", 2.0)]),
        "abandon": lambda: campaign.abandon(query),
        "status": campaign.status,
        "open_queries": lambda: campaign.open_queries,
        "holders": lambda: campaign.holders,
        "samples": lambda: campaign.samples,
        "learnt": campaign.learnt,
    }


def test_another_200_is_no_acknowledgement(abroad, monkeypatch):
    """As of a captive portal, which answers everything."""
    campaign = abroad(problems()["topk"])
    query = campaign.ask()
    portal = {"content-type": "application/json"}
    document = json.dumps({"samples": 5, "open": 1, "queries": []})
    monkeypatch.setattr(httpx.Client, "request", lambda *_, **__: httpx.Response(200, headers=portal, content=document))
    for act in acts(campaign, query).values():
        with pytest.raises(RemoteError, match="is no server of a campaign"):
            act()
    with pytest.raises(RemoteError):
        RemoteCampaign(campaign.url)
    monkeypatch.undo()
    assert campaign.samples == 0
    campaign.tell(query, 1.0)  # it is still ours to tell
    assert campaign.samples == 1


def spoilt(document, rng):
    """A field that is missing, or another value in some place."""
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return document
        key = rng.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.7:
            place = place[key]
            continue
        if isinstance(place, dict) and rng.random() < 0.3:
            del place[key]
        else:
            place[key] = rng.choice(VALUES)
        return document


def test_whatever_is_wrong_with_a_response_is_a_remote_error(abroad, monkeypatch):
    campaign = abroad(problems()["topk"])
    campaign.observe_table([("a", 1.0), ("b", 2.0), ("c", 0.5)])
    query, rng, refused = campaign.ask(), random.Random(0), 0
    through(monkeypatch, lambda document: spoilt(document, rng))
    for _ in range(15):
        for act in acts(campaign, query).values():
            try:
                act()
            except RemoteError:
                refused += 1
            campaign._asked[query.id] = query, campaign.client
    assert refused > 40
