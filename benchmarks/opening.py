"""What opening a long campaign costs with a checkpoint: `python -m benchmarks.opening [--quick]`.

1. Opening 100,000 tells from a checkpoint, and without one, beside 1,000 tells without one: in a process that has done
   its imports, on the processor (files are in memory), the best of several turns. Once with a checkpoint of all events,
   once with the most events after it that there can be.
2. What checkpoints add to the work of whoever writes them.

Events of top-two are written at once. Those of PEPS are asked for and told 1,000 at a time, which makes every choice.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from benchmarks._table import markdown
from benchmarks.campaign import written
from combopeps import Campaign, Problem, TopKOracle
from combopeps.campaign import sync

OUT = Path("docs/results/campaign")
MANY, FEW = 100_000, 1_000
BATCH = 1_000


@contextmanager
def every(events: int) -> Iterator[None]:
    """A checkpoint after so many events, whatever is usual."""
    usual = sync._EVERY, sync._SHARE
    sync._EVERY, sync._SHARE = events, 10**9
    try:
        yield
    finally:
        sync._EVERY, sync._SHARE = usual


def asked(path: Path, tells: int) -> None:
    """A campaign of PEPS, asked for and told in batches."""
    campaign, rng = (
        Campaign.create(path, Problem(TopKOracle(12, 3), noise_std=1.0, prior_mean=0.0, prior_std=1.0), policy="peps"),
        np.random.default_rng(0),
    )
    for _ in range(tells // BATCH):
        campaign.tell_many(list(zip(campaign.ask(BATCH), rng.normal(size=BATCH).tolist(), strict=True)))


def made(path: Path, policy: str, tells: int) -> None:
    """Without a checkpoint; a file that was made before will do."""
    with every(10**12):
        if policy == "peps" and not path.exists():
            asked(path, tells)
        elif not path.exists():
            written(path, Problem(TopKOracle(12, 3), noise_std=1.0, prior_mean=0.0, prior_std=1.0), tells)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM combopeps_checkpoints")


def opened(path: Path, tells: int, rounds: int, kept: bool) -> tuple[float, Campaign]:
    """Milliseconds of the processor, and the campaign."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        campaign = Campaign.open(path)
        best = min(best, time.process_time() - start)
        assert (campaign.samples >= tells, campaign._saved > 0) == (True, kept)
    return 1e3 * best, campaign


def opening(folder: Path, rounds: int) -> list[list[str]]:
    """Few and many tells, with and without."""
    rows = []
    for policy in ("top-two", "peps"):
        few, many = folder / f"{policy}-few", folder / f"{policy}-many"
        made(few, policy, FEW)
        made(many, policy, MANY)
        short, _ = opened(few, FEW, rounds, kept=False)
        plain, campaign = opened(many, MANY, 1, kept=False)
        with every(1):
            campaign.observe(0, 0.5)
        new, campaign = opened(many, MANY, rounds, kept=True)
        behind = max(sync._EVERY, campaign._cursor.number // sync._SHARE) - 1
        with every(10**12):
            for _ in range(behind // 2 // 10):
                campaign.tell_many([(query, 0.5) for query in campaign.ask(10)])
            campaign.observe_table([(0, 0.5)] * (behind - (campaign._cursor.number - campaign._saved)))
        old, _ = opened(many, MANY, rounds, kept=True)
        ratio, size = new / short, len(Campaign.open(many).store.checkpoint().data) / 1e6
        verdict = f"<= 3 {'yes' if ratio <= 3 else 'NO'}"
        times = [f"{each:.0f}" for each in (short, plain, new)]
        rows.append([policy, *times, f"{ratio:.2f}", verdict, f"{behind:,}", f"{old:.0f}", f"{size:.1f}"])
    return rows


def writing(folder: Path, rounds: int) -> list[list[str]]:
    """Seconds to ask and tell one by one after so many events, and what checkpoints take of it."""
    rows = []
    for policy, tells in (("top-two", 0), ("top-two", MANY), ("peps", 0), ("peps", MANY)):
        path, seconds, spent, count = folder / f"{policy}-{'many' if tells else 'new'}", 0.0, 0.0, 0
        if not tells:
            for name in ("", "-wal", "-shm"):
                path.with_name(path.name + name).unlink(missing_ok=True)
        campaign = (
            Campaign.open(path)
            if tells
            else Campaign.create(
                path, Problem(TopKOracle(12, 3), noise_std=1.0, prior_mean=0.0, prior_std=1.0), policy=policy
            )
        )
        keep, steps = campaign._save, rounds * (5 if policy == "top-two" else 1)

        def timed(state: object, keep: object = keep, campaign: Campaign = campaign) -> None:
            nonlocal spent, count
            before, start = campaign._saved, time.perf_counter()
            keep(state)  # type: ignore[operator]
            spent += time.perf_counter() - start
            count += campaign._saved != before

        campaign._save = timed  # type: ignore[method-assign,assignment]
        start = time.perf_counter()
        for _ in range(steps):
            campaign.tell(campaign.ask(), 0.5)
        seconds = time.perf_counter() - start
        rows.append(
            [policy, f"{tells:,}", f"{steps:,}", f"{seconds:.2f}", str(count), f"{1e3 * spent / max(count, 1):.1f}",
             f"{100 * spent / seconds:.1f}"]
        )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds; the files keep their size")
    parser.add_argument("--folder", type=Path, help="keep the campaigns there, and use those that are there already")
    options = parser.parse_args()
    rounds = 3 if options.quick else 10
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT) as name:
        folder = options.folder or Path(name)
        folder.mkdir(exist_ok=True)
        parts = [
            "# Opening a long campaign",
            f"Made by `python -m benchmarks.opening{' --quick' * (rounds == 3)}`, numpy {np.__version__}, "
            f"Python {sys.version.split()[0]}. Top-k 12 choose 3; milliseconds on the processor, imports left out.",
            markdown(
                ["policy", f"{FEW:,} tells, no checkpoint", f"{MANY:,}, no checkpoint", f"{MANY:,}, checkpoint",
                 "ratio to the first", "wanted", "most events after a checkpoint", "with these", "checkpoint, MB"],
                opening(folder, rounds),
            ),
            "Asking and telling one by one: what writing checkpoints takes of it, by the clock.",
            markdown(
                ["policy", "tells before", "asks and tells", "seconds", "checkpoints", "ms each", "share, %"],
                writing(folder, 200 * rounds),
            ),
        ]  # fmt: skip
    text = "\n\n".join(parts) + "\n"
    (OUT / "opening.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
