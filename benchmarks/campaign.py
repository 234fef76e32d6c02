"""What a campaign costs: `python -m benchmarks.campaign [--quick]`.

1. One `tell`, beside one commit of a row as long by the sqlite3 module (WAL, synchronous=FULL) on the same disk.
2. One `ask` of a session and of a campaign in SQLite, after 20 results of every component.
3. Opening 100,000 tells, beside opening 1,000, in SQLite and PostgreSQL: processor time of a process that has done its
   imports, the best of several; the mean of four openings between two checkpoints.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from benchmarks._postgres import postgres
from benchmarks._problems import grid_oracle
from benchmarks._table import markdown
from combopeps import ArgmaxOracle, Campaign, MatchingOracle, Problem, Session, TopKOracle

OUT = Path("docs/results/campaign")
FEW, MANY, BATCH = 1_000, 100_000, 1_000


def in_turns(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each call."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def stated(oracle: ArgmaxOracle, noise_std: float = 1.0) -> Problem:
    """A problem with a stated prior."""
    return Problem(oracle, noise_std=noise_std, prior_mean=0.0, prior_std=1.0)


def filled(url: str, policy: str, tells: int) -> Campaign:
    """A campaign with so many queries and results."""
    campaign, rng = Campaign.create(url, stated(TopKOracle(12, 3)), policy=policy), np.random.default_rng(0)
    for _ in range(tells // BATCH):
        campaign.tell_many(list(zip(campaign.ask(BATCH), rng.normal(size=BATCH).tolist(), strict=True)), confirm=True)
    return campaign


def one_tell(folder: Path, rounds: int) -> list[list[str]]:
    """A tell beside a bare commit, in a new campaign and in a long one."""
    rows = []
    for before in (0, MANY):
        campaign = filled(str(folder / f"tell{before}.db"), "top-two", before)
        queries = iter(campaign.ask(rounds))
        row = (b"x" * 110, "0" * 24)
        with closing(sqlite3.connect(folder / f"bare{before}.db", isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("CREATE TABLE events (number INTEGER PRIMARY KEY, event TEXT, checksum TEXT)")

            def commit(connection: sqlite3.Connection = connection, row: tuple[bytes, str] = row) -> None:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO events (event, checksum) VALUES (?, ?)", row)
                connection.execute("COMMIT")

            times = in_turns({"bare": commit, "tell": lambda c=campaign, q=queries: c.tell(next(q), 0.5)}, rounds)
        rows.append([f"{before:,}", *(f"{times[name] * 1e6:.0f}" for name in ("bare", "tell")),
                     f"{times['tell'] / times['bare']:.2f}"])  # fmt: skip
    return rows


def one_ask(folder: Path, rounds: int) -> list[list[str]]:
    """Milliseconds of an ask in memory and in a campaign, late in a run."""
    oracles: dict[str, ArgmaxOracle] = {
        "top-k 12 choose 3": TopKOracle(12, 3),
        "top-k 1000 choose 10": TopKOracle(1000, 10),
        "grid 30 x 30": grid_oracle(30),
        "matching 30 x 30": MatchingOracle(30, 30),
    }
    rows = []
    for name, oracle in oracles.items():
        problem, rng = stated(oracle, 0.3), np.random.default_rng(2)
        theta = rng.uniform(1.0, 2.0, oracle.dim)
        theta[oracle.argmax(theta) != 0] += 0.5 * oracle.unit
        results = [
            (label, value + 0.3 * rng.normal())
            for _ in range(20)
            for label, value in zip(problem.arms.labels, theta.tolist(), strict=True)
        ]
        session = Session(problem)
        campaign = Campaign.create(folder / f"ask {name}.db", problem)
        for each in (session, campaign):
            each.observe_table(results, confirm=True)
            each.ask()
        times = in_turns({"session": session.ask, "campaign": campaign.ask}, rounds)
        rows.append([name, *(f"{seconds * 1e3:.2f}" for seconds in times.values())])
    return rows


def processor_time(url: str, rounds: int) -> float:
    """Mean seconds of opening a campaign 250, 500, 750 and 1,000 events later."""
    seconds = []
    for _ in range(4):
        Campaign.open(url).tell_many([(query, 0.5) for query in Campaign.open(url).ask(249)], confirm=True)
        best = float("inf")
        for _ in range(rounds):
            start = time.process_time()
            Campaign.open(url)
            best = min(best, time.process_time() - start)
        seconds.append(best)
    return float(np.mean(seconds))


def opening(places: dict[str, str], rounds: int) -> list[list[str]]:
    """Few and many tells, in each store."""
    rows = []
    for store, url in places.items():
        for policy in ("top-two", "peps"):
            seconds = []
            for tells in (FEW, MANY):
                name = f"{url}#{policy}-{tells}"
                filled(name, policy, tells)
                seconds.append(processor_time(name, rounds))
            few, many = seconds
            rows.append([store, policy, f"{few * 1e3:.0f}", f"{many * 1e3:.0f}", f"{many / few:.2f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds; the campaigns keep their size")
    rounds = 200 if parser.parse_args().quick else 1000
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT) as name, postgres() as url:  # on the disk of the checkout
        folder = Path(name)
        parts = [
            "# What a campaign costs",
            f"Made by `python -m benchmarks.campaign{' --quick' * (rounds == 200)}`, numpy {np.__version__}, "
            f"Python {sys.version.split()[0]}.",
            markdown(["tells before", "bare commit, us", "tell, us", "ratio"], one_tell(folder, rounds)),
            markdown(["problem", "ask of a session, ms", "ask of a campaign, ms"], one_ask(folder, rounds // 4)),
            markdown(
                ["store", "policy", f"opening {FEW:,} tells, ms", f"opening {MANY:,} tells, ms", "ratio"],
                opening({"SQLite": f"sqlite:///{folder}/opening.db", "PostgreSQL": url}, max(3, rounds // 100)),
            ),
        ]
    text = "\n\n".join(parts) + "\n"
    (OUT / "campaign.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
