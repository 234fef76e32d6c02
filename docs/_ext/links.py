"""Relative links of the Markdown pages that people read on a code host, checked without a network.

`python docs/_ext/links.py` names every link to a file or a heading that does not exist. Links to other sites are not
followed.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1`*\s*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def pages() -> list[Path]:
    """README, CONTRIBUTING, CHANGELOG and all of docs."""
    docs = ROOT / "docs"
    inside = [page for page in docs.rglob("*.md") if "_build" not in page.parts]
    return [*sorted(ROOT.glob("*.md")), *sorted(inside)]


def anchors(text: str) -> set[str]:
    """The names under which a code host links to headings."""
    names: dict[str, int] = {}
    for title in re.findall(r"^#{1,6}\s+(.*?)\s*#*$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        names[name] = names.get(name, -1) + 1
        if names[name]:
            names[f"{name}-{names[name]}"] = 0
    return set(names)


def broken(page: Path) -> list[str]:
    """Each link of the page that leads nowhere, with the reason."""
    text = page.read_text()
    faults = []
    for link in _LINK.findall(_FENCE.sub("", text)):
        if _ELSEWHERE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            faults.append(f"{page}: {link}: there is no such file")
        elif anchor and anchor not in anchors(_with_includes(target)):
            faults.append(f"{page}: {link}: there is no such heading")
    return faults


def _with_includes(page: Path) -> str:
    """The text of a page, after that of the pages it includes."""
    text = page.read_text()
    files = re.findall(r"^```\{include\} (\S+)", text, re.MULTILINE)
    return "\n".join([*((page.parent / file).read_text() for file in files), text])


if __name__ == "__main__":
    sys.exit("\n".join(fault for page in pages() for fault in broken(page)) or None)
