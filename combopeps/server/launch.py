"""`app` and `serve`: a server as an application for others to run, or run here until it is told to stop."""

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

_CURE = "serving needs FastAPI and uvicorn; install them: pip install 'combopeps[serve]'"
_GRACE = 10  # seconds for requests that are under way when the server stops
_IDLE = 75  # seconds for which a connection without requests is kept: longer than proxies do


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
    """The server of one campaign, as an ASGI application, to be run by one process.

    Parameters
    ----------
    url
        Where the campaign is: a path, or the URL of a storage.
    tokens
        Who may use it: `read_tokens` of `combopeps.server.auth`, or the path of a token file. None: every client
        that reaches it by a name of this machine.
    oracle, opened
        The oracle, where the campaign was begun with one of your own; it must be possible to pickle it. Or a function
        that opens the campaign, which is called here, and in the process that looks.
    lease
        Seconds after which other clients may get an open query, where a request does not state it; None: never.
    pause
        Seconds between two looks at the campaign while it changes.
    rate, burst
        Requests of one principal: each second in the long run, and at once.
    """
    try:
        from combopeps.server.auth import read_tokens
        from combopeps.server.routes import build
    except ImportError as cause:
        raise DependencyError(_CURE) from cause
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
    """Serve a campaign until SIGTERM or SIGINT; `ready` is told its addresses. Other options are those of `app`.

    `root_path` is the path below which a reverse proxy shows the server; the proxy takes it off. `proxies` are the
    addresses, or networks, of those that are believed when they say who asks, and whether by https (X-Forwarded-For,
    X-Forwarded-Proto); no other address is.
    """
    try:
        import uvicorn

        from combopeps.server.connections import Connection
    except ImportError as cause:
        raise DependencyError(_CURE) from cause
    check_host(host, has_tokens=tokens is not None)
    if not 0 <= port < 65_536:
        raise ParameterError(f"port must be a number below 65536, or 0 for a free one, got {port!r:.40}")
    if root_path and not root_path.startswith("/"):
        raise ParameterError(f"the root path begins with a slash, got {root_path!r:.80}")
    application = app(url, tokens=tokens, **options)
    config = uvicorn.Config(
        application, http=Connection, access_log=False, log_level="error", server_header=False, date_header=False,
        ws="none", timeout_graceful_shutdown=_GRACE, timeout_keep_alive=_IDLE, root_path=root_path.rstrip("/"),
        proxy_headers=bool(proxies), forwarded_allow_ips=[_network(proxy) for proxy in proxies],
    )  # fmt: skip

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """A signal ends the server, and not the process: it has done what it was told to."""
            if current_thread() is not main_thread():
                yield
                return
            before = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for sig, handler in before.items():
                    signal.signal(sig, handler)

        def handle_exit(self, sig: int, frame: Any) -> None:
            application.state.worker.hurry()
            super().handle_exit(sig, frame)

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started and ready is not None:
                ready(addresses(host, plug.getsockname()[1]))

    gc.collect()
    gc.freeze()  # what was loaded is no garbage: do not search it again while requests wait
    sys.setswitchinterval(0.0005)  # the writer and the loop take turns: a result is not to wait for the usual 5 ms
    with _listening(host, port) as plug, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of measurements: the status says them
        Server(config).run([plug])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048
        )
    except OSError as cause:
        raise ParameterError(f"{host}:{port} cannot be listened on: {cause}; give another --port or --host") from None


def addresses(host: str, port: int) -> list[str]:
    """Where the server is found; one that listens on all addresses of a machine: by its name, and from itself."""
    names = {"0.0.0.0": [socket.gethostname(), "127.0.0.1"], "::": [socket.gethostname(), "[::1]"]}
    return [f"http://{name}:{port}" for name in names.get(host, [f"[{host}]" if ":" in host else host])]


def _network(proxy: str) -> str:
    try:
        return str(ipaddress.ip_network(proxy, strict=False))
    except ValueError:
        raise ParameterError(
            f"a proxy is named by its IP address, or a network such as 10.0.0.0/8, got {proxy!r:.80}"
        ) from None


def check_host(host: str, *, has_tokens: bool) -> None:
    """Refuse hosts that other machines reach, unless there are tokens: without them, every client is the owner."""
    if has_tokens or host == "localhost":
        return
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = False
    if not local:
        raise ParameterError(
            f"without a token file, a server listens on this machine only, not on {host!r:.80}: give --token-file FILE "
            "with lines `owner TOKEN` and `measurer TOKEN [name]`, or --host 127.0.0.1"
        )
