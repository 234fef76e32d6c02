"""Errors of instance files name the path of the field."""

import copy
import json

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import TopKOracle, load_instance, save_instance
from combopeps.errors import FileFormatError, InstanceError
from combopeps.io import Instance
from combopeps.io.instance_files import from_document, to_document

TOPK = {"kind": "topk", "items": ["a", "b", "c"], "k": 1}
PATH = {"kind": "path", "edges": [["s", "x"], ["x", "t"], ["s", "t"]], "source": "s", "target": "t"}
MATCHING = {"kind": "matching", "left": ["ann", "bob"], "right": 2}
EXPLICIT = {"kind": "explicit", "Z": [[1, 0], [0, 1], [0.5, 0.6]]}
HEAD = {"schema": "combopeps/instance", "version": 1, "name": "mine"}


def document(oracle, **changes):
    return copy.deepcopy({**HEAD, "oracle": oracle, **changes})


def oracle(base, **changes):
    return document({**base, **changes})


@pytest.mark.parametrize("base", [TOPK, PATH, MATCHING, EXPLICIT], ids=lambda base: base["kind"])
def test_the_samples_are_valid(base):
    assert from_document(document(base)).theta is None


FAULTS = [
    ([], ""),
    ("text", ""),
    ({}, "schema"),
    (document(TOPK, schema="other"), "schema"),
    (document(TOPK, version=2), "version"),
    (document(TOPK, version=True), "version"),
    (document(TOPK, version="1"), "version"),
    ({key: value for key, value in document(TOPK).items() if key != "name"}, "name"),
    (document(TOPK, name=""), "name"),
    (document(TOPK, name=3), "name"),
    (document(TOPK, title=[]), "title"),
    (document(TOPK, note=1), "note"),
    (document(TOPK, tehta=[1, 2, 3]), ""),
    (document(None), "oracle"),
    (document({}), "oracle"),
    (document({"kind": "forest"}), "oracle.kind"),
    (document({"kind": ["topk"]}), "oracle.kind"),
    (oracle(TOPK, extra=1), "oracle"),
    (document({"kind": "topk", "items": 3}), "oracle.k"),
    (oracle(TOPK, items=0), "oracle.items"),
    (oracle(TOPK, items=10**12), "oracle.items"),
    (oracle(TOPK, items=2.0), "oracle.items"),
    (oracle(TOPK, items=True), "oracle.items"),
    (oracle(TOPK, items=[]), "oracle.items"),
    (oracle(TOPK, items=["a", "b", "a"]), "oracle.items[2]"),
    (oracle(TOPK, items=["a", None]), "oracle.items[1]"),
    (oracle(TOPK, items=["a", True]), "oracle.items[1]"),
    (oracle(TOPK, items=["a", {"b": 1}]), "oracle.items[1]"),
    (oracle(TOPK, items=["a", [[[[[[[[[[1]]]]]]]]]]]), "oracle.items[1]" + "[0]" * 8),
    (oracle(TOPK, k=4), "oracle"),
    (oracle(TOPK, k=0), "oracle.k"),
    (oracle(TOPK, k="1"), "oracle.k"),
    (oracle(PATH, edges=[["s", "t"], ["s"]]), "oracle.edges[1]"),
    (oracle(PATH, edges=[["s", "t"], "st"]), "oracle.edges[1]"),
    (oracle(PATH, edges=[["s", "t"], ["s", None]]), "oracle.edges[1][1]"),
    (oracle(PATH, edges=[["s", "t"], ["s", "t"]]), "oracle.edges[1]"),
    (oracle(PATH, edges=[["s", "t"], ["t", "s"]], directed=False), "oracle.edges[1]"),
    (oracle(PATH, edges=[["s", "t"]], multigraph=True), "oracle.edges[0]"),
    (oracle(PATH, edges=[["s", "t", 0], ["s", "t", 0]], multigraph=True), "oracle.edges[1]"),
    (oracle(PATH, edges=None), "oracle.edges"),
    (oracle(PATH, source="q"), "oracle.source"),
    (oracle(PATH, target="s"), "oracle"),
    (oracle(PATH, source="t", target="s"), "oracle"),
    (oracle(PATH, directed="yes"), "oracle.directed"),
    (oracle(PATH, directed=1), "oracle.directed"),
    (oracle(PATH, objective="least"), "oracle.objective"),
    (oracle(PATH, objective="max", directed=False), "oracle"),
    (oracle(MATCHING, right=1), "oracle"),
    (oracle(MATCHING, left=2000, right=2000), "oracle"),
    (oracle(MATCHING, maximize=0), "oracle.maximize"),
    (oracle(MATCHING, edges=[["ann", 0], ["cat", 1]]), "oracle.edges[1][0]"),
    (oracle(MATCHING, edges=[["ann", 0], ["bob", 2]]), "oracle.edges[1][1]"),
    (oracle(MATCHING, edges=[["ann", 0], ["bob", 0]]), "oracle"),
    (oracle(MATCHING, right=1_999_999, edges=[["ann", 0], ["bob", 1]]), "oracle.right"),
    (oracle(EXPLICIT, Z=[[1, 0], [0]]), "oracle.Z[1]"),
    (oracle(EXPLICIT, Z=[[1, 0], [0, "1"]]), "oracle.Z[1][1]"),
    (oracle(EXPLICIT, Z=[[1, 0], [1, 0]]), "oracle"),
    (oracle(EXPLICIT, Z=[[1, 0], [0, 1e200]]), "oracle.Z[1][1]"),
    (oracle(EXPLICIT, labels=["a"]), "oracle"),
    (oracle(EXPLICIT, components=["a", "a"]), "oracle.components[1]"),
    (document(TOPK, theta=[1, 2]), "theta"),
    (document(TOPK, theta=[1, 2, None]), "theta[2]"),
    (document(TOPK, theta=[1, 2, False]), "theta[2]"),
    (document(TOPK, theta=[1, 2, float("nan")]), "theta[2]"),
    (document(TOPK, theta=[1, 2, float("inf")]), "theta[2]"),
    (document(TOPK, theta=[1, 2, 10**400]), "theta[2]"),
    (document(TOPK, theta=[1, 2, "3"]), "theta[2]"),
    (document(TOPK, theta={"a": 1}), "theta"),
    (document(PATH, theta=[1, 2]), "theta"),
    (document({**PATH, "directed": False}, theta=[1, 2, -3]), "theta"),
    (document(TOPK, theta=[1, 2, 3], space={"low": 0, "high": 2}), "theta"),
    (document(TOPK, noise_std=0), "noise_std"),
    (document(TOPK, noise_std=-1.0), "noise_std"),
    (document(TOPK, noise_std="1"), "noise_std"),
    (document(TOPK, prior_std=True), "prior_std"),
    (document(TOPK, space={"low": 0}), "space.high"),
    (document(TOPK, space={"low": 1, "high": 0}), "space"),
    (document(TOPK, space={"low": [0, 0], "high": 1}), "space.low"),
    (document(TOPK, space={"low": 0, "high": [1, 1, "x"]}), "space.high[2]"),
    (document({**PATH, "directed": False}, space={"low": -1, "high": None}), "space"),
    (document(TOPK, space=[0, 1]), "space"),
    (document(TOPK, arms=["a"]), "arms"),
    (document(TOPK, arms={}), "arms"),
    (document(TOPK, arms={"components": ["a"], "rows": [[1, 0, 0]]}), "arms"),
    (document(TOPK, arms={"components": ["a", "b"]}), "arms"),  # c is out of reach
    (document(TOPK, arms={"components": ["a", "b", "z"]}), "arms.components[2]"),
    (document(TOPK, arms={"components": ["a", "b", "c"], "labels": [1, 2, 3]}), "arms.labels"),
    (document(TOPK, arms={"components": ["a", "b", "a"]}), "arms.components[2]"),
    (document(TOPK, arms={"components": ["a", "b", "c"], "coefficients": [1, 2]}), "arms.coefficients"),
    (document(TOPK, arms={"components": ["a", "b", "c"], "coefficients": [1, 2, 0]}), "arms.coefficients"),
    (document(TOPK, arms={"components": ["a", "b", "c"], "coefficients": [1, 2, "x"]}), "arms.coefficients[2]"),
    (document(TOPK, arms={"components": ["a"], "coefficients": [1], "labels": [1, 2]}), "arms.labels"),
    (document(TOPK, arms={"rows": [[1, 0, 0]], "coefficients": [1]}), "arms.coefficients"),
    (document(TOPK, arms={"rows": [[1, 0]]}), "arms.rows"),
    (document(TOPK, arms={"rows": [[1, 0, 0], [0, 0, 0]]}), "arms.rows"),
    (document(TOPK, arms={"rows": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "labels": ["x"]}), "arms.labels"),
    (document(TOPK, sha256="0" * 64), "sha256"),
    (document(TOPK, sha256=None), "sha256"),
    (document(TOPK, sha256=7), "sha256"),
]


@pytest.mark.parametrize(("broken", "field"), FAULTS, ids=[f"{i}-{field}" for i, (_, field) in enumerate(FAULTS)])
def test_the_field_is_named(broken, field):
    with pytest.raises(InstanceError) as caught:
        from_document(broken)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "not JSON"),
        ('{\n"schema": 1\n"name": 2}', 3, "not JSON"),
        ('{"theta": [NaN]}', None, "NaN"),
        ('{"theta": [-Infinity]}', None, "Infinity"),
        ('{"name": "a", "name": "b"}', None, "duplicate"),
        ("[" * 100_000, None, "deep"),
        ('{"a":' * 100_000, None, "deep"),
        (f'{{"version": {"9" * 5000}}}', None, "number"),
    ],
)
def test_invalid_json_is_rejected_by_line(tmp_path, text, line, message):
    with pytest.raises(FileFormatError, match=message) as caught:
        load_instance(write(tmp_path / "x.json", text))
    assert caught.value.line == line
    assert caught.value.file == str(tmp_path / "x.json")


def test_numbers_too_large_for_a_float_are_rejected(tmp_path):
    text = json.dumps(document(TOPK, theta=[1, 2, 3])).replace("[1, 2, 3]", "[1, 2, 1e999]")
    with pytest.raises(InstanceError, match=r"theta\[2\]"):
        load_instance(write(tmp_path / "x.json", text))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_other_encodings_are_rejected(tmp_path, encoding):
    path = tmp_path / "x.json"
    path.write_bytes(json.dumps(document(TOPK, title="Zürich"), ensure_ascii=False).encode(encoding))
    with pytest.raises(FileFormatError):
        load_instance(path)


def test_byte_order_marks_are_accepted(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(json.dumps(document(TOPK, title="Zürich"), ensure_ascii=False).encode("utf-8-sig"))
    assert load_instance(path).title == "Zürich"


def test_missing_files(tmp_path):
    for path in (tmp_path / "none.json", tmp_path, "nowhere/none.json", "nul\0.json"):
        with pytest.raises(FileFormatError, match="cannot be read"):
            load_instance(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [("soar", "soare"), ("", "no instance"), ("../secret", "no instance"), (3, "name or a path"), (None, "name")],
)
def test_unknown_names(name, message):
    with pytest.raises(InstanceError, match=message):
        load_instance(name)


def test_failed_writes_leave_no_file(tmp_path):
    instance = from_document(document(TOPK))
    with pytest.raises(FileFormatError, match="cannot be written"):
        save_instance(instance, tmp_path / "no" / "x.json")
    (tmp_path / "taken.json").mkdir()
    with pytest.raises(FileFormatError, match="cannot be written"):
        save_instance(instance, tmp_path / "taken.json")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.json"]


@pytest.mark.parametrize("theta", [[1.0], [[1.0, 2.0, 3.0]], [1.0, np.nan, 0.0], "abc"])
def test_an_instance_in_memory_is_checked_too(theta):
    with pytest.raises(InstanceError, match="theta"):
        Instance("x", unit_problem(TopKOracle(3, 1)), theta)


def test_checksum_detects_edited_numbers(tmp_path):
    stored = to_document(load_instance("topk-paper"))
    stored["theta"][3] = 0.851
    path = write(tmp_path / "x.json", json.dumps(stored))
    with pytest.raises(InstanceError, match=r"sha256.*delete this field"):
        load_instance(path)
    del stored["sha256"]
    assert load_instance(write(path, json.dumps(stored))).theta[3] == 0.851
