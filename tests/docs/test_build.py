"""The documentation builds without a warning, every public name is in its reference, and nothing in it is missing."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

import combopeps
import combopeps.viz

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("furo")

DOCS = Path(__file__).resolve().parents[2] / "docs"
ELSEWHERE = ("http:", "https:", "mailto:", "data:")


def build(source, out, *options):
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-c", str(DOCS), *options]
    return subprocess.run([*command, str(source), str(out)], capture_output=True, text=True, timeout=300)


def public_names():
    names = {f"combopeps.{name}" for name in combopeps.__all__ if name != "__version__"}
    return names | {f"combopeps.viz.{name}" for name in combopeps.viz.__all__}


def documented(site):
    from sphinx.util.inventory import InventoryFile

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    return {name for domain, names in inventory.data.items() if domain.startswith("py:") for name in names}


def missing_targets(site):
    """Local links and images of the built pages that point to no file, or to no place in it."""
    text = {page: page.read_text() for page in site.rglob("*.html")}
    places = {page: set(re.findall(r'\bid="([^"]+)"', content)) for page, content in text.items()}
    for page, content in text.items():
        for link in re.findall(r'<(?:a|img|link|script)\b[^>]*?\b(?:href|src)="([^"]+)"', content):
            if link.startswith(ELSEWHERE):
                continue
            path, _, place = unquote(unescape(link)).partition("#")
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            if not target.is_file() or (place and place not in places.get(target, ())):
                yield page.name, link


def test_the_documentation_builds_and_is_complete(tmp_path):
    done = build(DOCS, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert public_names() - documented(tmp_path) == set()
    assert list(missing_targets(tmp_path)) == []


@pytest.mark.parametrize(
    ("fault", "said"),
    [("[x](gone.md)", "gone.md"), ("[x](#gone)", "gone"), ("![x](gone.png)", "gone.png"), ("{py:func}`gone`", "gone")],
)
def test_a_fault_ends_the_build(tmp_path, fault, said):
    (tmp_path / "index.md").write_text(f"# Title\n\n{fault}\n")
    done = build(tmp_path, tmp_path / "out", "-b", "dummy")
    assert done.returncode != 0
    assert said in done.stderr


def test_a_missing_target_is_noticed(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a> <a href="b.html#gone">b</a> <img src="gone.png">')
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1> <a class="x" href="#here">b</a>')
    assert list(missing_targets(tmp_path)) == [("a.html", "b.html#gone"), ("a.html", "gone.png")]
