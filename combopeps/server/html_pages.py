"""Routes for browsers: live page, login, and documentation of the HTTP API (OpenAPI)."""

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
from combopeps.server.auth import RESPONSE_HEADERS, SESSION_SECONDS, Authenticator, RequestError, read_body
from combopeps.server.schemas import dumped
from combopeps.server.status_worker import StatusWorker

ERRORS = {
    401: "The token is wrong or missing.",
    403: "The role of this token does not permit the request, or it comes from a page of another origin.",
    409: "The request is for another campaign than the one that is served.",
    429: "Too many requests, or too many open queries.",
    503: "The store cannot be reached, or is in use by others; try again later.",
}
_BODY_ERRORS = {
    404: "There is no such query or label.",
    408: "The body was not received in time.",
    409: "The query has another result, or is not open; or another campaign is served.",
    413: "The body is too long.",
    415: "The body is not JSON.",
    422: "The body, or a value in it, is invalid.",
}
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; img-src data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_BODY_SCHEMAS: tuple[type[schemas.Body], ...] = (
    schemas.Ask, schemas.Tell, schemas.Observe, schemas.Abandon, schemas.Correct, schemas.Retract, schemas.Login,
)  # fmt: skip
_SCHEMA_REFERENCE = "#/components/schemas/{model}"


def error_responses(descriptions: Mapping[int, str] = ERRORS) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route, as FastAPI documents them."""
    return {status: {"model": schemas.Failure, "description": text} for status, text in descriptions.items()}


def body_options(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the options of a route that reads its body itself: FastAPI would do so before authentication."""
    content = {"application/json": {"schema": {"$ref": _SCHEMA_REFERENCE.format(model=schema.__name__)}}}
    body = {"requestBody": {"required": True, "content": content}}
    return {"methods": ["POST"], "openapi_extra": body, "responses": error_responses(_BODY_ERRORS)}


def content_response(kind: str) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a response with a content type other than JSON."""
    return {200: {"content": {kind: {"schema": {"type": "string"}}}}}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, which is created once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        _, definitions = models_json_schema(
            [(body, "validation") for body in _BODY_SCHEMAS], ref_template=_SCHEMA_REFERENCE
        )
        parts = document["components"]
        parts["schemas"].update(definitions["$defs"])
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema


def add_pages(app: FastAPI, worker: StatusWorker, authenticator: Authenticator) -> None:
    """Add the live page, the fragment of it that changes, the login, and the documentation of the API."""

    async def authenticate(request: Request) -> None:
        authenticator.principal(request)

    @app.get("/", summary="The live page", response_class=Response, responses=content_response("text/html"))
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
        responses=content_response("text/html"), dependencies=[Depends(authenticate)],
    )  # fmt: skip
    async def fragment(request: Request) -> Response:
        """With the ETag of the last fragment as If-None-Match, the response is 304 while nothing has changed."""
        report = await worker.report("page")
        tag = f'"{report.tag}"'
        known_tags = [value.strip().removeprefix("W/") for value in request.headers.get("if-none-match", "").split(",")]
        headers = RESPONSE_HEADERS | {"etag": tag}
        if tag in known_tags:
            return Response(status_code=304, headers=headers)
        return Response(report.content[1], headers=headers, media_type="text/html")

    async def login(request: Request) -> Response:
        body = await read_body(request, schemas.Login, login=True)
        principal = authenticator.principal_of(request, body.token)
        response = Response(dumped({"role": principal.role}), headers=RESPONSE_HEADERS, media_type="application/json")
        if authenticator.has_tokens:
            path, secure = (request.scope.get("root_path") or "") + "/", request.scope.get("scheme") == "https"
            response.set_cookie(
                authenticator.cookie_name(request), authenticator.open_session(principal), path=path, secure=secure,
                httponly=True, samesite="strict", max_age=SESSION_SECONDS,
            )  # fmt: skip
        return response

    summary = "Exchange a token for the cookie of a browser"
    app.add_api_route("/login", login, summary=summary, response_model=dict[str, str], **body_options(schemas.Login))

    @app.get("/openapi.json", include_in_schema=False, dependencies=[Depends(authenticate)])
    async def openapi() -> Response:
        return Response(dumped(openapi_document(app)), headers=RESPONSE_HEADERS, media_type="application/json")

    @app.get("/docs", include_in_schema=False, dependencies=[Depends(authenticate)])
    async def docs() -> Response:
        return _html(
            "docs.html", {"document": openapi_document(app), "errors": sorted((ERRORS | _BODY_ERRORS).items())}
        )


def _nonce() -> str:
    return secrets.token_urlsafe(16)


def _html(template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    nonce = _nonce()
    return _page(_templates().get_template(template).render(values, nonce=nonce).encode(), nonce, status)


def _page(document: bytes, nonce: str, status: int = 200) -> Response:
    headers = RESPONSE_HEADERS | {"content-security-policy": _CONTENT_POLICY.format(nonce), "x-frame-options": "DENY"}
    return Response(document, status, headers, "text/html")


@lru_cache(maxsize=1)
def _templates() -> Environment:
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return Environment(loader=PackageLoader("combopeps.server"), autoescape=True, **options)
