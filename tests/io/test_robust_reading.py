"""Files of unusual size: linear time, messages of bounded length, and time limits of solvers."""

import json
import time
from importlib.util import find_spec

import numpy as np
import pytest

from combopeps import (
    CpSatOracle,
    MilpOracle,
    Problem,
    TopKOracle,
    errors,
    load_instance,
    read_items,
    read_network,
    save_instance,
)
from combopeps.errors import MAX_MESSAGE_LENGTH, ComboPepsError, FileFormatError, InstanceError, LabelError, SolverError
from combopeps.io import Instance, read_program
from combopeps.io.instance_files import from_document, to_document

SECONDS = 3.0  # of processor time; each file below takes well under 1 s, and took 7 s and more when work was quadratic


def instance_text(oracle):
    return json.dumps({"schema": "combopeps/instance", "version": 1, "name": "x", "oracle": oracle})


def repeated_key(folder, n=60_000):
    path = folder / "x.json"
    path.write_text("{" + ",".join(f'"k{i}": 1' for i in range(n)) + f', "k{n - 1}": 2}}')
    return lambda: load_instance(path)


def repeated_attribute(folder, n=30_000):
    keys = "".join(f'<key id="d{i}" for="edge" attr.name="a{i}" attr.type="double"/>' for i in range(n))
    data = "".join(f'<data key="d{i}">1</data>' for i in range(n)) + f'<data key="d{n - 1}">1</data>'
    edge = f'<node id="a"/><node id="b"/><edge source="a" target="b">{data}</edge>'
    path = folder / "x.graphml"
    head = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    path.write_text(f'{head}{keys}<graph edgedefault="directed">{edge}</graph></graphml>')
    return lambda: read_network(path, "a", "b")


def many_digits(folder, n=130_000):
    path = folder / "x.csv"
    path.write_text(f"item,mean\na,1.5\nb,.{'1' * n}x\n")
    return lambda: read_items(path, 1)


def unknown_node(folder, n=30_000):
    """All names have the letters of the unknown one, the worst case of the search for similar names."""
    path = folder / "x.json"
    nodes = [{"id": f"{i:030b}"} for i in range(n)]
    edges = [{"source": nodes[0]["id"], "target": nodes[1]["id"]}]
    path.write_text(json.dumps({"nodes": nodes, "edges": edges}))
    return lambda: read_network(path, "01" * 15, nodes[1]["id"])


def repeated_item(folder, n=40_000):
    path = folder / "x.json"
    light, heavy = [f"i{i}" for i in range(n)], [[f"h{i}", 10] for i in range(n)]
    oracle = {"kind": "knapsack", "items": light, "weights": [1.0] * n, "capacity": 9, "pruned": [*heavy, ["i0", 10]]}
    path.write_text(instance_text(oracle))
    return lambda: load_instance(path)


@pytest.mark.parametrize("case", [repeated_key, repeated_attribute, many_digits, unknown_node, repeated_item])
def test_long_files_are_rejected_in_linear_time(case, tmp_path):
    refused = case(tmp_path)
    start = time.process_time()
    with pytest.raises(ComboPepsError):
        refused()
    assert time.process_time() - start < SECONDS


def test_the_time_limit_detects_quadratic_work():
    """Negative control: a search by `list.count` on a tenth of the keys, times 100, exceeds the limit."""
    keys = [f"k{i}" for i in range(6_000)] + ["k5999"]
    start = time.process_time()
    assert next(key for key in keys if keys.count(key) > 1) == "k5999"
    assert 100 * (time.process_time() - start) > SECONDS


LONG = "x" * 3_000_000


def long_key(folder):
    (folder / "x.json").write_text(json.dumps({LONG: 1})[:-1] + f', "{LONG}": 2}}')
    load_instance(folder / "x.json")


def long_item(folder):
    (folder / "x.json").write_text(instance_text({"kind": "topk", "items": [LONG, LONG], "k": 1}))
    load_instance(folder / "x.json")


def long_node(folder):
    (folder / "x.json").write_text(json.dumps({"nodes": [{"id": LONG}, {"id": LONG}], "edges": []}))
    read_network(folder / "x.json", "a", "b")


def long_column(folder):
    (folder / "x.csv").write_text(f"item,{'y' * 100_000}\na,1\nb,2\n")
    read_items(folder / "x.csv", 1)


def long_component(_):
    TopKOracle([LONG, LONG], 1)


def long_query(_):
    TopKOracle(["a", "b"], 1).encode([LONG])


@pytest.mark.parametrize("case", [long_key, long_item, long_node, long_column, long_component, long_query])
def test_messages_have_a_bounded_length(case, tmp_path):
    with pytest.raises(ComboPepsError) as caught:
        case(tmp_path)
    assert 20 < len(str(caught.value)) <= MAX_MESSAGE_LENGTH


def test_long_messages_keep_both_ends():
    text = str(LabelError(f"begin {LONG} end"))
    assert text.startswith("begin x")
    assert text.endswith("x end")
    assert "characters ...]" in text


def test_every_error_has_messages_of_a_bounded_length():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ComboPepsError)]
    assert len(kinds) > 25
    assert all(len(str(kind(LONG))) <= MAX_MESSAGE_LENGTH for kind in kinds)


def market_split(rows=4, variables=40):
    """Return equalities that branch and bound cannot solve in reasonable time (Cornuejols and Dawande, 1998)."""
    A = np.random.default_rng(0).integers(0, 100, size=(rows, variables))
    return A, A.sum(axis=1) // 2


def test_slow_programs_raise_an_error_that_names_the_option():
    A, right = market_split()
    with pytest.raises(SolverError, match=r"time_limit = 0\.5 s; give a longer time_limit"):
        MilpOracle(A.shape[1], A, right, right, time_limit=0.5)


@pytest.mark.skipif(find_spec("highspy") is None, reason="needs highspy")
def test_slow_program_files_raise_an_error(tmp_path):
    A, right = market_split()
    names = [f"x{i}" for i in range(A.shape[1])]
    rows = [
        " + ".join(f"{a} {x}" for a, x in zip(row, names, strict=True)) + f" = {b}"
        for row, b in zip(A, right, strict=True)
    ]
    path = tmp_path / "x.lp"
    path.write_text("Maximize\n x0\nSubject To\n " + "\n ".join(rows) + "\nBinary\n " + " ".join(names) + "\nEnd\n")
    with pytest.raises(SolverError, match=r"time_limit = 2 s; give a longer time_limit"):
        read_program(path, time_limit=2)


def test_slow_constraint_models_raise_an_error(tmp_path):
    cp_model = pytest.importorskip("ortools.sat.python.cp_model")
    model = cp_model.CpModel()
    shown = [model.new_bool_var(name) for name in ("a", "b")]
    oracle = CpSatOracle(model, shown)
    A, right = market_split()
    hidden = [model.new_bool_var(f"x{i}") for i in range(A.shape[1])]
    for row, b in zip(A.tolist(), right.tolist(), strict=True):
        model.add(sum(a * x for a, x in zip(row, hidden, strict=True)) == b)
    problem = Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    document = to_document(Instance("x", problem))
    del document["sha256"]
    document["oracle"] |= {"model": str(model.proto).splitlines(), "time_limit": 0.5}
    with pytest.raises(ComboPepsError, match=r"time_limit = 0\.5 s; give a longer time_limit"):
        from_document(document)


def test_programs_have_a_default_time_limit(tmp_path):
    for time_limit, expected in ((60.0, 60.0), (7.5, 7.5), (None, np.inf)):
        oracle = MilpOracle(["a", "b"], [[1, 1]], 0, 1, time_limit=time_limit)
        problem = Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
        path = tmp_path / "x.json"
        save_instance(Instance("x", problem), path)
        assert load_instance(path).oracle.time_limit == expected
    assert MilpOracle(["a", "b"], [[1, 1]], 0, 1).time_limit == 60.0
    path.write_text(instance_text({"kind": "milp", "components": ["a", "b"], "A": [[[0, 1], [1, 1]]], "upper": 1}))
    assert load_instance(path).oracle.time_limit == 60.0
    path.write_text(instance_text({"kind": "milp", "components": ["a", "b"], "time_limit": "never"}))
    with pytest.raises((FileFormatError, InstanceError), match="time_limit"):
        load_instance(path)
