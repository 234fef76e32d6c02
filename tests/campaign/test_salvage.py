"""A repaired copy keeps every line that can be trusted."""

import numpy as np
import pytest
from cases import filled, go_on, problems, same_state

from combopeps import Campaign, StateFileError
from combopeps.campaign import examine, salvage


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.jsonl"


def lines_of(path):
    return path.read_bytes().splitlines(keepends=True)


def damage(line):
    return line[:10] + b"?" + line[11:]


def test_a_sound_file_is_copied_line_by_line(path, tmp_path):
    filled(path)
    found = salvage(path, tmp_path / "copy")
    assert found.faults == []
    assert found == examine(path)
    assert (found.kept, found.asked, found.told) == (10, 7, 5)
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("policy", ["top-two", "peps"])
@pytest.mark.parametrize("number", range(2, 11))
def test_one_damaged_line_costs_that_line(path, tmp_path, number, policy):
    filled(path, policy=policy)
    lines = lines_of(path)
    told = sum(b'"y":' in line for line in lines) - (b'"y":' in lines[number - 1])
    lines[number - 1] = damage(lines[number - 1])
    path.write_bytes(b"".join(lines))
    before = path.read_bytes()
    found = salvage(path, tmp_path / "copy")
    assert (number, "damaged") in found.faults
    assert found.told == told
    assert path.read_bytes() == before
    repaired = Campaign.open(tmp_path / "copy")
    assert repaired.status().samples == told
    assert examine(tmp_path / "copy").faults == []
    go_on(repaired, told + 5)
    same_state(repaired, Campaign.open(tmp_path / "copy"))


def test_results_whose_queries_were_lost_are_kept(path, tmp_path):
    original = filled(path)
    theta_hat = original._state.policy.belief.theta_hat
    lines = lines_of(path)
    lines[1] = b"\0" * len(lines[1])
    path.write_bytes(b"".join([*lines[:1], lines[1][:-1] + b"\n", *lines[2:]]))
    salvage(path, tmp_path / "copy")
    repaired = Campaign.open(tmp_path / "copy")
    np.testing.assert_array_equal(repaired._state.policy.belief.theta_hat, theta_hat)
    assert repaired.ask().id == original.ask().id  # numbers are never used twice


def test_a_copy_of_a_line_is_dropped(path, tmp_path):
    filled(path)
    lines = lines_of(path)
    path.write_bytes(b"".join([*lines, lines[6]]))  # the observation
    assert b"observe" in lines[6]
    found = salvage(path, tmp_path / "copy")
    assert found.faults == [(11, "stands there twice")]
    assert found.told == 5


def test_a_removed_line_is_reported(path):
    filled(path)
    lines = lines_of(path)
    path.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    found = examine(path)
    assert [number for number, _ in found.faults] == [4]
    assert found.told == 4


def test_a_torn_end_is_told_from_damage(path):
    filled(path)
    path.write_bytes(path.read_bytes()[:-20])
    found = examine(path)
    assert [(number, "crash" in fault) for number, fault in found.faults] == [(10, True)]


def test_a_damaged_newline_joins_two_lines_and_costs_both_at_most(path, tmp_path):
    filled(path)
    lines = lines_of(path)
    lines[2] = lines[2][:-1] + b"\x0b"
    path.write_bytes(b"".join(lines))
    found = salvage(path, tmp_path / "copy")
    assert found.told >= 3
    Campaign.open(tmp_path / "copy")


def test_without_a_header_there_is_nothing_to_salvage(path, tmp_path):
    filled(path)
    lines = lines_of(path)
    cut = lines[0].index(b'"seed"')
    path.write_bytes(b"".join([lines[0][:cut] + b'"sEed"' + lines[0][cut + 6 :], *lines[1:]]))
    with pytest.raises(StateFileError, match="header is damaged"):
        salvage(path, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_the_copy_never_overwrites(path):
    filled(path)
    with pytest.raises(StateFileError, match="exists already"):
        salvage(path, path)


def test_a_campaign_goes_on_from_a_repaired_copy(path, tmp_path):
    campaign = Campaign.create(path, problems()["topk"])
    go_on(campaign, 60)
    lines = lines_of(path)
    for number in (10, 11, 50):
        lines[number] = damage(lines[number])
    path.write_bytes(b"".join(lines))
    salvage(path, tmp_path / "copy")
    repaired = Campaign.open(tmp_path / "copy")
    go_on(repaired, 200)
    assert repaired.status().answer == {"d", "e"}
