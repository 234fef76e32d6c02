"""`HttpClient`: HTTP requests to the server of a campaign, with idempotent retries.

    pause before attempt k + 1 = 0.1 s * 2^k, half of it at random, 10 s at most; or what the server wants (Retry-After)

until `patience` seconds are over: a server may be started again meanwhile. What is wrong for good ends at once.

Every request may be repeated without counting double: results and abandoned queries have an id, `ask` the name of the
client, observations an idempotency key. So it makes no difference whether a request or its response was lost.
"""

from __future__ import annotations

import os
import random
import time
import weakref
from collections.abc import Callable
from hashlib import blake2b
from itertools import count
from threading import Lock
from typing import Any, NoReturn, TypeVar

import httpx

from combopeps import errors
from combopeps.errors import ComboPepsError, ParameterError, RemoteError
from combopeps.server.schemas import MARK, Failure
from combopeps.session.events import MAX_LEASE
from combopeps.utils.locks import is_lost, renew_after_fork
from combopeps.utils.validation import check_positive, check_real

_FIRST_PAUSE, _LONGEST_PAUSE, _LONGEST_WISH = 0.1, 10.0, 60.0  # seconds
_CONNECTING = 5.0  # seconds for a connection
_LATER = {429, 502, 503, 504}  # too many requests; out for the moment, itself or behind its proxy
_T = TypeVar("_T")


class HttpClient:
    """Connections to one address, kept open; threads may share them, and each process has its own."""

    def __init__(self, url: str, token: str | None, timeout: float, patience: float) -> None:
        if not isinstance(url, str) or not url.lower().startswith(("http://", "https://")):
            raise ParameterError(f"the address of a server begins with http:// or https://, got {url!r:.80}")
        check_positive("timeout", timeout)
        check_real("patience", patience, 0.0, MAX_LEASE, "a number of seconds, from 0 to ten years")
        if token is not None and (not isinstance(token, str) or not token.isascii() or not token.isprintable()):
            raise ParameterError("token must be a text as `combopeps serve` reads it from its token file")
        self.url, self.token, self.timeout, self.patience = url.rstrip("/"), token, float(timeout), float(patience)
        self.mark = ""  # of the campaign: a server that has another one says so
        self._lock, self._owner = Lock(), 0
        renew_after_fork(self)
        self._connections: httpx.Client | None = None

    def after_fork(self) -> None:
        """In a child process: connections are its own, and so is the lock."""
        if is_lost(self._lock):
            self._lock = Lock()

    def first(self, path: str, patience: float) -> bytes:
        """The content that tells campaigns apart; who is not there by then is not there at all."""
        answer = self._send("GET", path, None, min(patience, self.patience))
        mark = blake2b(answer.content, digest_size=8).hexdigest()
        if answer.headers.get(MARK) != mark:
            self._stranger(answer)
        self.mark = mark
        return answer.content

    def get(self, path: str, read: Callable[[bytes], _T]) -> _T:
        """What `read` makes of the content of a response."""
        return self._understood(self._send("GET", path, None), read)

    def post(self, path: str, body: dict[str, Any], read: Callable[[bytes], _T]) -> _T:
        """The same of the response to a JSON object."""
        return self._understood(self._send("POST", path, body), read)

    def close(self) -> None:
        """Let go of connections; the next request makes new ones."""
        with self._lock:
            if self._connections is not None and self._owner == os.getpid():
                self._connections.close()
            self._connections = None

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None, patience: float | None = None
    ) -> httpx.Response:
        end = time.monotonic() + (self.patience if patience is None else patience)
        marked = {MARK: self.mark} if self.mark else {}
        for attempt in count():
            last, wish = time.monotonic() >= end, 0.0
            try:
                answer = self._client().request(method, self.url + path, json=body, headers=marked)
            except httpx.TransportError as cause:
                if last:
                    self._unheard(cause, attempt + 1)
            except (httpx.InvalidURL, httpx.RequestError) as cause:
                raise RemoteError(f"{self.url} is no address that can be asked: {cause}") from None
            else:
                if answer.status_code not in _LATER or last:
                    return self._checked(answer)
                wish = _seconds(answer.headers.get("retry-after"))
            pause = min(_FIRST_PAUSE * 2.0 ** min(attempt, 30), _LONGEST_PAUSE)
            time.sleep(min(max(wish, pause * random.uniform(0.5, 1.0)), max(0.0, end - time.monotonic())))
        raise AssertionError

    def _client(self) -> httpx.Client:
        with self._lock:
            if self._connections is None or self._owner != os.getpid():  # a fork must not share connections
                headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
                timeout = httpx.Timeout(self.timeout, connect=min(self.timeout, _CONNECTING))
                client: httpx.Client = httpx.Client(headers=headers, timeout=timeout)
                weakref.finalize(self, client.close)
                self._connections, self._owner = client, os.getpid()
            return self._connections

    def _unheard(self, cause: Exception, times: int) -> NoReturn:
        often = "" if times == 1 else f", {times} times"
        if isinstance(cause, httpx.TimeoutException) and not isinstance(cause, httpx.ConnectTimeout):
            raise RemoteError(
                f"{self.url} gave no answer within {self.timeout:g} s{often}: give a longer timeout=, or see what "
                "keeps the server; what was sent may have been recorded, and sending it again is harmless"
            ) from None
        why = str(cause) or type(cause).__name__
        raise RemoteError(
            f"{self.url} cannot be reached ({why}{often}): see that `combopeps serve` runs there, and that the address "
            "is the one it printed"
        ) from None

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        """A good answer; a bad one as the error that it stands for, in the server's words."""
        status = answer.status_code
        if 200 <= status < 300:
            if self.mark and answer.headers.get(MARK) != self.mark:
                self._stranger(answer)  # a proxy, or a login page of a network: nothing was recorded
            return answer
        try:
            failure = Failure.read(answer.content)
        except ValueError:
            failure = None
        if failure is None:
            where = answer.headers.get("location")
            if 300 <= status < 400 and where:
                raise RemoteError(f"{self.url} sends us on to {where:.200}: give that address", status)
            self._stranger(answer)
        words = failure.error
        if status == 401:
            words = f"{self.url}: {words}; pass token=, one of those that the campaign's owner has handed out"
        kind = getattr(errors, failure.type, None)
        if isinstance(kind, type) and issubclass(kind, ComboPepsError) and kind is not ComboPepsError:
            raise kind(words)
        raise RemoteError(f"{self.url}: {words}", status)

    def _understood(self, answer: httpx.Response, read: Callable[[bytes], _T]) -> _T:
        """What is read of a response; whatever is wrong with it is a `RemoteError`."""
        try:
            return read(answer.content)
        except (ComboPepsError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as cause:
            raise RemoteError(
                f"a response of {self.url} cannot be understood ({type(cause).__name__}: {cause!s:.100}): is it of "
                "another release, or was it changed on the way?"
            ) from None

    def _stranger(self, answer: httpx.Response) -> NoReturn:
        kind = answer.headers.get("content-type", "nothing").partition(";")[0]
        raise RemoteError(
            f"what answers at {self.url} is no server of a campaign (status {answer.status_code}, {kind:.40}): give "
            "the address that `combopeps serve` printed",
            answer.status_code,
        )


def _seconds(wish: str | None) -> float:
    """How long a server wants us to wait, within reason."""
    try:
        return min(max(float(wish or 0.0), 0.0), _LONGEST_WISH)
    except ValueError:  # a date
        return 1.0
