"""Events that no campaign writes, spoilt databases and checkpoints: a typed error that names the event, or the original."""

import json
import random
import shutil
import sqlite3
from contextlib import closing

import pytest
from cases import filled, problems, state_of
from memory_store import MemoryStore
from unit_problem import unit_problem

import combopeps
from combopeps import Campaign, ComboPepsError, TopKOracle
from combopeps.campaign import Checkpoint, check, checkpoint
from combopeps.campaign.checkpoint import pack
from combopeps.campaign.open_store import store_at
from combopeps.campaign.sql_store import SQLStore, _checksum
from combopeps.errors import StateFileError

FILES = 150


def events_of(campaign):
    return [event for _, event in campaign.store.read().events]


def stored(events, path=None):
    store = MemoryStore() if path is None else store_at(path)
    store.create(events)
    return store if path is None else path


def single_arms():
    """Events 1 to 8: header, queries 0 and 1 of ann, a result, three observations, two corrections of one of them."""
    campaign = Campaign.create(MemoryStore(), problems()["topk"])
    campaign.ask(2, client="ann")
    campaign.tell(0, 1.0)
    campaign.observe("b", 1.0, key="k")
    campaign.observe("a", 1.0)
    campaign.observe("a", 2.0)
    campaign.correct(5, 1.5)
    campaign.retract(5)
    return events_of(campaign)


ASK = {"kind": "ask", "queries": [{"id": 2, "measured": [0], "label": "a"}]}
OBSERVE = {"kind": "observe", "arm": 0, "label": "a", "y": 1.0}
LEASE = {"kind": "lease", "ids": [1], "client": "bob"}
CORRECT = {"kind": "correct", "event": 3, "ys": [2.0]}
VALID = [
    ASK, OBSERVE, LEASE, CORRECT, ASK | {"client": "bob", "until": 5.0}, OBSERVE | {"key": "new"},
    OBSERVE | {"sem": 0.5, "count": 1}, LEASE | {"client": " ", "until": 1e12}, CORRECT | {"sems": [0.5]},
    {"kind": "retract", "event": 4},
]  # fmt: skip
INVALID = [
    *(LEASE | {"ids": ids} for ids in ([], [7], ["1"], [0], 1)),
    *(LEASE | {"client": client} for client in ("", 7)),
    *(LEASE | {"until": until} for until in ("soon", None, -1.0)),
    {"kind": "lease", "ids": [1]},
    ASK | {"client": 7},
    ASK | {"until": 5.0},  # without a client
    ASK | {"client": "bob", "until": True},
    {"kind": "ask", "queries": [ASK["queries"][0] | {"measured": [0, 1]}]},  # an action, where arms are single
    *(OBSERVE | {"key": key} for key in ("k", "", 7, None)),
    *(OBSERVE | {"sem": sem} for sem in (0, -1.0, None, "1", True)),
    *(OBSERVE | {"count": count} for count in (0, 1.5, True, None)),
    OBSERVE | {"weight": 2.0},
    {"kind": "correct", "event": 3},
    *(CORRECT | {"ys": ys} for ys in ([None], [1.0, 2.0], ["1"])),
    CORRECT | {"sems": [-1.0]},
    *(CORRECT | {"event": event} for event in (2, "3", 9, 5)),
    *({"kind": "retract", "event": event} for event in (2, None, 5)),
    {"kind": "retract", "event": 3, "ys": [1.0]},
    {"kind": "tell", "id": 77, "labels": ["a"], "ys": [0.5]},
]  # fmt: skip


@pytest.fixture(scope="module")
def written():
    return single_arms()


@pytest.mark.parametrize("event", VALID, ids=str)
def test_an_event_that_a_campaign_may_write_is_read(tmp_path, written, event):
    path = stored([*written, event], tmp_path / "run.db")
    Campaign.open(path)
    assert check(path).faults == []


@pytest.mark.parametrize("event", INVALID, ids=str)
def test_an_event_that_no_campaign_writes_is_refused_and_named(tmp_path, written, event):
    path = stored([*written, event], tmp_path / "run.db")
    with pytest.raises(StateFileError, match=r"run.db, event 9: ") as caught:
        Campaign.open(path)
    assert caught.value.line == 9
    assert [number for number, _ in check(path).faults] == [9]


@pytest.mark.parametrize(
    "changes",
    [*({"epsilon": epsilon} for epsilon in (-1.0, 1, "0.1", None, True, [0.1])),
     *({"initial_design": initial_design} for initial_design in (0, -1, 1.5, True, "1")),
     {"schema": 0}, {"policy": "best"}, {"stopping": "budget"}, {"more": 1}],
    ids=str,
)  # fmt: skip
def test_a_header_that_no_campaign_writes_is_refused(written, changes):
    with pytest.raises(StateFileError, match="event 1: "):
        Campaign.open(stored([written[0] | changes]))


def test_a_campaign_of_another_schema_is_refused_with_the_release_named(written):
    with pytest.raises(StateFileError, match="this release reads"):
        Campaign.open(stored([written[0] | {"schema": written[0]["schema"] + 1}]))


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        *((2, {"measured": arms}) for arms in ([0, 2], [1, 0], [0, 0, 1], [0, 4], [True, False], [], 3)),
        (2, {"measured": [0, 1, 2], "label": ["a", "b", "c"]}),
        (2, {"arm": 0, "label": "a"}),
        *((3, {"ys": ys}) for ys in ([1.0], None, ["1", "2"], [1.0, True])),
        *((3, {"sems": sems}) for sems in (0, [1.0], ["a", None])),
        (3, {"labels": ["a", "b", "c"], "ys": [1.0, 2.0, 3.0]}),
        (3, {"labels": [], "ys": []}),
        (3, {"labels": ["a", "x"]}),
        *((3, {"id": id}) for id in (5, None)),
        *((3, more) for more in ({"arms": [0, 1]}, {"sem": 1.0})),
        (1, {"policy": "lingape"}),
    ],
)
def test_events_of_actions_that_contradict_each_other_are_refused(number, changes):
    team = unit_problem(TopKOracle(["a", "b", "c", "d"], k=2), actions="answers")
    header = Campaign.create(MemoryStore(), team).header
    asked = {"id": 0, "measured": [0, 1], "label": ["a", "b"]}  # not what would have been chosen
    told = {"kind": "tell", "id": 0, "labels": ["a", "b"], "ys": [1.0, 2.0]}
    assert Campaign.open(stored([header, {"kind": "ask", "queries": [asked]}, told])).samples == 2
    header, asked, told = (
        event | changes if at == number else event for at, event in enumerate((header, asked, told), 1)
    )
    with pytest.raises(StateFileError, match=f"event {number}: "):
        Campaign.open(stored([header, {"kind": "ask", "queries": [asked]}, told]))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A sound database without a log beside it, and its events."""
    path = tmp_path_factory.mktemp("original") / "file.db"
    campaign = filled(path, tells=3)
    written = events_of(campaign)
    campaign.store.close()
    return path, written


def fingerprint(campaign):
    return pack(state_of(campaign))


def flip(data, rng):
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data))
        data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    return data


def cut(data, rng):
    return data[: rng.randrange(len(data))]


def garbage(data, rng):
    start = rng.randrange(len(data))
    return data[:start] + rng.randbytes(rng.randint(1, 50)) + data[start:]


def zeroed(data, rng):
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.randint(1, 4096))
    return data[:start] + bytes(end - start) + data[end:]


def digit(data, rng):
    """Inside the text of the events."""
    start = data.index(b'{"kind":"')
    places = [i for i, byte in enumerate(data[start:], start) if chr(byte).isdigit()]
    at = rng.choice(places)
    return data[:at] + str((int(chr(data[at])) + 1) % 10).encode() + data[at + 1 :]


KINDS = [flip, cut, garbage, zeroed, digit]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_spoilt_bytes_are_refused_or_without_effect(tmp_path, original, kind):
    """Bytes of the file that no event depends on may change; an event that changed is an error."""
    whole, expected = original[0].read_bytes(), fingerprint(Campaign.open(original[0]))
    rng, refused = random.Random(kind.__name__), 0
    for i in range(FILES // len(KINDS)):
        path = tmp_path / f"{i}.db"
        path.write_bytes(kind(whole, rng))
        for act in (Campaign.open, check):
            try:
                found = act(path)
            except ComboPepsError:
                refused += 1
            else:
                assert act is check or fingerprint(found) == expected
    assert refused > 0


WRONG = ["null", "true", "-1", "1.5", "1e400", "1e308", "9" * 400, "9" * 5000, '"x"', '"\\ud800"', "[]", "{}", "[[0]]",
         "NaN", "-Infinity", "[" * 100_000 + "]" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000]  # fmt: skip
FINE = {("y", "-1"), ("y", "1.5"), ("noise_std", "null")}
POSSIBLE = {  # of another problem, but a possible one
    (("versions",), "{}"), (("problem", "name"), '"x"'), (("problem", "name"), '"\\ud800"'),
    (("problem", "noise_std"), "1.5"),
}  # fmt: skip


def rebuilt(path, texts):
    """Give the database these events, and right checksums."""
    checksum = ""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # hundreds of times: not to the disk
        with connection:
            for number, text in enumerate(texts, start=1):
                checksum = _checksum(checksum, text.encode("utf-8", "surrogatepass"))
                change = "UPDATE combopeps_events SET event = ?, checksum = ? WHERE number = ?"
                assert connection.execute(change, (text, checksum, number)).rowcount == 1


def fields(events):
    """(number, path) of every field worth spoiling."""
    seen = set()
    for number, event in enumerate(events):
        for key, value in event.items():
            if (event["kind"], key) not in seen and key != "at":
                seen.add((event["kind"], key))
                yield number, (key,)
                if key == "queries":
                    yield from ((number, (key, 0, part)) for part in value[0])
                if key == "problem":
                    yield from ((number, (key, part)) for part in ("schema", "version", "name", "oracle", "noise_std"))


def texts_with(events, number, where, text):
    texts = [json.dumps(event, separators=(",", ":")) for event in events]
    event = json.loads(texts[number])
    holder = event
    for part in where[:-1]:
        holder = holder[part]
    holder[where[-1]] = "@here@"
    texts[number] = json.dumps(event, separators=(",", ":")).replace('"@here@"', text)
    return texts


def test_wrong_values_under_right_checksums_are_refused(tmp_path, original):
    place, events = original
    path, tried = shutil.copy(place, tmp_path / "file"), 0
    rebuilt(path, [json.dumps(event, separators=(",", ":")) for event in events])
    Campaign.open(path)  # so that what is refused below is refused for its value
    for number, where in fields(events):
        for text in WRONG:
            if (where[-1], text) in FINE or (where, text) in POSSIBLE:
                continue
            rebuilt(path, texts_with(events, number, where, text))
            with pytest.raises(StateFileError) as caught:
                Campaign.open(path)
            assert caught.value.line == number + 1, (where, text[:40])
            tried += 1
    assert tried >= 200


@pytest.mark.parametrize("key", ["y", "queries", "problem"])
def test_missing_and_additional_fields_are_refused(original, key):
    events = original[1]
    number = next(i for i, event in enumerate(events) if key in event)
    for spoilt in ({k: v for k, v in events[number].items() if k != key}, events[number] | {"more": 1}):
        with pytest.raises(StateFileError, match=f"event {number + 1}: "):
            Campaign.open(stored([*events[:number], spoilt, *events[number + 1 :]]))


def test_a_checkpoint_of_any_bytes_changes_nothing(tmp_path):
    """Whatever a checkpoint holds, the campaign is that of its events."""
    path, rng = tmp_path / "file.db", random.Random(0)
    campaign = filled(path, tells=3)
    campaign.save_checkpoint()
    saved = campaign.store.checkpoint()
    for kind in (flip, cut, garbage, zeroed) * 5:
        campaign.store.save_checkpoint(Checkpoint(saved.cursor, kind(saved.data, rng)))
        assert fingerprint(Campaign.open(path)) == fingerprint(campaign)
    for cursor in (saved.cursor._replace(number=3), saved.cursor._replace(checksum="x")):
        campaign.store.save_checkpoint(Checkpoint(cursor, saved.data))
        assert fingerprint(Campaign.open(path)) == fingerprint(campaign)


def test_a_checkpoint_names_a_hash_of_the_code(tmp_path, monkeypatch):
    (tmp_path / "part").mkdir()
    files = [tmp_path / "__init__.py", tmp_path / "part" / "rule.py"]
    hashes = []
    for texts in (("a = 1", "b = 2"), ("a = 1", "b = 3"), ("a = 1", "b = 2")):
        for file, text in zip(files, texts, strict=True):
            file.write_text(text)
        with monkeypatch.context() as patch:
            patch.setattr(combopeps, "__file__", str(files[0]))
            hashes.append(checkpoint._made_by.__wrapped__()["code"])
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_checkpoint_is_used_and_only_by_the_code_that_wrote_it(tmp_path, monkeypatch):
    campaign = filled(tmp_path / "x.db", tells=30)
    campaign.save_checkpoint()
    campaign.observe("a", 1.0)
    read, fetched = SQLStore._fetch_rows, []

    def watched(self, *arguments):
        rows = read(self, *arguments)
        fetched.append(len(rows))
        return rows

    monkeypatch.setattr(SQLStore, "_fetch_rows", watched)
    again = Campaign.open(tmp_path / "x.db")
    assert sum(fetched) <= 10
    assert fingerprint(again) == fingerprint(campaign)
    fetched.clear()
    monkeypatch.setattr(checkpoint, "_made_by", lambda: {"code": "other"})
    assert fingerprint(Campaign.open(tmp_path / "x.db")) == fingerprint(campaign)
    assert sum(fetched) > 30
