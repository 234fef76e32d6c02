"""Independent pieces of work on the cores of this machine (joblib), or on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from combopeps.errors import ParameterError
from combopeps.session.cluster import OWN, completed, connected
from combopeps.utils.validation import shown

if TYPE_CHECKING:
    from combopeps.session.cluster import Scheduler

_MOST = 1024  # processes


def check_jobs(n_jobs: int | None) -> None:
    """A number of processes, -1 for all cores, or None."""
    if n_jobs is None:
        return
    is_integer = isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    if not is_integer or n_jobs == 0 or abs(n_jobs) > _MOST:
        raise ParameterError(
            f"n_jobs must be a number of processes up to {_MOST}, or -1 for all cores, got {shown(n_jobs)}"
        )


def hands(n_jobs: int | None) -> int:
    """How many processes that is."""
    from joblib import effective_n_jobs

    count: int = effective_n_jobs(n_jobs)
    return count


def spread(
    function: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    *,
    n_jobs: int | None = None,
    scheduler: Scheduler | None = None,
    progress: bool = False,
    title: str = "",
    unit: str = " runs",
    code: tuple[str, ...] = OWN,
) -> list[Any]:
    """function(*task) for each task, in their order, whoever computes them.

    Parameters
    ----------
    function, tasks
        What can be pickled, and does not depend on who computes it.
    n_jobs
        Processes (joblib), -1 for all cores; None: as a surrounding `joblib.parallel_config` says, else one. The
        backend is always the one that it says.
    scheduler
        A Dask scheduler, by its address or a `distributed.Client`; `n_jobs` then says nothing.
    progress, title, unit
        Show a bar.
    code
        Packages whose source must be the same on all workers of a cluster.
    """
    from tqdm import tqdm

    check_jobs(n_jobs)
    work = list(tasks)
    results: list[Any] = [None] * len(work)
    with connected(scheduler) as client, tqdm(total=len(work), disable=not progress, desc=title, unit=unit) as bar:
        each = (
            enumerate(_each(function, work, n_jobs)) if client is None else completed(function, work, client, code=code)
        )
        for i, result in each:
            results[i] = result
            bar.update()
    return results


def _each(function: Callable[..., Any], work: list[tuple[Any, ...]], n_jobs: int | None) -> Iterator[Any]:
    from joblib import Parallel, delayed

    if hands(n_jobs) == 1 or len(work) == 1:
        return (function(*task) for task in work)
    try:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    except ValueError:  # a backend that cannot
        parallel = Parallel(n_jobs=n_jobs)
    return iter(parallel(delayed(function)(*task) for task in work))
