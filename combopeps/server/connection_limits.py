"""`Connection`: limits on request heads before authentication, and on the number of connections.

When a new connection exceeds a limit, another one is closed, in this order:

1. more than `max_unauthenticated` unauthenticated connections of one address: the oldest of these;
2. more than `max_connections` in total: the oldest unauthenticated one;
3. if all are authenticated: the one that has been idle for longest;
4. if all are authenticated and busy: the new one, with status 503.

A connection is authenticated if its last request was, by a token or a session. Connections of trusted proxies, each of
which may serve many clients, do not count in 1.
"""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from ipaddress import IPv6Address, ip_address
from itertools import count

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from combopeps.server.auth import AUTHENTICATION_CALLBACK
from combopeps.server.schemas import dumped

_IPV6_HOST_BITS = 64  # of an address, which a client may choose freely
_sequence = count()


def network_of(host: str) -> str:
    """Return an IPv4 address unchanged, and the network prefix of an IPv6 address.

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
    """The HTTP protocol of uvicorn with limits; between requests, a timer limits the time for the next head."""

    max_head_bytes = 65_536  # of the request line and all headers
    head_timeout = 10.0  # seconds to receive them
    max_connections = 500
    max_unauthenticated = 100  # connections of one address

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_bytes = self._chunk_bytes = 0  # of an incomplete head, and of the last data received
        self._is_reading_body = False
        self._has_progressed = False  # whether the last data completed a head or a request
        self._opened_at = self._active_at = next(_sequence)  # order of opening, and of the last request
        self._is_authenticated = False
        self._address = self._limited_address()
        self._timer: TimerHandle | None = None
        self._start_timer()
        if len(self.connections) > min(self.max_connections, self.max_unauthenticated):
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._chunk_bytes, self._has_progressed = len(data), False
        super().data_received(data)
        if not self._has_progressed and not self._is_reading_body:
            self._head_bytes += len(data)
            if self._head_bytes > self.max_head_bytes:
                self._refuse_head()
        if self._timer is None and self._is_idle:
            self._start_timer()

    def on_headers_complete(self) -> None:
        if self._head_bytes + self._chunk_bytes > self.max_head_bytes:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.max_head_bytes:
                raise ValueError("the head is too long")  # stops the parser, which calls send_400_response
        self._head_bytes, self._is_reading_body, self._has_progressed = 0, True, True
        self._active_at = next(_sequence)
        self._stop_timer()
        self.scope[AUTHENTICATION_CALLBACK] = self._set_authenticated  # type: ignore[literal-required]
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_reading_body, self._has_progressed = False, True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes + self._chunk_bytes > self.max_head_bytes and not self._is_reading_body:
            self._refuse_head()
        else:
            self._refuse(400, "this is not an HTTP/1.1 request", "ParameterError")

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being processed."""
        return self.cycle is None or self.cycle.response_complete

    def _set_authenticated(self, authenticated: bool) -> None:
        """Store whether the last request was authenticated."""
        self._is_authenticated = authenticated

    def _limited_address(self) -> str | None:
        """Return the address by which connections are counted; None for a trusted proxy, which is not limited."""
        host = self.client[0] if self.client else None
        if host is None or (isinstance(self.app, ProxyHeadersMiddleware) and host in self.app.trusted_hosts):
            return None
        return network_of(host)

    def _make_room(self) -> None:
        """Close one connection if there are too many, by the rules in the docstring of the module."""
        others = [
            other
            for other in self.connections
            if isinstance(other, Connection) and other is not self and not other.transport.is_closing()
        ]
        unauthenticated = [one for one in others if not one._is_authenticated]
        same = [one for one in unauthenticated if one._address == self._address and self._address is not None]
        if len(same) >= self.max_unauthenticated:
            min(same, key=lambda one: one._opened_at).transport.abort()
        elif len(others) >= self.max_connections:
            if unauthenticated:
                min(unauthenticated, key=lambda one: one._opened_at).transport.abort()
            elif idle := [one for one in others if one._is_idle]:
                min(idle, key=lambda one: one._active_at).transport.abort()
            else:
                self._refuse(503, f"all {self.max_connections} connections are busy; try again later")

    def _start_timer(self) -> None:
        if not self.transport.is_closing():
            self._timer = self.loop.call_later(self.head_timeout, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        if self._is_idle and self._head_bytes:
            self._refuse(408, f"no request was received within {self.head_timeout:g} s")
        elif self._is_idle:
            self.transport.close()  # nothing was received, or every request was answered

    def _refuse_head(self) -> None:
        self._refuse(431, f"the head of a request has at most {self.max_head_bytes} bytes")

    def _refuse(self, status: int, message: str, type: str = "RateLimitError") -> None:
        """Send an error and close the connection, after the response to a complete request before it."""
        if self.transport.is_closing():
            return
        if not self._is_idle and not self._is_reading_body:
            self.flow.pause_reading()
            self.cycle.keep_alive = False
            return
        if self._is_idle or not self.cycle.response_started:
            body = dumped({"error": message, "type": type})
            head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
