"""Spoilt state files: a typed error, or a part of the original that says what it left out. Never anything else."""

import json
import random
from zlib import crc32

import pytest
from cases import filled

from combopeps import Campaign, ComboPepsError, StateFileError
from combopeps.campaign import examine, salvage

SPOILT = 400


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The bytes of a sound file, and what was learnt after each of its lines."""
    path = tmp_path_factory.mktemp("original") / "file"
    filled(path, tells=3)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    states = {}
    for n in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:n]))
        states[n] = fingerprint(Campaign.open(path))
    return whole, states


def fingerprint(campaign):
    campaign.open_queries  # noqa: B018
    state = campaign._state
    return (
        state.policy.belief.theta_hat.tobytes(),
        state.policy.pulls.tobytes(),
        tuple(state.ledger.open.values()),
        state.ledger.next_id,
    )


def flip(data, rng):
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data))
        data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    return data


def cut(data, rng):
    return data[: rng.randrange(len(data))]


def without(data, rng):
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 200) :]


def twice(data, rng):
    start = rng.randrange(len(data))
    end = start + rng.randint(1, 200)
    return data[:end] + data[start:end] + data[end:]


def garbage(data, rng):
    start = rng.randrange(len(data))
    return data[:start] + rng.randbytes(rng.randint(1, 50)) + data[start:]


def digit(data, rng):
    places = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
    at = rng.choice(places)
    return data[:at] + str(rng.randrange(10)).encode() + data[at + 1 :]


def encoded(data, rng):
    return data.decode().encode(rng.choice(["utf-16", "utf-16-le", "utf-32", "cp037", "utf-8-sig", "utf-7"]))


def shuffled(data, rng):
    lines = data.splitlines(keepends=True)
    i, j = rng.sample(range(len(lines)), 2)
    lines[i], lines[j] = lines[j], lines[i]
    return b"".join(lines)


def line_ends(data, rng):
    return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b" \n", b"\0"]))


def zeroed(data, rng):
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.randint(1, 4096))
    return data[:start] + bytes(end - start) + data[end:]


KINDS = [flip, cut, without, twice, garbage, digit, encoded, shuffled, line_ends, zeroed]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_spoilt_bytes(tmp_path, original, kind):
    """What loads is the state after some line of the original; a line that is left out was the last, and is named."""
    whole, states = original
    rng, loaded, saved = random.Random(kind.__name__), 0, 0
    for i in range(SPOILT // len(KINDS)):
        spoilt = kind(whole, rng)
        path = tmp_path / str(i)
        path.write_bytes(spoilt)
        try:
            campaign = Campaign.open(path)
        except ComboPepsError:
            if spoilt == whole:
                raise
        else:
            loaded += 1
            seen = fingerprint(campaign)
            assert path.read_bytes() == spoilt  # reading changes nothing
            campaign.tell_many([])  # the first one that writes mends
            kept = path.read_bytes()
            lines = kept.count(b"\n")
            assert whole.startswith(kept)
            assert seen == fingerprint(campaign) == states[lines]
            assert bool(campaign.status().recovered) == (spoilt not in (kept, kept[:-1]))
        path.write_bytes(spoilt)
        try:
            examine(path)
            salvage(path, tmp_path / f"{i}.copy")
        except ComboPepsError:
            continue
        Campaign.open(tmp_path / f"{i}.copy")
        saved += 1
    assert loaded < SPOILT // len(KINDS)
    assert saved > 0


WRONG = ["null", "true", "-1", "1.5", "1e400", "1e308", "9" * 400, "9" * 5000, '"x"', '"\\ud800"', "[]", "{}", "[[0]]",
         "NaN", "-Infinity", "[" * 100_000 + "]" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000]  # fmt: skip
FINE = {("y", "-1"), ("y", "1.5")}


def rebuilt(bodies):
    """A file of these bodies with right checksums."""
    out, chain = b"", 0
    for body in bodies:
        chain = crc32(body, chain)
        out += body[:-1] + b',"sum":"%08x%08x"}\n' % (crc32(body), chain)
    return out


def fields(records):
    """(line, path) of every field worth spoiling."""
    seen = set()
    for number, record in enumerate(records):
        for key, value in record.items():
            if (record["kind"], key) not in seen:
                seen.add((record["kind"], key))
                yield number, (key,)
                if key == "queries":
                    yield from ((number, (key, 0, part)) for part in value[0])
                if key == "problem":
                    yield from ((number, (key, part)) for part in ("schema", "version", "name", "oracle", "noise_std"))


def bodies_with(records, number, where, text):
    bodies = [json.dumps(record, separators=(",", ":")) for record in records]
    record = json.loads(bodies[number])
    holder = record
    for part in where[:-1]:
        holder = holder[part]
    holder[where[-1]] = "@here@"
    bodies[number] = json.dumps(record, separators=(",", ":")).replace('"@here@"', text)
    return [body.encode() for body in bodies]


def test_wrong_values_under_right_checksums(tmp_path, original):
    whole, _ = original
    records = [json.loads(line) for line in whole.splitlines()]
    for record in records:
        del record["sum"]
    path, tried = tmp_path / "file", 0
    path.write_bytes(rebuilt([json.dumps(record, separators=(",", ":")).encode() for record in records]))
    assert path.read_bytes() == whole  # so that what is refused below is refused for its value
    for number, where in fields(records):
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
            path.write_bytes(rebuilt(bodies_with(records, number, where, text)))
            with pytest.raises(StateFileError) as caught:
                Campaign.open(path)
            assert caught.value.line == number + 1, (where, text[:40])
            tried += 1
    assert tried >= 200


@pytest.mark.parametrize("key", ["y", "queries", "problem"])
def test_missing_and_additional_fields(tmp_path, original, key):
    records = [json.loads(line) for line in original[0].splitlines()]
    for record in records:
        del record["sum"]
    number = next(i for i, record in enumerate(records) if key in record)
    for spoilt in ({k: v for k, v in records[number].items() if k != key}, records[number] | {"more": 1}):
        changed = [*records[:number], spoilt, *records[number + 1 :]]
        path = tmp_path / "file"
        path.write_bytes(rebuilt([json.dumps(record, separators=(",", ":")).encode() for record in changed]))
        with pytest.raises(StateFileError, match=f"line {number + 1}: "):
            Campaign.open(path)
