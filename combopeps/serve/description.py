"""The OpenAPI description: request bodies, answers and refusals of every address."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from combopeps.serve import bodies

_REFUSALS = {
    401: "The token is wrong or missing.",
    403: "The bearer of this token may not do that, or the request comes from elsewhere.",
    429: "Too much at once, or too often.",
    503: "The storage cannot be reached, or is in use by others; come back later.",
}
_BODY_REFUSALS = {
    404: "There never was such a query, or there is no such label.",
    408: "The body did not come.",
    409: "The query has another result already, or is not open.",
    413: "The body is too long.",
    415: "The body is no JSON.",
    422: "The body says something that makes no sense.",
}
_REQUESTS = (bodies.Ask, bodies.Tell, bodies.Observe, bodies.Abandon, bodies.Login)


def described(
    summary: str, answer: Any, body: type[BaseModel] | None = None, *, kind: str = "application/json"
) -> dict[str, Any]:
    """Options of a route: what it takes, what it answers, and how it refuses."""
    refusals = _REFUSALS | (_BODY_REFUSALS if body is not None else {})
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": bodies.Failure, "description": text} for status, text in sorted(refusals.items())
    }
    responses[200] = {"description": summary} | ({} if answer is None else {"model": answer})
    if answer is None:
        responses[200]["content"] = {kind: {"schema": {"type": "string"}}}
    options: dict[str, Any] = {"summary": summary, "responses": responses, "response_model": None}
    if body is not None:
        schema = {"$ref": f"#/components/schemas/{body.__name__}"}
        options["openapi_extra"] = {
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}
        }
    return options


def describe(app: FastAPI) -> dict[str, Any]:
    """The whole description, made once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        template = "#/components/schemas/{model}"
        _, made = models_json_schema([(model, "validation") for model in _REQUESTS], ref_template=template)
        parts = document.setdefault("components", {})
        parts.setdefault("schemas", {}).update(made["$defs"])
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        app.openapi_schema = document
    return app.openapi_schema
