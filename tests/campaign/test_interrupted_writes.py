"""A Ctrl-C at any line of a write: it is neither swallowed nor converted, and the write was made as a whole or not at all."""

import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from backends import events, slow_on_a_server
from cases import go_on, problems, same_state
from interrupter import Interrupter

import combopeps
from combopeps import Campaign
from combopeps.campaign import copy

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
PACKAGE = {str(path) for path in Path(combopeps.__file__).parent.rglob("*.py")}
WRITES = {
    "ask": lambda campaign: campaign.ask(2),
    "ask of a client": lambda campaign: campaign.ask(2, client="ann", lease=60.0),
    "tell": lambda campaign: campaign.tell(campaign.open_queries[0], 1.0),
    "tell_many": lambda campaign: campaign.tell_many([(query, 1.0) for query in campaign.open_queries]),
    "observe": lambda campaign: campaign.observe("a", 1.0),
    "observe_table": lambda campaign: campaign.observe_table([("a", 1.0), ("b", 2.0)]),
    "abandon": lambda campaign: campaign.abandon(campaign.open_queries[0]),
    "correct": lambda campaign: campaign.correct(campaign.measurements()[0].event, 1.0),
    "retract": lambda campaign: campaign.retract(campaign.measurements()[0].event),
    "look": lambda campaign: campaign.look(),
}


@pytest.fixture
def base(place):
    """A campaign with results, open queries and a rule that is about to look."""
    campaign = Campaign.create(place("base"), problems()["topk"], stopping="verified", delta=0.3, author="ann")
    go_on(campaign, 12, batch=3)
    for query in campaign.ask(5)[:2]:
        campaign.tell(query, 1.0)
    campaign.store.close()
    return place("base")


def interrupted_everywhere(base, place, name, stride):
    """Interrupt a write at every `stride`-th line; how many interrupts were before and after what made it durable."""
    copy(base, place("whole"))
    WRITES[name](Campaign.open(place("whole")))
    before, whole, at, found = len(events(base)), without_deadlines(events(place("whole"))), 0, Counter()
    assert len(whole) > before
    while True:
        copy(base, place(f"{at}"))
        campaign = Campaign.open(place(f"{at}"))
        try:
            with Interrupter(PACKAGE, at) as interrupter:
                WRITES[name](campaign)
        except KeyboardInterrupt:
            found[len(events(place(f"{at}"))) > before] += 1
        else:
            assert interrupter.lines <= at, "a Ctrl-C was swallowed"
            return found
        stored = without_deadlines(events(place(f"{at}")))
        assert stored in (whole[:before], whole), at
        same_state(campaign, Campaign.open(place(f"{at}")))
        Campaign.open(place(f"{at}"), timeout=0.0).observe("a", 1.0)  # no lock was left behind
        campaign.store.close()
        at += stride


def without_deadlines(stored):
    return [{name: value for name, value in event.items() if name != "until"} for event in stored]


@slow_on_a_server
@pytest.mark.parametrize("name", WRITES)
def test_an_interrupted_write_is_made_as_a_whole_or_not_at_all(base, place, name):
    found = interrupted_everywhere(base, place, name, 151)
    assert found[False] > 0


@pytest.mark.slow
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", WRITES)
def test_a_write_interrupted_at_every_line(base, place, name):
    stride = 1 if name in ("tell", "observe", "look") else 7
    found = interrupted_everywhere(base, place, name, stride)
    assert found[False] * stride > 100
    assert found[True] > 0  # what follows the commit


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_swallowed_interrupt_is_noticed(base, place, monkeypatch):
    observe = Campaign.observe

    def swallowing(self, *arguments):
        with suppress(KeyboardInterrupt):
            observe(self, *arguments)

    def converting(self, *arguments):
        try:
            observe(self, *arguments)
        except KeyboardInterrupt:
            raise RuntimeError("interrupted") from None

    monkeypatch.setitem(WRITES, "observe", lambda campaign: swallowing(campaign, "a", 1.0))
    with pytest.raises(AssertionError, match="swallowed"):
        interrupted_everywhere(base, place, "observe", 1)
    monkeypatch.setitem(WRITES, "observe", lambda campaign: converting(campaign, "a", 1.0))
    with pytest.raises(RuntimeError, match="interrupted"):
        interrupted_everywhere(base, lambda name: place(f"again-{name}"), "observe", 1)
