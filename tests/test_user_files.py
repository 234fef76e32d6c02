"""Files named by users: only regular ones are replaced or read, by every function."""

import ast
import json
import os
import socket
import stat
import threading
from pathlib import Path

import numpy as np
import pytest

import combopeps
from combopeps import ComboPepsError, load_instance, read_items, read_network, read_table, save_instance
from combopeps.cli import main
from combopeps.errors import FileFormatError
from combopeps.session import Trace
from combopeps.utils import files
from combopeps.viz.canvas import new_axes, save

posix = pytest.mark.skipif(os.name != "posix", reason="made of Unix's special files")


def trace():
    return Trace(
        np.arange(2), np.ones((1, 2), bool), np.ones((1, 1), np.int64), np.zeros(2), np.zeros(2), 0, np.ones((1, 2))
    )


def command(option):
    def write(path):
        if main(["solve", "soare", "--budget", "3", "--stopping", "budget", option, str(path), "--json"]) == 1:
            raise FileFormatError("as the command line says")

    return write


WRITERS = {
    "save_instance": lambda path: save_instance(load_instance("soare"), path),
    "plotting.save": lambda path: save(new_axes(), path),
    "Trace.save": lambda path: trace().save(path),
    "--save": command("--save"),
    "--plot": command("--plot"),
}


def special(kind, path):
    """Something that is not a regular file, and what must not happen to it."""
    target = path.with_name("target")
    if kind == "link":
        target.write_text("precious")
        path.symlink_to(target)
    elif kind == "dangling link":
        path.symlink_to(target)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif kind == "write-protected":
        path.write_text("precious")
        path.chmod(0o444)
    return sorted(path.parent.iterdir()), os.lstat(path), target.read_text() if target.exists() else None


@posix
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder", "socket", "write-protected"])
@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_but_regular_files_is_replaced(writer, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    path = Path("x.png")
    before = special(kind, path)
    if kind == "write-protected":
        monkeypatch.setattr(os, "access", lambda name, mode: Path(name) != path)  # root may do everything
    with pytest.raises(FileFormatError):
        WRITERS[writer](path)
    after = sorted(path.parent.iterdir()), os.lstat(path), Path("target").read_text() if before[2] else None
    assert after[0] == before[0]  # no draft is left
    assert (after[1].st_ino, after[1].st_mode, after[1].st_mtime) == (before[1].st_ino, before[1].st_mode, before[1].st_mtime)  # fmt: skip
    assert after[2] == before[2]


@posix
@pytest.mark.parametrize("path", ["/dev/null", "/dev/full", "/dev/stdout", "", ".", "x/", "a\0b", "no/x", "x" * 300])
def test_every_refusal_names_the_path_and_the_cure(path):
    before = sorted(os.listdir("/dev"))
    with pytest.raises(FileFormatError, match="cannot be written: ") as refused:
        files.write_atomically(path, b"x")
    assert refused.value.file == path
    if len(path) < 300:  # a name that is too long shows only when it is used
        with pytest.raises(FileFormatError, match="cannot be written"):
            files.check_target(path)
    assert sorted(os.listdir("/dev")) == before
    if "/dev" in path or path in ("", ".", "x/"):
        assert "; " in str(refused.value)


@posix
@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_permissions_are_those_that_the_umask_gives_and_old_files_keep_theirs(mask, tmp_path):
    old = os.umask(mask)
    try:
        (tmp_path / "mine").write_text("x")
        (tmp_path / "private").write_text("x")
        (tmp_path / "private").chmod(0o640)
        for name in ("new", "private"):
            files.write_atomically(tmp_path / name, b"y")
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"mine": 0o666 & ~mask, "new": 0o666 & ~mask, "private": 0o640}


def test_drafts_have_names_that_nobody_can_guess_and_never_go_through_a_link(tmp_path, monkeypatch):
    opened = []
    real = os.open

    def watched(path, flags, mode=0o777):
        opened.append((Path(path).name, flags))
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", watched)
    for _ in range(2):
        files.write_atomically(tmp_path / "x", b"x")
    (first, flags), (second, _) = opened
    assert first != second
    assert str(os.getpid()) not in first
    assert flags & os.O_EXCL
    assert flags & os.O_CREAT


@pytest.mark.parametrize("fault", ["fsync", "replace"])
def test_a_failure_on_the_way_leaves_the_old_file_and_no_draft(fault, tmp_path, monkeypatch):
    (tmp_path / "x").write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, fault, fail)
    with pytest.raises(FileFormatError, match="No space left"):
        files.write_atomically(tmp_path / "x", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text() == "old"


def test_a_hard_link_keeps_the_old_content(tmp_path):
    (tmp_path / "x").write_text("old")
    os.link(tmp_path / "x", tmp_path / "y")
    files.write_atomically(tmp_path / "x", b"new")
    assert ((tmp_path / "x").read_text(), (tmp_path / "y").read_text()) == ("new", "old")


READERS = {
    "x.json": load_instance,
    "net.json": lambda path: read_network(path, "a", "b"),
    "x.graphml": lambda path: read_network(path, "a", "b"),
    "x.gml": lambda path: read_network(path, "a", "b"),
    "x.tntp": lambda path: read_network(path, 1, 2),
    "x.gr": lambda path: read_network(path, 1, 2),
    "items.csv": lambda path: read_items(path, 1),
    "table.csv": read_table,
    "x.npz": Trace.load,
}


@posix
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
@pytest.mark.parametrize("name", READERS)
def test_nothing_but_regular_files_is_read(name, kind, tmp_path):
    path = tmp_path / name
    if kind == "device":
        path.symlink_to("/dev/zero")
    else:
        special(kind, path)
    caught = []

    def read():
        with pytest.raises(ComboPepsError, match=r"cannot be read: it is a .*; give the path of a") as error:
            READERS[name](path)
        caught.append(error)

    thread = threading.Thread(target=read, daemon=True)  # a pipe without a writer would block for ever
    thread.start()
    thread.join(timeout=20)
    assert caught


@posix
@pytest.mark.parametrize("line", ["show {}", "solve {} --source a --target b", "tell --state run.db --csv {}", "status --state {}"])  # fmt: skip
def test_commands_do_not_wait_for_a_pipe(line, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "town", "--state", "run.db"]) == 0
    os.mkfifo("x.json")
    code = []
    thread = threading.Thread(target=lambda: code.append(main(line.format("x.json").split())), daemon=True)
    thread.start()
    thread.join(timeout=20)
    assert code == [1]
    assert "regular file" in capsys.readouterr().err


def test_a_link_may_be_read(tmp_path):
    save_instance(load_instance("soare"), tmp_path / "x.json")
    (tmp_path / "y.json").symlink_to(tmp_path / "x.json")
    assert load_instance(tmp_path / "y.json").best == 0


def test_what_was_written_is_read_again(tmp_path):
    trace().save(tmp_path / "x.npz")
    assert Trace.load(tmp_path / "x.npz").seed == 0
    assert main(["solve", "soare", "--budget", "3", "--stopping", "budget", "--save", str(tmp_path / "r.json")]) in (
        0,
        3,
    )
    assert json.loads((tmp_path / "r.json").read_text())["samples"] == 3


WRITES = {"write_text", "write_bytes", "touch", "mkstemp", "NamedTemporaryFile", "rename", "symlink"}
HOMES = {"utils/files.py"}  # and SQLite, to its own files


def writing_calls(source):
    """Names and modes by which a module could write to a path without the helper."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        modes = [arg.value for arg in [*node.args, *(k.value for k in node.keywords)] if isinstance(arg, ast.Constant)]
        writes = any(isinstance(mode, str) and set(mode) & set("wax") and set(mode) <= set("rwaxbt+") for mode in modes)
        if (
            name in WRITES
            or (name == "open" and writes)
            or (name == "savefig" and getattr(node.args[0], "id", "") != "picture")
        ):
            yield name, node.lineno


def test_no_other_module_writes_to_paths():
    assert list(writing_calls("Path(x).open('wb')\nfigure.savefig(path)\np.write_text('')\nopen(p)")) == [
        ("open", 1), ("savefig", 2), ("write_text", 3)]  # fmt: skip
    package = Path(combopeps.__file__).parent
    found = {
        str(path.relative_to(package)): list(writing_calls(path.read_text()))
        for path in package.rglob("*.py")
        if path.relative_to(package).as_posix() not in HOMES
    }
    found["utils/jit.py"] = [call for call in found["utils/jit.py"] if call[0] != "rename"]  # of its own cache
    found["cli/output.py"] = [call for call in found["cli/output.py"] if call[0] != "open"]  # the null device
    assert {name: calls for name, calls in found.items() if calls} == {}
