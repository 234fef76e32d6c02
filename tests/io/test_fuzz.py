"""Damaged files: a typed error or the same instance, never another exception or instance."""

import json
import re

import numpy as np
import pytest

from combopeps import ComboPepsError, list_instances, load_instance
from combopeps.io.bundled import bundled_folder
from combopeps.io.instance_files import to_document

NAMES = ["soare", "topk-paper", "two-nets", "town", "nsfnet", "cyclic-matching", "matching-sparse", "tree-e20", "knapsack-20", "which-model"]  # fmt: skip
CASES = 40  # of each kind, for each name


def original(name):
    return (bundled_folder() / f"{name}.json").read_bytes()


def truncated(data, rng):
    return data[: rng.integers(len(data))]


def bit_flipped(data, rng):
    broken = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        broken[rng.integers(len(broken))] ^= 1 << rng.integers(8)
    return bytes(broken)


def cut_out(data, rng):
    start = rng.integers(len(data))
    return data[:start] + data[start + rng.integers(1, 30) :]


def repeated(data, rng):
    start = rng.integers(len(data))
    stop = start + rng.integers(1, 60)
    return data[:stop] + data[start:stop] + data[stop:]


def strewn(data, rng):
    start = rng.integers(len(data))
    return data[:start] + rng.bytes(rng.integers(1, 5)) + data[start:]


def huge_number(data, rng):
    text = data.decode()
    number = rng.choice(["1e999", "-1e308", "9" * 400, "9" * 5000, "1e150", "-0.0", "NaN", "Infinity", "1" * 19])
    places = list(re.finditer(r"(?<=[ \[])-?\d+(\.\d+)?(?=[,\]\n])", text))
    place = places[rng.integers(len(places))]
    return (text[: place.start()] + str(number) + text[place.end() :]).encode()


def deeply_nested(data, rng):
    text = data.decode()
    places = [match.end() for match in re.finditer('": ', text)]
    place, depth = places[rng.integers(len(places))], int(rng.choice([3, 30, 300, 3000, 30_000]))
    opening, closing = ("[", "]") if rng.random() < 0.5 else ('{"a":', "}")
    return (text[:place] + opening * depth + "1" + closing * depth + "," + text[place:]).encode()


def encoded_otherwise(data, rng):
    encodings = ["utf-16", "utf-16-be", "utf-32", "utf-7", "cp037", "utf-8-sig", "hex"]
    encoding = encodings[rng.integers(len(encodings))]
    return data.hex().encode() if encoding == "hex" else data.decode().encode(encoding)


KINDS = [truncated, bit_flipped, cut_out, repeated, strewn, huge_number, deeply_nested, encoded_otherwise]


def outcome(path, data):
    """Return the document of the loaded instance, or the typed error; other exceptions propagate."""
    path.write_bytes(data)
    try:
        return to_document(load_instance(path))
    except ComboPepsError as error:
        return error


def test_there_are_enough_cases():
    assert len(NAMES) * len(KINDS) * CASES >= 200
    assert set(NAMES) <= set(list_instances())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", KINDS, ids=lambda kind: kind.__name__)
def test_damaged_files_are_rejected_or_equivalent(damage, name, tmp_path):
    rng = np.random.default_rng([KINDS.index(damage), NAMES.index(name)])
    data, right = original(name), to_document(load_instance(name))
    refused = 0
    for _ in range(CASES):
        broken = damage(data, rng)
        found = outcome(tmp_path / "x.json", broken)
        assert isinstance(found, ComboPepsError) or found == right, broken
        refused += isinstance(found, ComboPepsError)
    assert refused >= CASES // 2  # the damage was real


def test_flipped_bits_may_pass_without_the_checksum(tmp_path):
    """Negative control: without the checksum, a changed digit is not detected."""
    document = json.loads(original("topk-paper"))
    del document["sha256"]
    data, right = json.dumps(document).encode(), to_document(load_instance("topk-paper"))
    rng = np.random.default_rng(0)
    found = [outcome(tmp_path / "x.json", bit_flipped(data, rng)) for _ in range(100)]
    assert any(isinstance(one, dict) and one != right for one in found)


WRONG = [None, True, "x", "", {}, [], {"a": 1}, -1, 0, 1e300, 10**30, 0.5, [[[]]], [1, 2], ["s", "t"]]


def spoilt(value, rng):
    """Return a copy in which one random value is replaced by one of another type."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.85:
        copy = value.copy()
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = keys[rng.integers(len(keys))]
        copy[key] = spoilt(value[key], rng)
        return copy
    return WRONG[rng.integers(len(WRONG))]


def as_label(value):
    return tuple(map(as_label, value)) if isinstance(value, list) else value


def as_floats(value):
    """Convert integers to floats: an integer is valid wherever a number is."""
    if isinstance(value, list):
        return [as_floats(entry) for entry in value]
    return float(value) if type(value) is int else value


def same_or_default(found, said):
    """Compare an instance with its file, where null stands for a default, and edges may be in another order."""
    for key, value in said.items():
        if value is None or key in ("theta", "edges", "sha256"):
            continue
        same = same_or_default(found[key], value) if key == "oracle" else as_floats(found[key]) == as_floats(value)
        if not same:
            return False
    if "edges" in said and said["edges"] is not None:
        edges = set(map(as_label, said["edges"])) | {as_label([v, u, *key]) for u, v, *key in said["edges"]}
        return set(map(as_label, found["edges"])) <= edges
    return True


def lengths(document):
    order = document["oracle"].get("edges")
    if order is None:
        return dict(enumerate(document["theta"]))
    return dict(zip(map(as_label, order), document["theta"], strict=True))


@pytest.mark.parametrize("name", NAMES[:-1])  # rows of a program come back times powers of two
def test_wrong_types_are_rejected_or_equivalent(name, tmp_path):
    """Without a checksum: validation alone must detect wrong types."""
    rng = np.random.default_rng(NAMES.index(name))
    document = json.loads(original(name))
    del document["sha256"]
    loaded = 0
    for _ in range(150):
        said = spoilt(document, rng)
        found = outcome(tmp_path / "x.json", json.dumps(said).encode())
        if isinstance(found, ComboPepsError):
            continue
        loaded += 1
        assert same_or_default(found, said), said
        if said["theta"] is not None:
            truth = lengths(said)
            for label, value in lengths(found).items():
                assert value == float(truth[label if label in truth else (label[1], label[0], *label[2:])])
    assert loaded < 75
