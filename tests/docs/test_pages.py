"""Pages: their links lead somewhere, their code is run, and their figures come from a command."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("links", ROOT / "docs" / "_ext" / "links.py")
links = importlib.util.module_from_spec(spec)
spec.loader.exec_module(links)
PAGES = links.pages()
WRITTEN = [page for page in PAGES if "results" not in page.parts]


def name(page):
    return str(page.relative_to(ROOT))


def test_all_pages_are_looked_at():
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/index.md", "docs/api/oracles.md"} <= set(
        map(name, PAGES)
    )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page):
    assert links.broken(page) == []


def test_a_broken_link_is_noticed(tmp_path):
    (tmp_path / "other.md").write_text("# A `long` title: yes\n\n# Twice\n\n# Twice\n\n```text\n# no heading\n```\n")
    page = tmp_path / "page.md"
    good = "[a](other.md) [b](other.md#a-long-title-yes) [c](other.md#twice-1) [d](#here) [e](https://example.org/x.md)"
    page.write_text(f"# Here\n\n{good}\n\n```text\n[not a link](nowhere.md)\n```\n")
    assert links.broken(page) == []
    page.write_text("# Here\n\n[a](gone.md) ![b](gone.png) [c](other.md#no-heading) [d](#there) [](gone.md#x)\n")
    assert [fault.split(": ")[1] for fault in links.broken(page)] == [
        "gone.md", "gone.png", "other.md#no-heading", "#there", "gone.md#x",
    ]  # fmt: skip


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_python_on_a_page_is_run_by_the_suite(page):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    assert all(block.startswith(">>>") for block in blocks)
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]
    assert not blocks or any(page in ROOT.glob(pattern) for pattern in patterns)


def figures(page):
    return re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())


@pytest.mark.parametrize("page", WRITTEN, ids=name)
def test_figures_come_from_results(page):
    for figure in figures(page):
        assert (ROOT / "docs" / "results") in (page.parent / figure).resolve().parents


def test_there_are_figures_to_look_at():
    assert sum(len(figures(page)) for page in WRITTEN) > 5


def ragged_rows(text):
    """Differences of tables with more or fewer cells than their header: a | that is not escaped cuts a cell in two."""
    for table in re.findall(
        r"(?:^\|.*\n)+", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    ):
        header, *rows = [len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()]
        yield from (table.splitlines()[i + 1] for i, bars in enumerate(rows) if bars != header)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_rows_of_tables_fit_their_header(page):
    assert list(ragged_rows(page.read_text() + "\n")) == []


def test_a_ragged_row_is_noticed():
    table = "| a | b |\n|---|---|\n| {} | 2 |\n"
    assert list(ragged_rows(table.format(r"\|Z\|"))) == []
    assert list(ragged_rows(table.format("|Z|"))) == ["| |Z| | 2 |"]
