"""`Connection`: limits on what a client may send before it is authenticated, and on the number of connections.

When a new connection exceeds a limit, another one is closed, in this order:

1. of one address, more than `MOST_UNAUTHENTICATED` connections that are not authenticated: the oldest of these;
2. of all addresses, more than `MOST_CONNECTIONS`: the oldest one that is not authenticated;
3. if all are authenticated: the one that has been idle for longest;
4. if all are authenticated and busy: the new one, which is told so (503).

A connection is authenticated if its last request was, by a token or a session. Authenticated connections do not count
in 1., and neither do those of trusted proxies, each of which may stand for many clients.
"""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from ipaddress import IPv6Address, ip_address
from itertools import count

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from combopeps.server.auth import VERDICT
from combopeps.server.schemas import dumped

MOST_HEAD = 65_536  # bytes of the first line and all headers
HEAD_SECONDS = 10.0  # for them to come
MOST_CONNECTIONS = 500
MOST_UNAUTHENTICATED = 100  # connections of one address
_IPV6_HOST_BITS = 64  # of an address, which a client chooses
_turns = count()


def network_of(host: str) -> str:
    """An address of IPv4 as it is, one of IPv6 without the part that a client chooses.

    Examples
    --------
    >>> network_of("192.0.2.7"), network_of("2001:db8::1") == network_of("2001:db8::2:3")
    ('192.0.2.7', True)
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return hex(int(address) >> _IPV6_HOST_BITS) if isinstance(address, IPv6Address) else host


class Connection(HttpToolsProtocol):
    """Of uvicorn, with limits. Where no request is under way, a timer runs from the first byte on."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head = self._chunk = 0  # bytes of a head that is not there yet; and of what came last
        self._is_body = self._is_news = False  # is a body expected; has a head, or a request, come to its end?
        self._made = self._turn = next(_turns)  # when it was made, and when the last request began
        self._is_authenticated = False
        self._address = self._limited_address()
        self._timer: TimerHandle | None = None
        self._wait()
        if len(self.connections) > min(MOST_CONNECTIONS, MOST_UNAUTHENTICATED):
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._chunk, self._is_news = len(data), False
        super().data_received(data)
        if not self._is_news and not self._is_body:
            self._head += len(data)
            if self._head > MOST_HEAD:
                self._too_long()
        if self._timer is None and self._is_idle:
            self._wait()

    def on_headers_complete(self) -> None:
        if self._head + self._chunk > MOST_HEAD:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > MOST_HEAD:
                raise ValueError("the head is too long")  # which ends the parser: see send_400_response
        self._head, self._is_body, self._is_news = 0, True, True
        self._turn = next(_turns)
        self._end_wait()
        self.scope[VERDICT] = self._set_authenticated  # type: ignore[literal-required]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_body, self._is_news = False, True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._head + self._chunk > MOST_HEAD and not self._is_body:
            self._too_long()
        else:
            self._refuse(400, "this is no request of HTTP/1.1", "ParameterError")

    @property
    def _is_idle(self) -> bool:
        """Is no request under way?"""
        return self.cycle is None or self.cycle.response_complete

    def _set_authenticated(self, authenticated: bool) -> None:
        """Called for each request, as soon as it is known whether it is authenticated."""
        self._is_authenticated = authenticated

    def _limited_address(self) -> str | None:
        """By what the connections of this client are counted; None, of a trusted proxy: they are not."""
        host = self.client[0] if self.client else None
        if host is None or (isinstance(self.app, ProxyHeadersMiddleware) and host in self.app.trusted_hosts):
            return None
        return network_of(host)

    def _make_room(self) -> None:
        """Close one connection if there are too many: see the module."""
        here = [one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()]
        others = [one for one in here if one is not self]
        unauthenticated = [one for one in others if not one._is_authenticated]
        same = [one for one in unauthenticated if one._address == self._address and self._address is not None]
        if len(same) >= MOST_UNAUTHENTICATED:
            min(same, key=lambda one: one._made).transport.abort()
        elif len(others) >= MOST_CONNECTIONS:
            if unauthenticated:
                min(unauthenticated, key=lambda one: one._made).transport.abort()
            elif idle := [one for one in others if one._is_idle]:
                min(idle, key=lambda one: one._turn).transport.abort()
            else:
                self._refuse(503, f"all {MOST_CONNECTIONS} connections are busy; come back later")

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
            self.transport.close()  # nothing was sent, or it was answered already

    def _too_long(self) -> None:
        self._refuse(431, f"the head of a request has at most {MOST_HEAD} bytes")

    def _refuse(self, status: int, words: str, type: str = "RateLimitError") -> None:
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
