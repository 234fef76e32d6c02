"""Commands on campaigns in databases, and copies between places."""

import json

import pytest
from backends import content

from combopeps import Campaign
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
    assert "sound; 6 lines are good" in call("doctor", *state)
    assert "the good lines are in" in call("doctor", *state, "--salvage", "sound.jsonl")
    assert "exists already" in call("init", "town", *state, code=1)
    assert call("campaigns", *state, "--json")["campaigns"] == ["campaign.jsonl"]


def test_copies_are_the_same_byte_for_byte(call, database, tmp_path):
    call("init", "town", "--state", "run.jsonl")
    call("ask", "--state", "run.jsonl", "-n", "3")
    Campaign.open("run.jsonl").observe_table([(("station", "market"), 3.5), (("market", "harbour"), 4.5)])
    with open("run.jsonl", "ab") as file:
        file.write(b'{"kind":"ask","que')  # a crash: nobody was told
    assert call("copy", "run.jsonl", database(), "--json")["lines"] == 4
    call("copy", database(), database("second"))
    assert "4 lines copied to back.jsonl" in call("copy", database("second"), "back.jsonl")
    call("copy", "back.jsonl", "again.jsonl")
    whole = (tmp_path / "run.jsonl").read_bytes().removesuffix(b'{"kind":"ask","que')
    for place in (database(), database("second"), "back.jsonl", "again.jsonl"):
        assert content(place) == whole
    assert Campaign.open(database()).ask(2) == Campaign.open("back.jsonl").ask(2)
    for source, target in (("again.jsonl", database()), (database(), "again.jsonl"), (database(), database())):
        before = content(target)
        assert "exists already" in call("copy", source, target, code=1)
        assert content(target) == before


def test_a_damaged_campaign_is_not_copied(call, database, tmp_path):
    call("init", "town", "--state", "run.jsonl")
    call("ask", "--state", "run.jsonl")
    data = (tmp_path / "run.jsonl").read_bytes()
    (tmp_path / "run.jsonl").write_bytes(data.replace(b'"ask"', b'"asK"'))
    assert "line 2: this line is damaged" in call("copy", "run.jsonl", database(), code=1)
    assert content(database()) is None


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(
    "words",
    [
        ["status", "--state", "URL"],
        ["init", "town", "--state", "URL"],
        ["copy", "URL", "x.jsonl"],
        ["doctor", "--state", "URL"],
        ["campaigns", "--state", "URL"],
        ["status", "URL"],
        ["status", "--state", "run.jsonl", "URL"],
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
