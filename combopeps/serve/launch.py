"""`app` and `serve`: a server as an application for others to run, or run here until it is told to stop."""

from __future__ import annotations

import ipaddress
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from combopeps.campaign import Campaign
from combopeps.errors import DependencyError, ParameterError
from combopeps.oracles.base import ArgmaxOracle

if TYPE_CHECKING:
    from fastapi import FastAPI

    from combopeps.serve.access import Tokens

_CURE = "serving needs FastAPI and uvicorn; install them: pip install 'combopeps[serve]'"
_GRACE = 10  # seconds for requests that are under way when the server stops
_IDLE = 75  # seconds for which a connection without requests is kept: longer than proxies do


def app(
    url: str | os.PathLike[str],
    *,
    tokens: Tokens | str | os.PathLike[str] | None = None,
    oracle: ArgmaxOracle | None = None,
    opened: Callable[[], Campaign] | None = None,
    patience: float | None = None,
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
        Who may use it: `read_tokens` of `combopeps.serve.access`, or the path of a token file. None: everybody who
        reaches it by a name of this machine.
    oracle, opened
        The oracle, where the campaign was begun with one of your own; it must be possible to pickle it. Or a function
        that opens the campaign, which is called here, and in the process that looks.
    patience
        Seconds after which a query may be handed to somebody else, where a request does not say; None: never.
    pause
        Seconds between two looks at the campaign while it changes.
    rate, burst
        Requests of one bearer: each second in the long run, and at once.
    """
    try:
        from combopeps.serve.access import read_tokens
        from combopeps.serve.routes import build
    except ImportError as cause:
        raise DependencyError(_CURE) from cause
    if isinstance(tokens, (str, os.PathLike)):
        tokens = read_tokens(tokens)
    opened = opened or partial(Campaign.open, os.fspath(url), oracle=oracle)
    options: dict[str, Any] = {"patience": patience, "pause": pause, "rate": rate, "burst": burst}
    return build(opened, tokens, **options)


def serve(
    url: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    tokens: str | os.PathLike[str] | None = None,
    root_path: str = "",
    ready: Callable[[str], None] | None = None,
    **options: Any,
) -> None:
    """Serve a campaign until SIGTERM or SIGINT; `ready` is told the address. Other options are those of `app`.

    `root_path` is the path below which a reverse proxy shows the server; the proxy takes it off.
    """
    try:
        import uvicorn
    except ImportError as cause:
        raise DependencyError(_CURE) from cause
    check_host(host, has_tokens=tokens is not None)
    application = app(url, tokens=tokens, **options)
    config = uvicorn.Config(
        application, host=host, port=port, access_log=False, log_level="warning", server_header=False,
        date_header=False, timeout_graceful_shutdown=_GRACE, timeout_keep_alive=_IDLE, ws="none", root_path=root_path.rstrip("/"),
    )  # fmt: skip

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """A signal ends the server, and not the process: it has done what it was told to."""
            before = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
            try:
                yield
            finally:
                for sig, handler in before.items():
                    signal.signal(sig, handler)

        def handle_exit(self, sig: int, frame: Any) -> None:
            application.state.service.looker.hurry()
            super().handle_exit(sig, frame)

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started and ready is not None:
                name = f"[{host}]" if ":" in host else host
                ready(f"http://{name}:{self.servers[0].sockets[0].getsockname()[1]}")

    sys.setswitchinterval(0.0005)  # the writer and the loop take turns: a result is not to wait for the usual 5 ms
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of measurements: the status says them
        server = Server(config)
        server.run()
    if not server.started:
        raise ParameterError(f"{host}:{port} cannot be listened on; is another server there? Give another --port")


def check_host(host: str, *, has_tokens: bool) -> None:
    """Without tokens, everybody who reaches the server is the owner: nobody else's machine may."""
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
