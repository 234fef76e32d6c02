"""Tables with a key: said again they count once, another one is refused, and no damage makes a row count twice."""

import pytest
from cases import problems, same_state

from combopeps import Campaign, QueryError
from combopeps.campaign import salvage

ROWS = [("a", 1.0), ("b", 2.0), ("c", 0.5, 0.25), ("a", 1.5)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def campaign(path):
    made = Campaign.create(path, problems()["topk"])
    made.observe("e", 4.0)
    made.observe_table(ROWS, key="nightly")
    return made


def test_said_again_it_counts_once(campaign, path):
    for again in (campaign, Campaign.open(path)):
        before = path.read_bytes()
        assert again.observe_table(ROWS, key="nightly").taken == 4
        assert again.samples == 5
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "other",
    [
        [*ROWS, ("d", 7.0)],  # a history that has grown
        ROWS[:3],
        [ROWS[0], ("b", 99.0), *ROWS[2:]],
        [ROWS[0], ("d", 2.0), *ROWS[2:]],
        [ROWS[1], ROWS[0], *ROWS[2:]],
        ROWS[:1],
        [],
    ],
)
def test_another_table_is_refused(campaign, path, other):
    before = path.read_bytes()
    with pytest.raises(QueryError, match="'nightly' was used for another"):
        campaign.observe_table(other, key="nightly")
    assert path.read_bytes() == before


def test_one_row_of_it_is_no_repetition(campaign):
    with pytest.raises(QueryError):
        campaign.observe("a", 1.0, key="nightly")
    campaign.observe_table([("a", 1.0)], key="one")
    campaign.observe("a", 1.0, key="one")  # a table of one row is one observation
    assert campaign.samples == 6


@pytest.mark.parametrize("damaged", range(2, 7))
def test_what_a_damaged_line_lost_is_recorded_again_and_nothing_else(campaign, path, tmp_path, damaged):
    lines = path.read_bytes().split(b"\n")
    lines[damaged - 1] = lines[damaged - 1].replace(b'"y":', b'"z":')
    path.write_bytes(b"\n".join(lines))
    saved = tmp_path / "saved.jsonl"
    salvage(path, saved)
    again = Campaign.open(saved)
    assert again.samples == 4
    again.observe_table(ROWS, key="nightly")
    assert again.samples == (4 if damaged == 2 else 5)  # the second line is the observation without a key
    again.observe_table(ROWS, key="nightly")
    assert again.samples == (4 if damaged == 2 else 5)
    same_state(again, Campaign.open(saved))


def test_copies_that_both_recorded_it_are_joined(campaign, path, tmp_path):
    """Each went its own way: the other one's table is the same, and counts once."""
    twin = tmp_path / "twin.jsonl"
    other = Campaign.create(twin, problems()["topk"])
    other.observe("d", 1.0)
    other.observe_table(ROWS, key="nightly")
    path.write_bytes(path.read_bytes() + b"\n".join(twin.read_bytes().split(b"\n")[1:]))
    saved = tmp_path / "saved.jsonl"
    salvage(path, saved)
    assert Campaign.open(saved).samples == 6
