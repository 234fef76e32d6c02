"""docs/architecture.md: what it names exists, and every room of the package is on it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "combopeps"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def paths(text):
    """Files and folders that a text names, in backticks or at the beginning of a line of a block."""
    quoted = re.findall(r"`([\w./]+)`", text)
    listed = re.findall(r"^([\w./]+) {2,}\S", text, re.MULTILINE)
    return sorted({name for name in [*quoted, *listed] if name.endswith((".py", "/", ".toml", ".md"))})


def rooms():
    folders = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    return folders | {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}


def lost(name):
    return not any((place / name).exists() for place in (PACKAGE, ROOT))


@pytest.mark.parametrize("name", paths(PAGE))
def test_what_the_page_names_exists(name):
    assert not lost(name)


def test_every_room_is_on_the_page():
    assert rooms() - set(paths(PAGE)) == set()


def test_a_room_that_has_gone_is_noticed():
    named = paths("kitchen/   food\nand `hall/door.py`, `run/`\n")
    assert named == ["hall/door.py", "kitchen/", "run/"]
    assert [name for name in named if lost(name)] == ["hall/door.py", "kitchen/"]
    assert {"run/", "streams.py"} <= rooms()
