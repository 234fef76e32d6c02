"""Batches of expensive oracles: the same answers, whoever solves them."""

import threading
import time

import numpy as np
import pytest
from joblib import Parallel, delayed
from ortools.sat.python import cp_model
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, CpSatOracle, MilpOracle, TopKOracle, simulate
from combopeps.errors import OracleError, SolverError
from combopeps.oracles import CheckedOracle
from combopeps.oracles import base as _parallel


class Slow(ArgmaxOracle):
    """The best of d items, after a while; who was asked is known."""

    expensive = True
    binary = antichain = True

    def __init__(self, d, seconds=0.0, parallel_backend="threads"):
        super().__init__(range(d))
        self.seconds, self.parallel_backend, self.asked = seconds, parallel_backend, []

    def _argmax_batch(self, thetas):
        self.asked.append((len(thetas), threading.get_ident()))
        time.sleep(self.seconds)
        return (thetas == thetas.max(axis=1, keepdims=True)).astype(float)


class Locked(Slow):
    def __init__(self, d):
        super().__init__(d, 0.0, "processes")
        self.lock = threading.Lock()  # cannot be sent to another process


@pytest.fixture(autouse=True)
def two_workers(monkeypatch):
    """As on a machine with two cores."""
    import joblib

    monkeypatch.setattr(joblib, "effective_n_jobs", lambda n_jobs: 2)


@pytest.fixture
def eager(monkeypatch):
    """Workers are called however little there is to do."""
    monkeypatch.setattr(_parallel, "_WORTH", {"threads": 0.0, "processes": 0.0})


def programs():
    rng = np.random.default_rng(0)
    A = rng.integers(0, 9, size=(3, 14))
    upper = A.sum(axis=1) // 2
    model = cp_model.CpModel()
    x = [model.new_bool_var(f"x{i}") for i in range(14)]
    for row, most in zip(A.tolist(), upper.tolist(), strict=True):
        model.add(cp_model.LinearExpr.weighted_sum(x, row) <= most)
    return {"HiGHS": MilpOracle(14, A, -np.inf, upper), "CP-SAT": CpSatOracle(model, x)}


PROGRAMS = programs()


@pytest.mark.parametrize("name", PROGRAMS)
def test_answers_are_the_same_bit_by_bit(eager, name):
    oracle = PROGRAMS[name]
    assert (oracle.expensive, oracle.parallel_backend) == (True, "threads")
    thetas = np.random.default_rng(1).integers(-1, 3, size=(24, 14)).astype(float)
    expected = np.stack([oracle.argmax(theta) for theta in thetas])
    np.testing.assert_array_equal(oracle.argmax(thetas), expected)
    np.testing.assert_array_equal(oracle._argmax_batch(thetas), expected)
    np.testing.assert_array_equal(CheckedOracle(oracle, mode="always").argmax(thetas), expected)
    inside = Parallel(2, prefer="threads")(delayed(oracle.argmax)(thetas[i::2]) for i in range(2))
    np.testing.assert_array_equal(inside[0], expected[::2])


def test_several_threads_work_where_there_is_enough_to_do():
    oracle = Slow(3, seconds=0.02)
    thetas = np.random.default_rng(2).normal(size=(20, 3))
    np.testing.assert_array_equal(oracle.argmax(thetas), TopKOracle(3, 1).argmax(thetas))
    assert [rows for rows, _ in oracle.asked] == [1] * 20
    assert len({thread for _, thread in oracle.asked}) > 1


def test_nobody_is_called_for_little_work_nor_inside_a_worker(eager, monkeypatch):
    oracle, here = Slow(3), threading.get_ident()
    Parallel(2, prefer="threads")(delayed(oracle.argmax)(np.eye(3)[[0, 1, 2, 0, 1, 2]]) for _ in range(4))
    assert len(oracle.asked) == 24
    assert len({thread for _, thread in oracle.asked}) <= 2
    monkeypatch.undo()
    quick = Slow(3)
    quick.argmax(np.eye(3))
    assert {thread for _, thread in quick.asked} == {here}
    assert quick.argmax(np.empty((0, 3))).shape == (0, 3)


def test_processes_give_the_same_answers(eager):
    oracle = Slow(3, parallel_backend="processes")
    thetas = np.random.default_rng(3).normal(size=(12, 3))
    np.testing.assert_array_equal(oracle.argmax(thetas), TopKOracle(3, 1).argmax(thetas))
    assert len(oracle.asked) == 2  # the others were put to copies of it


def test_what_cannot_be_sent_to_a_process_is_solved_here(eager):
    oracle = Locked(3)
    thetas = np.random.default_rng(4).normal(size=(12, 3))
    np.testing.assert_array_equal(oracle.argmax(thetas), TopKOracle(3, 1).argmax(thetas))
    assert len(oracle.asked) == 12


def test_a_fault_in_a_worker_is_the_same_error(eager, monkeypatch):
    oracle = PROGRAMS["HiGHS"]
    calls = []

    def late(theta):
        calls.append(theta)
        if len(calls) > 4:
            raise SolverError("too late", theta)
        return theta * 0.0

    monkeypatch.setattr(oracle, "_argmax_batch", late)
    with pytest.raises(OracleError, match="too late"):
        oracle.argmax(np.ones((30, 14)))


def test_simulations_over_processes_agree_with_one_process():
    oracle = Slow(3, parallel_backend="processes")
    runs = [
        simulate(unit_problem(oracle), [1.0, 0.0, 0.0], "top-two", budget=6, replications=4, rng=0, n_jobs=n_jobs)
        for n_jobs in (1, 2)
    ]
    np.testing.assert_array_equal(runs[0].pulls, runs[1].pulls)
