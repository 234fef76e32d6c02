"""Routes for browsers: the live page, its login, and the description of the HTTP API."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from combopeps.server import schemas
from combopeps.server.auth import DATA, SESSION_SECONDS, Authenticator, RequestError, read_body
from combopeps.server.schemas import dumped
from combopeps.server.status_worker import StatusWorker

REFUSALS = {
    401: "The token is wrong or missing.",
    403: "The principal of this token may not do that, or the request comes from elsewhere.",
    409: "Another campaign is served here than the one that the request is for.",
    429: "Too much at once, or too often.",
    503: "The storage cannot be reached, or is in use by others; come back later.",
}
_BODY_REFUSALS = {
    404: "There never was such a query, or there is no such label.",
    408: "The body did not come.",
    409: "The query has another result already, or is not open; or another campaign is served here.",
    413: "The body is too long.",
    415: "The body is no JSON.",
    422: "The body says something that makes no sense.",
}
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; img-src data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_BODIES: tuple[type[schemas.Body], ...] = (
    schemas.Ask, schemas.Tell, schemas.Observe, schemas.Abandon, schemas.Correct, schemas.Retract, schemas.Login,
)  # fmt: skip
_REFERENCE = "#/components/schemas/{model}"


def failures(described: Mapping[int, str] = REFUSALS) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, as FastAPI describes them."""
    return {status: {"model": schemas.Failure, "description": text} for status, text in described.items()}


def takes(schema: type[BaseModel]) -> dict[str, Any]:
    """Options of a route that reads its own body, which FastAPI does before it knows the sender."""
    content = {"application/json": {"schema": {"$ref": _REFERENCE.format(model=schema.__name__)}}}
    body = {"requestBody": {"required": True, "content": content}}
    return {"methods": ["POST"], "openapi_extra": body, "responses": failures(_BODY_REFUSALS)}


def gives(kind: str) -> dict[int | str, dict[str, Any]]:
    """The response of a route that is not JSON."""
    return {200: {"content": {kind: {"schema": {"type": "string"}}}}}


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, made once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        _, made = models_json_schema([(body, "validation") for body in _BODIES], ref_template=_REFERENCE)
        parts = document["components"]
        parts["schemas"].update(made["$defs"])
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema


def add_pages(app: FastAPI, worker: StatusWorker, authenticator: Authenticator) -> None:
    """Add the page and the part of it that changes, the login, and the description of the API."""

    async def known(request: Request) -> None:
        authenticator.principal(request)

    @app.get("/", summary="The live page", response_class=Response, responses=gives("text/html"))
    async def page(request: Request) -> Response:
        try:
            authenticator.principal(request)
        except RequestError as error:
            if error.status != 401:
                raise
            return _html("login.html", {}, status=401)
        report, nonce = await worker.report("page"), _nonce()
        document, _, placeholder = report.content
        return _page(document.replace(placeholder, nonce.encode()), nonce)

    @app.get(
        "/fragment", summary="The part of the page that changes", response_class=Response,
        responses=gives("text/html"), dependencies=[Depends(known)],
    )  # fmt: skip
    async def fragment(request: Request) -> Response:
        """With the ETag of the last one as If-None-Match, the response is 304 while nothing has changed."""
        report = await worker.report("page")
        tag = f'"{report.tag}"'
        seen = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
        headers = DATA | {"etag": tag}
        if tag in seen:
            return Response(status_code=304, headers=headers)
        return Response(report.content[1], headers=headers, media_type="text/html")

    async def login(request: Request) -> Response:
        body = await read_body(request, schemas.Login, login=True)
        principal = authenticator.principal_of(request, body.token)
        response = Response(dumped({"role": principal.role}), headers=DATA, media_type="application/json")
        if authenticator.has_tokens:
            path, secure = (request.scope.get("root_path") or "") + "/", request.scope.get("scheme") == "https"
            response.set_cookie(
                authenticator.cookie(request), authenticator.open_session(principal), path=path, secure=secure,
                httponly=True, samesite="strict", max_age=SESSION_SECONDS,
            )  # fmt: skip
        return response

    summary = "Exchange a token for the cookie of a browser"
    app.add_api_route("/login", login, summary=summary, response_model=dict[str, str], **takes(schemas.Login))

    @app.get("/openapi.json", include_in_schema=False, dependencies=[Depends(known)])
    async def openapi() -> Response:
        return Response(dumped(describe(app)), headers=DATA, media_type="application/json")

    @app.get("/docs", include_in_schema=False, dependencies=[Depends(known)])
    async def docs() -> Response:
        return _html("docs.html", {"document": describe(app), "refusals": sorted((REFUSALS | _BODY_REFUSALS).items())})


def _nonce() -> str:
    return secrets.token_urlsafe(16)


def _html(template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    nonce = _nonce()
    return _page(_templates().get_template(template).render(values, nonce=nonce).encode(), nonce, status)


def _page(document: bytes, nonce: str, status: int = 200) -> Response:
    headers = DATA | {"content-security-policy": _CONTENT_POLICY.format(nonce), "x-frame-options": "DENY"}
    return Response(document, status, headers, "text/html")


@lru_cache(maxsize=1)
def _templates() -> Environment:
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return Environment(loader=PackageLoader("combopeps.server"), autoescape=True, **options)
