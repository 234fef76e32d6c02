"""Servers in threads of this process, for tests."""

from contextlib import contextmanager
from threading import Thread
from time import monotonic, sleep

import uvicorn

from combopeps import Campaign
from combopeps.server.launch import app
from combopeps.server.status_worker import _Reports


@contextmanager
def running(application, **options):
    """The port of a server of an application; `options` are those of uvicorn."""
    usual = {"port": 0, "log_level": "error", "access_log": False, "ws": "none", "timeout_graceful_shutdown": 1}
    server = uvicorn.Server(uvicorn.Config(application, **usual | options))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        end = monotonic() + 20
        while not server.started:
            assert thread.is_alive()
            assert monotonic() < end
            sleep(0.005)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def served(url, *, looks_here=True, port=0, **options):
    """The address of a server of a campaign.

    Looks are taken in a thread, unless `looks_here` is False: a process of its own takes a second.
    """
    application = app(url, **{"pause": 0.0, "rate": 1e6, "burst": 1e6} | options)
    if looks_here:
        _report_here(application.state.worker, Campaign.open(url, oracle=options.get("oracle")))
    with running(application, port=port) as found:
        yield f"http://127.0.0.1:{found}"


def _report_here(worker, campaign):
    reports = _Reports(campaign)
    worker._exchange = lambda name: getattr(reports, name)()
