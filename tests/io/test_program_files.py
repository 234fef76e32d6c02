"""Partitions, knapsacks, integer programs and constraint models in files: round trips and errors."""

import json
from itertools import pairwise

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import (
    Campaign,
    ComboPepsError,
    CpSatOracle,
    KnapsackOracle,
    MatroidOracle,
    MilpOracle,
    PartitionOracle,
    load_instance,
    save_instance,
)
from combopeps.errors import InstanceError, OracleMismatchError
from combopeps.io import Instance
from combopeps.io.instance_files import from_document, to_document

HEAD = {"schema": "combopeps/instance", "version": 1, "name": "x"}


def week(objective="max", names=("mon", "tue", ("wed", 3), 4)):
    """No two days in a row; the length of the longest pause is an auxiliary integer."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    pause = model.new_int_var(0, 3, "pause")
    days = [model.new_bool_var(f"day {i}") for i in range(len(names))]
    for today, tomorrow in pairwise(days):
        model.add_at_most_one(today, tomorrow)
    model.add(sum(days) + pause >= 2)
    model.maximize(sum(days))  # of no meaning here
    return CpSatOracle(model, dict(zip(names, days, strict=True)), objective=objective)


def random_program(rng):
    d, rows = int(rng.integers(2, 6)), int(rng.integers(0, 4))
    A = rng.integers(-3, 6, size=(rows, d)) * rng.choice([1.0, 0.1, 2.0**-30, 1e6])
    x = rng.integers(0, 3, size=d)
    slack = rng.random(rows) * np.abs(A).sum(axis=1)
    lower = np.where(rng.random(rows) < 0.5, -np.inf, A @ x - slack)
    upper = np.where(rng.random(rows) < 0.5, np.inf, A @ x + slack)
    objective = "max" if rng.random() < 0.5 else "min"
    return MilpOracle(d, A, lower, upper, bounds=(0, 2), objective=objective)


def random_partition(rng):
    sizes = rng.integers(1, 4, size=3)
    groups = {("g", i): [f"{i}{j}" for j in range(size)] for i, size in enumerate(sizes.tolist())}
    quotas = [max(1, int(rng.integers(0, size + 1))) for size in sizes]
    objective = "max" if rng.random() < 0.5 else "min"
    return PartitionOracle(groups, quotas, exactly=bool(rng.random() < 0.5), objective=objective)


def random_knapsack(rng):
    weights = rng.integers(1, 9, size=6) * rng.choice([1.0, 0.3])
    return KnapsackOracle(weights, float(np.sort(weights)[3]), labels=[*"abcdef"])


MAKERS = {"program": random_program, "partition": random_partition, "knapsack": random_knapsack}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("family", MAKERS)
def test_round_trip(family, seed, tmp_path):
    rng = np.random.default_rng([seed, *map(ord, family)])
    oracle = MAKERS[family](rng)
    instance = Instance("x", unit_problem(oracle), rng.normal(size=oracle.dim))
    check(instance, tmp_path)


@pytest.mark.parametrize("objective", ["max", "min"])
def test_constraint_models_round_trip(objective, tmp_path):
    oracle = week(objective)
    again = check(Instance("x", unit_problem(oracle), [0.5, 2.0, -1.0, 0.25]), tmp_path)
    assert again.oracle._text == oracle._text
    limited = CpSatOracle(oracle._model, {"a": oracle._model.get_bool_var_from_proto_index(1), "b": oracle._model.get_bool_var_from_proto_index(2)}, time_limit=9.0)  # fmt: skip
    assert from_document(to_document(Instance("x", unit_problem(limited)))).oracle.time_limit == 9.0


def check(instance, tmp_path):
    save_instance(instance, tmp_path / "x.json")
    again = load_instance(tmp_path / "x.json")
    assert to_document(again) == to_document(instance)
    assert type(again.oracle) is type(instance.oracle)
    assert [*map(repr, again.labels)] == [*map(repr, instance.labels)]
    assert (again.best, repr(again.oracle)) == (instance.best, repr(instance.oracle))
    for name in ("unit", "domain", "binary", "antichain", "resolution", "pruned"):
        assert getattr(again.oracle, name) == getattr(instance.oracle, name)
    thetas = np.random.default_rng(0).normal(size=(8, instance.oracle.dim))
    values = [(one.oracle.argmax(thetas) * thetas).sum(axis=1) for one in (again, instance)]
    np.testing.assert_allclose(*values, atol=1e-9)
    query = Campaign.create(tmp_path / "run", instance).ask()
    assert Campaign.open(tmp_path / "run").open_queries == [query]
    return again


def test_options_of_programs_round_trip(tmp_path):
    oracle = MilpOracle(["a", "b"], [[1, 1]], 0, 3, bounds=([0, -1], [2, 5]), gap=0.01, time_limit=7.0)
    again = check(Instance("x", unit_problem(oracle)), tmp_path).oracle
    assert (again.gap, again.time_limit) == (0.01, 7.0)


def test_rows_are_written_as_they_were_stated():
    oracle = MilpOracle(3, [[1, 1, 1], [0, -3, 1.5], [0.1, 0.25, 0]], [-np.inf, -4.5, 0], [2, np.inf, 1])
    document = to_document(Instance("x", unit_problem(oracle)))["oracle"]
    assert document["A"] == [[[0, 1], [1, 1], [2, 1]], [[1, -3], [2, 1.5]], [[0, 0.1], [1, 0.25]]]
    assert document["lower"] == [None, -4.5, 0]
    assert document["upper"] == [2, None, 1]
    assert (document["low"], document["high"]) == (0, 1)


def test_matroids_cannot_be_saved(tmp_path):
    """An independence function is code: a campaign stores its fingerprint, an instance file cannot."""

    def oracle(most):
        return MatroidOracle(["a", "b", "c"], lambda chosen: len(chosen) <= most)

    with pytest.raises(InstanceError, match="MatroidOracle cannot be stored"):
        save_instance(Instance("x", unit_problem(oracle(2))), tmp_path / "x.json")
    Campaign.create(tmp_path / "run", oracle(2)).ask()
    assert len(Campaign.open(tmp_path / "run", oracle=oracle(2)).open_queries) == 1
    with pytest.raises(OracleMismatchError) as caught:
        Campaign.open(tmp_path / "run", oracle=oracle(1))
    assert caught.value.differs == "answers"


PARTITION = {"kind": "partition", "groups": [["g", ["a", "b"]], ["h", ["c", "d"]]], "quotas": [1, 1]}
KNAPSACK = {"kind": "knapsack", "items": ["a", "b", "c"], "weights": [1, 2, 3], "capacity": 4}
MILP = {"kind": "milp", "components": ["a", "b", "c"], "A": [[[0, 1], [1, 1]], [[1, 1], [2, -1]]], "upper": [1, None]}
CPSAT = to_document(Instance("x", unit_problem(week(names=("a", "b", "c", "d")))))["oracle"]


@pytest.mark.parametrize("base", [PARTITION, KNAPSACK, MILP, CPSAT], ids=lambda base: base["kind"])
def test_the_samples_are_valid(base):
    assert from_document({**HEAD, "oracle": base}).oracle.dim in (3, 4)


LINES = CPSAT["model"]
FAULTS = [
    (PARTITION, {"groups": [["g"]]}, "oracle.groups[0]"),
    (PARTITION, {"groups": []}, "oracle.groups"),
    (PARTITION, {"groups": [["g", ["a"]], ["g", ["b"]]]}, "oracle.groups[1][0]"),
    (PARTITION, {"groups": [["g", ["a", "b"]], ["h", ["b"]]]}, "oracle"),
    (PARTITION, {"groups": [["g", ["a", "a"]], ["h", ["b"]]]}, "oracle.groups[0][1][1]"),
    (PARTITION, {"groups": {"g": ["a"]}}, "oracle.groups"),
    (PARTITION, {"quotas": [1]}, "oracle"),
    (PARTITION, {"quotas": [1, 3]}, "oracle"),
    (PARTITION, {"quotas": [1, -1]}, "oracle"),
    (PARTITION, {"quotas": [1, "1"]}, "oracle"),
    (PARTITION, {"quotas": [1, True]}, "oracle"),
    (PARTITION, {"quotas": 1}, "oracle.quotas"),
    (PARTITION, {"exactly": "yes"}, "oracle.exactly"),
    (PARTITION, {"objective": "best"}, "oracle.objective"),
    (KNAPSACK, {"weights": [1, 2]}, "oracle.weights"),
    (KNAPSACK, {"weights": [1, 2, -3]}, "oracle"),
    (KNAPSACK, {"weights": [1, 2, "3"]}, "oracle.weights[2]"),
    (KNAPSACK, {"capacity": 0.5}, "oracle"),
    (KNAPSACK, {"capacity": None}, "oracle.capacity"),
    (KNAPSACK, {"items": 10**6}, "oracle.items"),
    (KNAPSACK, {"pruned": [["d", 2]]}, "oracle.pruned[0]"),
    (KNAPSACK, {"pruned": [["a", 9]]}, "oracle.pruned[0]"),
    (KNAPSACK, {"pruned": [["d"]]}, "oracle.pruned[0]"),
    (MILP, {"components": 10**9}, "oracle.components"),
    (MILP, {"components": 10**6}, "oracle.components"),
    (MILP, {"components": ["a", "a", "b"]}, "oracle.components[1]"),
    (MILP, {"A": [[[0, 1], [0, 2]], [[1, 1]]]}, "oracle.A[0][1][0]"),
    (MILP, {"A": [[[3, 1]], [[1, 1]]]}, "oracle.A[0][0][0]"),
    (MILP, {"A": [[[-1, 1]], [[1, 1]]]}, "oracle.A[0][0][0]"),
    (MILP, {"A": [[[True, 1]], [[1, 1]]]}, "oracle.A[0][0][0]"),
    (MILP, {"A": [[[0, "1"]], [[1, 1]]]}, "oracle.A[0][0][1]"),
    (MILP, {"A": [[[0, 1e300]], [[1, 1]]]}, "oracle.A[0][0][1]"),
    (MILP, {"A": [[[0, 1, 2]], [[1, 1]]]}, "oracle.A[0][0]"),
    (MILP, {"A": [[], [[1, 1]]]}, "oracle.A[0]"),
    (MILP, {"A": [[1, 0, 0]]}, "oracle.A[0][0]"),
    (MILP, {"upper": [1, 2, 3]}, "oracle.upper"),
    (MILP, {"upper": [1, "2"]}, "oracle.upper[1]"),
    (MILP, {"upper": [-1, None]}, "oracle"),
    (MILP, {"lower": 5}, "oracle"),
    (MILP, {"low": [0, 0]}, "oracle.low"),
    (MILP, {"low": 2}, "oracle"),
    (MILP, {"gap": 1.5}, "oracle"),
    (MILP, {"gap": "0"}, "oracle.gap"),
    (MILP, {"time_limit": -1}, "oracle.time_limit"),
    (MILP, {"objective": 1}, "oracle.objective"),
    (CPSAT, {"variables": [1, 2, 3]}, "oracle.variables"),
    (CPSAT, {"variables": [1, 2, 3, 99]}, "oracle.variables[3]"),
    (CPSAT, {"variables": [1, 2, 3, -1]}, "oracle.variables[3]"),
    (CPSAT, {"variables": [1, 2, 3, 4.0]}, "oracle.variables[3]"),
    (CPSAT, {"variables": [1, 2, 3, 3]}, "oracle"),
    (CPSAT, {"variables": [1, 2, 3, 0]}, "oracle"),  # an integer
    (CPSAT, {"model": []}, "oracle.model"),
    (CPSAT, {"model": "variables {}"}, "oracle.model"),
    (CPSAT, {"model": ["import os"]}, "oracle.model"),
    (CPSAT, {"model": [*LINES, "}"]}, "oracle.model"),
    (CPSAT, {"model": [*LINES, 'constraints { bool_or { literals: 99 } }']}, "oracle"),
    (CPSAT, {"model": [*LINES, 'constraints { linear { vars: 0 coeffs: 1 coeffs: 2 } }']}, "oracle"),
    (CPSAT, {"model": [*LINES, 'constraints { bool_and { literals: 1 } }', 'constraints { bool_and { literals: 2 } }']}, "oracle"),
    (CPSAT, {"model": [line.replace("domain: 3", "domain: -3") for line in LINES]}, "oracle"),
    (CPSAT, {"objective": "most"}, "oracle.objective"),
    (CPSAT, {"time_limit": "9"}, "oracle.time_limit"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("base", "changes", "field"), FAULTS, ids=[f"{i}-{base['kind']}" for i, (base, _, _) in enumerate(FAULTS)]
)
def test_errors_name_the_field(base, changes, field):
    with pytest.raises(InstanceError) as caught:
        from_document(json.loads(json.dumps({**HEAD, "oracle": base | changes})))
    assert caught.value.field == field


def places(value, path=()):
    """Return the paths of all values of a document."""
    yield path
    if isinstance(value, (dict, list)):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(entry, (*path, key))


WILD = [None, True, -1, 0, 3, 10**9, 2**63, -(2**70), 0.5, 1e300, "", "a", "domain: 9", "}", [], [0], [[0, 1]], {}]


@pytest.mark.parametrize("base", [PARTITION, KNAPSACK, MILP, CPSAT], ids=lambda base: base["kind"])
def test_random_edits_are_rejected_or_valid(base):
    """Without a checksum: a typed error or a valid oracle, never a crash of the process."""
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(80):
        document = json.loads(json.dumps({**HEAD, "oracle": base}))
        paths = [path for path in places(document["oracle"]) if path]
        *way, last = paths[rng.integers(len(paths))]
        inner = document["oracle"]
        for key in way:
            inner = inner[key]
        inner[last] = WILD[rng.integers(len(WILD))]
        try:
            oracle = from_document(document).oracle
        except ComboPepsError:
            refused += 1
        else:
            assert oracle.argmax(np.ones(oracle.dim)).shape == (oracle.dim,)
    assert refused > 25
