"""Independent pieces of work on the cores of this machine (joblib)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from combopeps.errors import ParameterError


def check_jobs(n_jobs: int) -> None:
    """A number of processes, or -1 for all cores."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise ParameterError(f"n_jobs must be a number of processes, or -1 for all cores, got {n_jobs!r}")


def spread(
    function: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    *,
    n_jobs: int = 1,
    progress: bool = False,
    title: str = "",
    unit: str = " runs",
    scheduler: Any = None,
) -> list[Any]:
    """function(*task) for each task, in their order, whoever computes them; each result as soon as it is there."""
    from tqdm import tqdm

    check_jobs(n_jobs)
    work = list(tasks)
    done = tqdm(_each(function, work, n_jobs), total=len(work), disable=not progress, desc=title or None, unit=unit)
    return list(done)


def _each(function: Callable[..., Any], work: list[tuple[Any, ...]], n_jobs: int) -> Iterator[Any]:
    from joblib import Parallel, delayed, effective_n_jobs

    if effective_n_jobs(n_jobs) == 1 or len(work) == 1:
        return (function(*task) for task in work)
    return iter(Parallel(n_jobs=n_jobs, return_as="generator")(delayed(function)(*task) for task in work))
