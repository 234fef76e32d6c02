"""Addresses of the server, and what they do. Bodies are read and checked here, once, before anything else happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

import combopeps
from combopeps.campaign import Campaign
from combopeps.errors import AccessError, ComboPepsError
from combopeps.serve import bodies
from combopeps.serve.access import Tokens
from combopeps.serve.description import describe, described
from combopeps.serve.gate import Gate
from combopeps.serve.lane import Lane
from combopeps.serve.looks import dumped
from combopeps.serve.pages import add_pages
from combopeps.serve.refusals import DATA, on_error
from combopeps.serve.service import Service

_WAIT = {
    "name": "wait",
    "in": "query",
    "required": False,
    "description": "false: the last look there is, at once; its samples say how old it is",
    "schema": {"type": "boolean", "default": True},
}


def build(
    opened: Callable[[], Campaign],
    tokens: Tokens | None,
    *,
    patience: float | None,
    pause: float,
    rate: float,
    burst: float,
) -> FastAPI:
    """The application; the campaign is opened now, and everything else begins with the server."""
    service = Service(opened, patience=patience, pause=pause)
    gate = Gate(tokens, rate, burst, service.mark)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.writer.start()
        try:
            yield
        finally:
            await service.looker.stop()
            service.writer.stop()

    app = FastAPI(
        title="combopeps",
        version=combopeps.__version__,
        description="A campaign of measurements: ask what to measure, tell what came of it, and see where it stands.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        exception_handlers={ComboPepsError: on_error, HTTPException: on_error},
    )
    app.state.service, app.state.gate = service, gate
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    _add_writing(app, service, gate)
    _add_reading(app, service, gate)
    add_pages(app, service, gate)
    return app


def _add_writing(app: FastAPI, service: Service, gate: Gate) -> None:
    @app.post("/ask", **described("What to measure next", bodies.Queries, bodies.Ask))
    async def ask(request: Request) -> Response:
        bearer = gate.bearer(request)
        return _data(await service.ask(bodies.parse(bodies.Ask, await gate.body(request)), bearer))

    @app.post("/tell", **described("The result of a query, or of many", bodies.Recorded, bodies.Tell))
    async def tell(request: Request) -> Response:
        bearer = gate.bearer(request)
        return _data(await service.tell(bodies.parse(bodies.Tell, await gate.body(request)), bearer))

    app.add_middleware(Lane, path="/tell", handler=tell, mark=service.mark)

    @app.post("/observe", **described("Measurements that no query asked for", bodies.Recorded, bodies.Observe))
    async def observe(request: Request) -> Response:
        bearer = gate.bearer(request)
        return _data(await service.observe(bodies.parse(bodies.Observe, await gate.body(request)), bearer))

    @app.post("/abandon", **described("Close a query that will never be answered", bodies.Recorded, bodies.Abandon))
    async def abandon(request: Request) -> Response:
        bearer = gate.bearer(request)
        return _data(await service.abandon(bodies.parse(bodies.Abandon, await gate.body(request)), bearer))


def _add_reading(app: FastAPI, service: Service, gate: Gate) -> None:
    @app.get("/open", **described("Open queries, and who has them", bodies.Open))
    async def open_queries(request: Request) -> Response:
        gate.bearer(request)
        return _data(await service.open())

    @app.get("/status", **described("Where the campaign stands", dict[str, Any], parameters=[_WAIT]))
    async def status(request: Request) -> Response:
        gate.bearer(request)
        wait = request.query_params.get("wait", "true").lower() not in ("false", "0", "no")
        return _data((await service.looker.look("status", wait=wait)).content)

    @app.get("/problem", **described("What is measured, and how: the header of the campaign", dict[str, Any]))
    async def problem(request: Request) -> Response:
        gate.bearer(request)
        return _data(service.problem)

    @app.get("/me", **described("Whom the token stands for", bodies.Me))
    async def me(request: Request) -> Response:
        bearer = gate.bearer(request)
        return _data(dumped({"role": bearer.role, "client": bearer.name}))

    @app.get("/sums", **described("What was measured, summed up arm by arm", bodies.Sums))
    async def sums(request: Request) -> Response:
        gate.bearer(request)
        return _data(await service.sums())

    @app.get("/measurements.csv", **described("All measurements, as a table", None, kind="text/csv"))
    async def measurements(request: Request) -> Response:
        if not gate.bearer(request).is_owner:
            raise AccessError("only the owner downloads all measurements")
        look = await service.looker.once("measurements")
        name = {"content-disposition": 'attachment; filename="measurements.csv"'}
        return Response(look.content, headers=DATA | name, media_type="text/csv; charset=utf-8")


def _data(content: bytes) -> Response:
    return Response(content, headers=DATA, media_type="application/json")
