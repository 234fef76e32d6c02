"""One commit for all that waits, and an answer for each."""

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import pytest
from backends import events
from memory_store import MemoryStore
from served import begun, client

from combopeps import Campaign


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.db"


class SlowStore(MemoryStore):
    """Counts the results of each commit of some, and holds up the first one."""

    def __init__(self):
        super().__init__()
        self.commits, self.held, self.go = [], Event(), Event()

    def append(self, events, cursor):
        told = [event["kind"] for event in events].count("tell")
        if told:
            self.commits.append(told)
            self.held.set()
            assert self.go.wait(30)
        return super().append(events, cursor)


def test_results_that_wait_share_one_commit():
    """Thirty at once, while one commit is held up: they are recorded after one more."""
    store = SlowStore()
    begun(store).ask(32)
    with client(None, opened=lambda: Campaign.open(store)) as web, ThreadPoolExecutor(31) as pool:
        first = pool.submit(web.post, "/tell", json={"id": 0, "value": 1.0})
        assert store.held.wait(30)
        others = [pool.submit(web.post, "/tell", json={"id": i, "value": 1.0}) for i in range(1, 30)]
        bad = pool.submit(web.post, "/tell", json={"id": 77, "value": 1.0})
        while web.writer._jobs.qsize() < 30:
            assert not any(future.done() for future in [first, *others])  # not acknowledged before it is durable
        store.go.set()
        assert {future.result().status_code for future in [first, *others]} == {200}
        assert bad.result().status_code == 404
    assert store.commits == [1, 29]
    assert Campaign.open(store).samples == 30


def test_reads_do_not_wait_for_a_store_that_is_locked(path):
    campaign = begun(path)
    campaign.ask(2)
    with client(path) as web, ThreadPoolExecutor(2) as pool:
        with campaign.store.locked():
            told = [pool.submit(web.post, "/tell", json={"id": i, "value": 1.0}) for i in range(2)]
            time.sleep(0.3)
            begun_at = time.monotonic()
            assert web.get("/open").json()["samples"] == 0
            assert web.get("/sums").json()["arms"] == []
            assert time.monotonic() - begun_at < 2.0
            assert not any(future.done() for future in told)
        assert [future.result().status_code for future in told] == [200, 200]
        assert web.get("/open").json()["samples"] == 2


def outcomes(campaign, *calls):
    """Names of the errors of operations in one commit, each given as (method, arguments)."""
    answers = campaign.apply_together(
        [partial(getattr(campaign, name), *given, **named) for name, given, named in calls]
    )
    return [type(answer).__name__ if isinstance(answer, Exception) else "" for answer in answers]


def call(name, *given, **named):
    return name, given, named


def test_each_operation_gets_its_own_answer(path):
    campaign = begun(path)
    queries = campaign.ask(3)
    found = outcomes(
        campaign,
        call("tell", 0, 1.0),
        call("tell", 0, 2.0),  # another result, just after the first
        call("tell", 0, 1.0),
        call("tell_many", [(1, 1.0), (9, 1.0)]),
        call("tell", queries[1], 1.5, 0.25),
        call("observe", "a", 1.0, key="k"),
        call("observe", "a", 1.0, key="k"),
        call("observe", "a", 2.0, key="k"),
        call("observe", "z", 2.0),
        call("observe", "b", 2.0, count=2),
        call("tell", 2, float("nan")),
    )
    query = "QueryError"
    assert found == ["", query, "", query, "", "", "", query, "LabelError", "", "RewardError"]
    again = Campaign.open(path)
    for one in (campaign, again):
        assert (one.samples, [query.id for query in one.open_queries]) == (5, [2])


def test_a_group_is_what_the_same_would_be_one_by_one(path, tmp_path):
    campaign, twin = begun(path), begun(tmp_path / "twin.db")
    for each in (campaign, twin):
        each.ask(2)
    calls = [call("tell", 0, 1.0), call("observe", "c", 1.25), call("tell", 1, 2.0)]
    assert outcomes(campaign, *calls) == [""] * 3
    for name, given, _ in calls:
        getattr(twin, name)(*given)
    assert events(path) == events(tmp_path / "twin.db")
    assert campaign.ask(3) == twin.ask(3)
    assert campaign.belief.theta_hat.tolist() == twin.belief.theta_hat.tolist()


def test_a_group_that_cannot_be_stored_changes_nothing(path, monkeypatch):
    campaign = begun(path)
    campaign.ask(2)
    before = events(path)
    with monkeypatch.context() as patch:
        patch.setattr(campaign.store, "append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            outcomes(campaign, call("tell", 0, 1.0), call("tell", 1, 2.0))
    assert (events(path), campaign.samples, len(campaign.open_queries)) == (before, 0, 2)
    assert outcomes(campaign, call("tell", 0, 1.0), call("tell", 5, 1.0)) == ["", "QueryError"]
    assert Campaign.open(path).samples == 1


def test_nothing_is_written_where_everything_is_refused(path):
    campaign = begun(path)
    before = events(path)
    assert outcomes(campaign, call("tell", 5, 1.0)) == ["QueryError"]
    assert events(path) == before
