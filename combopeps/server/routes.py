"""Routes of the server: every request is checked, and executed as an operation on the campaign.

    request -> authentication, size and type of the body (`gate`, `schemas`) -> operation -> group commit (`writer`)

Values are checked by the campaign. Statuses and pages come from a process of their own (`status_worker`).
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

from fastapi import FastAPI, Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

import combopeps
from combopeps.campaign import Campaign
from combopeps.errors import AccessError, ComboPepsError, LabelError, LimitError, ParameterError
from combopeps.forms import plain
from combopeps.server import schemas
from combopeps.server.auth import SESSION_SECONDS, Askers, Gate, Principal, Tokens
from combopeps.server.error_handlers import DATA, RefusedError, on_error, refused
from combopeps.server.http_client import MARK
from combopeps.server.openapi import describe, described, for_people
from combopeps.server.serializers import dumped, query_json, sums_json
from combopeps.server.status_worker import StatusWorker
from combopeps.server.writer import Writer
from combopeps.session.events import leased
from combopeps.tables.book import LabelBook
from combopeps.tables.written import as_label

MAX_OPEN = 10_000  # queries that may be open at a time
MAX_OPEN_PER_TOKEN = 2_000  # of these, asked for with one token that is not the owner's
MAX_OPEN_PER_CLIENT = schemas.MAX_QUERIES  # of these, held by one client, which gets its open queries before new ones
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; img-src data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_WAIT = {
    "name": "wait",
    "in": "query",
    "required": False,
    "description": "false: the last status that was computed, at once; its samples say how old it is",
    "schema": {"type": "boolean", "default": True},
}


def build(
    opened: Callable[[], Campaign],
    tokens: Tokens | None,
    *,
    lease: float | None,
    pause: float,
    rate: float,
    burst: float,
) -> FastAPI:
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

    app = FastAPI(
        title="combopeps",
        version=combopeps.__version__,
        description="A campaign of measurements: ask what to measure, tell the results, and see the status.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        exception_handlers={ComboPepsError: on_error, HTTPException: on_error},
    )
    app.state.writer, app.state.worker, app.state.gate = writer, worker, gate
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    tell = _add_changes(app, writer, gate, Operations(campaign, lease))
    _add_reads(app, writer, worker, gate, header)
    _add_pages(app, worker, gate)
    app.add_middleware(FastPath, path="/tell", handler=tell, mark=mark)
    return app


class Operations:
    """Operations on the campaign from the bodies of requests; executed by the thread of the writer."""

    def __init__(self, campaign: Campaign, lease: float | None) -> None:
        self._lease, self._askers = lease, Askers()
        self._book = LabelBook(campaign.problem.arms.labels, campaign.problem.oracle)

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
            one = [(body.id, *self._values(body.value, body.sem, body.values))]
            return _counted(lambda campaign: campaign.tell_many(one, confirm=body.confirm))
        if {"id", "value", "sem", "values"} & body.model_fields_set:
            raise ParameterError("give either one result, or results")
        results = [(one.id, *self._values(one.value, one.sem, one.values)) for one in body.results]
        return _counted(lambda campaign: campaign.tell_many(results, confirm=body.confirm))

    def observe(self, body: schemas.Observe, principal: Principal) -> Callable[[Campaign], bytes]:
        if body.rows is not None:
            if {"label", "value", "sem", "count"} & body.model_fields_set:
                raise ParameterError("give either one measurement, or rows")
            if not principal.is_owner:
                raise AccessError("whole tables are for the owner; observe one measurement at a time")
            rows = [
                {"label": as_label(schemas.check_label(row.label)), "value": row.value, "sem": row.sem,
                 "count": row.count}
                for row in body.rows
            ]  # fmt: skip
            return partial(_observe_table, rows=rows, key=body.key, confirm=body.confirm)
        if body.value is None or "label" not in body.model_fields_set:
            raise ParameterError("give label and value, or rows")
        given = schemas.check_label(body.label), body.value, body.sem, body.count
        return _counted(lambda campaign: campaign.observe(*given, key=body.key, confirm=body.confirm))

    def abandon(self, body: schemas.Abandon, principal: Principal) -> Callable[[Campaign], bytes]:
        return partial(_abandon, id=body.id, client=principal.client(body.client), is_owner=principal.is_owner)

    def correct(self, body: schemas.Correct, principal: Principal) -> Callable[[Campaign], bytes]:
        if not principal.is_owner:
            raise AccessError("only the owner corrects results")
        given = body.event, *self._values(body.value, body.sem, body.values)
        return _counted(lambda campaign: campaign.correct(*given, confirm=body.confirm))

    def retract(self, body: schemas.Retract, principal: Principal) -> Callable[[Campaign], bytes]:
        if not principal.is_owner:
            raise AccessError("only the owner retracts results")
        return _counted(lambda campaign: campaign.retract(body.event))

    def _ask(self, campaign: Campaign, n: int, client: str | None, lease: float | None, principal: Principal) -> bytes:
        waiting, leases = campaign._ledger.open, campaign._leases
        new = n - (0 if client is None else len(leased(waiting, leases, client, n)[0]))
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

    def _values(self, value: float | None, sem: float | None, values: Any) -> tuple[Any, float | None]:
        """A result and its sem, from one value, or from the values of an action."""
        if (value is None) == (values is None):
            raise ParameterError("a result is a value, or of an action values, one of each part")
        if isinstance(values, dict):
            told: dict[Any, Any] = {}
            for text, part in values.items():
                label = self._book.by_words([text])
                if label in told:
                    raise LabelError(f"{text!r:.60} is given twice")
                told[label] = _pair(part)
            return told, sem
        return value if values is None else [_pair(part) for part in values], sem


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_open(waiting: int, new: int, limit: int, which: str) -> None:
    """Raise LimitError if so many open queries and the new ones are too many."""
    if waiting + new > limit:
        raise LimitError(
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
    left_out = [[plain(label), count] for label, count in observed.left_out.items()]
    table = {"rows": observed.rows, "taken": observed.taken, "left_out": left_out}
    return dumped({"samples": campaign.samples, "open": len(campaign.open_queries), **table})


def _abandon(campaign: Campaign, id: int, client: str | None, is_owner: bool) -> bytes:
    lease, abandoned = campaign._leases.get(id), campaign._ledger.is_abandoned(id)
    if not is_owner and not abandoned and (client is None or lease is None or lease.client != client):
        campaign._ledger.find(id)  # if it was never asked, that is the error
        raise AccessError(f"query {id} is not yours; only the owner abandons queries of others")
    # A repetition is durable when it returns, too.
    return _counted(lambda campaign: campaign.tell_many([]) if abandoned else campaign.abandon(id))(campaign)


def _add_changes(
    app: FastAPI, writer: Writer, gate: Gate, operations: Operations
) -> Callable[[Request], Awaitable[Response]]:
    """Add the routes that change the campaign; return the handler of /tell."""

    async def change(request: Request, schema: Any, operation: Callable[[Any, Principal], Any]) -> Response:
        principal = gate.principal(request)
        body = schemas.parse(schema, await gate.body(request))
        author = principal.name or getattr(body, "client", None) or principal.role
        return _json(await writer.change(operation(body, principal), author))

    @app.post("/ask", **described("What to measure next", schemas.Queries, schemas.Ask))
    async def ask(request: Request) -> Response:
        return await change(request, schemas.Ask, operations.ask)

    @app.post("/tell", **described("The result of a query, or of many", schemas.Recorded, schemas.Tell))
    async def tell(request: Request) -> Response:
        return await change(request, schemas.Tell, operations.tell)

    @app.post("/observe", **described("Measurements without a query", schemas.Recorded, schemas.Observe))
    async def observe(request: Request) -> Response:
        return await change(request, schemas.Observe, operations.observe)

    @app.post("/abandon", **described("Close a query that will never be answered", schemas.Recorded, schemas.Abandon))
    async def abandon(request: Request) -> Response:
        return await change(request, schemas.Abandon, operations.abandon)

    @app.post("/correct", **described("Replace a recorded result", schemas.Recorded, schemas.Correct))
    async def correct(request: Request) -> Response:
        return await change(request, schemas.Correct, operations.correct)

    @app.post("/retract", **described("Withdraw a recorded result", schemas.Recorded, schemas.Retract))
    async def retract(request: Request) -> Response:
        return await change(request, schemas.Retract, operations.retract)

    return tell


def _add_reads(app: FastAPI, writer: Writer, worker: StatusWorker, gate: Gate, header: bytes) -> None:
    @app.get("/open", **described("Open queries and their leases", schemas.Open))
    async def open_queries(request: Request) -> Response:
        gate.principal(request)
        return _json(await writer.read(_open))

    @app.get("/status", **described("Status of the campaign", dict[str, Any], parameters=[_WAIT]))
    async def status(request: Request) -> Response:
        gate.principal(request)
        wait = request.query_params.get("wait", "true").lower() not in ("false", "0", "no")
        return _json((await worker.report("status", wait=wait)).content)

    @app.get("/problem", **described("The header of the campaign: problem, policy and stopping rule", dict[str, Any]))
    async def problem(request: Request) -> Response:
        gate.principal(request)
        return _json(header)

    @app.get("/me", **described("Role and name of the token", schemas.Me))
    async def me(request: Request) -> Response:
        principal = gate.principal(request)
        return _json(dumped({"role": principal.role, "client": principal.name}))

    @app.get("/sums", **described("Sufficient statistics of every arm", schemas.Sums))
    async def sums(request: Request) -> Response:
        gate.principal(request)
        return _json(await writer.read(_sums))

    @app.get("/measurements", **described("All measurements", dict[str, Any]))
    async def measurements(request: Request) -> Response:
        if not gate.principal(request).is_owner:
            raise AccessError("only the owner downloads all measurements")
        return _json((await worker.once("measurements")).content)

    @app.get("/measurements.csv", **described("All measurements, as a table", None, kind="text/csv"))
    async def measurements_csv(request: Request) -> Response:
        if not gate.principal(request).is_owner:
            raise AccessError("only the owner downloads all measurements")
        report = await worker.once("measurements_csv")
        name = {"content-disposition": 'attachment; filename="measurements.csv"'}
        return Response(report.content, headers=DATA | name, media_type="text/csv; charset=utf-8")


def _open(campaign: Campaign) -> bytes:
    queries, leases = campaign.open_queries, campaign.leases
    listed = [query_json(query, leases.get(query.id)) for query in queries]
    return dumped({"samples": campaign.samples, "actions": campaign.actions, "queries": listed})


def _sums(campaign: Campaign) -> bytes:
    with campaign._reading():
        return dumped(sums_json(campaign.policy))


def _json(content: bytes) -> Response:
    return Response(content, headers=DATA, media_type="application/json")


def _add_pages(app: FastAPI, worker: StatusWorker, gate: Gate) -> None:
    """Add routes for browsers: the page and the part of it that changes, the login, and the API description."""

    @app.get("/", **described("The live page", None, kind="text/html"))
    async def page(request: Request) -> Response:
        try:
            gate.principal(request)
        except RefusedError as error:
            if error.status != 401:
                raise
            return _html("login.html", {}, status=401)
        report, nonce = await worker.report("page"), _nonce()
        document, _, placeholder = report.content
        return _page(document.replace(placeholder, nonce.encode()), nonce)

    @app.get("/fragment", **described("The part of the page that changes", None, kind="text/html"))
    async def fragment(request: Request) -> Response:
        """With the ETag of the last one as If-None-Match, the response is 304 while nothing has changed."""
        gate.principal(request)
        report = await worker.report("page")
        tag = f'"{report.tag}"'
        known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
        headers = DATA | {"etag": tag}
        if tag in known:
            return Response(status_code=304, headers=headers)
        return Response(report.content[1], headers=headers, media_type="text/html")

    @app.post("/login", **described("Exchange a token for the cookie of a browser", dict[str, str], schemas.Login))
    async def login(request: Request) -> Response:
        secret = schemas.parse(schemas.Login, await gate.body(request, login=True)).token
        principal = gate.principal_of(request, secret)
        response = Response(dumped({"role": principal.role}), headers=DATA, media_type="application/json")
        if gate.has_tokens:
            path, secure = (request.scope.get("root_path") or "") + "/", request.scope.get("scheme") == "https"
            response.set_cookie(
                gate.cookie(request), gate.open_session(principal), path=path, secure=secure, httponly=True,
                samesite="strict", max_age=SESSION_SECONDS,
            )  # fmt: skip
        return response

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        gate.principal(request)
        return Response(dumped(describe(app)), headers=DATA, media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        gate.principal(request)
        return _html("docs.html", for_people(describe(app)))


def _nonce() -> str:
    return secrets.token_urlsafe(16)


def _html(template: str, facts: Mapping[str, Any], status: int = 200) -> Response:
    nonce = _nonce()
    return _page(_templates().get_template(template).render(facts, nonce=nonce).encode(), nonce, status)


def _page(document: bytes, nonce: str, status: int = 200) -> Response:
    headers = DATA | {"content-security-policy": _CONTENT_POLICY.format(nonce), "x-frame-options": "DENY"}
    return Response(document, status, headers, "text/html")


@lru_cache(maxsize=1)
def _templates() -> Environment:
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return Environment(loader=PackageLoader("combopeps.server"), autoescape=True, **options)


class FastPath:
    """Middleware: `POST` to one path bypasses the routing, which takes most of the time of such a request.

    Successful responses name the campaign, so that a client can tell its server from a proxy. HEAD is answered as GET;
    servers leave the body out.
    """

    def __init__(self, app: Any, path: str, handler: Callable[[Request], Awaitable[Response]], mark: str) -> None:
        self._app, self._path, self._handler, self._mark = app, path, handler, (MARK.encode(), mark.encode())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                message["headers"] = [*message.get("headers", ()), self._mark]
            await send(message)

        if scope["type"] != "http" or scope["method"] != "POST" or not self._is_path(scope):
            is_head = scope.get("method") == "HEAD"
            await self._app(scope | {"method": "GET"} if is_head else scope, receive, marked)
            return
        try:
            response = await self._handler(Request(scope, receive))
        except ComboPepsError as error:
            response = refused(error)
        await response(scope, receive, marked)

    def _is_path(self, scope: Any) -> bool:
        path, root = scope["path"], scope.get("root_path", "")
        return bool(path == self._path or (root and path == root + self._path))
