"""Who only looks takes no lock and changes nothing; who writes goes through the file before taking the lock."""

import copy
import os
import pickle
import shutil

import pytest
from cases import filled, go_on, problems, same_state

from combopeps import Campaign, LockError, ParameterError, StateFileError
from combopeps.campaign import disk, follower
from combopeps.campaign.disk import locked
from combopeps.campaign.journal import Journal
from combopeps.campaign.replay import State


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.jsonl"


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_long_files_are_gone_through_without_the_lock(path, monkeypatch, policy):
    go_on(Campaign.create(path, problems()["topk"], policy=policy), 30, batch=5)
    apply, free = State.apply, []

    def watched(self, lines, **options):
        if len(lines) > follower._FEW:
            with locked(path, 0.0):  # refused while somebody holds the lock
                free.append(len(lines))
        return apply(self, lines, **options)

    monkeypatch.setattr(follower, "_FEW", 10)
    monkeypatch.setattr(State, "apply", watched)
    campaign = Campaign.open(path)
    campaign._state = None  # as after a choice that failed
    query = campaign.ask()
    assert free == [36, 36]
    with campaign.storage.locked(), pytest.raises(LockError), locked(path, 0.0):
        pass  # the check above could fail
    monkeypatch.undo()
    assert Campaign.open(path).open_queries == [query]


def test_lines_that_come_between_reading_and_the_lock_are_taken_in(path, monkeypatch):
    campaign, other = Campaign.create(path, problems()["topk"], policy="peps"), Campaign.open(path)
    lock, news = Journal.locked, ["b", "c"]

    def late(self, timeout):
        if self is campaign.storage and news:
            other.observe(news.pop(), 0.5)
        return lock(self, timeout)

    monkeypatch.setattr(Journal, "locked", late)
    queries = [campaign.ask(), campaign.ask()]
    assert campaign.samples == 2
    again = Campaign.open(path)
    assert again.open_queries == queries
    same_state(campaign, again)


def test_a_file_replaced_between_reading_and_the_lock_is_read_anew(tmp_path, path, monkeypatch):
    campaign, other = filled(path), Campaign.create(tmp_path / "other", problems()["topk"], seed=9)
    go_on(other, 5)
    lock = Journal.locked

    def late(self, timeout):
        if self is campaign.storage:
            shutil.copy(tmp_path / "other", tmp_path / "copy")
            os.replace(tmp_path / "copy", path)
        return lock(self, timeout)

    monkeypatch.setattr(Journal, "locked", late)
    assert campaign.ask() == other.ask()
    monkeypatch.undo()
    same_state(campaign, other)


@pytest.mark.parametrize("lasting", [False, True])
def test_a_fault_seen_without_the_lock_is_looked_at_again(path, monkeypatch, lasting):
    """Others may be mending the end of the file while it is read; damage is what stays."""
    campaign, other = filled(path), Campaign.open(path)
    other.observe("a", 0.5)
    read, marks = disk.read, [b"!", b"?"]

    def mixed(fd, start, end):
        data = read(fd, start, end)
        if b"observe" not in data[:20]:
            return data
        mark = b"#" if lasting else marks.pop() if marks else data[20:21]  # other bytes each time, then the true ones
        return data[:20] + mark + data[21:]

    monkeypatch.setattr(disk, "read", mixed)
    if lasting:
        with pytest.raises(StateFileError, match="line 11: this line is damaged"):
            campaign.status()
    else:
        assert campaign.samples == 6
        assert marks == []
    monkeypatch.undo()
    same_state(campaign, other)


def test_a_read_only_file_can_be_looked_at(path):
    open_queries = filled(path).open_queries
    path.chmod(0o444)
    assert Campaign.open(path).status().open_queries == open_queries


def test_what_is_recorded_does_not_look_refused(path, monkeypatch):
    """Whoever hears of an error says it again: nothing may go wrong after the disk has a measurement."""
    campaign, read = filled(path), disk.read

    def fails(fd, start, end):
        if path.stat().st_size > size:
            raise OSError(5, "Input/output error")
        return read(fd, start, end)

    samples, size = campaign.samples, path.stat().st_size
    monkeypatch.setattr(disk, "read", fails)
    campaign.observe("a", 0.25)
    monkeypatch.undo()
    assert campaign.samples == samples + 1
    same_state(campaign, Campaign.open(path))
    size = path.stat().st_size
    monkeypatch.setattr(disk, "read", fails)
    query = campaign.ask()
    monkeypatch.undo()
    assert campaign.open_queries[-1] == query


def test_an_interrupt_while_writing_records_nothing(path, monkeypatch):
    campaign = filled(path)
    before, fsync = path.read_bytes(), os.fsync

    def interrupted(fd):
        fsync(fd)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        campaign.observe("a", 0.25)
    monkeypatch.undo()
    assert path.read_bytes() == before
    same_state(campaign, Campaign.open(path))


@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -1, -0.001, "10", None, True])
def test_timeouts_that_make_no_sense(path, timeout):
    with pytest.raises(ParameterError, match="timeout"):
        Campaign.create(path, problems()["topk"], timeout=timeout)
    assert not path.exists()
    filled(path)
    with pytest.raises(ParameterError, match="timeout"):
        Campaign.open(path, timeout=timeout)


@pytest.mark.parametrize("through", [copy.deepcopy, lambda campaign: pickle.loads(pickle.dumps(campaign))])
def test_a_copy_of_a_campaign_opens_the_same_file(path, through):
    campaign = filled(path, timeout=3)
    twin = through(campaign)
    twin.observe("a", 0.5)
    assert campaign.samples == twin.samples == 6
    assert twin.timeout == 3
