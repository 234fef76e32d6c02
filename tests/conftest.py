"""What tests of several folders share: a PostgreSQL, and places for campaigns."""

import signal
from functools import partial

import pytest
from backends import BACKENDS, places
from postgres import Postgres


def pytest_configure():
    """A suite that was started in the background ignores SIGINT, and so would the processes that tests interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def postgres():
    """A server for as long as this worker runs."""
    try:
        server = Postgres()
    except Exception as cause:
        pytest.skip(f"no PostgreSQL can be started here: {cause}")
    yield server
    server.stop()


@pytest.fixture(params=BACKENDS)
def place(request, tmp_path):
    """`place("one")`: somewhere new, on every back end."""
    return places(request.param, tmp_path, partial(request.getfixturevalue, "postgres"))


@pytest.fixture(params=BACKENDS)
def database(request, tmp_path):
    """`database("one")`: the URL of a new campaign in a database that holds several."""
    base = f"sqlite:///{tmp_path}/runs.db" if request.param == "sqlite" else request.getfixturevalue("postgres").url()
    return lambda name="campaign.db": f"{base}#{name}"
