"""What a deployed server has to do: measurements by a script, and the live page, through the proxy."""

import secrets

import httpx

from combopeps import RemoteCampaign

OWNER, ANN = secrets.token_urlsafe(), secrets.token_urlsafe()
PASSWORD = secrets.token_urlsafe()


def secret_file(folder, name, text):
    """A file that only its owner can read."""
    path = folder / name
    path.touch(0o600)
    path.write_text(text)
    return path


def secret_files(folder):
    """The password of PostgreSQL, and the tokens."""
    tokens = f"owner {OWNER}\nmeasurer {ANN} ann\n"
    return secret_file(folder, "database_password", PASSWORD + "\n"), secret_file(folder, "tokens", tokens)


def measure_and_look(address, certificate, monkeypatch):
    """Ask, tell and status by `RemoteCampaign`; login, page, and what changes on it, as a browser does."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with RemoteCampaign(address, ANN) as campaign:
        before = campaign.samples
        for query in campaign.ask(5):
            campaign.tell(query, 1.0)
        status = campaign.status()
        assert (status.samples, status.open_queries) == (before + 5, [])
    path = httpx.URL(address).path.rstrip("/") + "/"
    with httpx.Client(base_url=address, timeout=60) as browser:
        assert browser.get("/").status_code == 401  # the form for the token
        cookie = browser.post("/login", json={"token": OWNER}).headers["set-cookie"].lower()
        assert "; secure" in cookie  # the server believes the proxy that this is https
        assert f"path={path};" in cookie + ";"
        page = browser.get("/")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "<html" in page.text
        assert browser.get("/fragment").status_code == 200
        assert browser.get("/measurements.csv").text.count("\n") == before + 6
