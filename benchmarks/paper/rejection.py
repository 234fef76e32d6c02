"""Item 3: what an alternative costs as PEPS goes on, by rejection (the paper's way) and by half-spaces.

Single runs, one after the other. Rejection gives up after a fixed number of draws, and that round counts with this
number: the mean number of draws without a limit is infinite, because 1 / P(Alt) has no mean over runs.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks._store import Arrays, Store, Unit, read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.paper import _figures as fig
from benchmarks.paper._cases import INSTANCES, SEED, TITLES, problem, recipes
from benchmarks.paper._scale import Scale
from combopeps import PEPS, AlternativeSampler
from combopeps.alternatives import HalfSpaceSampler
from combopeps.alternatives.base import Alternatives, SamplingStats, SamplingTask, draw_thetas

TITLE = "rejection"
SAMPLERS = ("rejection", "half-spaces")
COLOURS = {"rejection": fig.RED, "half-spaces": fig.BLUE}
BINS, _LARGEST_BATCH = 30, 8192
HEADER = ("instance", "sampler", "t", "median_draws", "mean_draws", "gave_up", "median_us", "p90_us")


class CappedRejection(AlternativeSampler):
    """Rejection with at most `cap` draws; a round that has found nothing by then gets a draw behind half-spaces.

    Draws are made in batches, and counted up to the first alternative: what is left of the batch is thrown away.
    """

    def __init__(self, cap: int) -> None:
        self._rest, self.cap = HalfSpaceSampler(), cap
        self._batch = 1

    def _sample(self, question: SamplingTask, n: int, rng: np.random.Generator) -> Alternatives:
        posterior, oracle, z_hat, space, eta = question
        draws, batch = 0, self._batch
        while draws < self.cap:
            batch = min(batch, self.cap - draws, _LARGEST_BATCH)
            thetas, _ = draw_thetas(posterior, space, batch, rng, eta)
            hits = np.flatnonzero(~oracle.membership(z_hat, thetas))
            if len(hits):
                draws += int(hits[0]) + 1
                self._batch = min(64, 1 + (self._batch + draws) // 2)
                theta = thetas[hits[:1]]
                return Alternatives(theta, oracle.argmax(theta), SamplingStats(draws, draws))
            draws, batch = draws + batch, 2 * batch
        rest = self._rest._sample(question, n, rng)
        return Alternatives(rest.thetas, rest.answers, SamplingStats(draws, draws))


def units(scale: Scale) -> list[Unit]:
    """One unit per instance and sampler."""
    return [_unit(instance, sampler, scale) for instance in INSTANCES for sampler in SAMPLERS]


def _unit(instance: str, sampler: str, scale: Scale) -> Unit:
    recipe, rounds = recipes(instance, 1)[0], scale.sampler_rounds[instance]
    params = {"recipe": recipe, "rounds": rounds, "runs": scale.sampler_runs, "cap": scale.sampler_cap, "seed": SEED}

    def compute(jobs: int) -> Arrays:
        draws, seconds = np.zeros((2, scale.sampler_runs, rounds))
        made = problem(recipe)
        means = made.arms.dot(made.theta)
        for run in range(scale.sampler_runs):
            chosen = CappedRejection(scale.sampler_cap) if sampler == "rejection" else HalfSpaceSampler()
            policy, nature = PEPS(made.problem, rng=SEED + run, sampler=chosen), np.random.default_rng(SEED + run)
            for t in range(rounds):
                start = time.perf_counter()
                arm = policy.choose()
                policy.learn(arm, means[arm] + nature.standard_normal(1))
                seconds[run, t], draws[run, t] = time.perf_counter() - start, policy.alternatives.draws
        return {"draws": draws, "seconds": seconds}

    return Unit(f"alternatives {instance} {sampler}", params, compute)


def write(scale: Scale, store: Store, out: Path) -> None:
    """rejection.csv, rejection.md, draws.png and seconds.png."""
    rows = []
    for instance in INSTANCES:
        edges = np.unique(np.geomspace(1, scale.sampler_rounds[instance], BINS + 1).astype(int))
        for sampler in SAMPLERS:
            data = store.load(_unit(instance, sampler, scale))
            for low, high in pairwise(edges):
                draws, us = (data[key][:, low - 1 : high] * factor for key, factor in (("draws", 1), ("seconds", 1e6)))
                gave_up = float((draws >= scale.sampler_cap).mean()) if sampler == "rejection" else 0.0
                middle = float(np.sqrt(low * high))
                rows.append(
                    (instance, sampler, middle, float(np.median(draws)), float(draws.mean()), gave_up,
                     float(np.median(us)), float(np.quantile(us, 0.9)))
                )  # fmt: skip
    write_csv(out / "rejection.csv", HEADER, rows)
    _draw(out, "draws", "draws per round", ("mean_draws", "mean"), ("median_draws", "median"))
    _draw(out, "seconds", "microseconds per round", ("p90_us", "90 % quantile"), ("median_us", "median"))
    note = __doc__.split("\n", 1)[1].strip() + f" The limit here: {scale.sampler_cap} draws; {scale.sampler_runs} runs."
    (out / "rejection.md").write_text(f"{note}\n\n{table(out / 'rejection.csv')}\n")


def _draw(out: Path, name: str, label: str, *columns: tuple[str, str]) -> None:
    rows = read_csv(out / "rejection.csv")
    figure, axes = fig.new(3, height=3.8)
    for axis, instance in zip(axes, INSTANCES, strict=True):
        for sampler in SAMPLERS:
            colour = COLOURS[sampler]
            mine = [row for row in rows if row["instance"] == instance and row["sampler"] == sampler]
            t = [float(row["t"]) for row in mine]
            for (key, what), line in zip(columns, (":", "-"), strict=True):
                values = [float(row[key]) for row in mine]
                axis.plot(t, values, color=colour, linestyle=line, linewidth=1.8, label=f"{sampler}, {what}")
        axis.set(xscale="log", yscale="log", xlabel="measurements t", title=TITLES[instance])
    axes[0].set_ylabel(label)
    fig.save(figure, out / f"{name}.png", axes[0])


def table(path: Path) -> str:
    """The last part of each run."""
    rows = read_csv(path)
    body = []
    for instance in INSTANCES:
        for sampler in SAMPLERS:
            last = [row for row in rows if row["instance"] == instance and row["sampler"] == sampler][-1]
            body.append(
                [TITLES[instance], sampler, f"{float(last['t']):.0f}", f"{float(last['median_draws']):.3g}",
                 f"{float(last['mean_draws']):.3g}", f"{100 * float(last['gave_up']):.1f}",
                 f"{float(last['median_us']):.0f}", f"{float(last['p90_us']):.0f}"]
            )  # fmt: skip
    header = ["instance", "sampler", "around t", "median draws", "mean draws", "gave up, %", "median us", "90 % us"]
    return markdown(header, body)
