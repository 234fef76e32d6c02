"""The server of a campaign: every request is checked, and executed as an operation on the campaign.

    request -> authentication, size and type of the body (`auth`, `schemas`) -> operation -> group commit

One thread executes all operations (`Writer`): those that wait are committed together, and acknowledged after that.
Values are checked by the campaign. Statuses and pages come from a process of their own (`status_worker`).
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
from combopeps.server.auth import DATA, Askers, Gate, Principal, Tokens, on_error, read_body, refusal
from combopeps.server.pages import add_pages, failures, gives, takes
from combopeps.server.schemas import MARK, dumped, query_json, sums_json
from combopeps.server.status_worker import StatusWorker
from combopeps.session.events import queries_for_client
from combopeps.utils.formatting import to_json_data
from combopeps.utils.label_format import as_label
from combopeps.utils.label_index import LabelIndex

MAX_OPEN = 10_000  # queries that may be open at a time
MAX_OPEN_PER_TOKEN = 2_000  # of these, asked for with one token that is not the owner's
MAX_OPEN_PER_CLIENT = schemas.MAX_QUERIES  # of these, held by one client, which gets its open queries before new ones
_MAX_WAITING = 10_000  # operations
_ATTEMPT = 0.2  # seconds for which one attempt waits for the lock
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def build(
    opened: Callable[[], Campaign],
    tokens: Tokens | None,
    *,
    lease: float | None,
    pause: float,
    rate: float,
    burst: float,
) -> App:
    """Return the application; the campaign is opened now, and everything else starts with the server."""
    campaign = opened()
    campaign.pin()
    writer = Writer(campaign)
    worker = StatusWorker(opened, writer, pause)
    header = dumped(campaign.header)
    mark = blake2b(header, digest_size=8).hexdigest()
    gate = Gate(tokens, rate, burst, mark)

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
        description="A campaign of measurements: ask what to measure, tell the results, and see the status.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        exception_handlers={ComboPepsError: on_error, HTTPException: on_error},
        responses=failures(),
    )
    app.state.writer, app.state.worker = writer, worker
    app.mark = (MARK.encode(), mark.encode())
    app.tell = _add_changes(app, writer, gate, Operations(campaign, lease))
    _add_reads(app, writer, worker, gate, header)
    add_pages(app, worker, gate)
    return app


class App(FastAPI):
    """Successful responses name the campaign (`mark`), so that a client can tell its server from a proxy.

    `POST /tell` bypasses the routing, which takes most of the time of such a request. HEAD is answered as GET; servers
    leave the body out.
    """

    mark: tuple[bytes, bytes]
    tell: Callable[[Request], Awaitable[bytes]]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""

        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                message["headers"] = [*message.get("headers", ()), self.mark]
            await send(message)

        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
        elif scope["method"] == "POST" and scope["path"] in ("/tell", scope.get("root_path", "") + "/tell"):
            try:
                content = await self.tell(Request(scope, receive))
            except ComboPepsError as error:
                await refusal(error)(scope, receive, send)
                return
            headers = [*_DATA, self.mark, (b"content-length", b"%d" % len(content))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": content})
        else:
            is_head = scope["method"] == "HEAD"
            await super().__call__(scope | {"method": "GET"} if is_head else scope, receive, marked)


_DATA = [(name.encode(), value.encode()) for name, value in (DATA | {"content-type": "application/json"}).items()]


def _add_changes(
    app: FastAPI, writer: Writer, gate: Gate, operations: Operations
) -> Callable[[Request], Awaitable[bytes]]:
    """Add the routes that change the campaign; return what is done by /tell."""

    async def change(request: Request, schema: Any, operation: Callable[[Any, Principal], Any]) -> bytes:
        principal = gate.principal(request)
        body = await read_body(request, schema)
        author = principal.name or getattr(body, "client", None) or principal.role
        return await writer.change(operation(body, principal), author)

    def add(schema: Any, operation: Callable[[Any, Principal], Any], answer: Any, summary: str) -> None:
        async def endpoint(request: Request) -> Response:
            return _json(await change(request, schema, operation))

        path = "/" + schema.__name__.lower()
        app.add_api_route(path, endpoint, summary=summary, response_model=answer, **takes(schema))

    add(schemas.Ask, operations.ask, schemas.Queries, "What to measure next")
    add(schemas.Tell, operations.tell, schemas.Recorded, "The result of a query, or of many")
    add(schemas.Observe, operations.observe, schemas.Recorded, "Measurements without a query")
    add(schemas.Abandon, operations.abandon, schemas.Recorded, "Close a query that will never be answered")
    add(schemas.Correct, operations.correct, schemas.Recorded, "Replace a recorded result")
    add(schemas.Retract, operations.retract, schemas.Recorded, "Withdraw a recorded result")
    return partial(change, schema=schemas.Tell, operation=operations.tell)


def _add_reads(app: FastAPI, writer: Writer, worker: StatusWorker, gate: Gate, header: bytes) -> None:
    async def known(request: Request) -> Principal:
        return gate.principal(request)

    async def owner(request: Request) -> None:
        if not gate.principal(request).is_owner:
            raise AuthorizationError("only the owner downloads all measurements")

    anyone, owners = [Depends(known)], [Depends(owner)]
    wanted = "false: the last status that was computed, at once; its samples say how old it is"

    @app.get("/open", summary="Open queries and their leases", response_model=schemas.Open, dependencies=anyone)
    async def open_queries() -> Response:
        return _json(await writer.read(_open))

    @app.get("/status", summary="Status of the campaign", response_model=schemas.Status, dependencies=anyone)
    async def status(wait: str = Query("true", description=wanted)) -> Response:
        report = await worker.report("status", wait=wait.lower() not in ("false", "0", "no"))
        return _json(report.content)

    summary = "The header of the campaign: problem, policy and stopping rule"

    @app.get("/problem", summary=summary, response_model=schemas.Header, dependencies=anyone)
    async def problem() -> Response:
        return _json(header)

    @app.get("/me", summary="Role and name of the token", response_model=schemas.Me)
    async def me(principal: Principal = Depends(known)) -> Response:  # noqa: B008
        return _json(dumped({"role": principal.role, "client": principal.name}))

    @app.get("/sums", summary="Sufficient statistics of every arm", response_model=schemas.Sums, dependencies=anyone)
    async def sums() -> Response:
        return _json(await writer.read(_sums))

    @app.get("/measurements", summary="All measurements", response_model=schemas.Measurements, dependencies=owners)
    async def measurements() -> Response:
        return _json((await worker.once("measurements")).content)

    summary = "All measurements, as a table"

    @app.get(
        "/measurements.csv", summary=summary, response_class=Response, responses=gives("text/csv"), dependencies=owners
    )
    async def measurements_csv() -> Response:
        report = await worker.once("measurements_csv")
        name = {"content-disposition": 'attachment; filename="measurements.csv"'}
        return Response(report.content, headers=DATA | name, media_type="text/csv; charset=utf-8")


def _json(content: bytes) -> Response:
    return Response(content, headers=DATA, media_type="application/json")


def _open(campaign: Campaign) -> bytes:
    queries, leases = campaign.open_queries, campaign.leases
    listed = [query_json(query, leases.get(query.id)) for query in queries]
    return dumped({"samples": campaign.samples, "actions": campaign.actions, "queries": listed})


def _sums(campaign: Campaign) -> bytes:
    with campaign._reading():
        return dumped(sums_json(campaign.policy))


class Operations:
    """Operations on the campaign from the bodies of requests; executed by the thread of the writer."""

    def __init__(self, campaign: Campaign, lease: float | None) -> None:
        self._lease, self._askers = lease, Askers()
        self._book = LabelIndex(campaign.problem.arms.labels, campaign.problem.oracle)

    def ask(self, body: schemas.Ask, principal: Principal) -> Callable[[Campaign], bytes]:
        client = principal.client(body.client)
        lease = self._lease if body.lease is None else body.lease
        if self._lease is not None and lease is not None and not principal.is_owner:
            lease = min(lease, self._lease)  # less than the owner allows, not more
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
            results = [(one.id, *self._values(one)) for one in body.results]
        return _counted(lambda campaign: campaign.tell_many(results, confirm=body.confirm))

    def observe(self, body: schemas.Observe, principal: Principal) -> Callable[[Campaign], bytes]:
        if body.rows is not None:
            if {"label", "value", "sem", "count"} & body.model_fields_set:
                raise ParameterError("give either one measurement, or rows")
            if not principal.is_owner:
                raise AuthorizationError("whole tables are for the owner; observe one measurement at a time")
            rows = [dict(row) | {"label": as_label(row.label)} for row in body.rows]
            return partial(_observe_table, rows=rows, key=body.key, confirm=body.confirm)
        if body.value is None or "label" not in body.model_fields_set:
            raise ParameterError("give label and value, or rows")
        given = body.label, body.value, body.sem, body.count
        return _counted(lambda campaign: campaign.observe(*given, key=body.key, confirm=body.confirm))

    def abandon(self, body: schemas.Abandon, principal: Principal) -> Callable[[Campaign], bytes]:
        return partial(_abandon, id=body.id, client=principal.client(body.client), is_owner=principal.is_owner)

    def correct(self, body: schemas.Correct, principal: Principal) -> Callable[[Campaign], bytes]:
        if not principal.is_owner:
            raise AuthorizationError("only the owner corrects results")
        given = body.event, *self._values(body)
        return _counted(lambda campaign: campaign.correct(*given, confirm=body.confirm))

    def retract(self, body: schemas.Retract, principal: Principal) -> Callable[[Campaign], bytes]:
        if not principal.is_owner:
            raise AuthorizationError("only the owner retracts results")
        return _counted(lambda campaign: campaign.retract(body.event))

    def _ask(self, campaign: Campaign, n: int, client: str | None, lease: float | None, principal: Principal) -> bytes:
        waiting, leases = campaign._ledger.open, campaign._leases
        new = n - (0 if client is None else len(queries_for_client(waiting, leases, client, n)[0]))
        if new and client is not None:
            held = sum(holder.client == client for holder in leases.values())
            _check_open(held, new, MAX_OPEN_PER_CLIENT, f"queries of client {client!r}")
        if new and not principal.is_owner:
            asked = self._askers.count(principal, waiting)
            _check_open(asked, new, MAX_OPEN_PER_TOKEN, "queries that were asked for with this token")
        if new:
            _check_open(len(waiting), new, MAX_OPEN, "queries of this campaign")
        queries = campaign.ask(n, client=client, lease=lease)
        self._askers.record(principal, [query.id for query in queries])
        return dumped({"queries": [query_json(query, leases.get(query.id)) for query in queries]})

    def _values(self, given: schemas.Reading) -> tuple[Any, float | None]:
        """A result and its sem, from one value, or from the values of an action."""
        if (given.value is None) == (given.values is None):
            raise ParameterError("a result is a value, or of an action values, one of each part")
        if isinstance(given.values, dict):
            told: dict[Any, Any] = {}
            for text, part in given.values.items():
                label = self._book.by_words([text])
                if label in told:
                    raise LabelError(f"{text!r:.60} is given twice")
                told[label] = _pair(part)
            return told, given.sem
        return given.value if given.values is None else [_pair(part) for part in given.values], given.sem


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_open(waiting: int, new: int, limit: int, which: str) -> None:
    """Raise RateLimitError if so many open queries and the new ones are too many."""
    if waiting + new > limit:
        raise RateLimitError(
            f"{waiting} {which} are open, and {new} more would exceed the limit of {limit}; tell or abandon some "
            "before you ask for more (/open lists them; the owner can abandon all)"
        )


def _counted(change: Callable[[Campaign], None]) -> Callable[[Campaign], bytes]:
    """A change, with its acknowledgement: measurements and open queries after it."""

    def counted(campaign: Campaign) -> bytes:
        change(campaign)
        return b'{"samples":%d,"open":%d}' % (campaign._policy.samples, len(campaign._ledger.open))

    return counted


def _observe_table(campaign: Campaign, rows: list[Any], key: str | None, confirm: bool) -> bytes:
    observed = campaign.observe_table(rows, key=key, confirm=confirm)
    left_out = [[to_json_data(label), count] for label, count in observed.left_out.items()]
    table = {"rows": observed.rows, "taken": observed.taken, "left_out": left_out}
    return dumped({"samples": campaign.samples, "open": len(campaign.open_queries), **table})


def _abandon(campaign: Campaign, id: int, client: str | None, is_owner: bool) -> bytes:
    lease, abandoned = campaign._leases.get(id), campaign._ledger.is_abandoned(id)
    if not is_owner and not abandoned and (client is None or lease is None or lease.client != client):
        campaign._ledger.find(id)  # if it was never asked, that is the error
        raise AuthorizationError(f"query {id} is not yours; only the owner abandons queries of others")
    # A repetition is durable when it returns, too.
    return _counted(lambda campaign: campaign.tell_many([]) if abandoned else campaign.abandon(id))(campaign)


@dataclass(frozen=True, slots=True)
class _Job:
    """An operation on the campaign, the future that waits for it, and the author of its events."""

    work: Callable[[Campaign], Any]
    future: asyncio.Future[Any]
    author: str | None = None


class Writer:
    """Executes operations on a campaign in a thread of its own.

    Changes that wait are committed together. While another process holds the lock of the store, the thread tries again,
    and answers reads in between. `version` counts commits: what is read from the store after that includes them.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign, self._timeout = campaign, campaign.timeout
        campaign.timeout = min(_ATTEMPT, campaign.timeout)
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
        """Execute what waits, and end the thread."""
        if self._loop is not None:
            self._jobs.put(False)
            self._thread.join()

    def change(self, work: Callable[[Campaign], _T], author: str | None = None) -> asyncio.Future[_T]:
        """Execute an operation together with what else waits; it is durable when the future is done."""
        assert self._loop is not None
        if self._jobs.qsize() >= _MAX_WAITING:
            raise RateLimitError(f"{_MAX_WAITING} requests are waiting to be recorded; try again later")
        future = self._loop.create_future()
        self._jobs.put(_Job(work, future, author))
        return future

    def read(self, work: Callable[[Campaign], _T]) -> asyncio.Future[_T]:
        """Execute an operation that changes nothing, before changes that wait."""
        assert self._loop is not None
        future = self._loop.create_future()
        self._reads.put(_Job(work, future))
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
            self._answer_reads()
            changes = [job for job in jobs if isinstance(job, _Job)]
            if changes:
                self._deliver(zip(changes, self._executed(changes), strict=True))

    def _executed(self, jobs: list[_Job]) -> list[Any]:
        """The results, or exceptions, of all jobs, after one commit."""
        operations, end = [partial(self._execute, job) for job in jobs], monotonic() + self._timeout
        answers: list[Any] | None = None
        while answers is None:
            try:
                answers = self.campaign.apply_together(operations)
            except Exception as error:
                if not isinstance(error, LockError) or monotonic() >= end:
                    answers = [error] * len(jobs)
                else:  # an attempt that does not get the lock has changed nothing
                    self._answer_reads()
        self.version += 1
        for found in {id(one): one for one in answers if isinstance(one, Exception)}.values():
            _report(found, "writing")
        return answers

    def _execute(self, job: _Job) -> Any:
        self.campaign.author = job.author
        return job.work(self.campaign)

    def _answer_reads(self) -> None:
        for _ in range(self._reads.qsize()):
            job = self._reads.get()
            try:
                answer = job.work(self.campaign)
            except Exception as error:
                _report(error, "reading")
                answer = error
            self._deliver([(job, answer)])

    def _deliver(self, answers: Iterable[tuple[_Job, Any]]) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(_settle, list(answers))


def _report(error: Exception, act: str) -> None:
    if not isinstance(error, ComboPepsError):
        _log.error("unexpected error while %s", act, exc_info=error)


def _settle(answers: list[tuple[_Job, Any]]) -> None:
    for job, answer in answers:
        if job.future.done():  # the request was cancelled
            continue
        if isinstance(answer, Exception):
            job.future.set_exception(answer)
        else:
            job.future.set_result(answer)
