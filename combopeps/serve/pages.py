"""Addresses for browsers: the page and the part of it that changes, the login, and the description for people."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fastapi import FastAPI, Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from combopeps.serve import bodies
from combopeps.serve.description import describe, described, for_people
from combopeps.serve.gate import SESSION_SECONDS, Gate
from combopeps.serve.looks import dumped
from combopeps.serve.refusals import DATA, RefusedError
from combopeps.serve.service import Service

_POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; img-src data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def add_pages(app: FastAPI, service: Service, gate: Gate) -> None:
    """To the application."""

    @app.get("/", **described("The live page", None, kind="text/html"))
    async def page(request: Request) -> Response:
        try:
            gate.bearer(request)
        except RefusedError as error:
            if error.status != 401:
                raise
            return _html("login.html", {}, status=401)
        look, nonce = await service.looker.look("page"), _nonce()
        document, _, placeholder = look.content
        return _page(document.replace(placeholder, nonce.encode()), nonce)

    @app.get("/fragment", **described("The part of the page that changes", None, kind="text/html"))
    async def fragment(request: Request) -> Response:
        """With the ETag of the last one as If-None-Match, the answer is 304 while nothing has changed."""
        gate.bearer(request)
        look = await service.looker.look("page")
        tag = f'"{look.tag}"'
        known = [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]
        headers = DATA | {"etag": tag}
        if tag in known:
            return Response(status_code=304, headers=headers)
        return Response(look.content[1], headers=headers, media_type="text/html")

    @app.post("/login", **described("The token of a browser, as a cookie", dict[str, str], bodies.Login))
    async def login(request: Request) -> Response:
        secret = bodies.parse(bodies.Login, await gate.body(request, login=True)).token
        bearer = gate.bearer_of(request, secret)
        response = Response(dumped({"role": bearer.role}), headers=DATA, media_type="application/json")
        if gate.has_tokens:
            path, secure = (request.scope.get("root_path") or "") + "/", request.scope.get("scheme") == "https"
            response.set_cookie(
                gate.cookie(request), gate.open_session(bearer), path=path, secure=secure, httponly=True,
                samesite="strict", max_age=SESSION_SECONDS,
            )  # fmt: skip
        return response

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        gate.bearer(request)
        return Response(dumped(describe(app)), headers=DATA, media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        gate.bearer(request)
        return _html("docs.html", for_people(describe(app)))


def _nonce() -> str:
    return secrets.token_urlsafe(16)


def _html(template: str, facts: Mapping[str, Any], status: int = 200) -> Response:
    nonce = _nonce()
    return _page(_templates().get_template(template).render(facts, nonce=nonce).encode(), nonce, status)


def _page(document: bytes, nonce: str, status: int = 200) -> Response:
    headers = DATA | {"content-security-policy": _POLICY.format(nonce), "x-frame-options": "DENY"}
    return Response(document, status, headers, "text/html")


@lru_cache(maxsize=1)
def _templates() -> Environment:
    options: dict[str, Any] = {"undefined": StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return Environment(loader=PackageLoader("combopeps.serve"), autoescape=True, **options)
