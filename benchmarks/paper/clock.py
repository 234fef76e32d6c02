"""Item 4: milliseconds per round on the sphere, K = 50 ... 20,000 arms that are the answers too, d = 6.

The three policies take turns of 20 rounds in one process with one thread, so that a busy machine slows all alike;
medians over rounds. LinGame starts with the game at once, without measuring each arm first: all its rounds are full.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks._store import Arrays, Store, Unit, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.paper import _figures as fig
from benchmarks.paper._cases import SEED
from benchmarks.paper._published import CLOCK
from benchmarks.paper._scale import Scale
from combopeps import PEPS, ExplicitOracle, Policy, Problem, TopTwo
from combopeps.policies.baselines import LinGame

TITLE = "clock"
RIVALS = ("PEPS", "TopTwo", "LinGame")
TURN, DIM, WARM = 20, 6, 2
HEADER = ("K", "policy", "median_ms", "p10_ms", "p90_ms", "lingame_over_this", "low", "high", "paper_ms")


def units(scale: Scale) -> list[Unit]:
    """One unit per number of arms."""
    return [_unit(arms, scale.clock_turns) for arms in scale.clock_arms]


def sphere(arms: int) -> tuple[Problem, np.ndarray]:
    """As the recipe `sphere`, without a table of all pairs."""
    from scipy.spatial import KDTree

    points = np.random.default_rng(SEED).normal(size=(arms, DIM))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    distance, neighbour = KDTree(points).query(points, k=2)
    x = int(distance[:, 1].argmin())
    theta = points[x] + 0.01 * (points[neighbour[x, 1]] - points[x])
    return Problem(ExplicitOracle(points), arms=points, noise_std=1.0, prior_mean=0.0, prior_std=1.0), theta


def _unit(arms: int, turns: int) -> Unit:
    def compute(jobs: int) -> Arrays:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config("loky", n_jobs=2, inner_max_num_threads=1):  # one worker gets the one task
            (seconds,) = Parallel()([delayed(_measure)(arms, turns)])
        return dict(seconds)

    return Unit(f"clock {arms} arms", {"arms": arms, "turns": turns, "turn": TURN, "seed": SEED}, compute)


def _measure(arms: int, turns: int) -> Arrays:
    """Seconds of every round, (turns, TURN), of the rivals in turn."""
    made, theta = sphere(arms)
    means = made.arms.dot(theta)
    rivals: dict[str, Policy] = {
        "PEPS": PEPS(made, rng=SEED),
        "TopTwo": TopTwo(made, rng=SEED),
        "LinGame": LinGame(made, rng=SEED, every_arm_once=False),
    }
    nature = np.random.default_rng(SEED)
    seconds = {name: np.zeros((turns + WARM, TURN)) for name in rivals}
    for turn in range(turns + WARM):
        for name, policy in rivals.items():
            for t in range(TURN):
                noise = nature.standard_normal(1)
                start = time.perf_counter()
                arm = policy.choose()
                policy.learn(arm, means[arm] + noise)
                seconds[name][turn, t] = time.perf_counter() - start
    return {name: values[WARM:] for name, values in seconds.items()}


def write(scale: Scale, store: Store, out: Path) -> None:
    """clock.csv, clock.md and clock.png."""
    rows = []
    for arms in scale.clock_arms:
        data = store.load(_unit(arms, scale.clock_turns))
        turns = {name: np.median(data[name], axis=1) for name in RIVALS}
        for name in RIVALS:
            ms = data[name].ravel() * 1e3
            ratios = turns["LinGame"] / turns[name]  # of neighbouring turns: what the machine did then hits both
            ratio, low, high = _median_interval(ratios)
            paper = CLOCK.get(name, {}).get(arms, np.nan)
            rows.append(
                (arms, name, float(np.median(ms)), *map(float, np.quantile(ms, (0.1, 0.9))), ratio, low, high, paper)
            )
    write_csv(out / "clock.csv", HEADER, rows)
    (out / "clock.md").write_text(f"{__doc__.split(chr(10), 1)[1].strip()}\n\n{table(out / 'clock.csv')}\n")
    _draw(out)


def _median_interval(values: np.ndarray) -> tuple[float, float, float]:
    """The median and its 95 % bootstrap interval."""
    picks = np.random.default_rng(0).integers(0, len(values), size=(1000, len(values)))
    low, high = np.quantile(np.median(values[picks], axis=1), (0.025, 0.975))
    return float(np.median(values)), float(low), float(high)


def _draw(out: Path) -> None:
    rows = read_csv(out / "clock.csv")
    figure, (axis,) = fig.new()
    for name in RIVALS:
        mine = [row for row in rows if row["policy"] == name]
        arms = [int(row["K"]) for row in mine]
        median, low, high = (np.array([float(r[key]) for r in mine]) for key in ("median_ms", "p10_ms", "p90_ms"))
        style = {**fig.STYLE[name], "linestyle": "-"}
        axis.plot(arms, median, label=f"{name}, here", **style)
        axis.fill_between(arms, low, high, color=style["color"], alpha=0.15, linewidth=0)
        if name in CLOCK:
            grey = {**style, "linestyle": ":", "markerfacecolor": "white"}
            axis.plot(list(CLOCK[name]), list(CLOCK[name].values()), label=f"{name}, paper (Julia)", **grey)
    axis.set(xscale="log", yscale="log", xlabel="arms K", ylabel="ms per round (10 - 90 % of rounds)")
    axis.set_title("Time per round on the sphere")
    fig.save(figure, out / "clock.png", axis)


def table(path: Path) -> str:
    """Milliseconds, and LinGame's time as a multiple."""
    rows = read_csv(path)
    body = []
    for arms in dict.fromkeys(row["K"] for row in rows):
        mine = {row["policy"]: row for row in rows if row["K"] == arms}
        cells = [arms, *(f"{float(mine[name]['median_ms']):.3f}" for name in RIVALS)]
        for name in ("PEPS", "TopTwo"):
            ratio, low, high = (float(mine[name][key]) for key in ("lingame_over_this", "low", "high"))
            cells.append(f"{ratio:.2f} ({low:.2f} - {high:.2f})")
        cells += [mine[name]["paper_ms"] for name in ("PEPS", "LinGame")]
        body.append(cells)
    header = ["K", "PEPS, ms", "TopTwo, ms", "LinGame, ms", "LinGame / PEPS", "LinGame / TopTwo", "paper's PEPS, ms",
              "paper's LinGame, ms"]  # fmt: skip
    return markdown(header, body)
