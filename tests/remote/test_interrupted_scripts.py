"""Ctrl-C at any line of a script that measures for a campaign: what came back from `measure` is told."""

import signal
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Holder, Query, TopKOracle, Uniform
from combopeps.run import batch, for_campaign
from combopeps.run.for_campaign import Errand, Visit, measure_for

TRACED = {for_campaign.__file__, batch.__file__}
PROBLEM = unit_problem(TopKOracle(3, k=3))  # a single answer


class Desk:
    """The smallest campaign there can be."""

    problem, delta, epsilon, stopping, seed, sweep = PROBLEM, 0.05, 0.0, "posterior", 0, 0

    def __init__(self):
        self.told, self.holders, self.queries = {}, {}, []

    def ask(self, n, *, client):
        mine = [query for query in self.queries if query.id in self.holders and self.holders[query.id].client == client]
        while len(mine) < n:
            mine.append(Query(len(self.queries), len(self.queries) % 3, len(self.queries) % 3, PROBLEM.arms))
            self.queries.append(mine[-1])
            self.holders[mine[-1].id] = Holder(client)
        return mine[:n]

    def tell_many(self, results):
        for query, y in results:
            assert self.told.setdefault(query.id, y) == y
            self.holders.pop(query.id, None)

    def abandon(self, number):
        del self.holders[number]

    def status(self):
        t = len(self.told)
        return SimpleNamespace(
            z=np.ones(3), answer={0, 1, 2}, alternative=None, error_probability=0.5, error_interval=(0.4, 0.6),
            leaders=[], warning="", stop=False, claim="", samples=t, pulls={0: t, 1: 0, 2: 0}, cost=float(t), noise_estimate=None, actions=None,
        )  # fmt: skip

    def learnt(self):
        return Uniform(PROBLEM, 0)


class Interrupter:
    """Sends SIGINT at given line events of the files that are traced, counted from 0."""

    def __init__(self, *moments):
        self.moments, self.lines, self.sent = set(moments), 0, 0

    def __enter__(self):
        sys.setprofile(self.profile)
        sys.settrace(self.trace)

    def __exit__(self, *exception):
        sys.setprofile(None)
        sys.settrace(None)

    def trace(self, frame, event, arg):
        if frame.f_code.co_filename not in TRACED:
            return None
        if event == "line":
            self.lines += 1
            if self.lines - 1 in self.moments:
                self.sent += 1
                signal.raise_signal(signal.SIGINT)
        return self.trace

    def profile(self, frame, event, arg):
        """Python stops tracing when the tracer raises; this goes on."""
        if sys.gettrace() is None:
            sys.settrace(self.trace)


def interrupted(batch_size, *moments, client=None):
    """What is left after SIGINTs at these lines: complaints, and the tracer.

    `measure` is written in C, so that an interrupt comes before or after it: what was taken from it has been returned.
    """
    values = [float(i) for i in range(40)]
    source = values if batch_size == 1 else [values[i : i + batch_size] for i in range(0, 40, batch_size)]
    supply, desk, tracer, untold = iter(source), Desk(), Interrupter(*moments), []
    try:
        with tracer:
            measure_for(desk, partial(next, supply), budget=2 * batch_size, batch_size=batch_size, client=client)
    except KeyboardInterrupt as error:
        untold = [y for _, y in getattr(error, "untold", [])]
    taken = values[: (len(source) - supply.__length_hint__()) * batch_size]
    faults = {
        f"{taken} returned, {desk.told} told, {untold} with the exception": sorted([*desk.told.values(), *untold])
        != taken,
        f"{desk.holders} are waited for": client is None and bool(desk.holders),
    }
    return [fault for fault, true in faults.items() if true], tracer


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_ctrl_c_at_any_line_loses_nothing(batch_size):
    faults, tracer = interrupted(batch_size)
    assert (faults, tracer.lines > 100) == ([], True)
    for line in range(tracer.lines):
        faults, now = interrupted(batch_size, line)
        assert (faults, now.sent) == ([], 1), f"at line event {line}"


def test_nor_does_a_second_one_while_the_first_is_dealt_with():
    twice = 0
    for first in range(0, interrupted(2)[1].lines, 7):
        for pause in (1, 3, 10, 30):
            faults, tracer = interrupted(2, first, first + pause, client="ann")
            twice += tracer.sent == 2
            assert faults == [], f"at line events {first} and {pause} later"
    assert twice > 20


def test_without_the_rescue_a_ctrl_c_loses_something(monkeypatch):
    monkeypatch.setattr(Errand, "keep", lambda self: None)
    monkeypatch.setattr(Visit, "carry_on", lambda self, error: None)
    assert any(interrupted(2, line)[0] for line in range(interrupted(2)[1].lines))
