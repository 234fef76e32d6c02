"""Authentication of requests: tokens, roles, rate limits, and the limits on origin and size of a request.

| role     | may |
|----------|-----|
| measurer | ask, tell, observe single results, abandon queries of its own; see the status, the page and the problem |
| owner    | all that; observe whole tables, correct and retract, abandon any query, and download all measurements |

A token may have a name, under which its requests are made; one without a name may use any. A result is accepted from
every token: a lease says which client is to measure a query, not who may know the result. Without a token file every
client is the owner, and the server listens on this machine only, under the names of this machine. Pages of other
origins cannot write: they may not send JSON without a preflight request, which is never granted.
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
from combopeps.server.schemas import MARK, Body, dumped
from combopeps.session.events import check_name
from combopeps.utils.files import open_regular

ROLES = ("measurer", "owner")
_SHORTEST = 16  # characters of a token
_LONGEST = 512
_KNOWN = 10_000  # principals whose rate limits are remembered
_LOCAL = {"localhost", "127.0.0.1", "::1"}
_PATIENCE = 30.0  # seconds for a body to come
_LOGIN_PATIENCE, _LOGIN_BYTES = 3.0, 1_000  # the same, and its size, before the sender is known
SESSION_SECONDS = 12 * 3600  # from the login of a browser to the next one
_MOST_SESSIONS = 10_000
_WRONG = 20.0  # requests that a wrong token counts for
MOST_BYTES = 1_000_000  # of a body
DATA = {"cache-control": "no-store", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
_STATUSES: list[tuple[Any, int]] = [
    (LabelError, 404),
    (RateLimitError, 429),
    (AuthorizationError, 403),
    ((ParameterError, RewardError, ActionError, FileFormatError), 422),
]
_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},  # the rest of the body is not waited for
    429: {"retry-after": "1"},
    503: {"retry-after": "1"},
}
VERDICT = "combopeps.verdict"  # in the scope of a request: called with whether the request is authenticated


class RefusedError(ComboPepsError):
    """A request that is refused before the campaign is asked: with this status, as an error of that type."""

    def __init__(self, status: int, message: str, type: str = "ParameterError") -> None:
        super().__init__(message)
        self.status, self.type = status, type


def status_of(error: ComboPepsError) -> int:
    """The client's mistakes are 4xx. What is wrong with the store or an oracle is 503: come back later."""
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, QueryError):
        return 404 if error.unknown else 409
    for kinds, status in _STATUSES:
        if isinstance(error, kinds):
            return status
    return 503


def refusal(error: ComboPepsError) -> Response:
    """The response to a request that went wrong."""
    status, kind = status_of(error), error.type if isinstance(error, RefusedError) else type(error).__name__
    content = dumped({"error": str(error), "type": kind})
    return Response(content, status, DATA | _HEADERS.get(status, {}), "application/json")


async def on_error(request: Request, error: Exception) -> Response:
    """For the framework: an error of ours, or one of its own."""
    if isinstance(error, ComboPepsError):
        return refusal(error)
    status = int(getattr(error, "status_code", 400))
    known = {404: "there is nothing at this address", 405: "this address is not for that method"}
    response = refusal(RefusedError(status, known.get(status, str(getattr(error, "detail", error)))))
    response.headers.update(getattr(error, "headers", None) or {})
    return response


@dataclass(frozen=True)
class Principal:
    """The sender of a request: its role, its name, and the key by which its requests are counted (hash or address)."""

    role: str
    name: str | None = None
    counted_as: str = field(default="", repr=False)

    @property
    def is_owner(self) -> bool:
        return self.role == "owner"

    def client(self, name: str | None) -> str | None:
        """Return the name in which this one asks, or raise an `AuthorizationError`."""
        if self.name is not None and name not in (None, self.name):
            raise AuthorizationError(f"this token belongs to {self.name!r}; ask in that name, or leave the client out")
        return self.name if name is None else name


class Tokens:
    """The principals of all tokens that a server knows, by hashes of these."""

    def __init__(self, principals: Iterable[Principal]) -> None:
        self._principals = list(principals)
        if not any(principal.is_owner for principal in self._principals):
            raise ParameterError("there is no owner among the tokens; add a line: owner TOKEN")

    def principal(self, secret: str | None) -> Principal:
        """Whose token this is; all are compared, each in the same time, whatever is given."""
        if secret is None:
            raise AuthorizationError("a token is wanted: Authorization: Bearer TOKEN")
        digest, found = sha256(secret.encode("utf-8", "surrogateescape")).hexdigest(), None
        for principal in self._principals:
            if hmac.compare_digest(principal.counted_as, digest):
                found = principal
        if found is None:
            raise AuthorizationError("this token is not known here")
        return found


def made_token(role: str, secret: str, name: str | None = None) -> Principal:
    """Return the principal of a token, or raise a typed error."""
    if role not in ROLES:
        raise ParameterError(f"a token is for {' or '.join(ROLES)}, got {role!r:.40}")
    if not _SHORTEST <= len(secret) <= _LONGEST or not secret.isascii() or not secret.isprintable() or " " in secret:
        cure = "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        raise ParameterError(
            f"a token has {_SHORTEST} to {_LONGEST} visible ASCII characters, got {len(secret)} characters; {cure}"
        )
    checked = None if name is None else check_name("the name of a token", name)
    return Principal(role, checked, sha256(secret.encode()).hexdigest())


def read_tokens(path: str | os.PathLike[str]) -> Tokens:
    """Read a file with lines `owner TOKEN` and `measurer TOKEN [name]`; empty lines, and those with #, are comments."""
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
            principal = made_token(role, rest[0], rest[1].strip() if len(rest) > 1 else None)
            if principal.counted_as in found:
                raise ParameterError("this token stands there twice")
        except ParameterError as cause:
            raise ParameterError(f"token file {path}, line {number}: {cause}") from None
        found[principal.counted_as] = principal
    return Tokens(found.values())


class Askers:
    """By which token each open query was last asked for, since the server was started; used by one thread."""

    def __init__(self) -> None:
        self._asker: dict[int, str] = {}  # by the id of the query

    def record(self, principal: Principal, queries: Iterable[int]) -> None:
        """Count these queries for a principal, and no longer for another one."""
        self._asker.update(dict.fromkeys(queries, principal.counted_as))

    def count(self, principal: Principal, open_queries: Container[int]) -> int:
        """Open queries of a principal; those that are not open any more are forgotten."""
        self._asker = {id: asker for id, asker in self._asker.items() if id in open_queries}
        return sum(asker == principal.counted_as for asker in self._asker.values())


class RateLimiter:
    """Requests by principal: so many each second in the long run, and so many at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left: dict[str, tuple[float, float]] = {}

    def spend(self, counted_as: str, cost: float = 1.0) -> None:
        """One request, or a `RateLimitError`."""
        now = time.monotonic()
        left, since = self._left.get(counted_as, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < cost:
            raise RateLimitError(f"more than {self._rate:g} requests a second; come back in a moment")
        if len(self._left) >= _KNOWN and counted_as not in self._left:
            self._left.pop(next(iter(self._left)))
        self._left[counted_as] = left - cost, now


class Gate:
    """Lets requests in, or raises. `mark` stands for the campaign that is served."""

    def __init__(self, tokens: Tokens | None, rate: float, burst: float, mark: str = "") -> None:
        self.has_tokens = tokens is not None  # if not, every client is the owner
        self._tokens, self._mark, self._allowance = tokens, mark.encode(), RateLimiter(rate, burst)
        self._mistakes = RateLimiter(rate / _WRONG, max(1.0, burst / _WRONG))  # by address
        self._sessions: dict[str, tuple[Principal, float]] = {}  # by the value of the cookie, until when

    def principal(self, request: Request) -> Principal:
        """Who asks; a `RefusedError` for a token that is wrong or missing, and for too many requests."""
        headers = _headers(request)
        authorization = headers.get(b"authorization")
        if authorization is None and (found := self._session(request)) is not None:
            return self._admitted(request, found)
        scheme, _, secret = (authorization or b"").decode("latin-1").partition(" ")
        return self.principal_of(request, secret.strip() if scheme.lower() == "bearer" else None)

    def principal_of(self, request: Request, secret: str | None) -> Principal:
        """The principal of a token. Only wrong tokens count against an address."""
        _tell_connection(request, False)
        address = request.client.host if request.client else ""  # what a trusted proxy says counts
        if self._tokens is None:
            host = _headers(request).get(b"host", b"")
            if not _is_local(host):
                words = f"without a token file, only localhost is answered to, not {_host_name(host)!r:.80}"
                raise RefusedError(403, words, "AuthorizationError")
            return self._admitted(request, Principal("owner", None, address))
        try:
            found = self._tokens.principal(secret)
        except AuthorizationError as error:
            if secret is not None:
                self._mistakes.spend(address)
            raise RefusedError(401, str(error), "AuthorizationError") from None
        return self._admitted(request, found)

    def open_session(self, principal: Principal) -> str:
        """The value of a cookie that stands for a principal for some hours."""
        now, value = time.monotonic(), secrets.token_urlsafe(32)
        self._sessions = {key: session for key, session in self._sessions.items() if session[1] > now}
        while len(self._sessions) >= _MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[value] = principal, now + SESSION_SECONDS
        return value

    def cookie(self, request: Request) -> str:
        """Its name. Browsers send cookies to all ports of a machine: each campaign has its own."""
        return f"combopeps_{(request.scope.get('server') or ('', ''))[1]}_{self._mark.decode()}"

    def _session(self, request: Request) -> Principal | None:
        if self._tokens is None:
            return None
        found = self._sessions.get(request.cookies.get(self.cookie(request), ""))
        return None if found is None or found[1] <= time.monotonic() else found[0]

    def _admitted(self, request: Request, principal: Principal) -> Principal:
        _tell_connection(request, True)
        self._allowance.spend(principal.counted_as)
        if _headers(request).get(MARK.encode(), self._mark) != self._mark:
            raise RefusedError(409, "another campaign is served at this address than when you began", "RemoteError")
        return principal


async def read_body(request: Request, schema: type[Body], *, login: bool = False) -> Any:
    """A body of this kind: JSON, of our own origin, and not too long; before a `login` short, and soon."""
    most, patience = (_LOGIN_BYTES, _LOGIN_PATIENCE) if login else (MOST_BYTES, _PATIENCE)
    if login:
        _tell_connection(request, False)
    headers = _headers(request)
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        words = f"the body must be JSON (Content-Type: application/json), got {kind.decode('latin-1')!r:.60}"
        raise RefusedError(415, words)
    _check_origin(headers)
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > most:
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
        raise RefusedError(408, f"the body did not come within {patience:g} s", "RateLimitError") from None
    except ClientDisconnect:
        raise RefusedError(400, "the body was cut off") from None
    return _parsed(schema, b"".join(parts))


def _parsed(schema: type[Body], data: bytes) -> Body:
    """Strict JSON, each key once, as the schema has it; a `ParameterError` names what is wrong."""
    try:
        return schema.model_validate(_decode(data.decode("utf-8")))
    except RecursionError:
        raise ParameterError("the body is no JSON: brackets are nested too deeply") from None
    except ValidationError as cause:
        fault = cause.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, fault["loc"]))[:100]
        raise ParameterError(f"{where or 'the body'}: {fault['msg']}") from None
    except ValueError as cause:
        raise ParameterError(f"the body is no JSON: {cause!s:.200}") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found


_decode = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number).decode


def _headers(request: Request) -> dict[bytes, bytes]:
    """The headers of a request, by names in lower case; the first of each name."""
    return dict(reversed(request.scope["headers"]))


def _tell_connection(request: Request, authenticated: bool) -> None:
    """Connections whose last request was not authenticated are the first to be closed when there are too many."""
    verdict = request.scope.get(VERDICT)
    if verdict is not None:
        verdict(authenticated)


def _check_origin(headers: dict[bytes, bytes]) -> None:
    """Refuse requests of pages of other origins."""
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site in (b"same-origin", b"none"):
        return
    if site is None and (origin is None or _is_at(origin, headers.get(b"host", b""))):
        return
    raise RefusedError(403, "this request comes from a page of another origin", "AuthorizationError")


def _is_at(origin: bytes, host: bytes) -> bool:
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
    return _host_name(host) in _LOCAL


def _too_long(most: int) -> RefusedError:
    return RefusedError(413, f"this body may have at most {most} bytes", "RateLimitError")
