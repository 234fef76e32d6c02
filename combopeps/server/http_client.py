"""`HttpClient`: HTTP requests to a campaign server, with idempotent retries.

    pause before attempt k + 1 = max(min(0.1 s * 2^k, 10 s) * U(0.5, 1), Retry-After)

until `patience` seconds have passed, as a server may be restarted meanwhile. Errors that a repetition cannot cure are
raised at once.

Every request is idempotent: results and abandoned queries have an id, `ask` has the name of the client, observations
have an idempotency key. So it makes no difference whether a request or its response was lost.
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
from combopeps.server.schemas import CAMPAIGN_HEADER, Failure
from combopeps.session.events import MAX_LEASE
from combopeps.utils.locks import is_lost, renew_after_fork
from combopeps.utils.validation import check_positive, check_real

_FIRST_PAUSE, _MAX_PAUSE, _MAX_RETRY_AFTER = 0.1, 10.0, 60.0  # seconds
_CONNECT_TIMEOUT = 5.0  # seconds
_RETRY_STATUSES = {429, 502, 503, 504}  # too many requests; temporary failures of the server or its proxy
_T = TypeVar("_T")


class HttpClient:
    """HTTP client of one address with persistent connections, shared by threads and separate for each process."""

    def __init__(self, url: str, token: str | None, timeout: float, patience: float) -> None:
        if not isinstance(url, str) or not url.lower().startswith(("http://", "https://")):
            raise ParameterError(f"the address of a server begins with http:// or https://, got {url!r:.80}")
        check_positive("timeout", timeout)
        check_real("patience", patience, 0.0, MAX_LEASE, "a number of seconds, from 0 to ten years")
        if token is not None and (not isinstance(token, str) or not token.isascii() or not token.isprintable()):
            raise ParameterError("token must be printable ASCII, as in the token file of `combopeps serve`")
        self.url, self.token, self.timeout, self.patience = url.rstrip("/"), token, float(timeout), float(patience)
        self.campaign_hash = ""  # sent with requests, so that a server refuses those for another campaign
        self._lock, self._owner = Lock(), 0
        renew_after_fork(self)
        self._connections: httpx.Client | None = None

    def after_fork(self) -> None:
        """In a child process, replace a lock that another thread of the parent held."""
        if is_lost(self._lock):
            self._lock = Lock()

    def connect(self, path: str, patience: float) -> bytes:
        """Return the content that identifies the campaign; later responses must come from the same one."""
        response = self._send("GET", path, None, min(patience, self.patience))
        campaign_hash = blake2b(response.content, digest_size=8).hexdigest()
        if response.headers.get(CAMPAIGN_HEADER) != campaign_hash:
            self._raise_not_a_server(response)
        self.campaign_hash = campaign_hash
        return response.content

    def get(self, path: str, read: Callable[[bytes], _T]) -> _T:
        """Return the content of the response to a GET request, parsed by `read`."""
        return self._parse(self._send("GET", path, None), read)

    def post(self, path: str, body: dict[str, Any], read: Callable[[bytes], _T]) -> _T:
        """Return the content of the response to a POST request with a JSON body, parsed by `read`."""
        return self._parse(self._send("POST", path, body), read)

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._lock:
            if self._connections is not None and self._owner == os.getpid():
                self._connections.close()
            self._connections = None

    def _send(
        self, method: str, path: str, body: dict[str, Any] | None, patience: float | None = None
    ) -> httpx.Response:
        end = time.monotonic() + (self.patience if patience is None else patience)
        headers = {CAMPAIGN_HEADER: self.campaign_hash} if self.campaign_hash else {}
        for attempt in count():
            is_last, retry_after = time.monotonic() >= end, 0.0
            try:
                response = self._client().request(method, self.url + path, json=body, headers=headers)
            except httpx.TransportError as cause:
                if is_last:
                    self._raise_connection_error(cause, attempt + 1)
            except (httpx.InvalidURL, httpx.RequestError) as cause:
                raise RemoteError(f"{self.url} is not a valid address: {cause}") from None
            else:
                if response.status_code not in _RETRY_STATUSES or is_last:
                    return self._check(response)
                retry_after = _parse_retry_after(response.headers.get("retry-after"))
            pause = min(_FIRST_PAUSE * 2.0 ** min(attempt, 30), _MAX_PAUSE)
            time.sleep(min(max(retry_after, pause * random.uniform(0.5, 1.0)), max(0.0, end - time.monotonic())))
        raise AssertionError

    def _client(self) -> httpx.Client:
        with self._lock:
            if self._connections is None or self._owner != os.getpid():  # a fork must not share connections
                headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
                timeout = httpx.Timeout(self.timeout, connect=min(self.timeout, _CONNECT_TIMEOUT))
                client: httpx.Client = httpx.Client(headers=headers, timeout=timeout)
                weakref.finalize(self, client.close)
                self._connections, self._owner = client, os.getpid()
            return self._connections

    def _raise_connection_error(self, cause: Exception, attempts: int) -> NoReturn:
        repeated = "" if attempts == 1 else f", {attempts} times"
        if isinstance(cause, httpx.TimeoutException) and not isinstance(cause, httpx.ConnectTimeout):
            raise RemoteError(
                f"{self.url} gave no answer within {self.timeout:g} s{repeated}: give a longer timeout=, or check "
                "the load of the server; the request may have been recorded, and sending it again is harmless"
            ) from None
        reason = str(cause) or type(cause).__name__
        raise RemoteError(
            f"{self.url} cannot be reached ({reason}{repeated}): check that `combopeps serve` runs there, and that the "
            "address is the one that it printed"
        ) from None

    def _check(self, response: httpx.Response) -> httpx.Response:
        """Return a successful response; raise the error that any other one describes."""
        status = response.status_code
        if 200 <= status < 300:
            if self.campaign_hash and response.headers.get(CAMPAIGN_HEADER) != self.campaign_hash:
                self._raise_not_a_server(response)  # a proxy, or the login page of a network: nothing was recorded
            return response
        try:
            failure = Failure.read(response.content)
        except ValueError:
            failure = None
        if failure is None:
            location = response.headers.get("location")
            if 300 <= status < 400 and location:
                raise RemoteError(f"{self.url} redirects to {location:.200}: give that address", status)
            self._raise_not_a_server(response)
        message = failure.error
        if status == 401:
            message = f"{self.url}: {message}; pass token=, an access token from the owner of the campaign"
        kind = getattr(errors, failure.type, None)
        if isinstance(kind, type) and issubclass(kind, ComboPepsError) and kind is not ComboPepsError:
            raise kind(message)
        raise RemoteError(f"{self.url}: {message}", status)

    def _parse(self, response: httpx.Response, read: Callable[[bytes], _T]) -> _T:
        """Parse the content of a response; raise `RemoteError` if it is malformed."""
        try:
            return read(response.content)
        except (ComboPepsError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as cause:
            raise RemoteError(
                f"a response of {self.url} cannot be understood ({type(cause).__name__}: {cause!s:.100}): is the "
                "server of another release, or does a proxy change responses?"
            ) from None

    def _raise_not_a_server(self, response: httpx.Response) -> NoReturn:
        kind = response.headers.get("content-type", "nothing").partition(";")[0]
        raise RemoteError(
            f"{self.url} is no server of a campaign (status {response.status_code}, {kind:.40}): give "
            "the address that `combopeps serve` printed",
            response.status_code,
        )


def _parse_retry_after(value: str | None) -> float:
    """Return the seconds of a Retry-After header, limited to a minute."""
    try:
        return min(max(float(value or 0.0), 0.0), _MAX_RETRY_AFTER)
    except ValueError:  # a date
        return 1.0
