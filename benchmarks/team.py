"""Fifty people telling results to one server: `python -m benchmarks.team [--quick]`.

On every store, two loads of 10,000 tells on the instance topk-1000, from 50 connections of a second process:

- paced: each client takes a pause after an answer, as measurers do, 400 tells a second in all. Its latencies are held
  against the limits: a median of 10 fsyncs, and 50 fsyncs for 99 %.
- flat out: each client sends its next result with the last answer. The server is never idle, and latencies are what
  50 clients make of its throughput.

One fsync is an append of a line of 110 bytes to a file on the same disk, measured before and after each load.
Afterwards the campaign is read from its store: every tell must be there once, with its value.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks._table import markdown
from combopeps import Campaign, load_instance
from combopeps.campaign import check
from combopeps.campaign.open_store import store_at

OUT = Path("docs/results/team")
CLIENTS, TELLS, RATE = 50, 10_000, 400
MEDIAN, LATE = 10, 50  # fsyncs
STORES = ("SQLite", "PostgreSQL")
LOADS = ("paced", "flat out")


def fsync(folder: Path, rounds: int = 300) -> float:
    """Median seconds of an append that is safe."""
    path, seconds = folder / "fsync", []
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for _ in range(rounds):
        begun = time.perf_counter()
        os.write(fd, b"x" * 109 + b"\n")
        os.fsync(fd)
        seconds.append(time.perf_counter() - begun)
    os.close(fd)
    path.unlink()
    return float(np.median(seconds))


def begun(url: str, tells: int) -> list[tuple[int, float]]:
    """A campaign with so many open queries, an initial design of all arms, and what is to be told of them."""
    problem = load_instance("topk-1000").problem
    initial_design = -(-tells // len(problem.arms))
    queries = Campaign.create(url, problem, initial_design=initial_design).ask(tells)
    values = np.random.default_rng(0).normal(size=tells).tolist()
    return [(query.id, value) for query, value in zip(queries, values, strict=True)]


@contextlib.contextmanager
def server(url: str, profile: Path | None = None) -> Iterator[str]:
    """The address of a server in a process of its own."""
    program = ["-m", "combopeps"] if profile is None else ["-m", "cProfile", "-o", str(profile), "-m", "combopeps"]
    command = [sys.executable, *program, "serve", "--state", url, "--port", "0", "--json", "--rate", "1000000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()


def told(url: str) -> tuple[dict[int, float], int]:
    """What the store holds, after a check of every event: the results by query, and how many tells there are."""
    found = check(url)
    assert found.faults == []
    tells = [event for _, event in store_at(url).read().events if event["kind"] == "tell"]
    assert len(tells) == found.told
    return {event["id"]: event["ys"][0] for event in tells}, len(tells)


def measured(url: str, folder: Path, load: str, tells: int, profile: Path | None) -> dict[str, Any]:
    """One load on a new campaign."""
    work = begun(url, tells)
    sync = [fsync(folder)]
    with server(url, profile) as address:
        pause = CLIENTS / RATE if load == "paced" else 0.0
        order = {"tells": work, "clients": CLIENTS, "pause": pause}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks._load", address],
            input=json.dumps(order), capture_output=True, text=True, check=True, timeout=600,
        )  # fmt: skip
    sync.append(fsync(folder))
    found = json.loads(done.stdout)
    heard = [id for id, _, _ in found["times"]]
    there, count = told(url)
    once = there == dict(work) and count == tells and sorted(heard) == [id for id, _ in work]
    latency = np.array([seconds for _, _, seconds in found["times"]])
    return {
        "load": load,
        "clients": CLIENTS,
        "tells": tells,
        "each once": once,
        "tells per second": tells / found["seconds"],
        "fsync ms": float(np.mean(sync)) * 1e3,
        "median ms": float(np.median(latency)) * 1e3,
        "99 % ms": float(np.quantile(latency, 0.99)) * 1e3,
        "slowest ms": float(latency.max()) * 1e3,
    }


@contextlib.contextmanager
def place(store: str, folder: Path, name: str) -> Iterator[str]:
    """A URL where a campaign can begin, on the disk of the folder."""
    if store == "SQLite":
        yield str(folder / f"{name}.db")
    else:
        from benchmarks._postgres import postgres

        with postgres() as url:
            yield url


def row(store: str, found: dict[str, Any]) -> list[str]:
    """For people."""
    sync = found["fsync ms"]
    median, late = found["median ms"] / sync, found["99 % ms"] / sync
    held = found["load"] == "paced" and store != "PostgreSQL"
    verdict = ("yes" if median <= MEDIAN and late <= LATE else "NO") if held else "reported"
    return [
        store,
        found["load"],
        "yes" if found["each once"] else "NO",
        f"{found['tells per second']:,.0f}",
        f"{sync:.3f}",
        f"{found['median ms']:.2f}",
        f"{median:.1f}",
        f"{found['99 % ms']:.2f}",
        f"{late:.1f}",
        verdict,
    ]


HEADER = [
    "store", "load", "each once", "tells/s", "fsync, ms", "median, ms", "in fsyncs", "99 %, ms",
    "in fsyncs", f"<= {MEDIAN} and <= {LATE} fsyncs",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the tells; writes nothing")
    parser.add_argument("--store", choices=STORES, help="this one only; writes nothing")
    parser.add_argument("--profile", type=Path, help="write a cProfile of each server there; writes no table")
    args = parser.parse_args()
    tells, stores = TELLS // 10 if args.quick else TELLS, [args.store] if args.store else STORES
    OUT.mkdir(parents=True, exist_ok=True)
    busy = os.getloadavg()[0]
    rows, table = list[list[str]](), list[dict[str, Any]]()
    with (
        tempfile.TemporaryDirectory(dir=OUT) as name,  # on the disk of the checkout, not in a memory file system
        tqdm(total=len(stores) * len(LOADS), unit=" loads") as bar,
    ):
        for store in stores:
            for load in LOADS:
                bar.set_postfix_str(f"{store}, {load}")
                profile = args.profile and args.profile.with_suffix(f".{store}.{load.replace(' ', '-')}")
                with place(store, Path(name), load.replace(" ", "-")) as url:
                    found = measured(url, Path(name), load, tells, profile)
                table.append({"store": store, **found})
                rows.append(row(store, found))
                bar.update()
    text = "\n\n".join(
        [
            "# Fifty people telling results to one server",
            f"Made by `python -m benchmarks.team`, numpy {np.__version__}, Python {sys.version.split()[0]}, "
            f"{os.cpu_count()} cores, load average {busy:.1f} at the start"
            f"{' (others were at work: run it again on a quiet machine)' if busy > 1 else ''}.",
            f"{tells:,} tells on topk-1000 from {CLIENTS} connections of a second process. *Paced*: each client takes "
            f"a pause after an answer, {RATE} tells a second if answers took no time; this is the load that the limits "
            f"are for. *Flat out*: no pauses; with {CLIENTS} requests always under way a latency is {CLIENTS} divided "
            "by the throughput, and the limits are not for it. *Each once*: all were acknowledged, and the store, "
            "read afterwards, holds every one of them once with its value. One *fsync* is an append of 110 bytes to a "
            "file on the same disk, the median of 300 before and 300 after each load.",
            markdown(HEADER, rows),
        ]
    )
    print(text)
    if not (args.quick or args.store or args.profile):
        (OUT / "team.md").write_text(text + "\n")
        with (OUT / "team.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0].keys(), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
