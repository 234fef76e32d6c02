"""Time per round, beside one argmax plus one draw of d standard normals measured in the same process.

Every row is a process of its own with one thread, so that its peak memory is its own; seconds are those that it spent
on the processor, so that others on the machine matter little. Half of the rounds are the first
of a run; the other half come late, after every arm has been measured 20 times and alternatives have become improbable.
That jump makes samplers look for all facets at once, which a run does little by little: the 30 rounds after it are
summed up apart (search_ms). What a round costs in whole runs, searches and looks included, is in runs.csv.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks._alone import alone
from benchmarks._store import Arrays, Store, Unit, write_csv
from benchmarks._timing import best_times
from benchmarks.huge.families import FAMILIES, Size, problem
from benchmarks.huge.listing import can_be_listed, listed_problem
from benchmarks.huge.scale import POLICIES, RIVAL, Scale
from benchmarks.policies import FACTOR, round_times
from combopeps import Policy, Problem
from combopeps.policies.registry import DEFAULT_POLICY, policy_class

TITLE, ALONE = "clock", True
ROOT = Path(__file__).resolve().parents[2]
LATE = 20  # measurements of every arm before the late rounds
SEARCH = 30  # rounds after that jump
SLACK = 150e-6
FIXED = ("family", "size", "d", "log10_Z", "policy", "rounds", "oracle_calls_per_round")
TIMED = (
    "us_per_round", "us_median", "us_early", "us_late", "search_ms", "floor_us", "times_floor", "oracle_share",
    "peak_MB", "limit_us",
)  # fmt: skip


def units(scale: Scale) -> list[Unit]:
    """One unit per family, size and policy; LinGame while Z can be listed, and the default policy on the largest."""
    return [
        _unit(family, size, policy, scale.rounds)
        for family, sizes in scale.sizes.items()
        for size in sizes
        for policy in (*POLICIES, DEFAULT_POLICY)
        if (policy != RIVAL or can_be_listed(family, size)) and (policy != DEFAULT_POLICY or size == sizes[-1])
    ]


def _unit(family: str, size: Size, policy: str, rounds: int) -> Unit:
    params = {"family": family, "size": list(size), "policy": policy, "rounds": rounds}
    name = f"clock {family} {'-'.join(map(str, size))} {policy}"
    return Unit(name, params, partial(in_a_process, **params), SOURCES)


def in_a_process(jobs: int, **params: object) -> Arrays:
    """`measure`, somewhere with no history."""
    found = alone("benchmarks.huge.clock", params)
    return {key: np.asarray(value) for key, value in found.items()}


def measure(family: str, size: Size, policy: str, rounds: int) -> dict[str, object]:
    """Seconds of every round, and what the oracle had to do with them."""
    import resource

    from benchmarks._counting import Calls

    made, theta = (listed_problem if policy == RIVAL else problem)(family, size)
    oracle, rng = made.oracle, np.random.default_rng(1)
    rivals = {"floor": lambda: oracle.argmax(np.abs(rng.standard_normal(oracle.dim)))}
    floor = best_times(rivals, clock=process_time)["floor"]
    options = {"every_arm_once": False} if policy == RIVAL else {}  # all rounds are rounds of the game
    make = partial(policy_class(POLICIES.get(policy, policy)), rng=2, **options)
    _compile(make, family, listed=policy == RIVAL)
    runner, calls = make(made), Calls(oracle, process_time)
    early = round_times(runner, theta, rounds // 2, 3, process_time)
    rows, inside = calls.rows, calls.seconds
    _jump(runner, theta)
    search = round_times(runner, theta, SEARCH, 4, process_time).sum()
    rows, inside = rows - calls.rows, inside - calls.seconds
    late = round_times(runner, theta, rounds - rounds // 2, 5, process_time)
    return {
        "d": oracle.dim, "floor": floor, "early": early.tolist(), "late": late.tolist(), "search": float(search),
        "calls": rows + calls.rows, "inside": inside + calls.seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip


def _jump(runner: Policy, theta: np.ndarray) -> None:
    """To a late posterior, at once."""
    many = np.full(len(theta), LATE)
    runner.learn_many(np.arange(len(theta)), theta, many.astype(np.float64), many)


def _compile(make: Callable[[Problem], Policy], family: str, *, listed: bool) -> None:
    """Go through the same kernels on smaller members of the family."""
    sizes = FAMILIES[family].sizes
    for size in sizes[:1] if listed else (sizes[0], sizes[3]):
        made, theta = (listed_problem if listed else problem)(family, size)
        runner = make(made)
        round_times(runner, theta, 30, seed=0)
        _jump(runner, theta)
        round_times(runner, theta, 30, seed=1)


def write(scale: Scale, store: Store, out: Path) -> None:
    """clock.csv: what depends on the seeds alone first, what depends on the machine after."""
    rows = []
    for unit in units(scale):
        given, data = unit.params, store.load(unit)
        family, size = FAMILIES[given["family"]], tuple(given["size"])
        early, late, floor = data["early"], data["late"], float(data["floor"])
        seconds, rounds = np.concatenate([early, late]), len(early) + len(late)
        limit = FACTOR[given["policy"]] * floor + SLACK if given["policy"] in FACTOR else np.nan
        fixed = (
            given["family"], family.name(size), int(data["d"]), family.digits(size), given["policy"], rounds,
            float(data["calls"] / rounds),
        )  # fmt: skip
        mean = float(seconds.mean())
        timed = (
            mean * 1e6, float(np.median(seconds)) * 1e6, float(early.mean()) * 1e6, float(late.mean()) * 1e6,
            float(data["search"]) * 1e3, floor * 1e6, mean / floor, float(data["inside"] / seconds.sum()),
            float(data["megabytes"]), limit * 1e6,
        )  # fmt: skip
        rows.append((*fixed, *timed))
    write_csv(out / "clock.csv", (*FIXED, *TIMED), rows)


SOURCES = tuple(
    ROOT / "benchmarks" / name
    for name in ("_counting.py", "_timing.py", "policies.py", "huge/clock.py", "huge/families.py", "huge/listing.py")
)


if __name__ == "__main__":
    params = json.loads(sys.argv[1])
    print(json.dumps(measure(params["family"], tuple(params["size"]), params["policy"], params["rounds"])))
