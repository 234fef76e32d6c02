"""Campaigns as people have them: in a file here, or behind an address."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "campaign"))  # the cases of campaigns

from combopeps import Campaign


class Home:
    """Begins a campaign in a file; `again` is another one who works on it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, problem, **options):
        return Campaign.create(self.path, problem, **options)

    def again(self):
        return Campaign.open(self.path)


@pytest.fixture(params=["file"])
def home(request, tmp_path):
    return Home(tmp_path / "campaign.jsonl")
