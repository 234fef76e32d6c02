"""docs/architecture.md: the files that it names exist, and every module of the package is listed with its first line."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "combopeps"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def quoted_paths(text):
    """Files and folders that a text names in backticks."""
    return sorted({name for name in re.findall(r"`([\w./]+)`", text) if name.endswith((".py", "/", ".toml", ".md"))})


def listed_modules(text):
    """The list of files: {path: description}; a line **`package/`** begins the files of a package."""
    found, package = {}, ""
    for line in text.splitlines():
        if match := re.match(r"\*\*`(\w+/)`\*\*", line):
            package = match[1]
        elif match := re.match(r"([\w/]+\.py) +(\S.*)", line):
            found[package + match[1]] = match[2]
    return found


def modules_of(folder):
    """Modules below a folder, and the first paragraphs of their docstrings in a line each."""
    found = {}
    for path in folder.rglob("*.py"):
        if not path.name.startswith("__"):
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            found[str(path.relative_to(folder))] = text.split("\n\n")[0].replace("\n", " ").rstrip(".")
    return found


def is_missing(name):
    return not any((place / name).exists() for place in (PACKAGE, ROOT))


@pytest.mark.parametrize("name", quoted_paths(PAGE))
def test_what_the_page_names_exists(name):
    assert not is_missing(name)


def test_every_module_is_listed_with_its_first_line():
    assert listed_modules(PAGE) == modules_of(PACKAGE)


def test_a_wrong_list_is_noticed(tmp_path):
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "paths.py").write_text('"""Shortest\npaths.\n\nMore."""\n')
    assert modules_of(tmp_path) == {"graphs/paths.py": "Shortest paths"}
    assert listed_modules("**`graphs/`**: x\n\npaths.py   Shortest paths") == modules_of(tmp_path)
    assert listed_modules("paths.py   Shortest paths") != modules_of(tmp_path)
    assert is_missing("graphs/door.py")
