"""A Ctrl-C at any line of a write makes it as a whole or not at all; at any line of a run it loses no result."""

import sys
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from backends import events, slow_on_a_server
from cases import go_on, problems, same_state
from interrupter import Interrupter, contained
from memory_store import MemoryStore
from unit_problem import unit_problem

import combopeps
from combopeps import Campaign, TopKOracle
from combopeps.campaign import copy
from combopeps.session import run
from combopeps.session.run import Batch, Run

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


@contained
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


TWO = unit_problem(TopKOracle(2, k=1))


def interrupted_run(batch_size, *moments, client=None):
    """Faults after SIGINTs at these lines of a run, and the tracer.

    `measure` is written in C, so that an interrupt comes before or after it: what was taken from it has been returned.
    """
    values = [i / 1000 for i in range(40)]
    source = values if batch_size == 1 else [values[i : i + batch_size] for i in range(0, 40, batch_size)]
    supply, tracer, untold = iter(source), Interrupter({run.__file__}, *moments), []
    campaign = Campaign.create(MemoryStore(), TWO, policy="uniform", stopping="heuristic", delta=1e-9)
    try:
        with tracer:
            campaign.run(partial(next, supply), client=client, budget=2 * batch_size, batch_size=batch_size)
    except KeyboardInterrupt as error:
        untold = [y for _, y in getattr(error, "untold", [])]
    taken = values[: (len(source) - supply.__length_hint__()) * batch_size]
    told = [one.y for one in campaign.measurements()]
    faults = {
        f"{taken} returned, {told} told, {untold} with the exception": sorted([*told, *untold]) != taken,
        f"{campaign.leases} are waited for": client is None and bool(campaign.leases),
    }
    return [fault for fault, true in faults.items() if true], tracer


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_ctrl_c_at_any_line_of_a_run_loses_nothing(batch_size):
    faults, tracer = interrupted_run(batch_size)
    assert (faults, tracer.lines > 100) == ([], True)
    for line in range(tracer.lines):
        faults, now = interrupted_run(batch_size, line)
        assert (faults, now.sent) == ([], 1), f"at line event {line}"


def test_a_second_ctrl_c_while_the_first_is_handled_loses_nothing():
    twice = 0
    for first in range(0, interrupted_run(2)[1].lines, 7):
        for pause in (1, 3, 10, 30):
            faults, tracer = interrupted_run(2, first, first + pause, client="ann")
            twice += tracer.sent == 2
            assert faults == [], f"at line events {first} and {pause} later"
    assert twice > 20


def test_without_the_rescue_a_ctrl_c_loses_something(monkeypatch):
    monkeypatch.setattr(Batch, "rescue", lambda self: None)
    monkeypatch.setattr(Run, "_attach_session", lambda self, error: None)
    assert any(interrupted_run(2, line)[0] for line in range(interrupted_run(2)[1].lines))
