"""Pages are valid, self-contained HTML, and labels are escaped."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import networkx as nx
import pytest
from page_cases import KINDS, measured

from combopeps import Campaign, MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.errors import DependencyError, ParameterError
from combopeps.viz import html
from combopeps.viz.build_view_model import report_data
from combopeps.viz.html import Live, fragment, render

VOID = {"meta", "link", "input", "br", "hr"}
NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a'b\"c&amp;",
    "\u202eright to left",
    "nul\x00 and \x1b[2J",
    "line\nbreak",
    "שלום",
    "{{ 7 * 7 }}",
    "x" * 5_000,
]


class StrictParser(HTMLParser):
    """Check that tags are closed in order and ids are unique; collect texts, tags and attributes."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []
        ids = [attributes["id"] for _, attributes in self.tags if "id" in attributes]
        assert len(ids) == len(set(ids))

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def forms(facts):
    return [render(facts), render(facts, Live('"1"')), fragment(facts, Live('"1"', can_tell=False))]


def test_the_parser_detects_a_tag_that_is_not_closed():
    with pytest.raises(AssertionError):
        StrictParser("<p><b>x</p>")


@pytest.mark.parametrize("name", KINDS)
def test_pages_are_valid_and_self_contained(tmp_path, name):
    campaign = measured(tmp_path, name, 20)
    campaign.ask(2)
    for page in forms(report_data(campaign)):
        parsed = StrictParser(page)
        assert not re.search(r"(https?:)?//[a-z]", page.split("<script")[0])
        for tag, attributes in parsed.tags:
            assert "style" not in attributes  # a strict policy forbids them
            assert not any(key.startswith("on") for key in attributes)
            for key in ("src", "href", "action"):
                assert attributes.get(key, "./").startswith(("./", "data:,")), (tag, attributes)


def oracles(names):
    yield TopKOracle(names, k=2)
    yield MatchingOracle(names[:4], [*names[4:8], "z"])
    graph = nx.DiGraph()
    for node in names[2:]:
        graph.add_edge(names[0], node)
        graph.add_edge(node, names[1])
    yield ShortestPathOracle(graph, names[0], names[1])


def test_labels_are_escaped(tmp_path):
    for number, oracle in enumerate(oracles(NASTY)):
        campaign = Campaign.create(tmp_path / f"{number}.db", oracle)
        campaign.observe_table([(label, i / 9) for i, label in enumerate(oracle.components)])
        campaign.ask(3)
        for page in forms(report_data(campaign, title=NASTY[0])):
            parsed = StrictParser(page)
            assert [tag for tag, _ in parsed.tags].count("script") == (
                1 if 'id="pulse"' in page and "data-etag" in page else 0
            )
            assert "img" not in {tag for tag, _ in parsed.tags}
            assert "\x00" not in page
            assert "\x1b" not in page
            assert "\u202e" not in page
            assert "x" * 1_501 not in page
            assert any("<script>alert(1)</script>" in text for text in parsed.texts)
            assert "{{ 7 * 7 }}" in page
            assert len(page) < 300_000


def test_a_long_label_is_cut_and_complete_in_its_title(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", TopKOracle(["long " * 30 + "end", "b"], k=1))
    campaign.observe("b", 1.0)
    page = render(report_data(campaign))
    assert re.search(r'title="(long )+end"', page)


def test_only_a_live_page_has_a_script_a_form_and_a_nonce(tmp_path):
    facts = report_data(measured(tmp_path, "topk-paper", 5))
    still, live = render(facts, nonce="abc="), render(facts, Live('W/"5"', poll_seconds=2.5), nonce="abc=")
    assert "<script" not in still
    assert "<form" not in still
    assert "measurements.csv" not in still
    assert '<style nonce="abc=">' in still
    assert '<script nonce="abc=">' in live
    assert 'data-etag="W/&#34;5&#34;" data-poll="2.5"' in live
    assert '<noscript><meta http-equiv="refresh"' in live
    assert "<form" not in fragment(facts, Live('"1"', can_tell=False))
    assert fragment(facts, Live('"1"')) in live
    with pytest.raises(ParameterError, match="nonce"):
        render(facts, nonce='"><script>')


def test_headings_and_labels_for_screen_readers(tmp_path):
    campaign = measured(tmp_path, "town", 20)
    campaign.ask()
    parsed = StrictParser(render(report_data(campaign), Live('"1"')))
    tags = [tag for tag, _ in parsed.tags]
    assert tags.count("h1") == tags.count("main") == 1
    assert tags.count("h2") >= 5
    images = [attributes for tag, attributes in parsed.tags if tag == "svg" and attributes.get("role") == "img"]
    assert all(attributes["aria-label"] for attributes in images)
    assert ("p", {"id": "announcement", "class": "visually-hidden", "aria-live": "polite"}) in parsed.tags
    assert any(tag == "label" and attributes.get("for") == "query" for tag, attributes in parsed.tags)


def test_a_missing_jinja2_is_explained(tmp_path, monkeypatch):
    facts = report_data(measured(tmp_path, "topk-paper", 2))
    monkeypatch.setitem(sys.modules, "jinja2", None)
    html._templates.cache_clear()
    with pytest.raises(DependencyError, match=r"combopeps\[serve\]"):
        render(facts)
    html._templates.cache_clear()


def contrast(one, other):
    """Return the contrast ratio of two colours (WCAG 2)."""

    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted([light(one), light(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_in_light_and_dark():
    assert contrast("#ffffff", "#000000") == pytest.approx(21.0)
    sheet = (Path(html.__file__).parent / "templates" / "style.css").read_text()
    light, dark, *_ = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\}", sheet, re.DOTALL)
    ]
    for colours in (light, dark):
        for text in ("ink", "soft", "answer", "runner-up", "alarm", "done"):
            assert contrast(colours[text], colours["paper"]) >= 4.5, text
        for mark in ("seen", "answer", "runner-up"):
            assert contrast(colours[mark], colours["paper"]) >= 3.0, mark
