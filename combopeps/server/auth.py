"""Authentication of requests: tokens, roles and rate limits; checks of the origin and size of requests.

| role     | permissions |
|----------|-------------|
| measurer | ask, tell, observe single results, abandon its own queries; read the status, the page and the problem |
| owner    | the same, and observe tables, correct, retract, abandon any query, and download all measurements |

A token may have a name, which is then the client of its requests; one without a name may use any client name. Results
are accepted from every token: a lease reserves a query for the measurement of one client, not for its result. Without a
token file, every client is the owner, and the server accepts only requests to the loopback interface, by its names.
Pages of other origins cannot write: browsers send JSON across origins only after a preflight request, which is refused.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import stat
import time
import warnings
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, NoReturn
from urllib.parse import urlsplit

from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from combopeps.errors import (
    ActionError,
    AuthorizationError,
    ComboPepsError,
    FileFormatError,
    LabelError,
    ParameterError,
    QueryError,
    RateLimitError,
    RewardError,
)
from combopeps.server.schemas import CAMPAIGN_HEADER, Body, dumped
from combopeps.session.events import check_name
from combopeps.utils.files import open_regular

ROLES = ("measurer", "owner")
_MIN_TOKEN_LENGTH, _MAX_TOKEN_LENGTH = 16, 512  # characters
_MAX_LIMITED = 10_000  # principals with a rate limit in memory
_LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1"}
_BODY_TIMEOUT = 30.0  # seconds
_LOGIN_TIMEOUT, _MAX_LOGIN_BYTES = 3.0, 1_000  # of a body before authentication
SESSION_SECONDS = 12 * 3600  # lifetime of the session of a browser
_MAX_SESSIONS = 10_000
_WRONG_TOKEN_COST = 20.0  # requests
MAX_BODY_BYTES = 1_000_000
RESPONSE_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
_ERROR_STATUSES: list[tuple[Any, int]] = [
    (LabelError, 404),
    (RateLimitError, 429),
    (AuthorizationError, 403),
    ((ParameterError, RewardError, ActionError, FileFormatError), 422),
]
_STATUS_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},  # the rest of the body is not read
    429: {"retry-after": "1"},
    503: {"retry-after": "1"},
}
# Key in the scope of a request: a function that is called with whether the request is authenticated.
AUTHENTICATION_CALLBACK = "combopeps.authentication"


class RequestError(ComboPepsError):
    """A request that is refused before it reaches the campaign, with an HTTP status and the name of an error type."""

    def __init__(self, status: int, message: str, type: str = "ParameterError") -> None:
        super().__init__(message)
        self.status, self.type = status, type


def http_status(error: ComboPepsError) -> int:
    """Return the HTTP status of an error: 4xx for errors of the client, 503 for those of the store or an oracle."""
    if isinstance(error, RequestError):
        return error.status
    if isinstance(error, QueryError):
        return 404 if error.unknown else 409
    for kinds, status in _ERROR_STATUSES:
        if isinstance(error, kinds):
            return status
    return 503


def error_response(error: ComboPepsError) -> Response:
    """Return the response for an error."""
    status, kind = http_status(error), error.type if isinstance(error, RequestError) else type(error).__name__
    content = dumped({"error": str(error), "type": kind})
    return Response(content, status, RESPONSE_HEADERS | _STATUS_HEADERS.get(status, {}), "application/json")


async def handle_error(request: Request, error: Exception) -> Response:
    """Handle an error for FastAPI: a typed error, or one of the framework."""
    if isinstance(error, ComboPepsError):
        return error_response(error)
    status = int(getattr(error, "status_code", 400))
    messages = {404: "there is nothing at this address", 405: "this address is not for that method"}
    response = error_response(RequestError(status, messages.get(status, str(getattr(error, "detail", error)))))
    response.headers.update(getattr(error, "headers", None) or {})
    return response


@dataclass(frozen=True)
class Principal:
    """The sender of a request: role, name, and the key of its rate limit (hash of the token, or address)."""

    role: str
    name: str | None = None
    key: str = field(default="", repr=False)

    @property
    def is_owner(self) -> bool:
        return self.role == "owner"

    def client(self, name: str | None) -> str | None:
        """Return the client name of a request; raise `AuthorizationError` if the token belongs to another name."""
        if self.name is not None and name not in (None, self.name):
            raise AuthorizationError(
                f"this token belongs to {self.name!r}; use that client name, or leave the client out"
            )
        return self.name if name is None else name


class Tokens:
    """The principals of all tokens, by hashes of these."""

    def __init__(self, principals: Iterable[Principal]) -> None:
        self._principals = list(principals)
        if not any(principal.is_owner for principal in self._principals):
            raise ParameterError("there is no owner among the tokens; add a line: owner TOKEN")

    def principal(self, secret: str | None) -> Principal:
        """Return the principal of a token; the time does not depend on which tokens match."""
        if secret is None:
            raise AuthorizationError("a token is required: Authorization: Bearer TOKEN")
        digest, found = sha256(secret.encode("utf-8", "surrogateescape")).hexdigest(), None
        for principal in self._principals:
            if hmac.compare_digest(principal.key, digest):
                found = principal
        if found is None:
            raise AuthorizationError("this token is not valid")
        return found


def make_token(role: str, secret: str, name: str | None = None) -> Principal:
    """Return the principal of a token, or raise a typed error."""
    if role not in ROLES:
        raise ParameterError(f"the role of a token is {' or '.join(ROLES)}, got {role!r:.40}")
    is_printable = secret.isascii() and secret.isprintable() and " " not in secret
    if not (_MIN_TOKEN_LENGTH <= len(secret) <= _MAX_TOKEN_LENGTH and is_printable):
        raise ParameterError(
            f"a token has {_MIN_TOKEN_LENGTH} to {_MAX_TOKEN_LENGTH} visible ASCII characters, got {len(secret)} "
            "characters; create one with python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    checked = None if name is None else check_name("the name of a token", name)
    return Principal(role, checked, sha256(secret.encode()).hexdigest())


def read_tokens(path: str | os.PathLike[str]) -> Tokens:
    """Read a file with lines `owner TOKEN` and `measurer TOKEN [name]`; empty lines and lines with # are ignored."""
    try:
        with open_regular(path) as fd, open(fd, encoding="utf-8", closefd=False) as file:
            mode, lines = os.fstat(fd).st_mode, file.read().splitlines()
    except (OSError, ValueError) as cause:
        raise ParameterError(f"token file {path} cannot be read: {cause}") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        warnings.warn(f"{path} can be read by others; chmod 600 {path}", stacklevel=2)
    found: dict[str, Principal] = {}
    for number, line in enumerate(lines, start=1):
        role, *rest = line.split(maxsplit=2) or ["#"]
        if role.startswith("#"):
            continue
        try:
            if not rest:
                raise ParameterError("a line is `owner TOKEN` or `measurer TOKEN [name]`")
            principal = make_token(role, rest[0], rest[1].strip() if len(rest) > 1 else None)
            if principal.key in found:
                raise ParameterError("duplicate token")
        except ParameterError as cause:
            raise ParameterError(f"token file {path}, line {number}: {cause}") from None
        found[principal.key] = principal
    return Tokens(found.values())


class OpenQueryCounter:
    """Counter of open queries by the token that last asked for them, since the start of the server.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._keys: dict[int, str] = {}  # of principals, by query id

    def record(self, principal: Principal, queries: Iterable[int]) -> None:
        """Count these queries for a principal, instead of any other one."""
        self._keys.update(dict.fromkeys(queries, principal.key))

    def count(self, principal: Principal, open_queries: Container[int]) -> int:
        """Return the number of open queries of a principal, and discard closed ones."""
        self._keys = {id: key for id, key in self._keys.items() if id in open_queries}
        return sum(key == principal.key for key in self._keys.values())


class RateLimiter:
    """Token bucket for every key: `rate` requests a second in the long run, `burst` at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: dict[str, tuple[float, float]] = {}  # requests left, and when that was computed

    def spend(self, key: str, cost: float = 1.0) -> None:
        """Count a request; raise `RateLimitError` if none is left."""
        now = time.monotonic()
        left, since = self._buckets.get(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < cost:
            raise RateLimitError(f"more than {self._rate:g} requests a second; try again in a moment")
        if len(self._buckets) >= _MAX_LIMITED and key not in self._buckets:
            self._buckets.pop(next(iter(self._buckets)))
        self._buckets[key] = left - cost, now


class Authenticator:
    """Authentication of requests, by token or session, and their rate limits.

    Requests for another campaign than that of `campaign_hash` are refused.
    """

    def __init__(self, tokens: Tokens | None, rate: float, burst: float, campaign_hash: str = "") -> None:
        self.has_tokens = tokens is not None  # if not, every client is the owner
        self._tokens, self._campaign_hash, self._limiter = tokens, campaign_hash.encode(), RateLimiter(rate, burst)
        self._failures = RateLimiter(rate / _WRONG_TOKEN_COST, max(1.0, burst / _WRONG_TOKEN_COST))  # by address
        self._sessions: dict[str, tuple[Principal, float]] = {}  # with the time of expiry, by the value of the cookie

    def principal(self, request: Request) -> Principal:
        """Return the sender of a request; raise an error for a wrong or missing token, or too many requests."""
        headers = _headers(request)
        authorization = headers.get(b"authorization")
        if authorization is None and (found := self._session(request)) is not None:
            return self._admit(request, found)
        scheme, _, secret = (authorization or b"").decode("latin-1").partition(" ")
        return self.principal_of(request, secret.strip() if scheme.lower() == "bearer" else None)

    def principal_of(self, request: Request, secret: str | None) -> Principal:
        """Return the principal of a token; only wrong tokens count for the limit of an address."""
        _report_authentication(request, False)
        address = request.client.host if request.client else ""  # of the client behind a trusted proxy
        if self._tokens is None:
            host = _headers(request).get(b"host", b"")
            if not _is_local(host):
                message = f"without a token file, the host must be localhost, not {_host_name(host)!r:.80}"
                raise RequestError(403, message, "AuthorizationError")
            return self._admit(request, Principal("owner", None, address))
        try:
            found = self._tokens.principal(secret)
        except AuthorizationError as error:
            if secret is not None:
                self._failures.spend(address)
            raise RequestError(401, str(error), "AuthorizationError") from None
        return self._admit(request, found)

    def open_session(self, principal: Principal) -> str:
        """Start a session of a principal, and return the value of its cookie."""
        now, value = time.monotonic(), secrets.token_urlsafe(32)
        self._sessions = {key: session for key, session in self._sessions.items() if session[1] > now}
        while len(self._sessions) >= _MAX_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[value] = principal, now + SESSION_SECONDS
        return value

    def cookie_name(self, request: Request) -> str:
        """Return the name of the cookie, which depends on port and campaign: browsers send cookies to all ports."""
        return f"combopeps_{(request.scope.get('server') or ('', ''))[1]}_{self._campaign_hash.decode()}"

    def _session(self, request: Request) -> Principal | None:
        if self._tokens is None:
            return None
        found = self._sessions.get(request.cookies.get(self.cookie_name(request), ""))
        return None if found is None or found[1] <= time.monotonic() else found[0]

    def _admit(self, request: Request, principal: Principal) -> Principal:
        _report_authentication(request, True)
        self._limiter.spend(principal.key)
        if _headers(request).get(CAMPAIGN_HEADER.encode(), self._campaign_hash) != self._campaign_hash:
            raise RequestError(
                409, "another campaign is served at this address than at your first request", "RemoteError"
            )
        return principal


async def read_body(request: Request, schema: type[Body], *, login: bool = False) -> Any:
    """Read and validate a JSON body of the same origin; limits on size and time are stricter for a `login`."""
    max_bytes, timeout = (_MAX_LOGIN_BYTES, _LOGIN_TIMEOUT) if login else (MAX_BODY_BYTES, _BODY_TIMEOUT)
    if login:
        _report_authentication(request, False)
    headers = _headers(request)
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        message = f"the body must be JSON (Content-Type: application/json), got {kind.decode('latin-1')!r:.60}"
        raise RequestError(415, message)
    _check_origin(headers)
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > max_bytes:
        raise _too_long(max_bytes)
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(timeout):
            async for part in request.stream():
                size += len(part)
                if size > max_bytes:
                    raise _too_long(max_bytes)
                parts.append(part)
    except TimeoutError:
        raise RequestError(408, f"the body was not received within {timeout:g} s", "RateLimitError") from None
    except ClientDisconnect:
        raise RequestError(400, "the body is incomplete") from None
    return _parse(schema, b"".join(parts))


def _parse(schema: type[Body], data: bytes) -> Body:
    """Parse strict JSON without duplicate keys, and validate it; raise `ParameterError` with the first fault."""
    try:
        return schema.model_validate(_decode(data.decode("utf-8")))
    except RecursionError:
        raise ParameterError("the body is not JSON: brackets are nested too deeply") from None
    except ValidationError as cause:
        fault = cause.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, fault["loc"]))[:100]
        raise ParameterError(f"{where or 'the body'}: {fault['msg']}") from None
    except ValueError as cause:
        raise ParameterError(f"the body is not JSON: {cause!s:.200}") from None


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found


_decode = json.JSONDecoder(object_pairs_hook=_without_duplicates, parse_constant=_reject_constant).decode


def _headers(request: Request) -> dict[bytes, bytes]:
    """Return the headers of a request, by names in lower case; the first value of each name."""
    return dict(reversed(request.scope["headers"]))


def _report_authentication(request: Request, authenticated: bool) -> None:
    """Report to the connection whether a request is authenticated: see `combopeps.server.connection_limits`."""
    callback = request.scope.get(AUTHENTICATION_CALLBACK)
    if callback is not None:
        callback(authenticated)


def _check_origin(headers: dict[bytes, bytes]) -> None:
    """Raise `RequestError` for a request from a page of another origin."""
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site in (b"same-origin", b"none"):
        return
    if site is None and (origin is None or _is_same_host(origin, headers.get(b"host", b""))):
        return
    raise RequestError(403, "this request comes from a page of another origin", "AuthorizationError")


def _is_same_host(origin: bytes, host: bytes) -> bool:
    try:
        parts = urlsplit(origin.decode("latin-1"))
    except ValueError:  # unbalanced brackets
        return False
    return parts.scheme in ("http", "https") and parts.netloc != "" and parts.netloc == host.decode("latin-1")


def _host_name(host: bytes) -> str | None:
    try:
        return urlsplit("//" + host.decode("latin-1")).hostname
    except ValueError:
        return None


@lru_cache(maxsize=16)
def _is_local(host: bytes) -> bool:
    return _host_name(host) in _LOCAL_HOSTS


def _too_long(max_bytes: int) -> RequestError:
    return RequestError(413, f"this body may have at most {max_bytes} bytes", "RateLimitError")
