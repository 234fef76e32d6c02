"""What requests do to a campaign: as the library's own methods, with its words where they refuse."""

import pytest
from backends import events
from served import begun, client
from tampering import image, put
from unit_problem import unit_problem

from combopeps import Campaign, ShortestPathOracle, errors
from combopeps.campaign import check
from combopeps.campaign.store import store_at


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


def test_ask_and_tell_are_those_of_the_library(web, path, tmp_path):
    """The events are the same, but for their times."""
    twin = begun(tmp_path / "twin.db")
    for count in range(1, 5):
        asked = good(web.post("/ask", json={"n": count}))["queries"]
        expected = twin.ask(count)
        assert [
            (query["id"], query["label"], query["measured"], query["is_action"], query["components"]) for query in asked
        ] == [(query.id, query.label, [query.arm], False, [query.label]) for query in expected]
        for query in expected:
            said = good(web.post("/tell", json={"id": query.id, "value": query.arm + 0.5}))
            twin.tell(query, query.arm + 0.5)
            assert said == {"samples": twin.samples, "open": len(twin.open_queries)}
    assert events(path) == events(tmp_path / "twin.db")


def test_the_same_client_gets_its_queries_back(web, path):
    first = good(web.post("/ask", json={"client": "ann", "n": 2}))
    before = events(path)
    assert good(web.post("/ask", json={"client": "ann", "n": 2})) == first
    assert events(path) == before
    other = good(web.post("/ask", json={"client": "bob"}))["queries"]
    assert [query["id"] for query in other] == [2]
    assert other[0]["client"] == "bob"
    more = good(web.post("/ask", json={"client": "ann", "n": 3}))["queries"]
    assert [query["id"] for query in more] == [0, 1, 3]


def test_a_deadline_passes_and_the_first_result_counts(web, path, monkeypatch):
    now = [1e9]
    monkeypatch.setattr("combopeps.session.events.time.time", lambda: now[0])
    query = good(web.post("/ask", json={"client": "ann", "lease": 60}))["queries"][0]
    assert query["until"] == 1e9 + 60
    assert good(web.post("/ask", json={"client": "bob"}))["queries"][0]["id"] == 1
    now[0] += 61
    assert [q["id"] for q in good(web.post("/ask", json={"client": "bob", "n": 2}))["queries"]] == [1, 0]
    leases = {q["id"]: q["client"] for q in good(web.get("/open"))["queries"]}
    assert leases == {0: "bob", 1: "bob"}
    good(web.post("/tell", json={"id": 0, "value": 1.5}))  # ann, late
    good(web.post("/tell", json={"id": 0, "value": 1.5}))  # bob says the same
    refused(web.post("/tell", json={"id": 0, "value": 2.5}), 409, "QueryError", "was answered 1.5 before")
    assert Campaign.open(path).samples == 1


def test_the_lease_of_the_server_is_that_of_requests_without_one(path):
    begun(path)
    with client(path, lease=30.0) as web:
        assert good(web.post("/ask", json={"client": "ann"}))["queries"][0]["until"] > 1e9
        assert good(web.post("/ask", json={}))["queries"][0]["until"] is None


def test_observations_with_a_key_count_once(web, path):
    body = {"label": "a", "value": 1.5, "sem": 0.25, "key": "one"}
    assert [good(web.post("/observe", json=body))["samples"] for _ in range(3)] == [1, 1, 1]
    refused(web.post("/observe", json=body | {"value": 2.5}), 409, "QueryError", "was used for another observation")
    assert good(web.post("/observe", json={"label": "a", "value": 1.5}))["samples"] == 2
    assert good(web.post("/observe", json={"label": "a", "value": 1.5, "count": 3}))["samples"] == 5
    rows = [{"label": "b", "value": 2.0}, {"label": "c", "value": 1.0, "count": 2}]
    said = good(web.post("/observe", json={"rows": rows, "key": "table"}))
    assert said == {"samples": 8, "open": 0, "rows": 2, "taken": 2, "left_out": []}
    assert good(web.post("/observe", json={"rows": rows, "key": "table"}))["samples"] == 8
    assert check(path).faults == []


def test_results_of_many_queries_are_taken_all_or_none(web, path):
    good(web.post("/ask", json={"n": 3}))
    bad = [{"id": 0, "value": 1.0}, {"id": 7, "value": 1.0}]
    refused(web.post("/tell", json={"results": bad}), 404, "QueryError", "query 7 was never asked")
    assert Campaign.open(path).samples == 0
    assert good(web.post("/tell", json={"results": [{"id": i, "value": 1.0 + i} for i in range(3)]}))["samples"] == 3


def test_abandoning_twice_is_harmless(web, path):
    good(web.post("/ask", json={"n": 2}))
    assert good(web.post("/abandon", json={"id": 0})) == {"samples": 0, "open": 1}
    assert good(web.post("/abandon", json={"id": 0})) == {"samples": 0, "open": 1}
    good(web.post("/tell", json={"id": 1, "value": 1.0}))
    refused(web.post("/abandon", json={"id": 1}), 409, "QueryError", "is not open")
    refused(web.post("/tell", json={"id": 0, "value": 1.0}), 409, "QueryError", "was abandoned")
    refused(web.post("/abandon", json={"id": 9}), 404, "QueryError", "was never asked")


def test_the_header_of_the_campaign(web, path):
    assert good(web.get("/problem")) == store_at(path).read().events[0][1]


def test_actions_are_told_part_by_part(path):
    import networkx as nx

    roads = [("home", "bridge"), ("home", "tunnel"), ("bridge", "work"), ("tunnel", "work")]
    Campaign.create(path, unit_problem(ShortestPathOracle(nx.DiGraph(roads), "home", "work"), actions="answers"))
    with client(path) as web:
        for value in ([1.5, None], [1.5, [2.5, 0.5]], "by label"):
            query = good(web.post("/ask", json={}))["queries"][0]
            assert (len(query["components"]), len(query["measured"]), query["is_action"]) == (2, 2, True)
            if value == "by label":
                value = {" - ".join(query["components"][1]): 2.0}
            good(web.post("/tell", json={"id": query["id"], "values": value}))
            good(web.post("/tell", json={"id": query["id"], "values": value}))
        assert good(web.get("/open")) == {"samples": 4, "actions": 3, "queries": []}
        id = good(web.post("/ask", json={}))["queries"][0]["id"]
        refused(web.post("/tell", json={"id": id, "values": [1.0]}), 422, "RewardError", "has 2 parts")
        refused(web.post("/tell", json={"id": id, "values": {"x": 1.0}}), 404, "LabelError", "not the label")
        refused(web.post("/tell", json={"id": id, "value": 1.0}), 422, "RewardError", "action with 2 parts")


def test_results_are_corrected_and_retracted(web, path, tmp_path):
    twin = begun(tmp_path / "twin.db")
    for label, value in (("a", 1.0), ("b", 2.0), ("c", 3.0)):
        good(web.post("/observe", json={"label": label, "value": value, "key": label}))
        twin.observe(label, value, key=label)
    rows = good(web.get("/measurements"))["measurements"]
    assert rows == [
        [2, None, "a", 1.0, None, 1, False],
        [3, None, "b", 2.0, None, 1, False],
        [4, None, "c", 3.0, None, 1, False],
    ]
    assert good(web.post("/correct", json={"event": 2, "value": 1.5, "sem": 0.25})) == {"samples": 3, "open": 0}
    assert good(web.post("/retract", json={"event": 3})) == {"samples": 2, "open": 0}
    twin.correct(2, 1.5, 0.25)
    twin.retract(3)
    assert events(path) == events(tmp_path / "twin.db")
    rows = good(web.get("/measurements"))["measurements"]
    assert [row[3:] for row in rows[:2]] == [[1.5, 0.25, 1, False], [2.0, None, 1, True]]
    status = good(web.get("/status"))
    assert (status["corrections"], status["samples"]) == (2, 2)
    refused(web.post("/retract", json={"event": 3}), 409, "QueryError", "was retracted")
    refused(web.post("/correct", json={"event": 3, "value": 1.0}), 409, "QueryError", "was retracted")
    refused(web.post("/correct", json={"event": 1, "value": 1.0}), 409, "QueryError", "recorded no result")
    refused(web.post("/retract", json={"event": 77}), 409, "QueryError", "recorded no result")
    refused(web.post("/correct", json={"event": 2, "values": [1.0, 2.0]}), 422, "RewardError", "must be one number")
    assert check(path).faults == []
    assert Campaign.open(path).status().corrections == 2


def test_implausible_values_must_be_confirmed(web, path):
    for count in range(10):
        good(web.post("/observe", json={"label": "abcde"[count % 5], "value": 20.0 + count % 5}))
    (query,) = good(web.post("/ask", json={}))["queries"]
    before = events(path)
    bodies = {
        "/tell": {"id": query["id"], "value": 2350.0},
        "/observe": {"label": "a", "value": 2350.0},
        "/correct": {"event": 2, "value": 2350.0},
    }
    several = {"/tell": {"results": [bodies["/tell"]]}, "/observe": {"rows": [bodies["/observe"]], "key": "table"}}
    for address, body in [*bodies.items(), *several.items()]:
        for given in (body, body | {"confirm": False}):
            refused(web.post(address, json=given), 422, "ImplausibleValueError", "2350 is implausible for")
    assert events(path) == before
    for count, (address, body) in enumerate(bodies.items()):
        assert good(web.post(address, json=body | {"confirm": True}))["samples"] == min(11 + count, 12)
    assert [one.y for one in Campaign.open(path).measurements()].count(2350.0) == 3


BAD = [
    ("/tell", b'{"id": 0, "value": NaN}', 422, "NaN is no number"),
    ("/tell", b'{"id": 0, "value": Infinity}', 422, "Infinity is no number"),
    ("/tell", b'{"id": 0, "value": 1e400}', 422, "value"),
    ("/tell", b'{"id": 0, "value": 1' + b"0" * 400 + b"}", 422, "value"),
    ("/tell", b'{"id": 0, "value": 1' + b"0" * 5000 + b"}", 422, "no JSON"),
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
    ("/tell", b'{"id":' * 5_000, 422, "no JSON"),
    ("/tell", b"\xff\xfe", 422, "no JSON"),
    ("/tell", b"", 422, "no JSON"),
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
    ("/observe", b'{"label": {"a": 1}, "value": 1}', 422, "no object"),
    ("/observe", b'{"label": [[[[["a"]]]]], "value": 1}', 422, "too many parts"),
    ("/observe", b'{"label": "' + b"a" * 1001 + b'", "value": 1}', 422, "at most 1000 characters"),
    ("/observe", b'{"label": ["a", {}], "value": 1}', 422, "no object"),
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
    ("/correct", b'{"event": 2, "value": NaN}', 422, "NaN is no number"),
    ("/correct", b'{"event": 2}', 422, "a result is a value"),
    ("/retract", b"{}", 422, "event"),
    ("/retract", b'{"event": 2, "value": 1}', 422, "value"),
    ("/retract", b'{"event": 9007199254740992}', 422, "event"),
    ("/login", b"{}", 422, "token"),
]


def test_what_makes_no_sense_is_refused_in_the_librarys_words(path):
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


def test_a_store_that_others_hold_is_a_matter_of_time(path):
    begun(path).ask()
    from functools import partial

    with client(path, opened=partial(Campaign.open, path, timeout=0.05)) as web, Campaign.open(path).store.locked():
        for address, body in (
            ("/tell", {"id": 0, "value": 1.0}),
            ("/ask", {}),
            ("/observe", {"label": "a", "value": 1}),
        ):
            answer = web.post(address, json=body)
            refused(answer, 503, "LockError", "has been in use by")
            assert answer.headers["retry-after"] == "1"
    assert Campaign.open(path).samples == 0


def test_a_store_that_is_gone_comes_back(path):
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
        web.worker._end()
        found.append(web.get("/status"))  # a new process does not take it for ours either
        for answer in found:
            assert answer.status_code == 503
            assert "another campaign took the place of" in answer.json()["error"]
        assert events(path) == before
        put(path, original)  # an older copy of the same one is read anew
        assert web.post("/tell", json={"id": 0, "value": 1.0}).status_code == 200
        assert web.get("/status").json()["samples"] == 1
