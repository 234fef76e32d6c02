"""Ctrl-C at any line of a run whose queries have leases, as those of a campaign: what `measure` returned is told."""

from functools import partial

import pytest
from interrupter import Interrupter
from unit_problem import unit_problem

from combopeps import TopKOracle
from combopeps.session import Lease, run
from combopeps.session.queries import QueryFactory
from combopeps.session.run import Batch, Run
from combopeps.stopping import Verdict

PROBLEM = unit_problem(TopKOracle(3, k=3))  # a single answer


class Host:
    """The smallest campaign with leases."""

    epsilon, look_first, due, run_client = 0.0, True, True, "me"

    def __init__(self):
        self.told, self.leases, self.queries = {}, {}, []

    @property
    def open_queries(self):
        return [query for query in self.queries if query.id in self.leases]

    def ask(self, n, *, client):
        mine = [query for query in self.open_queries if self.leases[query.id].client == client]
        while len(mine) < n:
            mine.append(QueryFactory(PROBLEM).of_choice(len(self.queries), len(self.queries) % 3))
            self.queries.append(mine[-1])
            self.leases[mine[-1].id] = Lease(client)
        return mine[:n]

    def tell(self, query, y, *, confirm):
        self.tell_many([(query, y)], confirm=confirm)

    def tell_many(self, results, *, confirm):
        assert confirm
        for query, y in results:
            assert self.told.setdefault(query.id, y) == y
            self.leases.pop(query.id, None)

    def abandon(self, number):
        del self.leases[number]

    def look(self):
        return Verdict(False)

    def start_run(self, has_budget):
        return None

    def finish_run(self, reason, made, by_cost):
        return reason

    def end_run(self):
        pass


def interrupted(batch_size, *moments, client=None):
    """What is left after SIGINTs at these lines: faults, and the tracer.

    `measure` is written in C, so that an interrupt comes before or after it: what was taken from it has been returned.
    """
    values = [float(i) for i in range(40)]
    source = values if batch_size == 1 else [values[i : i + batch_size] for i in range(0, 40, batch_size)]
    supply, host, tracer, untold = iter(source), Host(), Interrupter({run.__file__}, *moments), []
    try:
        with tracer:
            Run(host, partial(next, supply), client, 2 * batch_size, None, False, batch_size, None).run()
    except KeyboardInterrupt as error:
        untold = [y for _, y in getattr(error, "untold", [])]
    taken = values[: (len(source) - supply.__length_hint__()) * batch_size]
    faults = {
        f"{taken} returned, {host.told} told, {untold} with the exception": sorted([*host.told.values(), *untold])
        != taken,
        f"{host.leases} are waited for": client is None and bool(host.leases),
    }
    return [fault for fault, true in faults.items() if true], tracer


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_ctrl_c_at_any_line_loses_nothing(batch_size):
    faults, tracer = interrupted(batch_size)
    assert (faults, tracer.lines > 100) == ([], True)
    for line in range(tracer.lines):
        faults, now = interrupted(batch_size, line)
        assert (faults, now.sent) == ([], 1), f"at line event {line}"


def test_nor_does_a_second_one_while_the_first_is_handled():
    twice = 0
    for first in range(0, interrupted(2)[1].lines, 7):
        for pause in (1, 3, 10, 30):
            faults, tracer = interrupted(2, first, first + pause, client="ann")
            twice += tracer.sent == 2
            assert faults == [], f"at line events {first} and {pause} later"
    assert twice > 20


def test_without_the_rescue_a_ctrl_c_loses_something(monkeypatch):
    monkeypatch.setattr(Batch, "rescue", lambda self: None)
    monkeypatch.setattr(Run, "_explain", lambda self, error: None)
    assert any(interrupted(2, line)[0] for line in range(interrupted(2)[1].lines))
