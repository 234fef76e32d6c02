"""Units of work on the cores of this machine (joblib) or on a Dask cluster; each result is kept when it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tqdm import tqdm

from benchmarks._store import Arrays, Store, Unit, checkout_mark
from combopeps.errors import DependencyError, ParameterError

RETRIES = 3


def work(units: Sequence[Unit], store: Store, jobs: int = 1, scheduler: str | None = None, title: str = "") -> None:
    """Compute the units that the store does not hold yet."""
    missing = [unit for unit in units if unit not in store]
    if not missing:
        return
    done = _here(missing, store, jobs) if scheduler is None else _there(missing, store, scheduler)
    for _ in tqdm(done, total=len(missing), desc=title, unit=" units"):
        pass


def _here(units: Sequence[Unit], store: Store, jobs: int) -> Iterator[None]:
    """Workers write their results themselves: what is finished survives an interruption."""
    from joblib import Parallel, delayed, parallel_config

    if jobs == 1:
        for unit in units:
            yield store.run(unit, 1)
        return
    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        yield from Parallel(return_as="generator", batch_size=1)(delayed(store.run)(unit, 1) for unit in units)


def _there(units: Sequence[Unit], store: Store, scheduler: str) -> Iterator[None]:
    """Results come back to this process, which keeps them; what a lost worker had in hand, another one does again."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise DependencyError("--scheduler needs Dask; install it: pip install 'combopeps[dask]'") from None
    try:
        client = Client(scheduler, timeout="10s")
    except (OSError, ValueError) as cause:
        raise ParameterError(f"no Dask scheduler answers at {scheduler!r}: {cause}") from None
    with client:
        mark = checkout_mark()
        futures = {client.submit(_same_code, unit.compute, mark, pure=False, retries=RETRIES): unit for unit in units}
        for future, arrays in as_completed(futures, with_results=True):
            yield store.save(futures.pop(future), arrays)


def _same_code(compute: Callable[[int], Arrays], mark: str) -> Any:
    """Refuse to mix results of different code."""
    if checkout_mark() != mark:
        raise ParameterError(
            "a Dask worker has other code than this process; start it in a checkout of the same commit"
        )
    return compute(1)
