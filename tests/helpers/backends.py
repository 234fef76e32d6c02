"""Places for campaigns, one of each kind that the package knows; tests that use the fixture `place` run on all of them."""

import pytest

from combopeps import StateFileError
from combopeps.campaign.registry import storage_at

BACKENDS = ["file", "sqlite", "postgresql"]


def places(kind, folder, server):
    """A function from a name to a place; `server()` is a PostgreSQL, started if somebody wants one."""
    if kind == "file":
        return lambda name="campaign.jsonl": folder / name
    base = f"sqlite:///{folder}/runs.db" if kind == "sqlite" else server().url()
    return lambda name="campaign.jsonl": f"{base}#{name}"


def content(place):
    """The bytes of a campaign, as a journal would hold them; None where there is none."""
    try:
        return storage_at(place).data()
    except StateFileError as error:
        assert "cannot be opened" in str(error)  # noqa: PT017
        return None


def lines(place):
    """Its lines, as text."""
    return content(place).decode().splitlines()


slow_in_databases = pytest.mark.parametrize(
    "place", ["file", *(pytest.param(kind, marks=pytest.mark.slow) for kind in BACKENDS[1:])], indirect=True
)
