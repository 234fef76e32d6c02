"""Torn ends, damaged lines, newer schemas, files that change under our feet."""

import json
import os
import shutil

import numpy as np
import pytest
from cases import filled, go_on, problems, same_state

from combopeps import Campaign, ComboPepsError, StateFileError
from combopeps.campaign import examine
from combopeps.campaign.journal import Journal
from combopeps.campaign.seal import seal
from combopeps.campaign.storage import SCHEMA


@pytest.fixture
def path(tmp_path):
    return tmp_path / "campaign.jsonl"


def resealed(records):
    """A file of these records with right checksums."""
    lines, chain = [], 0
    for record in records:
        line, chain = seal(record, chain)
        lines.append(line)
    return b"".join(lines)


def bare(path):
    """The records of a file, without checksums."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "sum"} for record in records]


def test_a_file_cut_anywhere_in_its_last_line_is_the_file_without_it(path):
    campaign = filled(path)
    before, state = path.read_bytes(), Campaign.open(path)
    campaign.tell(campaign.open_queries[0], 0.75)
    whole = path.read_bytes()
    for end in range(len(before) + 1, len(whole) - 1):
        path.write_bytes(whole[:end])
        cut = Campaign.open(path)
        assert cut.storage.unfinished == whole[len(before) : end]
        assert path.read_bytes() == whole[:end]  # somebody may be writing it: who only reads leaves it alone
        if end % 40 == 0:
            assert cut.status().recovered == [whole[len(before) : end]]
            same_state(cut, state)
        cut.tell_many([])
        assert path.read_bytes() == before
        assert cut.storage.recovered == [whole[len(before) : end]]


def test_a_last_line_that_lacks_only_its_newline_is_complete(path):
    twin = filled(path.with_name("twin"))
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    campaign = Campaign.open(path)
    assert campaign.status().recovered == []
    same_state(campaign, twin)
    assert path.read_bytes() == whole[:-1]
    campaign.tell_many([])
    assert path.read_bytes() == whole
    same_state(campaign, twin)


def test_a_torn_end_is_mended_by_a_process_that_is_running_already(path):
    campaign = filled(path)
    query, whole = campaign.open_queries[0], path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"kind":"tell","id":5,"a')
    campaign.tell(query, 0.5)
    assert path.read_bytes().startswith(whole + b'{"kind":"tell","id":5,"arm"')
    assert campaign.status().recovered == [b'{"kind":"tell","id":5,"a']
    same_state(campaign, Campaign.open(path))


def test_zeros_at_the_end_are_what_a_power_cut_may_leave(path):
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(4096))
    campaign = Campaign.open(path)
    assert campaign.status().recovered == [bytes(4096)]
    campaign.tell_many([])
    assert path.read_bytes() == whole


def test_a_broken_newline_at_the_end_is_not_taken_for_a_torn_line(path):
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"\x0b")
    with pytest.raises(StateFileError, match=r"line 10: .*salvage") as caught:
        Campaign.open(path)
    assert caught.value.line == 10


def test_every_damaged_line_is_named_by_its_number(path):
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        middle = len(line) // 2
        bad = line[:middle] + bytes([line[middle] ^ 1]) + line[middle + 1 :]
        path.write_bytes(b"".join([*lines[: number - 1], bad, *lines[number:]]))
        with pytest.raises(StateFileError, match=rf"line {number}: .*(salvage|damaged)") as caught:
            Campaign.open(path)
        assert caught.value.line == number


@pytest.mark.parametrize("change", ["removed", "doubled", "swapped"])
@pytest.mark.parametrize("number", [1, 3, 6])
def test_lines_that_were_moved_are_noticed(path, change, number):
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    if change == "removed":
        del lines[number]
    elif change == "doubled":
        lines.insert(number, lines[number])
    else:
        lines[number], lines[number + 1] = lines[number + 1], lines[number]
    path.write_bytes(b"".join(lines))
    with pytest.raises(StateFileError, match="missing") as caught:
        Campaign.open(path)
    assert caught.value.line == number + (2 if change == "doubled" else 1)


def test_a_newer_schema_is_refused_with_a_clear_word(path):
    filled(path)
    header, *rest = bare(path)
    for content in (
        resealed([header | {"schema": SCHEMA + 1}, *rest]),
        b'{"kind":"campaign","schema":7,"new":"sum"}\n',
    ):
        path.write_bytes(content)
        for act in (Campaign.open, examine):
            with pytest.raises(StateFileError, match="install a newer"):
                act(path)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"hello", b"hello\n", b"{}\n", b"[]\n", b"\xff\xfe", b'{"kind":"campaign"']
)
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    for act in (Campaign.open, examine):
        with pytest.raises(StateFileError):
            act(path)
    assert path.read_bytes() == content


def test_a_file_of_another_problem_is_noticed_by_its_labels(path):
    filled(path)
    header, *rest = bare(path)
    header["problem"] = json.loads(json.dumps(header["problem"]).replace('"b"', '"B"'))
    del header["problem"]["sha256"]
    path.write_bytes(resealed([header, *rest]))
    with pytest.raises(StateFileError, match="not called"):
        Campaign.open(path)


def test_a_file_that_was_replaced_is_read_anew(tmp_path):
    one, two = filled(tmp_path / "one"), Campaign.create(tmp_path / "two", problems()["topk"], seed=9)
    go_on(two, 5)
    shutil.copy(tmp_path / "two", tmp_path / "copy")
    os.replace(tmp_path / "copy", tmp_path / "one")
    query = one.ask()
    assert query == two.ask()
    same_state(one, two)
    content = (tmp_path / "one").read_bytes()
    (tmp_path / "one").write_bytes(content[: content.rindex(b'{"kind"')])  # in place, and shorter
    assert one.open_queries == []


def test_a_full_disk_loses_nothing_and_records_nothing(path, monkeypatch):
    campaign = filled(path)
    query, before, write = campaign.open_queries[0], path.read_bytes(), os.write

    def half(fd, data):
        if len(data) < 20:
            raise OSError(28, "No space left on device")
        return write(fd, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(StateFileError, match="No space left"):
        campaign.tell(query, 0.5)
    assert path.read_bytes() == before
    monkeypatch.undo()
    campaign.tell(query, 0.5)
    same_state(campaign, Campaign.open(path))


def test_nothing_is_acknowledged_before_the_disk_has_it(path, monkeypatch):
    """Every call that changes the file ends with a wait for the disk, a repetition included."""
    campaign, events = filled(path), []
    query = campaign.open_queries[0]
    write, fsync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda fd, data: events.append("write") or write(fd, data))
    monkeypatch.setattr(os, "fsync", lambda fd: events.append("fsync") or fsync(fd))
    for act, wanted in [
        (lambda: campaign.tell(query, 0.5), ["write", "fsync"]),
        (lambda: campaign.tell(query, 0.5), ["fsync"]),
        (lambda: campaign.ask(3), ["write", "fsync"]),
        (lambda: campaign.observe("a", 0.1), ["write", "fsync"]),
        (lambda: campaign.abandon(campaign.open_queries[0]), ["write", "fsync"]),
        (lambda: campaign.tell_many([(q, 1.0) for q in campaign.open_queries]), ["write", "fsync"]),
        (campaign.status, []),
    ]:
        events.clear()
        act()
        assert events == wanted


def test_a_large_file_opens_to_the_state_of_its_tells(path):
    """Written directly, and compared with a policy that was told one by one."""
    campaign = Campaign.create(path, problems()["topk"])
    rng = np.random.default_rng(0)
    arms, ys = rng.integers(0, 5, 3000).tolist(), rng.normal(size=3000).tolist()
    records = []
    for i, (arm, y) in enumerate(zip(arms, ys, strict=True)):
        label = "abcde"[arm]
        records.append({"kind": "ask", "queries": [{"id": i, "arm": arm, "label": label}]})
        records.append({"kind": "tell", "id": i, "arm": arm, "label": label, "y": y})
    with campaign.storage.locked():
        campaign.storage.append(records, campaign._point)
    from combopeps import TopTwo

    policy = TopTwo(problems()["topk"], 0)
    for arm, y in zip(arms, ys, strict=True):
        policy.learn(arm, y)
    opened = Campaign.open(path)
    np.testing.assert_array_equal(opened._state.policy.belief.theta_hat, policy.belief.theta_hat)
    np.testing.assert_array_equal(opened._state.policy.pulls, policy.pulls)
    same_state(opened, campaign)


def test_the_journal_knows_nothing_but_comboerrors(path):
    with pytest.raises(ComboPepsError), Journal(path).locked():
        pass
