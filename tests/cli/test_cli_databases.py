"""Commands on campaigns in databases, and copies between places."""

import json

import pytest
from backends import events
from tampering import alter

from combopeps import Campaign
from combopeps.campaign.store import store_at
from combopeps.cli import main


def test_a_whole_campaign_in_a_database(call, database):
    state = ["--state", database()]
    assert "next: combopeps ask --state" in call("init", "town", *state)
    (query,) = call("ask", *state, "--json")["queries"]
    assert call("tell", *state, query["id"], "4.5", "--json")["samples"] == 1
    call("tell", *state, query["id"], "4.5")
    call("observe", *state, "station", "market", "3.5")
    call("ask", *state)
    call("abandon", *state, "1")
    assert call("status", *state, "--json", code=3)["samples"] == 2
    assert "sound; 6 valid events" in call("check", *state)
    assert "6 lines in run.jsonl" in call("export", *state, "-o", "run.jsonl")
    assert "exists already" in call("init", "town", *state, code=1)
    assert call("campaigns", *state, "--json")["campaigns"] == ["campaign.db"]


def test_copies_have_the_same_events(call, database):
    call("init", "town", "--state", "run.db")
    call("ask", "--state", "run.db", "-n", "3")
    Campaign.open("run.db").observe_table([(("station", "market"), 3.5), (("market", "harbour"), 4.5)])
    assert call("copy", "run.db", database(), "--json")["events"] == 4
    call("copy", database(), database("second"))
    assert "4 events copied to back.db" in call("copy", database("second"), "back.db")
    call("copy", "back.db", "again.db")
    whole = store_at("run.db").rows()  # with times, and checksums
    for place in (database(), database("second"), "back.db", "again.db"):
        assert store_at(place).rows() == whole
    assert Campaign.open(database()).ask(2) == Campaign.open("back.db").ask(2)
    for source, target in (("again.db", database()), (database(), "again.db"), (database(), database())):
        before = store_at(target).rows()
        assert "exists already" in call("copy", source, target, code=1)
        assert store_at(target).rows() == before


def test_a_damaged_campaign_is_not_copied(call, database, tmp_path):
    call("init", "town", "--state", "run.db")
    call("ask", "--state", "run.db")
    alter(tmp_path / "run.db", 2, '"ask"', '"asK"')
    assert "event 2: it does not match its checksum" in call("copy", "run.db", database(), code=1)
    assert events(database()) is None


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(
    "words",
    [
        ["status", "--state", "URL"],
        ["init", "town", "--state", "URL"],
        ["copy", "URL", "x.db"],
        ["check", "--state", "URL"],
        ["export", "--state", "URL", "-o", "x.csv"],
        ["campaigns", "--state", "URL"],
        ["status", "URL"],
        ["status", "--state", "run.db", "URL"],
    ],
)
@pytest.mark.parametrize(
    "url", ["postgresql://ann:sesame@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db?password=sesame"]
)
def test_no_password_is_printed(words, url, as_json, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = [url if word == "URL" else word for word in words] + ["--json"] * as_json
    assert main(line) in (1, 2)
    out, err = capsys.readouterr()
    assert "sesame" not in out + err
    assert not as_json or "error" in json.loads(out)


def test_nor_where_it_works(call, postgres):
    url = postgres.url().replace("postgres@", "postgres:sesame@")  # which this server does not ask for
    for words in (["init", "town", "--state", url], ["status", "--state", url], ["copy", url, url + "#two"]):
        for more in ([], ["--json"]):
            if more and words[0] != "status":
                words = (
                    [word.replace(url, url + "#json") for word in words]
                    if words[0] == "init"
                    else [words[0], url, url + "#three"]
                )
            said = str(call(*words, *more, code=3 if words[0] == "status" else 0))
            assert "sesame" not in said
            assert "***" in said or (words[0] == "status" and more)
