"""The OpenAPI description: request bodies, answers and refusals of every address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from combopeps.server import schemas

_REFUSALS = {
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
_REQUESTS = (
    schemas.Ask, schemas.Tell, schemas.Observe, schemas.Abandon, schemas.Correct, schemas.Retract, schemas.Login,
)  # fmt: skip


def described(
    summary: str,
    answer: Any,
    body: type[BaseModel] | None = None,
    *,
    kind: str = "application/json",
    parameters: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Options of a route: what it takes, what it answers, and how it refuses."""
    refusals = _REFUSALS | (_BODY_REFUSALS if body is not None else {})
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": schemas.Failure, "description": text} for status, text in sorted(refusals.items())
    }
    responses[200] = {"description": summary} | ({} if answer is None else {"model": answer})
    if answer is None:
        responses[200]["content"] = {kind: {"schema": {"type": "string"}}}
    options: dict[str, Any] = {"summary": summary, "responses": responses, "response_model": None}
    if parameters:
        options["openapi_extra"] = {"parameters": list(parameters)}
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


def for_people(document: dict[str, Any]) -> dict[str, Any]:
    """The description as a page shows it: addresses in their order, with the fields of their schemas."""
    routes, models = list[dict[str, Any]](), document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, entry in methods.items():
            body = entry.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            model = models.get(body.get("$ref", "").rpartition("/")[2], {})
            routes.append(
                {
                    "method": method.upper(),
                    "path": path,
                    "summary": entry["summary"],
                    "description": model.get("description") or entry.get("description", ""),
                    "parameters": entry.get("parameters", []),
                    "fields": list(_fields(model)),
                    "refusals": [status for status in entry["responses"] if status >= "400"],
                }
            )
    return {
        "info": document["info"],
        "routes": routes,
        "refusals": dict(sorted({**_REFUSALS, **_BODY_REFUSALS}.items())),
    }


def _fields(model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, field in model.get("properties", {}).items():
        required = name in model.get("required", [])
        yield {"name": name, "type": _type(field), "required": required, "description": field.get("description", "")}


def _type(field: dict[str, Any]) -> str:
    """In a word or two."""
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_type(one) for one in field["anyOf"]))
    if "$ref" in field:
        return str(field["$ref"].rpartition("/")[2])
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(field.get("type", "any"))
