"""`Gate`: what every request passes before anything is done: where it comes from, whose it is, and how large.

Pages of other origins cannot write here: they may not send JSON without asking first, which is never granted, and
browsers say where a request comes from. Without tokens, only names of this machine are answered to, as a page may
point a name of its own to it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request

from combopeps.errors import AccessError
from combopeps.server.access import Allowance, Bearer, Tokens
from combopeps.server.error_handlers import RefusedError
from combopeps.server.http_client import MARK

_LOCAL = {"localhost", "127.0.0.1", "::1"}
_PATIENCE = 30.0  # seconds for a body to come
_LOGIN_PATIENCE, _LOGIN_BYTES = 3.0, 1_000  # the same, and its size, before the sender is known
SESSION_SECONDS = 12 * 3600  # from the login of a browser to the next one
_MOST_SESSIONS = 10_000
_WRONG = 20.0  # requests that a wrong token counts for
MOST_BYTES = 1_000_000  # of a body
VERDICT = "combopeps.verdict"  # in the scope of a request: called with whether the request is authenticated


class Gate:
    """Lets requests in, or raises. `mark` stands for the campaign that is served."""

    def __init__(self, tokens: Tokens | None, rate: float, burst: float, mark: str = "") -> None:
        self._tokens, self._mark, self._allowance = tokens, mark, Allowance(rate, burst)
        self._mistakes = Allowance(rate / _WRONG, max(1.0, burst / _WRONG))  # by address
        self._sessions: dict[str, tuple[Bearer, float]] = {}  # by the value of the cookie, until when

    @property
    def has_tokens(self) -> bool:
        """Or is everybody the owner?"""
        return self._tokens is not None

    def bearer(self, request: Request) -> Bearer:
        """Who asks; a `RefusedError` for a token that is wrong or missing, and for too many requests."""
        return self._admitted(request, self._session(request) or self._known(request, self._secret(request)))

    def bearer_of(self, request: Request, secret: str | None) -> Bearer:
        """Whose token this is, which somebody has brought. Only mistakes count against an address."""
        return self._admitted(request, self._known(request, secret))

    def open_session(self, bearer: Bearer) -> str:
        """The value of a cookie that stands for a bearer for some hours."""
        now, value = time.monotonic(), secrets.token_urlsafe(32)
        self._sessions = {key: session for key, session in self._sessions.items() if session[1] > now}
        while len(self._sessions) >= _MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[value] = bearer, now + SESSION_SECONDS
        return value

    def _session(self, request: Request) -> Bearer | None:
        """Whose cookie this is; a header counts more."""
        if self._tokens is None or "authorization" in request.headers:
            return None
        found = self._sessions.get(request.cookies.get(self.cookie(request), ""))
        return None if found is None or found[1] <= time.monotonic() else found[0]

    def _admitted(self, request: Request, bearer: Bearer) -> Bearer:
        _tell_connection(request, True)
        self._allowance.spend(bearer.counted_as)
        if request.headers.get(MARK, self._mark) != self._mark:
            raise RefusedError(409, "another campaign is served at this address than when you began", "RemoteError")
        return bearer

    def cookie(self, request: Request) -> str:
        """Its name. Browsers send cookies to all ports of a machine: each campaign has its own."""
        return f"combopeps_{(request.scope.get('server') or ('', ''))[1]}_{self._mark}"

    async def body(self, request: Request, *, login: bool = False) -> bytes:
        """What it says: JSON, of our own origin, and not too long; before a `login` short, and soon."""
        most, patience = (_LOGIN_BYTES, _LOGIN_PATIENCE) if login else (MOST_BYTES, _PATIENCE)
        if login:
            _tell_connection(request, False)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RefusedError(415, f"the body must be JSON (Content-Type: application/json), got {kind!r:.60}")
        _check_origin(request)
        length = request.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length[:20]) > most:
            raise _too_long(most)
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(patience):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise _too_long(most)
                    parts.append(part)
        except TimeoutError:
            raise RefusedError(408, f"the body did not come within {patience:g} s", "LimitError") from None
        except ClientDisconnect:
            raise RefusedError(400, "the body was cut off") from None
        return b"".join(parts)

    def _known(self, request: Request, secret: str | None) -> Bearer:
        _tell_connection(request, False)
        if self._tokens is None:
            self._check_host(request)
            return Bearer("owner", None, _address(request))
        try:
            return self._tokens.bearer(secret)
        except AccessError as error:
            if secret is not None:
                self._mistakes.spend(_address(request))
            raise RefusedError(401, str(error), "AccessError") from None

    def _secret(self, request: Request) -> str | None:
        """The token of a request, in its header."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        return secret.strip() if scheme.lower() == "bearer" else None

    def _check_host(self, request: Request) -> None:
        try:
            name = urlsplit("//" + request.headers.get("host", "")).hostname
        except ValueError:
            name = None
        if name not in _LOCAL:
            raise RefusedError(
                403, f"without a token file, only localhost is answered to, not {name!r:.80}", "AccessError"
            )


def _tell_connection(request: Request, authenticated: bool) -> None:
    """Connections whose last request was not authenticated are the first to be closed when there are too many."""
    verdict = request.scope.get(VERDICT)
    if verdict is not None:
        verdict(authenticated)


def _address(request: Request) -> str:
    """Where it comes from: what a proxy says counts if the server was told of the proxy."""
    return request.client.host if request.client else ""


def _check_origin(request: Request) -> None:
    """Refuse what a page of somebody else sends."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site in ("same-origin", "none"):
        return
    if site is None and (origin is None or _is_at(origin, request.headers.get("host", ""))):
        return
    raise RefusedError(403, "this request comes from a page of another origin", "AccessError")


def _is_at(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:  # brackets that nobody closes
        return False
    return parts.scheme in ("http", "https") and parts.netloc != "" and parts.netloc == host


def _too_long(most: int) -> RefusedError:
    return RefusedError(413, f"this body may have at most {most} bytes", "LimitError")
