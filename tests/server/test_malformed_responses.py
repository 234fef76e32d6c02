"""Responses that are not those of the campaign's server: a `RemoteError`, and no result is taken for recorded."""

import hashlib
import json
import random

import httpx
import pytest
from cases import problems
from unit_problem import unit_problem
from unreliable_proxy import unreliable_proxy

from combopeps import RemoteCampaign, TopKOracle
from combopeps.errors import RemoteError
from combopeps.server.schemas import CAMPAIGN_HEADER

pytestmark = pytest.mark.usefixtures("no_pauses")
VALUES = [None, True, -1, 1.5, "x", [], {}, [[0]], 10**30, [None], {"id": 0}]


@pytest.fixture
def proxy(abroad):
    """A campaign behind a proxy, both by a function of a problem; `proxy.change` changes the responses."""

    def made(problem):
        abroad(problem)
        proxy = abroad.stack.enter_context(unreliable_proxy(abroad.address))
        return abroad.stack.enter_context(RemoteCampaign(proxy.address)), proxy

    return made


def changed_json(change):
    """A change of responses: JSON documents become `change(document)`, and their headers stay."""

    def changed(forward):
        status, content, headers = forward()
        try:
            return status, json.dumps(change(json.loads(content))).encode(), headers
        except ValueError:  # CSV
            return status, content, headers

    return changed


def acts(campaign, query, other):
    return {
        "ask": lambda: campaign.ask(2),
        "tell": lambda: campaign.tell(query, 1.0),
        "observe": lambda: campaign.observe("a", 1.0),
        "observe_table": lambda: campaign.observe_table([("a", 1.0), ("b", 2.0)]),
        "abandon": lambda: campaign.abandon(other),
        "correct": lambda: campaign.correct(2, 1.5),
        "retract": lambda: campaign.retract(3),
        "measurements": campaign.measurements,
        "status": campaign.status,
        "result": campaign.result,
        "top_answers": campaign.top_answers,
        "look": campaign.look,
        "cost": lambda: campaign.cost,
        "actions": lambda: campaign.actions,
        "open_queries": lambda: campaign.open_queries,
        "leases": lambda: campaign.leases,
        "samples": lambda: campaign.samples,
        "posterior": lambda: campaign.posterior,
    }


def test_a_captive_portal_is_no_acknowledgement(proxy):
    """It answers every request with 200 and a JSON object."""
    campaign, portal = proxy(problems()["topk"])
    query, other = campaign.ask(2)
    document = json.dumps({"samples": 5, "open": 1, "queries": []}).encode()
    portal.change = lambda forward: (200, document, {})
    for act in acts(campaign, query, other).values():
        with pytest.raises(RemoteError, match="is no server of a campaign"):
            act()
    with pytest.raises(RemoteError):
        RemoteCampaign(campaign.url)
    portal.change = lambda forward: (*forward()[:2], {})  # a copy of the document, without the hash
    with pytest.raises(RemoteError, match="is no server of a campaign"):
        RemoteCampaign(campaign.url)
    portal.change = None
    assert campaign.samples == 0
    campaign.tell(query, 1.0)  # it is still ours to tell
    assert campaign.samples == 1


def places(document, path=()):
    """Every place in a JSON document."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in pairs:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def spoilt(document, rng):
    """A field that is missing, or another value in some place."""
    found = list(places(document))
    *path, key = rng.choice(found)
    place = document
    for step in path:
        place = place[step]
    if isinstance(place, dict) and rng.random() < 0.3:
        del place[key]
    else:
        place[key] = rng.choice(VALUES)
    return document


def test_a_spoilt_response_is_a_remote_error_or_harmless(proxy):
    campaign, line = proxy(problems()["topk"])
    campaign.observe_table([("a", 1.0), ("b", 2.0), ("c", 0.5)])
    rng, refused = random.Random(0), 0
    for _ in range(15):
        line.change = None
        query, other = campaign.ask(2)
        line.change = changed_json(lambda document: spoilt(document, rng))
        for name, act in acts(campaign, query, other).items():
            if name == "retract":  # which is refused the second time
                continue
            try:
                act()
            except RemoteError:
                refused += 1
    assert refused > 80


READ = {  # what is read of a response, by address
    "/status": (
        "z runner_up_z error_probability error_interval top_answers top_answers_z delta epsilon stop rule claim samples "
        "actions cost open pulls corrections warning noise_estimate"
    ),
    "/open": "samples actions queries",
    "/sums": "arms pulls weights totals sigma dof",
    "/measurements": "measurements",
}


def types_of(value):
    """What a value is: `null` only where it may be left out."""
    return type(value) if not isinstance(value, (int, float)) or isinstance(value, bool) else float


@pytest.mark.parametrize("address", READ)
def test_fields_of_another_type_are_refused(proxy, address):
    campaign, line = proxy(unit_problem(TopKOracle(["a", "b", "c"], k=1), noise_std=None))
    campaign.observe_table([(label, i + 0.1 * j) for i, label in enumerate("abc") for j in range(4)])
    campaign.ask(lease=3600.0)
    document = httpx.get(campaign.url + address).json()
    assert set(READ[address].split()) <= document.keys()
    read = {
        "/status": campaign.status,
        "/open": lambda: (campaign.open_queries, campaign.leases, campaign.samples, campaign.actions),
        "/sums": lambda: campaign.posterior,
        "/measurements": campaign.measurements,
    }[address]
    read()
    checked = 0
    unread = {"label", "components", "is_action", "answer", "runner_up"}  # for people; vectors and numbers decide
    for path in places(document):
        if path[0] not in READ[address].split() or unread & set(path):
            continue
        for value in VALUES:
            changed = json.loads(json.dumps(document))
            place = changed
            for step in path[:-1]:
                place = place[step]
            old = place[path[-1]]
            if types_of(value) is types_of(old) or value is None or old is None:
                continue
            if isinstance(old, list) and isinstance(value, list):
                continue
            place[path[-1]] = value
            line.change = changed_json(lambda _, changed=changed: changed)
            try:
                read()
            except RemoteError as error:
                assert "cannot be understood" in str(error)  # noqa: PT017
            else:
                pytest.fail(f"{path} = {value!r} instead of {old!r} was taken")
            checked += 1
    assert checked > 50


@pytest.mark.parametrize("field", ["problem", "policy", "stopping", "delta", "seed", "versions"])
def test_a_header_that_makes_no_sense_is_refused(proxy, field):
    """With a hash that fits, as of a server of another release."""
    campaign, line = proxy(problems()["topk"])

    def changed(forward):
        header = json.loads(forward()[1])
        content = json.dumps({name: each for name, each in header.items() if name != field} | values)
        mark = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
        return 200, content.encode(), {CAMPAIGN_HEADER: mark}

    line.change = changed
    for values in ({}, {field: None}, {field: "nonsense"}, {field: []}, {field: -1.5}):
        if field == "seed" and values == {field: -1.5}:
            continue
        if field == "versions" and values == {field: []}:
            continue
        with pytest.raises(RemoteError, match=r"no server of a campaign|cannot be read here"):
            RemoteCampaign(campaign.url)
