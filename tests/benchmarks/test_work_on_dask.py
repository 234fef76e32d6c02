"""The same table from a cluster that loses a worker on the way."""

import csv
import logging
import os
import signal
import threading
import time

import pytest

from benchmarks.huge import runs
from benchmarks.huge.__main__ import main
from combopeps.utils import parallel as on_cluster

distributed = pytest.importorskip("distributed")


def table(out):
    with (out / "runs.csv").open(newline="") as file:
        return [{key: row[key] for key in runs.FIXED} for row in csv.DictReader(file)]


class Killer(threading.Thread):
    """Kills a worker process once some results are there."""

    def __init__(self, pid, raw):
        super().__init__(daemon=True)
        self.pid, self.raw, self.finished_before = pid, raw, None

    def run(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self.raw.is_dir() and (done := len(list(self.raw.glob("*.npz")))) >= 2:
                self.finished_before = done
                os.kill(self.pid, signal.SIGKILL)
                return
            time.sleep(0.005)


# A cluster that loses a worker complains from threads and event loops of its own; none of it is ours to handle.
@pytest.mark.filterwarnings("default")
def test_a_killed_worker_changes_nothing(tmp_path):
    serial, parallel = tmp_path / "serial", tmp_path / "parallel"
    main(["--tiny", "--only", "runs", "--jobs", "1", "--out", str(serial)])
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.CRITICAL
    ) as cluster:
        killer = Killer(next(iter(cluster.workers.values())).pid, parallel / "raw")
        killer.start()
        main(["--tiny", "--only", "runs", "--scheduler", cluster.scheduler_address, "--out", str(parallel)])
        killer.join()
    assert table(parallel) == table(serial)
    assert killer.finished_before is not None
    assert killer.finished_before < len(table(serial)) // 2  # it was in mid-run


@pytest.mark.filterwarnings("default")
def test_a_scheduler_that_is_not_there(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(on_cluster, "ANSWER", 1.0)
    with pytest.raises(SystemExit):
        main(["--tiny", "--only", "runs", "--scheduler", "tcp://127.0.0.1:9", "--out", str(tmp_path)])
    assert "no Dask scheduler answers" in capsys.readouterr().err
