"""What a state file costs: `python -m benchmarks.campaign [--quick]`.

1. One `tell`, beside one write and one fsync of 110 bytes on the same disk, taking turns.
2. Opening a file of 100,000 queries and tells, in a process of its own: imports, reading, checking and learning.
3. One `ask` without and with the file: what it costs that samplers begin without memories, and to wait for the disk.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks._problems import grid_oracle
from benchmarks._table import markdown
from combopeps import ArgmaxOracle, Campaign, MatchingOracle, Problem, TopKOracle, TopTwo
from combopeps.campaign.store import Event
from combopeps.streams import named

OUT = Path("docs/results/campaign")
OPEN = "import sys; from combopeps import Campaign; print(Campaign.open(sys.argv[1]).samples)"


def written(path: Path, problem: Problem, tells: int) -> Campaign:
    """A campaign of so many queries and tells, written at once."""
    campaign = Campaign.create(path, problem)
    rng, labels = np.random.default_rng(0), problem.arms.labels
    lines: list[Event] = []
    arms, ys = rng.integers(0, len(labels), tells).tolist(), rng.normal(size=tells).tolist()
    for i, (arm, y) in enumerate(zip(arms, ys, strict=True)):
        lines.append({"kind": "ask", "queries": [{"id": i, "arm": arm, "label": labels[arm]}]})
        lines.append({"kind": "tell", "id": i, "arm": arm, "label": labels[arm], "y": y})
    with campaign.store.locked():
        campaign.store.append(lines, campaign._cursor)
    return Campaign.open(path)


def turns(rivals: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of a call: a disk has no best time, as a loop in memory has."""
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, call in rivals.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def one_tell(folder: Path, rounds: int) -> list[list[str]]:
    """A tell beside a bare write and fsync, in small and in large files."""
    rows = []
    for before in (0, 100_000):
        campaign = written(
            folder / f"tell{before}", Problem(TopKOracle(12, 3), noise_std=1.0, prior_mean=0.0, prior_std=1.0), before
        )
        queries = iter(campaign.ask(rounds))
        line = b"x" * 109 + b"\n"  # as long as a tell
        bare = os.open(folder / f"bare{before}", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

        def write_and_sync(fd: int = bare, line: bytes = line) -> None:
            os.write(fd, line)
            os.fsync(fd)

        times = turns({"bare": write_and_sync, "tell": lambda c=campaign, q=queries: c.tell(next(q), 0.5)}, rounds)
        os.close(bare)
        ratio = times["tell"] / times["bare"]
        rows.append(
            [f"{before:,}", f"{times['bare'] * 1e6:.0f}", f"{times['tell'] * 1e6:.0f}",
             f"{ratio:.2f}", f"<= 2 {'yes' if ratio <= 2 else 'NO'}"]
        )  # fmt: skip
    return rows


def opening(folder: Path, tells: int) -> list[list[str]]:
    """Seconds of a whole process that opens a file."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 20))
    problems = {
        "top-k 12 choose 3": Problem(TopKOracle(12, 3), noise_std=1.0, prior_mean=0.0, prior_std=1.0),
        "grid 10 x 10": Problem(grid_oracle(10), noise_std=1.0, prior_mean=0.0, prior_std=1.0),
        "top-k 20 choose 5, 200 general arms": Problem(
            TopKOracle(20, 5), arms=X, noise_std=1.0, prior_mean=0.0, prior_std=1.0
        ),
    }
    rows = []
    for name, problem in problems.items():
        path = folder / name.replace(" ", "_")
        written(path, problem, tells)
        start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=True)
        seconds, total = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        busy = total.ru_utime + total.ru_stime - used.ru_utime - used.ru_stime
        assert int(done.stdout) == tells
        size = path.stat().st_size / 1e6
        verdict = f"< 5 {'yes' if seconds < 5 else 'NO'}"
        rows.append([name, f"{tells:,}", f"{size:.1f}", f"{seconds:.2f}", f"{busy:.2f}", verdict])
    return rows


def one_ask(folder: Path, rounds: int) -> list[list[str]]:
    """Milliseconds of an ask in memory, of one without memories, and of one on the disk; late in a run."""
    oracles: dict[str, ArgmaxOracle] = {
        "top-k 12 choose 3": TopKOracle(12, 3),
        "top-k 1000 choose 10": TopKOracle(1000, 10),
        "grid 30 x 30": grid_oracle(30),
        "matching 30 x 30": MatchingOracle(30, 30),
    }
    rows = []
    for name, oracle in oracles.items():
        problem, numbers = Problem(oracle, noise_std=0.3, prior_mean=0.0, prior_std=1.0), count()
        theta = np.random.default_rng(2).uniform(1.0, 2.0, oracle.dim)
        theta[oracle.argmax(theta) != 0] += 0.5 * oracle.unit
        policy, cold = TopTwo(problem, 0), TopTwo(problem, 0)
        campaign = Campaign.create(folder / f"ask_{name}".replace(" ", "_"), problem)
        arms = np.repeat(np.arange(oracle.dim), 20).tolist()
        for one in (policy, cold, campaign._state.policy):  # type: ignore[union-attr]
            one.belief.update_many(arms, theta[arms].tolist())

        def ask_cold(one: TopTwo = cold, ids: count[int] = numbers) -> None:
            one.forget()
            one.streams.reseed([named(0, "query", next(ids))])
            one.ask()

        policy.ask()
        times = turns({"memory": policy.ask, "cold": ask_cold, "campaign": campaign.ask}, rounds)
        rows.append([name, *(f"{seconds * 1e3:.2f}" for seconds in times.values())])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds; the files keep their size")
    rounds = 200 if parser.parse_args().quick else 1000
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT) as name:  # on the disk of the checkout, not in a memory file system
        folder = Path(name)
        parts = [
            "# What a campaign costs",
            f"Made by `python -m benchmarks.campaign{' --quick' * (rounds == 200)}`, numpy {np.__version__}, "
            f"Python {sys.version.split()[0]}.",
            markdown(["tells before", "write + fsync, us", "tell, us", "ratio", "wanted"], one_tell(folder, rounds)),
            markdown(
                ["problem", "tells", "MB", "seconds to open, imports included", "of them on the processor", "wanted"],
                opening(folder, 100_000),
            ),
            markdown(
                ["problem", "ask in memory, ms", "without memories, ms", "Campaign.ask, ms"],
                one_ask(folder, rounds // 10),
            ),
        ]
    text = "\n\n".join(parts) + "\n"
    (OUT / "campaign.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
