"""Errors as a server says them: the library's words, and a status that fits."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from combopeps.errors import (
    AccessError,
    ActionError,
    ComboPepsError,
    FileFormatError,
    LabelError,
    LimitError,
    ParameterError,
    QueryError,
    RewardError,
)
from combopeps.server.serializers import dumped

DATA = {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
RETRY = "1"  # seconds


class RefusedError(ComboPepsError):
    """A request that is refused before the campaign is asked: with this status, as an error of that type."""

    def __init__(self, status: int, message: str, type: str = "ParameterError") -> None:
        super().__init__(message)
        self.status, self.type = status, type


def status_of(error: ComboPepsError) -> int:
    """The client's mistakes are 4xx. What is wrong with the storage or an oracle is 503: come back later."""
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, QueryError):
        return 404 if error.unknown else 409
    if isinstance(error, LabelError):
        return 404
    if isinstance(error, LimitError):
        return 429
    if isinstance(error, AccessError):
        return 403
    return 422 if isinstance(error, (ParameterError, RewardError, ActionError, FileFormatError)) else 503


def refused(error: ComboPepsError) -> Response:
    """The answer to a request that went wrong."""
    status, type_ = status_of(error), error.type if isinstance(error, RefusedError) else type(error).__name__
    headers = dict(DATA)
    if status in (429, 503):
        headers["retry-after"] = RETRY
    if status == 408:
        headers["connection"] = "close"  # the rest of the body is not waited for
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(dumped({"error": str(error), "type": type_}), status, headers, "application/json")


async def on_error(request: Request, error: Exception) -> Response:
    """For the framework: an error of ours, or one of its own."""
    if isinstance(error, ComboPepsError):
        return refused(error)
    status = int(getattr(error, "status_code", 400))
    said = {404: "there is nothing at this address", 405: "this address is not for that method"}
    response = refused(RefusedError(status, said.get(status, str(getattr(error, "detail", error)))))
    response.headers.update(getattr(error, "headers", None) or {})
    return response
