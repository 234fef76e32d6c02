"""Observations and tables with an idempotency key: the same again counts once, another one is refused."""

import pytest
from backends import events
from cases import problems

from combopeps import Campaign
from combopeps.errors import QueryError

ROWS = [("a", 1.0), ("b", 2.0), ("c", 0.5, 0.25), ("a", 1.5)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.db"


@pytest.fixture
def campaign(path):
    made = Campaign.create(path, problems()["topk"])
    made.observe("e", 4.0)
    made.observe_table(ROWS, key="nightly")
    return made


def test_the_same_table_again_counts_once(campaign, path):
    for again in (campaign, Campaign.open(path)):
        before = events(path)
        assert again.observe_table(ROWS, key="nightly").taken == 4
        assert again.samples == 5
        assert events(path) == before


@pytest.mark.parametrize(
    "other",
    [
        [*ROWS, ("d", 7.0)],  # one row more
        ROWS[:3],
        [ROWS[0], ("b", 99.0), *ROWS[2:]],
        [ROWS[0], ("d", 2.0), *ROWS[2:]],
        [ROWS[1], ROWS[0], *ROWS[2:]],
        ROWS[:1],
        [],
    ],
)
def test_another_table_is_refused(campaign, path, other):
    before = events(path)
    with pytest.raises(QueryError, match="'nightly' was used for another"):
        campaign.observe_table(other, key="nightly")
    assert events(path) == before


def test_another_observation_with_a_key_is_refused(campaign, path):
    campaign.observe("a", 1.5, key="first")
    before = events(path)
    for each in (campaign, Campaign.open(path)):
        each.observe("a", 1.5, key="first")
        for other in (("a", 2.5), ("b", 1.5), ("a", 1.5, 0.25)):
            with pytest.raises(QueryError, match="'first' was used for another observation"):
                each.observe(*other, key="first")
    assert events(path) == before
    assert campaign.observe_table([], key="none").taken == 0


def test_one_row_of_it_is_no_repetition(campaign):
    with pytest.raises(QueryError):
        campaign.observe("a", 1.0, key="nightly")
    campaign.observe_table([("a", 1.0)], key="one")
    campaign.observe("a", 1.0, key="one")  # a table of one row is one observation
    assert campaign.samples == 6
