"""Noise, costs and priors in instance files and campaigns: round trips, and defaults that are not written."""

import json

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Campaign, TopKOracle, list_instances, load_instance, save_instance
from combopeps.errors import InstanceError
from combopeps.io import Instance
from combopeps.io.instance_files import from_document, to_document

NAMES = ["a", "b", "c"]
ROWS = {"x": [1.0, 1.0, 0.0], "y": [0.0, 1.0, 1.0], "w": [1.0, 0.0, 1.0], "u": [2.0, 0.0, 0.0]}
OPTIONS = {
    "nothing": {},
    "noise": {"noise_std": [0.1, 0.2, 0.7]},
    "noise by label": {"noise_std": {"c": 0.1, "a": 1 / 3, "b": 2.0}},
    "equal noise": {"noise_std": [0.3, 0.3, 0.3]},
    "cost": {"cost": {"a": 1, "b": 2.5, "c": 1e-3}},
    "equal cost": {"cost": 4.0},
    "mean": {"prior_mean": [-1.5, 0.0, 1 / 7]},
    "equal mean": {"prior_mean": 3.0},
    "std": {"prior_std": {"b": 0.01}},
    "unknown noise": {"noise_std": None},
    "estimated prior": {"prior_mean": None, "prior_std": None},
    "unknown noise with ratios": {"noise_std": None, "noise_ratio": [1, 1, 3]},
    "unknown noise with a ratio": {"noise_std": None, "noise_ratio": 2.0},
    "everything": {"noise_std": [1, 2, 3], "cost": [3, 2, 1], "prior_mean": [1, 0, -1], "prior_std": [1, 5, 9]},
    "general arms": {"arms": ROWS, "noise_std": [1, 2, 3, 4], "cost": [4, 3, 2, 1], "prior_mean": [1, 0, -1]},
}


def assert_same(one, two):
    for key in ("noise_std", "noise", "cost", "prior_mean", "prior_std"):
        first, second = getattr(one, key), getattr(two, key)
        assert type(first) is type(second)
        np.testing.assert_array_equal(first, second, err_msg=key)


@pytest.mark.parametrize("name", OPTIONS)
def test_saved_numbers_are_loaded(name, tmp_path):
    instance = Instance("x", unit_problem(TopKOracle(NAMES, k=1), **OPTIONS[name]), np.array([0.1, 0.2, 0.3]))
    save_instance(instance, tmp_path / "x.json")
    again = load_instance(tmp_path / "x.json")
    assert_same(again.problem, instance.problem)
    assert to_document(again) == to_document(instance)


@pytest.mark.parametrize("name", OPTIONS)
def test_campaigns_keep_the_numbers(name, tmp_path):
    problem = unit_problem(TopKOracle(NAMES, k=1), **OPTIONS[name])
    Campaign.create(tmp_path / "c.db", problem).observe(problem.arms.labels[1], 0.25)
    again = Campaign.open(tmp_path / "c.db")
    assert_same(again.problem, problem)
    assert again.samples == 1


@pytest.mark.parametrize("name", list_instances())
def test_stored_instances_state_noise_and_prior(name):
    document = to_document(load_instance(name))
    assert all(isinstance(document[key], float) for key in ("noise_std", "prior_mean", "prior_std"))


def test_the_checksum_is_that_of_the_content():
    document = to_document(
        Instance("x", unit_problem(TopKOracle(3, k=1), noise_std=0.25, prior_std=7.0), np.arange(3.0))
    )
    assert document["sha256"] == "f1cb8dfbb1bd571c9f2aaea0eb8575bda0a2c3f26b34d0c4dd96adec3580bbe5"
    assert to_document(from_document(document)) == document


def test_a_common_number_is_written_as_one():
    document = to_document(Instance("x", unit_problem(TopKOracle(3, k=1), noise_std=[2, 2, 2], prior_std=[3, 3, 3])))
    assert (document["noise_std"], document["prior_std"]) == (2.0, 3.0)


EDGES = [["s", "dead end"], ["b", "t"], ["s", "a"], ["a", "t"], ["s", "b"]]


@pytest.mark.parametrize("directed", [True, False])
def test_lists_are_in_the_order_of_the_edges_of_the_file(directed):
    """Numbers of pruned edges are dropped, for lengths, noise, costs and priors."""
    oracle = {"kind": "path", "edges": EDGES, "source": "s", "target": "t", "directed": directed}
    values = {"noise_std": [9, 1, 2, 3, 4], "cost": [9, 5, 6, 7, 8], "prior_mean": [9, -1, -2, -3, -4],
              "prior_std": [9, 0.1, 0.2, 0.3, 0.4], "theta": [9, 10, 20, 30, 40]}  # fmt: skip
    document = {"schema": "combopeps/instance", "version": 1, "name": "x", "oracle": oracle, **values}
    problem = from_document(document).problem
    at = [next(i for i, e in enumerate(EDGES) if set(e) == set(label)) for label in problem.oracle.components]
    assert 0 not in at
    assert sorted(at) == [1, 2, 3, 4]
    np.testing.assert_array_equal(from_document(document).theta, np.array(values["theta"])[at])
    for key in ("noise_std", "cost", "prior_mean", "prior_std"):
        np.testing.assert_array_equal(getattr(problem, key), np.array(values[key])[at], err_msg=key)
    again = from_document(to_document(from_document(document)))
    assert_same(again.problem, problem)


WRONG = [
    {"noise_std": [1.0, 2.0]}, {"noise_std": [1.0, 0.0, 1.0]}, {"noise_std": [1.0, None, 1.0]}, {"noise_std": "loud"},
    {"noise_std": []}, {"noise_std": {"a": 1.0}}, {"cost": 0.0}, {"cost": [1.0, 1.0, -1.0]}, {"cost": "unknown"},
    {"cost": True}, {"prior_mean": "high"}, {"prior_mean": [0.0, 1.0]}, {"prior_mean": [0.0, 1.0, "x"]},
    {"prior_mean": 1e99}, {"prior_std": [1.0, 1.0, 1e99]}, {"noise_std": 1.0, "noise_ratio": [1.0, 2.0, 3.0]}, {"prior_std": "unknown"},
    {"noise_ratio": [1.0, -2.0, 3.0]}, {"noise_std": [[1.0], [1.0], [1.0]]},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_invalid_lists_are_rejected(wrong):
    oracle = {"kind": "topk", "items": NAMES, "k": 1}
    document = {"schema": "combopeps/instance", "version": 1, "name": "x", "oracle": oracle}
    from_document(document)
    with pytest.raises(InstanceError, match=list(wrong)[-1]):
        from_document(document | wrong)


def test_documents_contain_the_stated_numbers(tmp_path):
    problem = unit_problem(
        TopKOracle(NAMES, k=1), noise_std=None, noise_ratio=[1, 1, 3], cost=[1, 2, 3], prior_mean=2.0
    )
    save_instance(Instance("x", problem), tmp_path / "x.json")
    document = json.loads((tmp_path / "x.json").read_text())
    assert document["noise_std"] is None
    assert document["noise_ratio"] == [1.0, 1.0, 3.0]
    assert document["cost"] == [1.0, 2.0, 3.0]
    assert document["prior_mean"] == 2.0


def test_what_is_null_or_missing_is_estimated():
    oracle = {"kind": "topk", "items": ["a", "b"], "k": 1}
    document = {"schema": "combopeps/instance", "version": 1, "name": "ab", "oracle": oracle}
    nothing = {"noise_std": None, "prior_mean": None, "prior_std": None}
    for problem in (from_document(document).problem, from_document(document | nothing).problem):
        assert problem.noise_std is problem.prior_mean is problem.prior_std is None
        written = to_document(Instance("ab", problem))
        assert nothing.items() <= written.items()
        assert_same(from_document(written).problem, problem)
