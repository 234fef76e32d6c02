"""Spoilt databases: a typed error that names the event, or the original. Never anything else."""

import json
import random
import shutil
import sqlite3
from contextlib import closing

import pytest
from cases import filled, state_of

import combopeps
from combopeps import Campaign, ComboPepsError
from combopeps.campaign import campaign as campaign_module
from combopeps.campaign import check, checkpoint
from combopeps.campaign.checkpoint import pack
from combopeps.campaign.store import SQLStore, _checksum, store_at
from combopeps.errors import StateFileError

FILES = 150


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A sound database without a log beside it, and its events."""
    path = tmp_path_factory.mktemp("original") / "file.db"
    campaign = filled(path, tells=3)
    stored = [event for _, event in campaign.store.read().events]
    campaign.store.close()
    return path, stored


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
def test_spoilt_bytes(tmp_path, original, kind):
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
FINE = {("y", "-1"), ("y", "1.5")}


def rebuilt(original, path, texts):
    """The database with these events, and right checksums."""
    shutil.copy(original, path)
    checksum = ""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for number, text in enumerate(texts, start=1):
            checksum = _checksum(checksum, text.encode("utf-8", "surrogatepass"))
            connection.execute(
                "UPDATE combopeps_events SET event = ?, checksum = ? WHERE number = ?", (text, checksum, number)
            )


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


def test_wrong_values_under_right_checksums(tmp_path, original):
    place, events = original
    path, tried = tmp_path / "file", 0
    rebuilt(place, path, [json.dumps(event, separators=(",", ":")) for event in events])
    Campaign.open(path)  # so that what is refused below is refused for its value
    for number, where in fields(events):
        for text in WRONG:
            if (
                (where[-1], text) in FINE
                or (where, text) == (("versions",), "{}")
                or (where, text) == (("problem", "name"), '"x"')
            ):
                continue
            if (where[-1] == "noise_std" and text == "null") or (where == ("problem", "noise_std") and text == "1.5"):
                continue  # another problem, but a possible one
            if where == ("problem", "name") and text == '"\\ud800"':
                continue
            rebuilt(place, path, texts_with(events, number, where, text))
            with pytest.raises(StateFileError) as caught:
                Campaign.open(path)
            assert caught.value.line == number + 1, (where, text[:40])
            tried += 1
    assert tried >= 200


@pytest.mark.parametrize("key", ["y", "queries", "problem"])
def test_missing_and_additional_fields(tmp_path, original, key):
    events = original[1]
    number = next(i for i, event in enumerate(events) if key in event)
    for i, spoilt in enumerate(({k: v for k, v in events[number].items() if k != key}, events[number] | {"more": 1})):
        store = store_at(tmp_path / f"{i}.db")
        store.create([*events[:number], spoilt, *events[number + 1 :]])
        with pytest.raises(StateFileError, match=f"event {number + 1}: "):
            Campaign.open(store)


def test_a_checkpoint_of_any_bytes_changes_nothing(tmp_path, original, monkeypatch):
    """Whatever a checkpoint holds, the campaign is that of its events."""
    monkeypatch.setattr(campaign_module, "_CHECKPOINT_EVERY", 2)
    path = tmp_path / "file.db"
    campaign = filled(path, tells=3)
    saved, rng = campaign.store.checkpoint(), random.Random(0)
    assert saved is not None
    with monkeypatch.context() as patch:
        patch.setattr(campaign_module, "_CHECKPOINT_EVERY", 10**9)
        for kind in (flip, cut, garbage, zeroed) * 5:
            spoilt = type(saved)(saved.cursor, kind(saved.data, rng))
            campaign.store.save_checkpoint(spoilt)
            assert fingerprint(Campaign.open(path)) == fingerprint(campaign)
        for cursor in (saved.cursor._replace(number=3), saved.cursor._replace(checksum="x")):
            campaign.store.save_checkpoint(type(saved)(cursor, saved.data))
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
    monkeypatch.setattr(campaign_module, "_CHECKPOINT_EVERY", 2)
    campaign = filled(tmp_path / "x.db", tells=30)
    read, fetched = SQLStore._fetch, []

    def watched(self, *arguments):
        rows = read(self, *arguments)
        fetched.append(len(rows))
        return rows

    monkeypatch.setattr(SQLStore, "_fetch", watched)
    again = Campaign.open(tmp_path / "x.db")
    assert sum(fetched) <= 10
    assert fingerprint(again) == fingerprint(campaign)
    fetched.clear()
    monkeypatch.setattr(checkpoint, "_made_by", lambda: {"code": "other"})
    assert fingerprint(Campaign.open(tmp_path / "x.db")) == fingerprint(campaign)
    assert sum(fetched) > 30
