"""`Lane`: results first. What is told by `POST /tell` takes a short way past the framework's routing.

Most requests are results, and of what they cost most was routing: the same function is called here with less around it.
Who sends HEAD is answered as for GET; servers leave the body out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from combopeps.errors import ComboPepsError
from combopeps.remote.wire import MARK
from combopeps.serve.refusals import refused

Handler = Callable[[Request], Awaitable[Response]]


class Lane:
    """In front of an application: answers `POST` to one path itself.

    Successful responses name the campaign, so that a client knows that its server has answered, and not a proxy.
    """

    def __init__(self, app: Any, path: str, handler: Handler, mark: str) -> None:
        self._app, self._path, self._handler, self._mark = app, path, handler, (MARK.encode(), mark.encode())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                message["headers"] = [*message.get("headers", ()), self._mark]
            await send(message)

        await self._answer(scope, receive, marked)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not self._is_ours(scope):
            is_head = scope.get("method") == "HEAD"
            await self._app(scope | {"method": "GET"} if is_head else scope, receive, send)
            return
        try:
            response = await self._handler(Request(scope, receive))
        except ComboPepsError as error:
            response = refused(error)
        await response(scope, receive, send)

    def _is_ours(self, scope: Any) -> bool:
        path, root = scope["path"], scope.get("root_path", "")
        return bool(path == self._path or (root and path == root + self._path))
