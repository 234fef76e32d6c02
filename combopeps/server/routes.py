"""The HTTP routes of a campaign server, and the thread that executes operations on the campaign.

    request -> authentication, size and type of the body (`auth`, `schemas`) -> operation -> group commit

One thread executes all operations (`Writer`): those that wait are committed together, and acknowledged after that. The
campaign validates values. Statuses and pages are computed in a separate process (`status_worker`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

from fastapi import Depends, FastAPI, Query, Request, Response
from starlette.exceptions import HTTPException

import combopeps
from combopeps.campaign import Campaign
from combopeps.errors import AuthorizationError, ComboPepsError, LabelError, LockError, ParameterError, RateLimitError
from combopeps.server import schemas
from combopeps.server.auth import (
    RESPONSE_HEADERS,
    Authenticator,
    OpenQueryCounter,
    Principal,
    Tokens,
    error_response,
    handle_error,
    read_body,
)
from combopeps.server.html_pages import add_pages, body_options, content_response, error_responses
from combopeps.server.schemas import CAMPAIGN_HEADER, dumped, query_json, sums_json
from combopeps.server.status_worker import StatusWorker
from combopeps.session.events import queries_for_client
from combopeps.utils.formatting import to_json_data
from combopeps.utils.label_format import as_label
from combopeps.utils.label_index import LabelIndex

MAX_OPEN = 10_000  # open queries at a time
MAX_OPEN_PER_TOKEN = 2_000  # of these, for one token that is not the owner's
MAX_OPEN_PER_CLIENT = schemas.MAX_QUERIES  # of these, held by one client
_MAX_WAITING = 10_000  # operations
_LOCK_TIMEOUT = 0.2  # seconds for which one attempt waits for the lock
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def build(
    open_campaign: Callable[[], Campaign],
    tokens: Tokens | None,
    *,
    lease: float | None,
    pause: float,
    rate: float,
    burst: float,
) -> App:
    """Open the campaign, and return the application; threads and processes start with the server."""
    campaign = open_campaign()
    campaign.pin()
    writer = Writer(campaign)
    worker = StatusWorker(open_campaign, writer, pause)
    header = dumped(campaign.header)
    campaign_hash = blake2b(header, digest_size=8).hexdigest()
    authenticator = Authenticator(tokens, rate, burst, campaign_hash)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        writer.start()
        try:
            yield
        finally:
            await worker.stop()
            writer.stop()

    app = App(
        title="combopeps",
        version=combopeps.__version__,
        description="A campaign of measurements: ask for queries, tell their results, and read the status.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        exception_handlers={ComboPepsError: handle_error, HTTPException: handle_error},
        responses=error_responses(),
    )
    app.state.writer, app.state.worker = writer, worker
    app.campaign_header = (CAMPAIGN_HEADER.encode(), campaign_hash.encode())
    app.tell = _add_write_routes(app, writer, authenticator, Operations(campaign, lease))
    _add_read_routes(app, writer, worker, authenticator, header)
    add_pages(app, worker, authenticator)
    return app


class App(FastAPI):
    """FastAPI application whose successful responses have a header with the hash of the campaign.

    The header distinguishes responses of the server from those of a proxy. `POST /tell` bypasses the routing, which
    takes most of the time of such a request. HEAD is handled as GET; the HTTP server omits the body.
    """

    campaign_header: tuple[bytes, bytes]
    tell: Callable[[Request], Awaitable[bytes]]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request."""

        async def send_with_header(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                message["headers"] = [*message.get("headers", ()), self.campaign_header]
            await send(message)

        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
        elif scope["method"] == "POST" and scope["path"] in ("/tell", scope.get("root_path", "") + "/tell"):
            try:
                content = await self.tell(Request(scope, receive))
            except ComboPepsError as error:
                await error_response(error)(scope, receive, send)
                return
            headers = [*_JSON_HEADERS, self.campaign_header, (b"content-length", b"%d" % len(content))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": content})
        else:
            is_head = scope["method"] == "HEAD"
            await super().__call__(scope | {"method": "GET"} if is_head else scope, receive, send_with_header)


_JSON_HEADERS = [
    (name.encode(), value.encode()) for name, value in (RESPONSE_HEADERS | {"content-type": "application/json"}).items()
]


def _add_write_routes(
    app: FastAPI, writer: Writer, authenticator: Authenticator, operations: Operations
) -> Callable[[Request], Awaitable[bytes]]:
    """Add the routes that change the campaign; return the handler of /tell."""

    async def change(request: Request, schema: Any, operation: Callable[[Any, Principal], Any]) -> bytes:
        principal = authenticator.principal(request)
        body = await read_body(request, schema)
        author = principal.name or getattr(body, "client", None) or principal.role
        return await writer.change(operation(body, principal), author)

    def add(schema: Any, operation: Callable[[Any, Principal], Any], answer: Any, summary: str) -> None:
        async def endpoint(request: Request) -> Response:
            return _json(await change(request, schema, operation))

        path = "/" + schema.__name__.lower()
        app.add_api_route(path, endpoint, summary=summary, response_model=answer, **body_options(schema))

    add(schemas.Ask, operations.ask, schemas.Queries, "Next queries")
    add(schemas.Tell, operations.tell, schemas.Recorded, "Record results of queries")
    add(schemas.Observe, operations.observe, schemas.Recorded, "Record measurements without queries")
    add(schemas.Abandon, operations.abandon, schemas.Recorded, "Close a query that will never be answered")
    add(schemas.Correct, operations.correct, schemas.Recorded, "Replace a recorded result")
    add(schemas.Retract, operations.retract, schemas.Recorded, "Withdraw a recorded result")
    return partial(change, schema=schemas.Tell, operation=operations.tell)


def _add_read_routes(
    app: FastAPI, writer: Writer, worker: StatusWorker, authenticator: Authenticator, header: bytes
) -> None:
    """Add the routes that do not change the campaign."""

    async def authenticate(request: Request) -> Principal:
        return authenticator.principal(request)

    async def require_owner(request: Request) -> None:
        if not authenticator.principal(request).is_owner:
            raise AuthorizationError("only the owner may download all measurements")

    anyone, owners = [Depends(authenticate)], [Depends(require_owner)]
    wait_description = "false: return the last computed status at once; its samples show its age"

    @app.get("/open", summary="Open queries and their leases", response_model=schemas.Open, dependencies=anyone)
    async def open_queries() -> Response:
        return _json(await writer.read(_open))

    @app.get("/status", summary="Status of the campaign", response_model=schemas.Status, dependencies=anyone)
    async def status(wait: str = Query("true", description=wait_description)) -> Response:
        report = await worker.report("status", wait=wait.lower() not in ("false", "0", "no"))
        return _json(report.content)

    summary = "Header of the campaign: problem, policy and stopping rule"

    @app.get("/problem", summary=summary, response_model=schemas.Header, dependencies=anyone)
    async def problem() -> Response:
        return _json(header)

    @app.get("/me", summary="Role and name of the token", response_model=schemas.Me)
    async def me(principal: Principal = Depends(authenticate)) -> Response:  # noqa: B008
        return _json(dumped({"role": principal.role, "client": principal.name}))

    @app.get("/sums", summary="Sufficient statistics of every arm", response_model=schemas.Sums, dependencies=anyone)
    async def sums() -> Response:
        return _json(await writer.read(_sums))

    @app.get("/measurements", summary="All measurements", response_model=schemas.Measurements, dependencies=owners)
    async def measurements() -> Response:
        return _json((await worker.once("measurements")).content)

    summary = "All measurements as CSV"

    @app.get(
        "/measurements.csv",
        summary=summary,
        response_class=Response,
        responses=content_response("text/csv"),
        dependencies=owners,
    )
    async def measurements_csv() -> Response:
        report = await worker.once("measurements_csv")
        name = {"content-disposition": 'attachment; filename="measurements.csv"'}
        return Response(report.content, headers=RESPONSE_HEADERS | name, media_type="text/csv; charset=utf-8")


def _json(content: bytes) -> Response:
    return Response(content, headers=RESPONSE_HEADERS, media_type="application/json")


def _open(campaign: Campaign) -> bytes:
    queries, leases = campaign.open_queries, campaign.leases
    listed = [query_json(query, leases.get(query.id)) for query in queries]
    return dumped({"samples": campaign.samples, "actions": campaign.actions, "queries": listed})


def _sums(campaign: Campaign) -> bytes:
    with campaign._reading():
        return dumped(sums_json(campaign.policy))


class Operations:
    """Operations on the campaign from the bodies of requests, executed by the thread of the writer."""

    def __init__(self, campaign: Campaign, lease: float | None) -> None:
        self._lease, self._query_counter = lease, OpenQueryCounter()
        self._labels = LabelIndex(campaign.problem.arms.labels, campaign.problem.oracle)

    def ask(self, body: schemas.Ask, principal: Principal) -> Callable[[Campaign], bytes]:
        client = principal.client(body.client)
        lease = self._lease if body.lease is None else body.lease
        if self._lease is not None and lease is not None and not principal.is_owner:
            lease = min(lease, self._lease)  # a measurer may shorten the default lease, not extend it
        if client is None and body.lease is not None:
            raise ParameterError("lease requires client: it is the time for which a client holds its queries")
        return partial(self._ask, n=body.n, client=client, lease=lease if client else None, principal=principal)

    def tell(self, body: schemas.Tell, principal: Principal) -> Callable[[Campaign], bytes]:
        if body.results is None:
            if body.id is None:
                raise ParameterError("give id and value, id and values, or results")
            results = [(body.id, *self._values(body))]
        elif {"id", "value", "sem", "values"} & body.model_fields_set:
            raise ParameterError("give either one result, or results")
        else:
            results = [(result.id, *self._values(result)) for result in body.results]
        return _acknowledged(lambda campaign: campaign.tell_many(results, confirm=body.confirm))

    def observe(self, body: schemas.Observe, principal: Principal) -> Callable[[Campaign], bytes]:
        if body.rows is not None:
            if {"label", "value", "sem", "count"} & body.model_fields_set:
                raise ParameterError("give either one measurement, or rows")
            if not principal.is_owner:
                raise AuthorizationError("tables are for the owner; observe one measurement at a time")
            rows = [dict(row) | {"label": as_label(row.label)} for row in body.rows]
            return partial(_observe_table, rows=rows, key=body.key, confirm=body.confirm)
        if body.value is None or "label" not in body.model_fields_set:
            raise ParameterError("give label and value, or rows")
        arguments = body.label, body.value, body.sem, body.count
        return _acknowledged(lambda campaign: campaign.observe(*arguments, key=body.key, confirm=body.confirm))

    def abandon(self, body: schemas.Abandon, principal: Principal) -> Callable[[Campaign], bytes]:
        return partial(_abandon, id=body.id, client=principal.client(body.client), is_owner=principal.is_owner)

    def correct(self, body: schemas.Correct, principal: Principal) -> Callable[[Campaign], bytes]:
        if not principal.is_owner:
            raise AuthorizationError("only the owner may correct results")
        arguments = body.event, *self._values(body)
        return _acknowledged(lambda campaign: campaign.correct(*arguments, confirm=body.confirm))

    def retract(self, body: schemas.Retract, principal: Principal) -> Callable[[Campaign], bytes]:
        if not principal.is_owner:
            raise AuthorizationError("only the owner may retract results")
        return _acknowledged(lambda campaign: campaign.retract(body.event))

    def _ask(self, campaign: Campaign, n: int, client: str | None, lease: float | None, principal: Principal) -> bytes:
        waiting, leases = campaign._ledger.open, campaign._leases
        new = n - (0 if client is None else len(queries_for_client(waiting, leases, client, n)[0]))
        if new and client is not None:
            held = sum(other.client == client for other in leases.values())
            _check_open(held, new, MAX_OPEN_PER_CLIENT, f"queries of client {client!r}")
        if new and not principal.is_owner:
            asked = self._query_counter.count(principal, waiting)
            _check_open(asked, new, MAX_OPEN_PER_TOKEN, "queries that were asked for with this token")
        if new:
            _check_open(len(waiting), new, MAX_OPEN, "queries of this campaign")
        queries = campaign.ask(n, client=client, lease=lease)
        self._query_counter.record(principal, [query.id for query in queries])
        return dumped({"queries": [query_json(query, leases.get(query.id)) for query in queries]})

    def _values(self, reading: schemas.Reading) -> tuple[Any, float | None]:
        """Return the value or values of a result, and its sem."""
        if (reading.value is None) == (reading.values is None):
            raise ParameterError("a result is a value or, for an action, values, one of each part")
        if isinstance(reading.values, dict):
            parts: dict[Any, Any] = {}
            for text, part in reading.values.items():
                label = self._labels.by_words([text])
                if label in parts:
                    raise LabelError(f"{text!r:.60} is given twice")
                parts[label] = _pair(part)
            return parts, reading.sem
        return reading.value if reading.values is None else [_pair(part) for part in reading.values], reading.sem


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_open(waiting: int, new: int, limit: int, which: str) -> None:
    """Raise `RateLimitError` if the new queries would exceed a limit on open queries."""
    if waiting + new > limit:
        raise RateLimitError(
            f"{waiting} {which} are open, and {new} more would exceed the limit of {limit}; tell or abandon some "
            "before you ask for more (/open lists them; the owner can abandon all)"
        )


def _acknowledged(change: Callable[[Campaign], None]) -> Callable[[Campaign], bytes]:
    """Return an operation that makes a change, and returns the numbers of measurements and open queries."""

    def operation(campaign: Campaign) -> bytes:
        change(campaign)
        return b'{"samples":%d,"open":%d}' % (campaign._policy.samples, len(campaign._ledger.open))

    return operation


def _observe_table(campaign: Campaign, rows: list[Any], key: str | None, confirm: bool) -> bytes:
    observed = campaign.observe_table(rows, key=key, confirm=confirm)
    left_out = [[to_json_data(label), count] for label, count in observed.left_out.items()]
    table = {"rows": observed.rows, "taken": observed.taken, "left_out": left_out}
    return dumped({"samples": campaign.samples, "open": len(campaign.open_queries), **table})


def _abandon(campaign: Campaign, id: int, client: str | None, is_owner: bool) -> bytes:
    lease, abandoned = campaign._leases.get(id), campaign._ledger.is_abandoned(id)
    if not is_owner and not abandoned and (client is None or lease is None or lease.client != client):
        campaign._ledger.find(id)  # raises the error of a query that does not exist
        raise AuthorizationError(f"query {id} is not yours; only the owner may abandon queries of others")
    # A repeated request commits, too, so that the first one is durable when this returns.
    return _acknowledged(lambda campaign: campaign.tell_many([]) if abandoned else campaign.abandon(id))(campaign)


@dataclass(frozen=True, slots=True)
class _Job:
    """An operation on the campaign, the future of its result, and the author of its events."""

    operation: Callable[[Campaign], Any]
    future: asyncio.Future[Any]
    author: str | None = None


class Writer:
    """A thread that executes operations on a campaign.

    Changes that wait are committed together. While another process holds the lock of the store, the thread retries, and
    executes reads in between. `version` counts commits: later reads of the store include them.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign, self._timeout = campaign, campaign.timeout
        campaign.timeout = min(_LOCK_TIMEOUT, campaign.timeout)
        self.version = 0
        self._jobs: SimpleQueue[_Job | bool] = SimpleQueue()  # True wakes the thread for a read, False ends it
        self._reads: SimpleQueue[_Job] = SimpleQueue()
        self._thread = Thread(target=self._run, name="combopeps-writer", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the thread; futures belong to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Execute waiting operations, and end the thread."""
        if self._loop is not None:
            self._jobs.put(False)
            self._thread.join()

    def change(self, operation: Callable[[Campaign], _T], author: str | None = None) -> asyncio.Future[_T]:
        """Queue an operation, which is committed with others; it is durable when the future is done."""
        assert self._loop is not None
        if self._jobs.qsize() >= _MAX_WAITING:
            raise RateLimitError(f"{_MAX_WAITING} requests are waiting to be recorded; try again later")
        future = self._loop.create_future()
        self._jobs.put(_Job(operation, future, author))
        return future

    def read(self, operation: Callable[[Campaign], _T]) -> asyncio.Future[_T]:
        """Queue an operation that changes nothing; it is executed before waiting changes."""
        assert self._loop is not None
        future = self._loop.create_future()
        self._reads.put(_Job(operation, future))
        self._jobs.put(True)
        return future

    def _run(self) -> None:
        jobs: list[_Job | bool] = []
        while False not in jobs:
            jobs = [self._jobs.get()]
            try:
                while True:
                    jobs.append(self._jobs.get_nowait())
            except Empty:
                pass
            self._execute_reads()
            changes = [job for job in jobs if isinstance(job, _Job)]
            if changes:
                self._deliver(zip(changes, self._execute_changes(changes), strict=True))

    def _execute_changes(self, jobs: list[_Job]) -> list[Any]:
        """Execute jobs with one commit; return their results or exceptions."""
        operations, end = [partial(self._execute, job) for job in jobs], monotonic() + self._timeout
        outcomes: list[Any] | None = None
        while outcomes is None:
            try:
                outcomes = self.campaign.commit_group(operations)
            except Exception as error:
                if not isinstance(error, LockError) or monotonic() >= end:
                    outcomes = [error] * len(jobs)
                else:  # without the lock, nothing has changed: retry
                    self._execute_reads()
        self.version += 1
        for failure in {id(outcome): outcome for outcome in outcomes if isinstance(outcome, Exception)}.values():
            _log_unexpected(failure, "writing")
        return outcomes

    def _execute(self, job: _Job) -> Any:
        self.campaign.author = job.author
        return job.operation(self.campaign)

    def _execute_reads(self) -> None:
        for _ in range(self._reads.qsize()):
            job = self._reads.get()
            try:
                outcome = job.operation(self.campaign)
            except Exception as error:
                _log_unexpected(error, "reading")
                outcome = error
            self._deliver([(job, outcome)])

    def _deliver(self, outcomes: Iterable[tuple[_Job, Any]]) -> None:
        """Set the futures of jobs, in the thread of the event loop."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(_set_futures, list(outcomes))


def _log_unexpected(error: Exception, action: str) -> None:
    if not isinstance(error, ComboPepsError):
        _log.error("unexpected error while %s", action, exc_info=error)


def _set_futures(outcomes: list[tuple[_Job, Any]]) -> None:
    for job, outcome in outcomes:
        if job.future.done():  # the request was cancelled
            continue
        if isinstance(outcome, Exception):
            job.future.set_exception(outcome)
        else:
            job.future.set_result(outcome)
