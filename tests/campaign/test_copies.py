"""Copies that went through an editor, a shell or git: refused by name, and salvaged whole."""

import pytest
from cases import filled, same_state

from combopeps import Campaign, StateFileError
from combopeps.campaign import examine, salvage


def half(data):
    """An editor that changed some line ends only."""
    middle = data.index(b"\n", len(data) // 2)
    return data[:middle] + data[middle:].replace(b"\n", b"\r\n")


COPIES = {
    "CR LF": (lambda data: data.replace(b"\n", b"\r\n"), ["carriage return"]),
    "CR": (lambda data: data.replace(b"\n", b"\r"), ["carriage return"]),
    "some CR LF": (half, ["carriage return"]),
    "CR LF without the last": (lambda data: data[:-1].replace(b"\n", b"\r\n"), ["carriage return"]),
    "mark": (lambda data: b"\xef\xbb\xbf" + data, ["byte order mark"]),
    "mark, CR LF": (
        lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"),
        ["byte order mark", "carriage return"],
    ),
    "UTF-16": (lambda data: data.decode().encode("utf-16"), ["byte order mark"]),
    "UTF-16, big, CR LF": (
        lambda data: b"\xfe\xff" + data.decode().replace("\n", "\r\n").encode("utf-16-be"),
        ["byte order mark", "carriage return"],
    ),
    "UTF-32": (lambda data: data.decode().encode("utf-32"), ["byte order mark"]),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_changed_copy_is_named_and_salvaged_whole(tmp_path, name):
    change, words = COPIES[name]
    original, path = filled(tmp_path / "original"), tmp_path / "changed"
    whole = (tmp_path / "original").read_bytes()
    path.write_bytes(change(whole))
    with pytest.raises(StateFileError, match=f"line .*{words[0]}.*salvage") as caught:
        Campaign.open(path)
    found = examine(path)
    assert len(found.faults) == len(words)
    assert all(word in fault for word, (_, fault) in zip(words, found.faults, strict=True))
    assert found.faults[0][0] == caught.value.line
    assert path.read_bytes() == change(whole)
    assert salvage(path, tmp_path / "copy") == found
    assert (found.kept, found.asked, found.told) == (10, 7, 5)
    assert (tmp_path / "copy").read_bytes() == whole
    same_state(Campaign.open(tmp_path / "copy"), original)


@pytest.mark.parametrize("name", COPIES)
def test_damage_in_a_changed_copy_costs_the_damaged_line(tmp_path, name):
    filled(tmp_path / "original")
    lines = (tmp_path / "original").read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"tell", b"sell")
    (tmp_path / "changed").write_bytes(COPIES[name][0](b"".join(lines)))
    found = salvage(tmp_path / "changed", tmp_path / "copy")
    assert (4, "damaged") in found.faults
    assert (found.kept, found.told) == (9, 4)
    assert examine(tmp_path / "copy").faults == []
