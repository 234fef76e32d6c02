"""Places for campaigns, one of each kind that the package knows; tests that use the fixture `place` run on all of them."""

import json

import pytest

from combopeps.campaign.open_store import store_at
from combopeps.errors import StateFileError

BACKENDS = ["sqlite", "postgresql"]


def places(kind, folder, server):
    """A function from a name to a place; `server()` is a PostgreSQL, started if it is used."""
    if kind == "sqlite":
        return lambda name="campaign.db": folder / name
    base = server().url()
    return lambda name="campaign.db": f"{base}#{name}"


def events(place):
    """The events of a campaign, without the time and the author; None where there is no campaign."""
    try:
        rows = store_at(place).rows()
    except StateFileError as error:
        assert "cannot be opened" in str(error)  # noqa: PT017
        return None
    return [{key: value for key, value in json.loads(text).items() if key not in ("at", "by")} for _, text, _ in rows]


slow_on_a_server = pytest.mark.parametrize(
    "place", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
