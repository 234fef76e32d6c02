"""What requests do to a campaign, one by one and in group commits, and how they are refused."""

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import pytest
from backends import events
from memory_store import MemoryStore
from served import begun, client, status_process
from tampering import image, put

from combopeps import Campaign, errors
from combopeps.campaign import check


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.db"


@pytest.fixture
def web(path):
    begun(path)
    with client(path) as made:
        yield made


def good(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer, status, kind, words):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    said = answer.json()
    assert said.keys() == {"error", "type"}
    assert said["type"] == kind
    assert issubclass(getattr(errors, kind), errors.ComboPepsError)
    assert words in said["error"]


def test_repetitions_are_harmless_and_contradictions_are_conflicts(web, path):
    good(web.post("/ask", json={"n": 3}))
    observed, rows = {"label": "a", "value": 1.5, "sem": 0.25, "key": "one"}, [{"label": "b", "value": 2.0, "count": 2}]
    for _ in range(2):
        assert good(web.post("/abandon", json={"id": 0})) == {"samples": 0, "open": 2}
    for _ in range(2):
        assert good(web.post("/tell", json={"id": 1, "value": 1.5})) == {"samples": 1, "open": 1}
    for _ in range(2):
        assert good(web.post("/observe", json=observed)) == {"samples": 2, "open": 1}
    for _ in range(2):
        said = good(web.post("/observe", json={"rows": rows, "key": "table"}))
        assert said == {"samples": 4, "open": 1, "rows": 1, "taken": 1, "left_out": []}
    table = good(web.get("/measurements"))["measurements"]
    assert table[1:] == [[5, None, "a", 1.5, 0.25, 1, False], [6, None, "b", 2.0, None, 2, False]]
    assert good(web.post("/correct", json={"event": 5, "value": 2.5, "sem": 0.5})) == {"samples": 4, "open": 1}
    assert good(web.post("/retract", json={"event": 6})) == {"samples": 2, "open": 1}
    assert good(web.get("/measurements"))["measurements"][1:] == [
        [5, None, "a", 2.5, 0.5, 1, False], [6, None, "b", 2.0, None, 2, True],
    ]  # fmt: skip
    before = events(path)
    for address, body, status, words in (
        ("/tell", {"id": 1, "value": 2.5}, 409, "was answered 1.5 before"),
        ("/tell", {"id": 0, "value": 1.0}, 409, "was abandoned"),
        ("/tell", {"results": [{"id": 2, "value": 1.0}, {"id": 7, "value": 1.0}]}, 404, "query 7 was never asked"),
        ("/abandon", {"id": 1}, 409, "is not open"),
        ("/abandon", {"id": 9}, 404, "was never asked"),
        ("/observe", observed | {"value": 2.5}, 409, "was used for another observation"),
        ("/correct", {"event": 6, "value": 1.0}, 409, "was retracted"),
        ("/correct", {"event": 1, "value": 1.0}, 409, "recorded no result"),
        ("/retract", {"event": 77}, 409, "recorded no result"),
    ):
        refused(web.post(address, json=body), status, "QueryError", words)
    refused(web.post("/correct", json={"event": 5, "values": [1.0, 2.0]}), 422, "RewardError", "must be one number")
    assert events(path) == before
    assert check(path).faults == []


def test_implausible_values_are_taken_where_they_are_confirmed(web, path):
    for count in range(10):
        good(web.post("/observe", json={"label": "abcde"[count % 5], "value": 20.0 + count % 5}))
    (query,) = good(web.post("/ask", json={}))["queries"]
    result, seen = {"id": query["id"], "value": 2350.0}, {"label": "a", "value": 2350.0}
    before = events(path)
    for address, body in (
        ("/tell", result), ("/observe", seen), ("/correct", {"event": 2, "value": 2350.0}),
        ("/tell", {"results": [result]}), ("/observe", {"rows": [seen], "key": "table"}),
    ):  # fmt: skip
        for given in (body, body | {"confirm": False}):
            refused(web.post(address, json=given), 422, "ImplausibleValueError", "2350 is implausible for")
    assert events(path) == before
    assert good(web.post("/tell", json=result | {"confirm": True}))["samples"] == 11
    assert good(web.post("/observe", json=seen | {"confirm": True}))["samples"] == 12
    assert good(web.post("/correct", json={"event": 2, "value": 2350.0, "confirm": True}))["samples"] == 12


BAD = [
    ("/tell", b'{"id": 0, "value": NaN}', 422, "NaN is not a number"),
    ("/tell", b'{"id": 0, "value": Infinity}', 422, "Infinity is not a number"),
    ("/tell", b'{"id": 0, "value": 1e400}', 422, "value"),
    ("/tell", b'{"id": 0, "value": 1' + b"0" * 400 + b"}", 422, "value"),
    ("/tell", b'{"id": 0, "value": 1' + b"0" * 5000 + b"}", 422, "not JSON"),
    ("/tell", b'{"id": 0, "value": 1e300}', 422, "at most 1e+100"),
    ("/tell", b'{"id": 0, "value": "1.5"}', 422, "value"),
    ("/tell", b'{"id": 0, "value": true}', 422, "value"),
    ("/tell", b'{"id": 0, "value": null}', 422, "a result is a value"),
    ("/tell", b'{"id": 0, "value": [1]}', 422, "value"),
    ("/tell", b'{"id": 0, "value": 1, "value": 2}', 422, "twice"),
    ("/tell", b'{"id": 0, "value": 1, "sem": -1}', 422, "sem"),
    ("/tell", b'{"id": 0, "value": 1, "sem": 0}', 422, "sem"),
    ("/tell", b'{"id": 0, "value": 1, "values": [1]}', 422, "a result is a value"),
    ("/tell", b'{"id": 0, "value": 1, "more": 2}', 422, "more"),
    ("/tell", b'{"id": 0, "values": [1, 2]}', 422, "must be one number"),
    ("/tell", b'{"id": 0, "values": {"a": 1}}', 422, "must be one number"),
    ("/tell", b'{"value": 1}', 422, "give id and value"),
    ("/tell", b'{"id": -1, "value": 1}', 422, "id"),
    ("/tell", b'{"id": "0", "value": 1}', 422, "id"),
    ("/tell", b'{"id": 0.5, "value": 1}', 422, "id"),
    ("/tell", b'{"id": true, "value": 1}', 422, "id"),
    ("/tell", b'{"id": 99999999999999999999999, "value": 1}', 422, "id"),
    ("/tell", b'{"id": 12345, "value": 1}', 404, "query 12345 was never asked"),
    ("/tell", b'{"results": [{"id": 0, "value": 1}, {"id": 0, "value": 2}]}', 409, "twice"),
    ("/tell", b'{"results": [], "id": 0, "value": 1}', 422, "either one result, or results"),
    ("/tell", b"[" * 200_000, 422, "nested too deeply"),
    ("/tell", b'{"id":' * 5_000, 422, "not JSON"),
    ("/tell", b"\xff\xfe", 422, "not JSON"),
    ("/tell", b"", 422, "not JSON"),
    ("/tell", b"null", 422, "body"),
    ("/tell", b"[]", 422, "body"),
    ("/tell", b'"text"', 422, "body"),
    ("/ask", b'{"n": 0}', 422, "n"),
    ("/ask", b'{"n": -1}', 422, "n"),
    ("/ask", b'{"n": 101}', 422, "n"),
    ("/ask", b'{"n": 1.0}', 422, "n"),
    ("/ask", b'{"client": ""}', 422, "client"),
    ("/ask", b'{"client": "' + b"a" * 65 + b'"}', 422, "client"),
    ("/ask", b'{"client": "a\\u0000b"}', 422, "can be printed"),
    ("/ask", b'{"client": "\\ud800"}', 422, "client"),
    ("/ask", b'{"client": 7}', 422, "client"),
    ("/ask", b'{"client": "ann", "lease": 0}', 422, "lease"),
    ("/ask", b'{"client": "ann", "lease": 1e308}', 422, "lease"),
    ("/ask", b'{"lease": 5}', 422, "lease requires client"),
    ("/observe", b'{"label": "a"}', 422, "give label and value"),
    ("/observe", b'{"value": 1}', 422, "give label and value"),
    ("/observe", b'{"label": "z", "value": 1}', 404, "'z' is not the label"),
    ("/observe", b'{"label": null, "value": 1}', 404, "not the label"),
    ("/observe", b'{"label": {"a": 1}, "value": 1}', 422, "not an object"),
    ("/observe", b'{"label": [[[[["a"]]]]], "value": 1}', 422, "too many parts"),
    ("/observe", b'{"label": "' + b"a" * 1001 + b'", "value": 1}', 422, "at most 1000 characters"),
    ("/observe", b'{"label": ["a", {}], "value": 1}', 422, "not an object"),
    ("/observe", b'{"label": "\\ud800", "value": 1}', 404, "not the label"),
    ("/observe", b'{"label": 1e400, "value": 1}', 422, "finite"),
    ("/observe", b'{"label": "a", "value": 1, "count": 0}', 422, "count"),
    ("/observe", b'{"label": "a", "value": 1, "count": 9007199254740991}', 422, "count"),
    ("/observe", b'{"label": "a", "value": 1, "key": ""}', 422, "key"),
    ("/observe", b'{"rows": [{"label": "a", "value": 1}], "value": 1}', 422, "either one measurement, or rows"),
    ("/observe", b'{"rows": [{"label": "z", "value": 1}]}', 404, "not the label"),
    ("/observe", b'{"rows": [{"label": "a", "value": 1e200}]}', 422, "at most 1e+100"),
    ("/abandon", b"{}", 422, "id"),
    ("/abandon", b'{"id": -5}', 422, "id"),
    ("/correct", b'{"value": 1}', 422, "event"),
    ("/correct", b'{"event": 0, "value": 1}', 422, "event"),
    ("/correct", b'{"event": "2", "value": 1}', 422, "event"),
    ("/correct", b'{"event": 2, "value": NaN}', 422, "NaN is not a number"),
    ("/correct", b'{"event": 2}', 422, "a result is a value"),
    ("/retract", b"{}", 422, "event"),
    ("/retract", b'{"event": 2, "value": 1}', 422, "value"),
    ("/retract", b'{"event": 9007199254740992}', 422, "event"),
    ("/login", b"{}", 422, "token"),
]


def test_bodies_that_make_no_sense_are_refused_and_nothing_is_recorded(path):
    begun(path).ask()
    before = events(path)
    with client(path) as web:
        for address, body, status, words in BAD:
            answer = web.post(address, content=body, headers={"content-type": "application/json"})
            kind = answer.json()["type"]
            refused(answer, status, kind, words)
            assert kind in ("ParameterError", "RewardError", "QueryError", "LabelError", "FileFormatError")
    assert events(path) == before


def test_other_addresses_and_methods(web):
    refused(web.get("/nowhere"), 404, "ParameterError", "nothing at this address")
    refused(web.get("/tell"), 405, "ParameterError", "not for that method")
    refused(web.delete("/status"), 405, "ParameterError", "not for that method")
    refused(web.post("/tell", data={"id": 0}), 415, "ParameterError", "must be JSON")
    refused(web.post("/tell", content=b"{}"), 415, "ParameterError", "must be JSON")


def test_a_locked_store_is_answered_by_503_and_retry_after(path):
    begun(path).ask()
    bodies = {"/tell": {"id": 0, "value": 1.0}, "/ask": {}, "/observe": {"label": "a", "value": 1}}
    with client(path, opened=partial(Campaign.open, path, timeout=0.05)) as web, Campaign.open(path).store.locked():
        for address, body in bodies.items():
            answer = web.post(address, json=body)
            refused(answer, 503, "LockError", "has been in use by")
            assert answer.headers["retry-after"] == "1"
    assert Campaign.open(path).samples == 0


def test_a_missing_store_is_answered_by_503_until_it_is_back(path):
    begun(path).ask()
    with client(path) as web:
        path.rename(path.with_name("aside"))
        refused(web.post("/tell", json={"id": 0, "value": 1.0}), 503, "StateFileError", "cannot be opened")
        path.with_name("aside").rename(path)
        assert good(web.post("/tell", json={"id": 0, "value": 1.0}))["samples"] == 1


def test_head_is_get_without_a_body(web):
    for address in ("/", "/fragment", "/open", "/status", "/problem", "/me", "/sums", "/measurements.csv", "/docs"):
        whole, head = web.get(address), web.head(address)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]
        assert int(head.headers["content-length"]) > 0
    assert web.head("/tell").status_code == 405
    assert web.head("/nowhere").status_code == 404


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_another_campaign_in_the_place_of_this_one_is_not_served(path, tmp_path):
    begun(path).ask(2, client="ann")
    begun(tmp_path / "other.db", rng=9).ask(2)
    with client(path, pause=0.0) as web:
        assert web.get("/status").status_code == 200
        original = image(path)
        put(path, image(tmp_path / "other.db"))
        before = events(path)
        found = [web.post("/tell", json={"id": 0, "value": 1.0}), web.post("/ask", json={"client": "ann"})]
        found += [web.get("/open"), web.get("/status")]
        os.kill(status_process(), signal.SIGKILL)
        found.append(web.get("/status"))  # a new process does not take it for ours either
        for answer in found:
            assert answer.status_code == 503
            assert "another campaign took the place of" in answer.json()["error"]
        assert events(path) == before
        put(path, original)  # an older copy of the same one is read anew
        assert web.post("/tell", json={"id": 0, "value": 1.0}).status_code == 200
        assert web.get("/status").json()["samples"] == 1


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
    answers = campaign.commit_group([partial(getattr(campaign, name), *given, **named) for name, given, named in calls])
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
    assert again.measurements() == campaign.measurements()
    assert again.posterior.theta_hat.tolist() == campaign.posterior.theta_hat.tolist()


class FailingStore(MemoryStore):
    """Appends nothing while `fails`."""

    fails = False

    def append(self, events, cursor):
        if self.fails:
            raise OSError("no space left")
        return super().append(events, cursor)


def test_a_group_that_cannot_be_stored_changes_nothing():
    campaign = begun(store := FailingStore())
    campaign.ask(2)
    before, store.fails = store.read(), True
    with pytest.raises(OSError, match="no space"):
        outcomes(campaign, call("tell", 0, 1.0), call("tell", 1, 2.0))
    assert (store.read(), campaign.samples, len(campaign.open_queries)) == (before, 0, 2)
    store.fails = False
    assert outcomes(campaign, call("tell", 0, 1.0), call("tell", 5, 1.0)) == ["", "QueryError"]
    assert Campaign.open(store).samples == 1


def test_nothing_is_written_where_everything_is_refused(path):
    campaign = begun(path)
    before = events(path)
    assert outcomes(campaign, call("tell", 5, 1.0)) == ["QueryError"]
    assert events(path) == before
