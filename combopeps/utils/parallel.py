"""Independent pieces of work on the cores of this machine (joblib), or on the workers of a Dask cluster.

A Dask worker that is lost costs time: Dask gives what it had in hand to another one. Nothing waits for ever: a
scheduler that does not answer, one that has no workers, and workers with other code are errors.
"""

from __future__ import annotations

import asyncio
import hashlib
import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from combopeps.errors import DependencyError, ParameterError, ServerError
from combopeps.utils.validation import shown

if TYPE_CHECKING:
    from distributed import Client, Future

    Scheduler: TypeAlias = str | Client

ANSWER = 5.0  # seconds for a scheduler to answer, and for its first worker to be there
PATIENCE = 20.0  # seconds for another worker to come when the last one is gone
POLL = 2.0  # seconds after which a result that has not come makes us look whether there are workers
RETRIES = 1  # of a piece that raised: a worker may have been short of memory
OWN = ("combopeps",)
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


def n_workers(n_jobs: int | None) -> int:
    """How many processes that is."""
    from joblib import effective_n_jobs

    count: int = effective_n_jobs(n_jobs)
    return count


def parallel_map(
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
    """Return function(*task) for each task, in their order, wherever they are computed.

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

    if n_workers(n_jobs) == 1 or len(work) == 1:
        return (function(*task) for task in work)
    try:
        parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    except ValueError:  # a backend that cannot
        parallel = Parallel(n_jobs=n_jobs)
    return iter(parallel(delayed(function)(*task) for task in work))


@contextmanager
def connected(scheduler: Scheduler | None) -> Iterator[Client | None]:
    """A client of the scheduler at this address, or the one given, with at least one worker; None for None.

    One that was given stays open.
    """
    if scheduler is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise DependencyError("a scheduler needs Dask; install it: pip install 'combopeps[dask]'") from None
    if isinstance(scheduler, Client):
        if scheduler.asynchronous or scheduler.status != "running":
            raise ParameterError(f"scheduler must be a Client that is synchronous and running, got {scheduler}")
        yield _with_workers(scheduler)
    elif isinstance(scheduler, str):
        try:
            _ask(scheduler)
            client = Client(scheduler, timeout=ANSWER, set_as_default=False)
        except Exception as cause:
            why = str(cause) or f"nothing that Dask understands within {ANSWER:g} seconds"
            raise ParameterError(f"no Dask scheduler answers at {scheduler!r}: {why}") from None
        with client:
            yield _with_workers(client)
    else:
        raise ParameterError(
            f"scheduler must be an address such as tcp://host:8786, or a Client, got {scheduler!r:.60}"
        )


def _ask(address: str) -> None:
    """Shake hands: a `Client` would wait for ever for what is no scheduler. In a thread; this one may have its loop."""
    from distributed import Security
    from distributed.comm import connect

    async def handshake() -> None:
        options = Security().get_connection_args("client")
        comm = await asyncio.wait_for(connect(address, timeout=ANSWER, **options), ANSWER)
        comm.abort()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, handshake()).result()


def _with_workers(client: Client) -> Client:
    try:
        client.wait_for_workers(1, timeout=ANSWER)
    except TimeoutError:
        address = client.scheduler.address
        raise ServerError(
            f"the Dask scheduler at {address} has no workers; start some: dask worker {address}"
        ) from None
    return client


def threads(client: Client) -> int:
    """How many pieces the workers do at once."""
    return sum(client.nthreads().values())


def completed(
    function: Callable[..., Any], work: list[tuple[Any, ...]], client: Client, *, code: tuple[str, ...] = OWN
) -> Iterator[tuple[int, Any]]:
    """(i, function(*work[i])), in the order in which they are ready; what is not there when we leave is cancelled.

    `code` are the packages of which all workers must have the very source that we have.
    """
    import cloudpickle

    piece = _piece(cloudpickle.dumps(function), code, code_mark(code))
    packed = [cloudpickle.dumps(task) for task in work]
    pending = {future: i for i, future in enumerate(client.map(piece, packed, pure=False, retries=RETRIES))}
    try:
        while pending:
            for future in _ready(list(pending), client):
                refused, result = _result(future)
                if refused:
                    raise ParameterError(f"a Dask worker {refused}")
                yield pending.pop(future), result
    finally:
        with suppress(Exception):  # of a connection that is lost
            client.cancel(list(pending))


def _piece(packed: bytes, code: tuple[str, ...], mark: str) -> Callable[[bytes], tuple[str, Any]]:
    """What a worker does: it says why it refuses, or has the result. Sent whole: it must run without the package."""

    def piece(task: bytes) -> tuple[str, Any]:
        try:
            from combopeps.utils.parallel import code_mark

            same = code_mark(code) == mark
        except ImportError as cause:
            return f"lacks {' or '.join(code)} ({cause}): install there what you have here", None
        if not same:
            return f"has other code than this process: install or check out the same {' and '.join(code)} there", None
        try:
            function, arguments = pickle.loads(packed), pickle.loads(task)
        except ImportError as cause:
            return f"cannot import what the work consists of ({cause}): it needs your modules, too", None
        return "", function(*arguments)

    return piece


def _ready(pending: list[Future[Any]], client: Client) -> set[Future[Any]]:
    """Those that are done, once there are some."""
    from distributed import wait

    last = time.monotonic()
    while True:
        try:
            with client.as_current():  # `wait` asks for one
                done: set[Future[Any]] = wait(pending, timeout=POLL, return_when="FIRST_COMPLETED").done
            return done
        except TimeoutError:
            if client.status != "running":
                raise _lost() from None
            with suppress(OSError):
                if client.nthreads():
                    last = time.monotonic()
            if time.monotonic() - last > PATIENCE:
                raise ServerError(
                    f"the Dask scheduler has had no workers for {PATIENCE:g} seconds; start some, and run this again"
                ) from None
        except CancelledError:
            raise _lost() from None


def _lost() -> ServerError:
    return ServerError("the Dask scheduler is gone, or has cancelled our work; start it, and run this again")


def _result(future: Future[Any]) -> tuple[str, Any]:
    from distributed import KilledWorker

    try:
        found: tuple[str, Any] = future.result()
        return found
    except KilledWorker as cause:
        raise ServerError(f"several Dask workers ended while they did the same piece: out of memory? {cause}") from None
    except CancelledError:
        raise _lost() from None


@cache  # one answer per process, although files may be edited meanwhile
def code_mark(code: tuple[str, ...] = OWN) -> str:
    """A fingerprint of the source of packages."""
    digest = hashlib.sha256()
    for name in code:
        folder = Path(import_module(name).__path__[0])
        for path in sorted(folder.rglob("*.py"), key=lambda path: path.relative_to(folder).as_posix()):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
