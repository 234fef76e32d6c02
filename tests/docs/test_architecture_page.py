"""docs/architecture.md: the files that it names exist, and every package and module of the top level is on it."""

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


def top_level():
    folders = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    return folders | {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}


def is_missing(name):
    return not any((place / name).exists() for place in (PACKAGE, ROOT))


@pytest.mark.parametrize("name", paths(PAGE))
def test_what_the_page_names_exists(name):
    assert not is_missing(name)


def test_every_package_is_on_the_page():
    assert top_level() - set(paths(PAGE)) == set()


def test_a_missing_package_is_noticed():
    named = paths("parsers/   text\nand `graphs/door.py`, `session/`\n")
    assert named == ["graphs/door.py", "parsers/", "session/"]
    assert [name for name in named if is_missing(name)] == ["graphs/door.py", "parsers/"]
    assert {"session/", "streams.py"} <= top_level()
