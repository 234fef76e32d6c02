"""One commit for all that waits, and an answer for each."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from backends import events
from served import begun, client

from combopeps import Campaign, QueryError
from combopeps.campaign.sqlite import SQLiteStore
from combopeps.campaign.together import Seen, Told, take


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.db"


def test_results_that_wait_share_one_commit(path, monkeypatch):
    """Thirty at once, while one commit is held up: they are on the disk after one more."""
    begun(path).ask(32)
    held, go, commits, commit = Event(), Event(), [], SQLiteStore._commit

    def slow(store, connection):
        commit(store, connection)
        commits.append([event["kind"] for event in events(path)].count("tell"))
        if len(commits) == 1:
            held.set()
            assert go.wait(30)

    with client(path) as web, ThreadPoolExecutor(31) as pool:
        monkeypatch.setattr(SQLiteStore, "_commit", slow)
        first = pool.submit(web.post, "/tell", json={"id": 0, "value": 1.0})
        assert held.wait(30)
        others = [pool.submit(web.post, "/tell", json={"id": i, "value": 1.0}) for i in range(1, 30)]
        bad = pool.submit(web.post, "/tell", json={"id": 77, "value": 1.0})
        while web.service.writer._jobs.qsize() < 30:
            assert not any(future.done() for future in [first, *others])  # nobody hears of it before it is safe
        go.set()
        assert first.result().status_code == 200
        assert {future.result().status_code for future in others} == {200}
        assert bad.result().status_code == 404
    assert commits == [1, 30]
    assert Campaign.open(path).samples == 30


def test_who_only_reads_does_not_wait_for_a_store_that_others_hold(path):
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


def test_each_gets_its_own_answer(path):
    campaign = begun(path)
    queries = campaign.ask(3)
    taken = take(
        campaign,
        [
            Told([(0, 1.0)]),
            Told([(0, 2.0)]),  # another one said otherwise, just before
            Told([(0, 1.0)]),
            Told([(1, 1.0), (9, 1.0)]),
            Told([(queries[1], 1.5, 0.25)]),
            Seen("a", 1.0, key="k"),
            Seen("a", 1.0, key="k"),
            Seen("a", 2.0, key="k"),
            Seen("z", 2.0),
            Seen("b", 2.0, count=2),
            Told([(2, float("nan"))]),
        ],
    )
    names = [type(error).__name__ for error in taken.refused]
    good, query = "NoneType", "QueryError"
    assert names == [good, query, good, query, good, good, good, query, "LabelError", good, "RewardError"]
    assert (taken.samples, taken.waiting) == (5, 1)
    again = Campaign.open(path)
    assert (again.samples, [query.id for query in again.open_queries]) == (5, [2])


def test_a_batch_is_what_the_same_would_be_one_by_one(path, tmp_path):
    campaign, twin = begun(path), begun(tmp_path / "twin.db")
    for each in (campaign, twin):
        each.ask(2)
    take(campaign, [Told([(0, 1.0)]), Seen("c", 1.25), Told([(1, 2.0)])])
    twin.tell(0, 1.0)
    twin.observe("c", 1.25)
    twin.tell(1, 2.0)
    assert campaign.ask(3) == twin.ask(3)
    assert campaign.belief.theta_hat.tolist() == twin.belief.theta_hat.tolist()


def test_nothing_is_written_where_everything_is_refused(path, monkeypatch):
    campaign = begun(path)
    before = events(path)
    appended = []
    monkeypatch.setattr(SQLiteStore, "append", lambda *_: appended.append(1))
    assert isinstance(take(campaign, [Told([(5, 1.0)])]).refused[0], QueryError)
    assert (events(path), appended) == (before, [])
