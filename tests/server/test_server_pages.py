"""What a browser gets: text as text, nothing from outside, and nothing kept."""

import re
from html.parser import HTMLParser

import pytest
from served import OWNER, begun, client, token_file

from combopeps.cli import main

SCRIPT = "<script>alert(1)</script>"
EVIL = [SCRIPT, '"><img src=x onerror=alert(1)>', "'-alert(1)-'", "{{7*7}}", "a\u202eb", "]]></svg><script>x</script>"]


class Tags(HTMLParser):
    """All tags with their attributes, and the nonces of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.seen = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def check_page(answer):
    """Its policy allows its own script and style alone, and there is nothing else."""
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    nonce = re.search(r"script-src 'nonce-([\w-]+)'", policy)[1]
    for tag, attributes in Tags(answer.text).seen:
        if tag in ("script", "style"):
            assert attributes == {"nonce": nonce}
        assert tag not in ("img", "iframe", "object", "embed", "base")
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        for name in ("href", "src", "action"):
            assert not re.match(r"\w+:(?!,)|//", attributes.get(name) or "")
    for header, value in (
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
    ):
        assert answer.headers[header] == value
    return nonce


@pytest.fixture
def path(tmp_path):
    campaign = begun(tmp_path / "campaign.db", labels=EVIL)
    campaign.tell_many([(query, 1.0) for query in campaign.ask(6)])
    campaign.ask(2, client=SCRIPT)
    return tmp_path / "campaign.db"


def test_script_in_a_label_or_a_name_is_text(path):
    with client(path, pause=0.0) as web:
        page = web.get("/")
        assert page.status_code == 200
        assert check_page(page) != check_page(web.get("/"))  # a nonce is used once
        fragment = web.get("/fragment")
        for text in (page.text, fragment.text):
            assert SCRIPT not in text
            assert "<img" not in text
            assert "&lt;script&gt;alert(1)" in text
        tag = fragment.headers["etag"]
        again = web.get("/fragment", headers={"If-None-Match": f'"x", {tag}'})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        web.post("/tell", json={"id": 6, "value": 1.0})
        new = web.get("/fragment", headers={"If-None-Match": tag})
        assert (new.status_code, new.headers["etag"] == tag) == (200, False)
        assert web.get("/measurements.csv").headers["content-disposition"].startswith("attachment")
        for address in ("/status", "/open", "/problem"):
            assert web.get(address).headers["content-type"] == "application/json"
            assert web.get(address).headers["x-content-type-options"] == "nosniff"


def test_a_report_allows_no_script_and_nothing_from_outside(path, tmp_path, capfd):
    assert main(["report", "--state", str(path), "-o", str(tmp_path / "report.html")]) == 0
    text = (tmp_path / "report.html").read_text()
    tags = Tags(text).seen
    names = [tag for tag, _ in tags]
    (at,) = [at for at, (_, attributes) in enumerate(tags) if "http-equiv" in attributes]
    assert tags[at][1]["http-equiv"] == "Content-Security-Policy"
    policy = dict(part.split(maxsplit=1) for part in tags[at][1]["content"].split(";"))
    assert policy == {
        "default-src": "'none'", "style-src": "'unsafe-inline'", "img-src": "data:", "base-uri": "'none'",
        "form-action": "'none'",
    }  # fmt: skip
    assert at < min(names.index(tag) for tag in ("style", "title", "link", "body"))  # before what it is about
    assert not {"script", "iframe", "object", "embed", "base", "form"} & set(names)
    assert SCRIPT not in text
    assert not any(name.startswith("on") for _, attributes in tags for name in attributes)


def test_the_login_page_gives_a_cookie_and_shows_nothing(path, tmp_path):
    with client(path, tokens=token_file(tmp_path)) as web:
        answer = web.get("/")
        assert answer.status_code == 401
        check_page(answer)
        assert "script&gt;" not in answer.text
        web.post("/login", json={"token": OWNER})
        assert web.get("/problem").status_code == 200  # by the cookie


def test_the_description_page_names_every_route(path):
    with client(path) as web:
        answer = web.get("/docs")
        check_page(answer)
        for name in web.get("/openapi.json").json()["paths"]:
            assert f"{name}</code>" in answer.text


def test_links_and_cookies_work_below_a_path(path, tmp_path):
    """Behind a proxy that takes the prefix off; links are relative."""
    with client(path, tokens=token_file(tmp_path), root_path="/lab/beans") as web:
        web.headers = {"Authorization": f"Bearer {OWNER}"}
        assert web.get("/problem").status_code == 200
        assert "Path=/lab/beans/" in web.post("/login", json={"token": OWNER}).headers["set-cookie"]
        assert web.post("/tell", json={"id": 6, "value": 1.0}).status_code == 200
        for _, attributes in Tags(web.get("/docs").text).seen:
            assert not (attributes.get("href") or "").startswith("/")
