"""Who may do what: tokens, the roles they stand for, and how much each may ask for.

| role     | may |
|----------|-----|
| measurer | ask, tell, observe single results, abandon queries of its own; see the status, the page and the problem |
| owner    | all that, observe whole tables, abandon any query, and download all measurements |

A token may have a name: whoever bears it asks in that name and no other. One without asks in any name. Results of a
query are taken from everybody: who has a query says who is to measure it, not who may know the result.
Where there is no token file, everybody who reaches the server is the owner: it listens on this machine only.
"""

from __future__ import annotations

import hmac
import os
import stat
import time
import warnings
from collections.abc import Container, Iterable
from dataclasses import dataclass
from hashlib import sha256

from combopeps.errors import AccessError, LimitError, ParameterError
from combopeps.files import opened
from combopeps.session.leases import check_name

ROLES = ("measurer", "owner")
_SHORTEST = 16  # characters of a token
_LONGEST = 512
_KNOWN = 10_000  # bearers whose allowances are remembered


@dataclass(frozen=True)
class Bearer:
    """Somebody who may do something: a role, a name if the token has one, and by what it is counted."""

    role: str
    name: str | None = None
    counted_as: str = ""

    @property
    def is_owner(self) -> bool:
        """Everything is allowed."""
        return self.role == "owner"

    def client(self, said: str | None) -> str | None:
        """The name in which this one asks, or an `AccessError`."""
        if self.name is not None and said not in (None, self.name):
            raise AccessError(f"this token belongs to {self.name!r}; ask in that name, or leave the client out")
        return self.name if said is None else said


@dataclass(frozen=True)
class Token:
    """A secret, and what it allows; shown without the secret."""

    digest: bytes
    bearer: Bearer


class Tokens:
    """All tokens that a server knows."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = list(tokens)
        if not any(token.bearer.is_owner for token in self._tokens):
            raise ParameterError("there is no owner among the tokens; add a line: owner TOKEN")

    def bearer(self, secret: str | None) -> Bearer:
        """Whose token this is; all are compared, each in the same time, whatever is said."""
        if secret is None:
            raise AccessError("a token is wanted: Authorization: Bearer TOKEN")
        digest, found = sha256(secret.encode("utf-8", "surrogateescape")).digest(), None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token.bearer
        if found is None:
            raise AccessError("this token is not known here")
        return found


def made_token(role: str, secret: str, name: str | None = None) -> Token:
    """A token, or a typed error."""
    if role not in ROLES:
        raise ParameterError(f"a token is for {' or '.join(ROLES)}, got {role!r:.40}")
    if not _SHORTEST <= len(secret) <= _LONGEST or not secret.isascii() or not secret.isprintable() or " " in secret:
        cure = "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        raise ParameterError(
            f"a token has {_SHORTEST} to {_LONGEST} visible ASCII characters, got {len(secret)} characters; {cure}"
        )
    digest = sha256(secret.encode()).digest()
    named = None if name is None else check_name("the name of a token", name)
    return Token(digest, Bearer(role, named, digest.hex()))


def read_tokens(path: str | os.PathLike[str]) -> Tokens:
    """From a file with lines `owner TOKEN` and `measurer TOKEN [name]`; empty lines, and those with #, are comments."""
    try:
        with opened(path) as fd, open(fd, encoding="utf-8", closefd=False) as file:
            mode, lines = os.fstat(fd).st_mode, file.read().splitlines()
    except (OSError, ValueError) as cause:
        raise ParameterError(f"token file {path} cannot be read: {cause}") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        warnings.warn(f"{path} can be read by others; chmod 600 {path}", stacklevel=2)
    tokens, seen = list[Token](), set[bytes]()
    for number, line in enumerate(lines, start=1):
        role, *rest = line.split(maxsplit=2) or ["#"]
        if role.startswith("#"):
            continue
        try:
            if not rest:
                raise ParameterError("a line is `owner TOKEN` or `measurer TOKEN [name]`")
            token = made_token(role, rest[0], rest[1].strip() if len(rest) > 1 else None)
        except ParameterError as cause:
            raise ParameterError(f"token file {path}, line {number}: {cause}") from None
        if token.digest in seen:
            raise ParameterError(f"token file {path}, line {number}: this token stands there twice")
        seen.add(token.digest)
        tokens.append(token)
    return Tokens(tokens)


class Askers:
    """By which token each open query was last asked for, since the server was started; used by one thread."""

    def __init__(self) -> None:
        self._asker: dict[int, str] = {}  # by the id of the query

    def record(self, bearer: Bearer, queries: Iterable[int]) -> None:
        """Count these queries for a bearer, and no longer for another one."""
        self._asker.update(dict.fromkeys(queries, bearer.counted_as))

    def count(self, bearer: Bearer, open_queries: Container[int]) -> int:
        """Open queries of a bearer; those that are not open any more are forgotten."""
        self._asker = {id: asker for id, asker in self._asker.items() if id in open_queries}
        return sum(asker == bearer.counted_as for asker in self._asker.values())


class Allowance:
    """Requests by bearer: so many each second in the long run, and so many at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left: dict[str, tuple[float, float]] = {}

    def spend(self, counted_as: str, cost: float = 1.0) -> None:
        """One request, or a `LimitError`."""
        now = time.monotonic()
        left, since = self._left.get(counted_as, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < cost:
            raise LimitError(f"more than {self._rate:g} requests a second; come back in a moment")
        if len(self._left) >= _KNOWN and counted_as not in self._left:
            self._left.pop(next(iter(self._left)))
        self._left[counted_as] = left - cost, now
