"""Campaigns as people have them: in a file here, or behind an address."""

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "campaign"))  # the cases of campaigns

from fast_files import files_in_memory  # noqa: F401, the fixture tmp_path
from servers import served

from combopeps import Campaign, RemoteCampaign


class Home:
    """Begins a campaign in a file; `again` is another one who works on it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, problem, **options):
        return Campaign.create(self.path, problem, **options)

    def again(self, **options):
        return Campaign.open(self.path, **options)


class Abroad(Home):
    """The same behind a server of its own."""

    def __init__(self, path, stack):
        super().__init__(path)
        self.stack, self.address = stack, None

    def __call__(self, problem, *, oracle=None, **options):
        Campaign.create(self.path, problem, **options)
        self.address = self.stack.enter_context(served(str(self.path), oracle=oracle))
        return self.again(oracle=oracle)

    def again(self, **options):
        return self.stack.enter_context(RemoteCampaign(self.address, **options))


@pytest.fixture
def abroad(tmp_path):
    with ExitStack() as stack:
        yield Abroad(tmp_path / "campaign.db", stack)


@pytest.fixture(params=["file", "http"])
def home(request, tmp_path):
    return _home(request, tmp_path)


@pytest.fixture(params=["file", pytest.param("http", marks=pytest.mark.slow)])
def quick_home(request, tmp_path):
    """The same, for tests of which few need a server at every run of the suite."""
    return _home(request, tmp_path)


def _home(request, path):
    if request.param == "file":
        return Home(path / "campaign.db")
    return request.getfixturevalue("abroad")


@pytest.fixture
def no_pauses(monkeypatch):
    """A client repeats a request at once."""
    monkeypatch.setattr("combopeps.server.http_client._FIRST_PAUSE", 0.001)
