"""`app` and `serve`: the server of a campaign as an ASGI application, or run until a signal stops it."""

from __future__ import annotations

import gc
import ipaddress
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

from combopeps.campaign import Campaign
from combopeps.errors import DependencyError, ParameterError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.session.events import check_lease

if TYPE_CHECKING:
    from fastapi import FastAPI

    from combopeps.server.auth import Tokens

_INSTALL_HINT = "serving needs FastAPI and uvicorn; install them: pip install 'combopeps[serve]'"
_SHUTDOWN_TIMEOUT = 10  # seconds for requests in progress when the server stops
_KEEP_ALIVE = 75  # seconds without requests before a connection is closed: longer than those of proxies


def app(
    url: str | os.PathLike[str],
    *,
    tokens: Tokens | str | os.PathLike[str] | None = None,
    oracle: ArgmaxOracle | None = None,
    opened: Callable[[], Campaign] | None = None,
    lease: float | None = None,
    pause: float = 0.5,
    rate: float = 2_000.0,
    burst: float = 10_000.0,
) -> FastAPI:
    """Return the server of one campaign as an ASGI application, to be run by a single process.

    Parameters
    ----------
    url
        Path of the campaign, or its URL in a database.
    tokens
        Access tokens, from `read_tokens` of `combopeps.server.auth`, or the path of a token file. None permits every
        client that addresses the server by a loopback name.
    oracle, opened
        The oracle, if the campaign was created with a user-defined one; it must support pickling. Or a function that
        opens the campaign, which is called here and in the status process.
    lease
        Seconds after which other clients may get an open query, unless a request states them; None for no limit.
    pause
        Seconds between two evaluations of the status while the campaign changes.
    rate, burst
        Limits on the requests of one principal: per second in the long run, and at once.
    """
    try:
        from combopeps.server.auth import read_tokens
        from combopeps.server.routes import build
    except ImportError as cause:
        raise DependencyError(_INSTALL_HINT) from cause
    check_lease(lease, "any client")
    if not 0 <= pause < inf:
        raise ParameterError(f"pause must be a finite number of seconds, 0 or more, got {pause!r:.40}")
    if not 0 < rate < inf or not burst >= 1:
        raise ParameterError(f"rate must be a positive number of requests, and burst at least 1, got {rate!r:.40}")
    if isinstance(tokens, (str, os.PathLike)):
        tokens = read_tokens(tokens)
    opened = opened or partial(Campaign.open, os.fspath(url), oracle=oracle)
    return build(opened, tokens, lease=lease, pause=pause, rate=rate, burst=burst)


def serve(
    url: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    tokens: str | os.PathLike[str] | None = None,
    root_path: str = "",
    proxies: Sequence[str] = (),
    ready: Callable[[list[str]], None] | None = None,
    **options: Any,
) -> None:
    """Serve a campaign until SIGTERM or SIGINT.

    Parameters
    ----------
    url, tokens
        As in `app`, which takes the other `options`, too.
    host, port
        Address to listen on; port 0 chooses a free one.
    root_path
        Path prefix that a reverse proxy removes.
    proxies
        Addresses or networks of trusted reverse proxies, whose X-Forwarded-For and X-Forwarded-Proto headers are used.
    ready
        Called with the addresses of the server once it listens.
    """
    try:
        import uvicorn

        from combopeps.server.connection_limits import Connection
    except ImportError as cause:
        raise DependencyError(_INSTALL_HINT) from cause
    check_host(host, has_tokens=tokens is not None)
    if not 0 <= port < 65_536:
        raise ParameterError(f"port must be a number below 65536, or 0 for a free one, got {port!r:.40}")
    if root_path and not root_path.startswith("/"):
        raise ParameterError(f"the root path begins with a slash, got {root_path!r:.80}")
    application = app(url, tokens=tokens, **options)
    config = uvicorn.Config(
        application, http=Connection, access_log=False, log_level="error", server_header=False, date_header=False,
        ws="none", timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT, timeout_keep_alive=_KEEP_ALIVE,
        root_path=root_path.rstrip("/"), proxy_headers=bool(proxies),
        forwarded_allow_ips=[_network(proxy) for proxy in proxies],
    )  # fmt: skip

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Stop the server on a signal, and let the process continue: uvicorn would raise the signal again."""
            if current_thread() is not main_thread():
                yield
                return
            previous = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for sig, handler in previous.items():
                    signal.signal(sig, handler)

        def handle_exit(self, sig: int, frame: Any) -> None:
            application.state.worker.cancel_waiting()
            super().handle_exit(sig, frame)

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started and ready is not None:
                ready(addresses(host, listener.getsockname()[1]))

    gc.collect()
    gc.freeze()  # exclude loaded modules from garbage collection, which delays requests
    sys.setswitchinterval(0.0005)  # event loop and writer thread alternate: the default of 5 ms delays results
    with _listening(host, port) as listener, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about measurements, which the status contains
        Server(config).run([listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as cause:
        raise ParameterError(f"cannot listen on {host}:{port}: {cause}; give another --port or --host") from None


def addresses(host: str, port: int) -> list[str]:
    """Return the URLs of a server; if it listens on all interfaces, by the host name and the loopback address."""
    names = {"0.0.0.0": [socket.gethostname(), "127.0.0.1"], "::": [socket.gethostname(), "[::1]"]}
    return [f"http://{name}:{port}" for name in names.get(host, [f"[{host}]" if ":" in host else host])]


def _network(proxy: str) -> str:
    try:
        return str(ipaddress.ip_network(proxy, strict=False))
    except ValueError:
        raise ParameterError(f"a proxy is an IP address, or a network such as 10.0.0.0/8, got {proxy!r:.80}") from None


def check_host(host: str, *, has_tokens: bool) -> None:
    """Raise `ParameterError` for a host that other machines can reach, unless there are tokens.

    Without tokens, every client is the owner.
    """
    if has_tokens or host == "localhost":
        return
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local:
        raise ParameterError(
            f"without a token file, a server listens on this machine only, not on {host!r:.80}: give --token-file FILE "
            "with lines `owner TOKEN` and `measurer TOKEN [name]`, or --host 127.0.0.1"
        )
