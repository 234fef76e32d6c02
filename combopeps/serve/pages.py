"""Addresses for browsers: the page, its login, and the description for people."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from combopeps.serve import bodies
from combopeps.serve.access import COOKIE
from combopeps.serve.description import describe, described
from combopeps.serve.gate import Gate
from combopeps.serve.looks import dumped
from combopeps.serve.refusals import DATA
from combopeps.serve.service import Service


def add_pages(app: FastAPI, service: Service, gate: Gate, *, has_tokens: bool) -> None:
    """To the application."""

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        gate.bearer(request)
        return Response(dumped(describe(app)), headers=DATA, media_type="application/json")

    @app.post("/login", **described("The token of a browser, as a cookie", dict[str, str], bodies.Login))
    async def login(request: Request) -> Response:
        secret = bodies.parse(bodies.Login, await gate.body(request)).token
        bearer = gate.secret_bearer(request, secret)
        response = Response(
            dumped({"role": bearer.role if bearer else "owner"}), headers=DATA, media_type="application/json"
        )
        if bearer is not None:
            secure = request.url.scheme == "https"
            response.set_cookie(COOKIE, secret, httponly=True, samesite="strict", secure=secure, path="/")
        return response
