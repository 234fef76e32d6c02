"""`Connection`: what anybody may send before it is known who it is: a head of a sensible size, in time, and not too
many connections at once.
"""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from itertools import count

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from combopeps.serve.looks import dumped

MOST_HEAD = 65_536  # bytes of the first line and all headers
HEAD_SECONDS = 10.0  # for them to come
MOST_CONNECTIONS = 500
_turns = count()


class Connection(HttpToolsProtocol):
    """Of uvicorn, with limits. Where no request is under way, a timer runs from the first byte on.

    When there are too many, the one goes that has done nothing for longest; if all are busy, the new one.
    """

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Somebody is there."""
        super().connection_made(transport)
        self._head = self._chunk = 0  # bytes of a head that is not there yet; and of what came last
        self._is_body = self._is_news = False  # is a body expected; has a head, or a request, come to its end?
        self._turn = next(_turns)  # when something last happened
        self._timer: TimerHandle | None = None
        self._wait()
        if len(self.connections) > MOST_CONNECTIONS:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._end_wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A part of a request, or several."""
        self._chunk, self._is_news = len(data), False
        super().data_received(data)
        if not self._is_news and not self._is_body:
            self._head += len(data)
            if self._head > MOST_HEAD:
                self._too_long()
        if self._timer is None and self._is_idle:
            self._wait()

    def on_headers_complete(self) -> None:
        """A head is there."""
        if self._head + self._chunk > MOST_HEAD:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > MOST_HEAD:
                raise ValueError("the head is too long")  # which ends the parser: see send_400_response
        self._head, self._is_body, self._is_news = 0, True, True
        self._turn = next(_turns)
        self._end_wait()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request is there."""
        self._is_body, self._is_news = False, True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """What was sent is no HTTP."""
        if self._head + self._chunk > MOST_HEAD and not self._is_body:
            self._too_long()
        else:
            self._refuse(400, "this is no request of HTTP/1.1", "ParameterError")

    @property
    def _is_idle(self) -> bool:
        """Is no request under way?"""
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        here = [one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()]
        idle = [one for one in here if one._is_idle and one is not self]
        if len(here) > MOST_CONNECTIONS and idle:
            min(idle, key=lambda one: one._turn).transport.abort()
        elif len(here) > MOST_CONNECTIONS:
            self._refuse(503, f"there are {MOST_CONNECTIONS} connections; come back later")

    def _wait(self) -> None:
        if not self.transport.is_closing():
            self._timer = self.loop.call_later(HEAD_SECONDS, self._late)

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if self._is_idle and self._head:
            self._refuse(408, f"no request came within {HEAD_SECONDS:g} s")
        elif self._is_idle:
            self.transport.close()  # nothing was said; or it was answered already

    def _too_long(self) -> None:
        self._refuse(431, f"the head of a request has at most {MOST_HEAD} bytes")

    def _refuse(self, status: int, words: str, type: str = "LimitError") -> None:
        """Say why, and close; where a whole request came before this, after its answer."""
        if self.transport.is_closing():
            return
        if not self._is_idle and not self._is_body:
            self.flow.pause_reading()
            self.cycle.keep_alive = False
            return
        if self._is_idle or not self.cycle.response_started:
            body = dumped({"error": words, "type": type})
            head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
