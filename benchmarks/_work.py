"""Pieces of work on the cores of this machine, or on a Dask cluster whose workers have the very same code."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from benchmarks._store import Arrays, Store, Unit
from combopeps.cli.options import add_workers
from combopeps.utils.parallel import completed, connected, parallel_map

CODE = ("combopeps", "benchmarks")


@dataclass(frozen=True)
class Workers:
    """Who computes: so many processes here, or the workers of a Dask scheduler."""

    jobs: int = 1
    scheduler: str | None = None

    def spread(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], title: str = "") -> list[Any]:
        """function(*task) for each task, with a bar."""
        options: dict[str, Any] = {"n_jobs": self.jobs, "scheduler": self.scheduler, "code": CODE}
        return parallel_map(function, tasks, progress=True, title=f"{title:40}", **options)


def add_options(parser: argparse.ArgumentParser, jobs: int = 2) -> None:
    """`--jobs` and `--scheduler`."""
    add_workers(parser, jobs)


def chosen(given: argparse.Namespace) -> Workers:
    """What they said."""
    return Workers(given.jobs, given.scheduler)


def work(units: Sequence[Unit], store: Store, jobs: int = 1, scheduler: str | None = None, title: str = "") -> None:
    """Compute the units that the store does not hold yet; each result is kept when it is there."""
    missing = [unit for unit in units if unit not in store]
    if not missing:
        return
    if scheduler is None:  # workers write their results themselves: what is finished survives an interruption
        tasks = ((unit, 1) for unit in missing)
        parallel_map(store.run, tasks, n_jobs=jobs, progress=True, title=title, unit=" units")
        return
    with connected(scheduler) as client, tqdm(total=len(missing), desc=title, unit=" units") as bar:
        for i, arrays in completed(_alone, [(unit.compute,) for unit in missing], client, code=CODE):
            store.save(missing[i], arrays)
            bar.update()


def _alone(compute: Callable[[int], Arrays]) -> Arrays:
    return compute(1)
