"""Only regular files are opened, and only new ones are made."""

import os
import signal
import socket
import stat
import sys
from pathlib import Path

import pytest
from cases import filled, problems

from combopeps import Campaign, ParameterError, StateFileError
from combopeps.campaign import disk, examine, salvage

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes, devices and links of POSIX")


@pytest.fixture(autouse=True)
def never_waits():
    """A pipe that is opened in earnest waits for its other end: then this test fails."""

    def fail(*_):
        raise AssertionError("waited for a pipe")

    signal.signal(signal.SIGALRM, fail)
    signal.alarm(30)
    yield
    signal.alarm(0)


def places(folder):
    """Everything that can bear a name and is no new file, with the word that an error uses for it."""
    target = folder / "target"
    filled(target)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "link").symlink_to(target)
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "to pipe").symlink_to(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(folder)  # names of sockets are short
        server.bind("socket")
        os.chdir(here)
    return {
        folder / "pipe": "named pipe",
        folder / "folder": "folder",
        folder / "link": "symbolic link",
        folder / "dangling": "symbolic link",
        folder / "to pipe": "symbolic link",
        folder / "socket": "socket",
        Path("/dev/null"): "device",
        target: "not overwritten",
    }


def test_nothing_that_exists_is_created_over(tmp_path):
    filled(tmp_path / "source")
    known = places(tmp_path)
    before = {entry: (os.lstat(entry).st_ino, os.lstat(entry).st_mode) for entry in tmp_path.iterdir()}
    content = (tmp_path / "target").read_bytes()
    for place, word in known.items():
        with pytest.raises(StateFileError, match=f"exists already, and is.* {word}"):
            Campaign.create(place, problems()["topk"])
        with pytest.raises(StateFileError, match=f"exists already, and is.* {word}"):
            salvage(tmp_path / "source", place)
    assert before == {entry: (os.lstat(entry).st_ino, os.lstat(entry).st_mode) for entry in tmp_path.iterdir()}
    assert (tmp_path / "target").read_bytes() == content
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("act", [Campaign.open, examine, lambda path: salvage(path, path.with_name("out"))])
def test_what_is_no_regular_file_is_not_opened(tmp_path, act):
    known = places(tmp_path)
    for place in known:
        if not place.is_file():
            with pytest.raises(StateFileError, match="cannot be opened"):
                act(place)
    assert not (tmp_path / "out").exists()
    act(tmp_path / "link")  # whose target is a state file


def test_a_file_exchanged_for_a_pipe_before_it_is_opened_is_refused(tmp_path, monkeypatch):
    places(tmp_path)
    ordinary, opening = os.stat(tmp_path / "target"), os.open
    monkeypatch.setattr(disk.os, "stat", lambda path, **_: ordinary)
    monkeypatch.setattr(disk.os, "open", lambda path, *rest: opening(tmp_path / "pipe", *rest))
    with pytest.raises(StateFileError, match="named pipe"):
        examine(tmp_path / "target")


def test_drafts_have_names_that_nobody_knows_before(tmp_path, monkeypatch):
    """Made exclusively, following no link; whatever lies about in the folder is not touched."""
    drafts, opening = [], os.open

    def watched(path, flags, *rest):
        if flags & os.O_CREAT:
            drafts.append((str(path), flags))
        return opening(path, flags, *rest)

    monkeypatch.setattr(disk.os, "open", watched)
    for name in ("one", "two", "x" * 250):
        Campaign.create(tmp_path / name, problems()["topk"])
    assert len({path for path, _ in drafts}) == 3
    for path, flags in drafts:
        assert flags & os.O_EXCL
        assert flags & os.O_NOFOLLOW
        assert str(os.getpid()) not in Path(path).name.replace(".", " ").split()
        assert len(Path(path).name) >= 32
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(["one", "two", "x" * 250])


def test_new_files_have_the_usual_permissions(tmp_path):
    umask = os.umask(0o027)
    try:
        Campaign.create(tmp_path / "one", problems()["topk"])
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "one").stat().st_mode) == 0o640


@pytest.mark.parametrize("path", ["", "folder/", None, 3, b"file"], ids=repr)
def test_paths_that_name_no_file(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    filled(tmp_path / "source")
    for act in (
        lambda: Campaign.create(path, problems()["topk"]),
        lambda: Campaign.open(path),
        lambda: examine(path),
        lambda: salvage("source", path),
    ):
        with pytest.raises(ParameterError, match="path"):
            act()
