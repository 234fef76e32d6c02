"""Pieces of work on this machine: joblib's backends, and who says how many processes there are."""

import threading

import joblib
import numpy as np
import pytest

from combopeps import load_instance, simulate
from combopeps.errors import ParameterError
from combopeps.utils.parallel import parallel_map


def thread(_):
    return threading.get_ident()


def meet(barrier):
    barrier.wait(timeout=10)
    return threading.get_ident()


@pytest.mark.parametrize(("configured", "given"), [({"n_jobs": 2}, {}), ({}, {"n_jobs": 2})])
def test_the_surrounding_configuration_is_used_also_with_an_explicit_number(configured, given):
    with joblib.parallel_config(backend="threading", **configured):
        barrier = threading.Barrier(2)
        assert (
            len(set(parallel_map(meet, [(barrier,), (barrier,)], **given))) == 2
        )  # both at once, or the barrier breaks


def test_an_explicit_number_wins():
    here = {threading.get_ident()}
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert set(parallel_map(thread, [(0,), (1,)], n_jobs=1)) == here
    assert set(parallel_map(thread, [(0,), (1,)])) == here
    assert parallel_map(thread, []) == []


WORK = {
    "plain": ("topk-paper", {}),
    "another policy": ("topk-paper", {"policy": "peps"}),
    "another noise": ("two-nets", {"noise": "student:0.3"}),
    "actions": ("two-nets", {"actions": "answers"}),
}


@pytest.mark.parametrize("backend", ["threading", "multiprocessing", "loky"])
@pytest.mark.parametrize("work", WORK)
def test_the_same_bits_from_every_backend(backend, work):
    name, options = WORK[work]
    instance, options = load_instance(name), {"budget": 20, "replications": 6, "rng": 1} | options
    problem = instance.problem.copy_with(actions=options.pop("actions", None))
    one = simulate(problem, instance.theta, **options)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        two = simulate(problem, instance.theta, **options)
    for field in ("t", "correct", "pulls", "draws", "cost"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field), err_msg=field)


@pytest.mark.parametrize("n_jobs", [0, 1.5, True, "2"])
def test_no_number_of_processes(n_jobs):
    with pytest.raises(ParameterError, match="n_jobs"):
        parallel_map(thread, [(0,)], n_jobs=n_jobs)
