"""Runs on Dask workers: the same bits, even if a worker is lost; no address, worker or error blocks the caller."""

import http.server
import logging
import os
import signal
import socket
import sys
import threading
import time
from _thread import interrupt_main
from functools import partial

import numpy as np
import pytest

from combopeps import load_instance, simulate
from combopeps.errors import DependencyError, MatchingError, ParameterError, ServerError
from combopeps.utils import parallel as on_cluster
from combopeps.utils.parallel import completed, connected, parallel_map

distributed = pytest.importorskip("distributed")

# A cluster complains from threads and event loops of its own; none of it is ours to handle.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.xdist_group("dask")]


@pytest.fixture(scope="module")
def cluster():
    quiet = {"dashboard_address": None, "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **quiet) as made:
        yield made


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as made:
        yield made


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(on_cluster, "ANSWER", 0.5)


def paper(budget, **who):
    instance = load_instance("topk-paper")
    return simulate(instance.problem, instance.theta, "top-two", budget=budget, replications=500, rng=3, **who)


def same(one, other):
    """All but the seconds, bit for bit."""
    for field in ("t", "correct", "pulls", "draws", "cost", "seed"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field), err_msg=field, strict=True)


def nap(i, seconds=0.1):
    time.sleep(seconds)
    return i


def fail(i):
    raise MatchingError("no matching", ["a"], ["b"])


@pytest.mark.parametrize("budget", [40, pytest.param(30_000, marks=pytest.mark.slow)])
def test_500_runs_on_two_workers_are_those_of_one_process(cluster, budget):
    same(paper(budget, scheduler=cluster.scheduler_address), paper(budget))


def kill_a_busy_worker(cluster, client, killed):
    pids = {nanny.worker_address: nanny.pid for nanny in cluster.workers.values()}
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for address, pieces in client.processing().items():
            if pieces and address in pids:
                os.kill(pids[address], signal.SIGKILL)
                killed.append(len(pieces))
                return
        time.sleep(0.01)


@pytest.mark.parametrize("budget", [100, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_worker_killed_in_the_middle_costs_no_run(cluster, client, budget):
    client.wait_for_workers(2, timeout=30)
    killed = []
    killer = threading.Thread(target=kill_a_busy_worker, args=(cluster, client, killed))
    killer.start()
    trace = paper(budget, scheduler=client)
    killer.join()
    assert killed
    same(trace, paper(budget))


def test_results_stand_in_the_order_of_the_tasks(client):
    tasks = [(i, 0.2 if i == 0 else 0.0) for i in range(6)]
    assert parallel_map(nap, tasks, scheduler=client) == list(range(6))
    assert [i for i, _ in completed(nap, tasks, client)] != list(range(6))


def test_an_exception_comes_with_its_type_and_attributes(client):
    with pytest.raises(MatchingError, match="no matching") as caught:
        parallel_map(fail, [(1,), (2,)], scheduler=client)
    assert caught.value.left_set == ["a"]


def none_left(client):
    until = time.monotonic() + 5
    while left := client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return left == 0


def test_ctrl_c_cancels_what_is_left(client):
    timer = threading.Timer(0.4, interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        parallel_map(nap, [(i, 0.2) for i in range(200)], scheduler=client)
    assert none_left(client)


def test_the_client_that_was_given_stays_open_and_is_not_the_default(client):
    parallel_map(nap, [(1, 0.0)], scheduler=client)
    assert client.status == "running"
    with pytest.raises(ValueError, match="No clients"):
        distributed.default_client()


def test_other_code_is_refused(client, monkeypatch):
    monkeypatch.setattr(on_cluster, "code_mark", lambda code: "another")
    with pytest.raises(ParameterError, match="other code than this process"):
        parallel_map(nap, [(1,)], scheduler=client)


def test_a_worker_without_the_package_says_so(monkeypatch):
    piece = on_cluster._piece(b"", ("combopeps",), "mark")
    monkeypatch.setitem(sys.modules, "combopeps.utils.parallel", None)
    refused, result = piece(b"")
    assert refused.startswith("lacks combopeps")
    assert result is None


def test_modules_of_ones_own_that_a_worker_has_not(client, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with pytest.raises(ParameterError, match=r"cannot import what the work consists of.*only_here"):
        parallel_map(only_here.double, [(1,)], scheduler=client)


ADDRESSES = ["", "nonsense", "tcp://127.0.0.1", "tcp://127.0.0.1:x", "foo://a:1", "tcp://[::1", 7]


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ParameterError, match=r"no Dask scheduler answers|must be an address"):
        paper(10, scheduler=address)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.mark.parametrize("kind", ["closed", "silent", "http"])
def test_an_address_without_a_scheduler_is_refused_soon(kind, hurried):
    start = time.monotonic()
    with socket.socket() as silent, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        port = {"closed": 9, "silent": silent.getsockname()[1], "http": server.server_port}[kind]
        with pytest.raises(ParameterError, match="no Dask scheduler answers"):
            paper(10, scheduler=f"tcp://127.0.0.1:{port}")
        server.shutdown()
    assert time.monotonic() - start < 5


def test_a_scheduler_without_workers_is_an_error(hurried):
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty,
        pytest.raises(ServerError, match=r"has no workers; start some: dask worker \S+"),
    ):
        paper(10, scheduler=empty.scheduler_address)


def test_the_run_ends_when_the_last_worker_has_left(monkeypatch):
    monkeypatch.setattr(on_cluster, "POLL", 0.2)
    monkeypatch.setattr(on_cluster, "PATIENCE", 0.5)
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as shrinking:
        timer = threading.Timer(0.3, partial(shrinking.scale, 0))
        timer.start()
        with pytest.raises(ServerError, match=r"has had no workers for 0\.5 seconds"):
            parallel_map(nap, [(i,) for i in range(100)], scheduler=shrinking.scheduler_address)


def test_a_closed_client_is_refused(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        pass
    with pytest.raises(ParameterError, match="synchronous and running"), connected(client):
        pass


def test_without_dask_the_error_names_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DependencyError, match=r"combopeps\[dask\]"):
        paper(10, scheduler="tcp://127.0.0.1:8786")
