"""Commands on campaigns: in files and databases, while others use them, with results from people and spreadsheets."""

import csv
import getpass
import json

import networkx as nx
import numpy as np
import pytest
from backends import events
from cli_files import write_files
from tampering import alter
from unit_problem import unit_problem

from combopeps import Campaign, MatchingOracle, ShortestPathOracle, TopKOracle
from combopeps.campaign.open_store import store_at


def test_a_campaign_by_hand_to_its_end(call, tmp_path):
    write_files(tmp_path)
    call("init beers.csv --k 1 --noise 0.5 --prior 3 --state run.db --json")
    truth, rng = {"ale": 0.2, "bock": 2.5, "cider": 0.4, "dubbel": 2.0}, np.random.default_rng(0)
    assert call("status --state run.db --json", code=3)["samples"] == 0
    for _ in range(100):
        queries = call("ask --state run.db -n 4 --json")["queries"]
        rows = "".join(f"{q['id']},{truth[q['label']] + 0.5 * rng.normal()}\n" for q in queries)
        (tmp_path / "results.csv").write_text("id,value\n" + rows)
        assert call("tell --state run.db --csv results.csv --json")["open"] == 0
        if Campaign.open("run.db").status().stop:
            break
    final = Campaign.open(tmp_path / "run.db").status()
    assert final.stop
    assert final.answer == {"bock"}
    text = call("ask --state run.db")
    assert text.split("\t")[1].strip() in truth
    call(f"abandon --state run.db {text.split()[0]}")
    call("observe --state run.db cider -1.5")
    assert "not the label" in call("observe --state run.db stout 1", code=1)
    shown = call("status --state run.db --plot s.png")
    assert "posterior probability" in shown
    assert (tmp_path / "s.png").stat().st_size > 10_000
    assert call("check --state run.db --json")["sound"]


def test_damage_is_reported_and_the_rest_exported(call, tmp_path):
    call("init town --state run.db")
    for _ in range(3):
        call("ask --state run.db")
    call("tell --state run.db 2 4.5")
    assert call("check --state run.db") == "run.db: sound; 5 valid events, 3 queries, 1 measurements\n"
    alter(tmp_path / "run.db", 3, "ask", "asc")
    assert "run.db, event 3: " in call("status --state run.db", code=1)
    assert "combopeps export" in call("ask --state run.db", code=1)
    found = call("check --state run.db --json", code=1)
    assert not found["sound"]
    assert found["faults"][0]["event"] == 3
    assert "checksum" in found["faults"][0]["fault"]
    assert "event 3: it does not match its checksum" in call("check --state run.db", code=1)
    said = call("export --state run.db -o run.jsonl --json", code=1)
    assert (said["lines"], [fault["event"] for fault in said["faults"]]) == (4, [3])
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert kinds == ["campaign", "ask", "ask", "tell"]
    assert "event 3: " in call("export --state run.db -o run.csv", code=1)


def test_exported_measurements_can_be_observed(call, tmp_path):
    call("init town --state run.db")
    label = call("ask --state run.db --json")["queries"][0]["label"]
    call("tell --state run.db 0 4.5")
    call("observe --state run.db station market 3.5")
    assert call("export --state run.db -o run.jsonl --json") == {"output": "run.jsonl", "lines": 4, "faults": []}
    assert [json.loads(line)["kind"] for line in (tmp_path / "run.jsonl").read_text().splitlines()] == [
        "campaign", "ask", "tell", "observe",
    ]  # fmt: skip
    assert call("export --state run.db -o run.csv") == "2 lines in run.csv\n"
    rows = list(csv.DictReader((tmp_path / "run.csv").read_text().splitlines()))
    assert [(row["query"], row["label"], row["value"]) for row in rows] == [
        ("0", " - ".join(label), "4.5"), ("", "station - market", "3.5"),
    ]  # fmt: skip
    call("init town --state other.db")
    call("observe --state other.db --csv run.csv")
    before, after = (Campaign.open(name).posterior.theta_hat for name in ("run.db", "other.db"))
    assert np.array_equal(before, after)


def test_edges_without_direction_may_be_observed_either_way(call):
    call("init nsfnet --state run.db")
    call("observe", "--state", "run.db", "Palo Alto", "Seattle", "1100")
    call("observe", "--state", "run.db", "Seattle", "Palo Alto", "1140")
    assert set(Campaign.open("run.db").status().pulls.values()) == {0, 2}


def test_a_measurement_against_the_prior_is_a_one_line_warning(call):
    call("init town --state run.db --prior 0.1")
    call("ask --state run.db")
    text = call("tell --state run.db 0 1e6")
    assert "combopeps: warning: the results contradict the stated prior: " in text


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


@pytest.mark.parametrize("as_json", ["", " --json"])
@pytest.mark.parametrize(
    ("line", "code"),
    [("status --state URL", 1), ("init town --state URL", 1), ("copy URL x.db", 1), ("check --state URL", 1),
     ("export --state URL -o x.csv", 1), ("campaigns --state URL", 1), ("status URL", 2), ("status --state run.db URL", 2)],
)  # fmt: skip
@pytest.mark.parametrize(
    "url", ["postgresql://ann:sesame@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db?password=sesame"]
)
def test_no_password_is_printed_with_an_error(call, line, code, url, as_json):
    said = call(line.replace("URL", url) + as_json, code=code)
    assert "sesame" not in str(said)
    assert not as_json or "error" in said


def test_no_password_is_printed_where_it_works(call, postgres):
    url = postgres.url().replace("postgres@", "postgres:sesame@")  # which this server does not ask for
    for number, as_json in enumerate(("", " --json")):
        for line, code in ((f"init town --state {url}#{number}", 0), (f"status --state {url}#{number}", 3),
                           (f"copy {url}#{number} {url}#{number}-two", 0)):  # fmt: skip
            said = str(call(line + as_json, code=code))
            assert "sesame" not in said
            assert "***" in said or (code == 3 and as_json)


def routes(edges, kind=nx.DiGraph):
    graph = kind(edges)
    nodes = list(graph)
    return ShortestPathOracle(graph, nodes[0], nodes[-1])


PROBLEMS = {
    "whole numbers": routes([(0, 1), (1, 3), (0, 2), (2, 3)]),
    "undirected": routes([(0, 1), (1, 3), (0, 2), (2, 3)], nx.Graph),
    "strings": routes([("s", "New York"), ("New York", "t"), ("s", "it's"), ("it's", "t")]),
    "dashes": routes([("s", "a - b"), ("a - b", "t"), ("s", "-"), ("-", "t")]),
    "tuples": routes([((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 1), (1, 1)), ((1, 0), (1, 1))]),
    "parallel": routes([("s", "t", "fast"), ("s", "t", "slow")], nx.MultiGraph),
    "unprintable": routes([("s", "a\nb"), ("a\nb", "t"), ("s", "c\x1b[2J"), ("c\x1b[2J", "t")]),
    "items": TopKOracle(["ale", "bock, dark", 7], k=1),
    "pairs": MatchingOracle(["ann", "bob"], ["dig", "plant"]),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_ask_prints_observe_reads(call, tmp_path, name):
    """By its line, quoted or not; and from a file."""
    campaign = Campaign.create("run.db", unit_problem(PROBLEMS[name]))
    labels = campaign.problem.arms.labels
    asked = [line.split("\t") for line in call("ask", "--state", "run.db", "-n", "12").splitlines()]
    queries = campaign.open_queries
    for (_, text), query in zip(asked, queries, strict=True):
        before = campaign.status().pulls[query.label]
        call("observe", "--state", "run.db", text, 0.5)
        call("observe", "--state", "run.db", *text.split(" "), 0.5)
        assert campaign.status().pulls[query.label] == before + 2
    (tmp_path / "x.tsv").write_text("label\tvalue\n" + "".join(f'"{text}"\t0.5\n' for _, text in asked))
    counts = campaign.status().pulls
    call("observe", "--state", "run.db", "--csv", "x.tsv")
    after = campaign.status().pulls
    assert {label: after[label] - counts[label] for label in labels} == {
        label: sum(query.label == label for query in queries) for label in labels
    }


def test_an_ambiguous_label_is_refused_with_the_cure(call, tmp_path):
    oracle = routes([("s", "a"), ("a", "b - c"), ("s", "a - b"), ("a - b", "c"), ("b - c", "t"), ("c", "t")])
    Campaign.create("run.db", unit_problem(oracle))
    before = events("run.db")
    said = call("observe", "--state", "run.db", "a - b - c", 8, code=1)
    assert "written alike" in said
    assert "one word each" in said
    (tmp_path / "x.csv").write_text("label,value\ns - a,1\na - b - c,8\n")
    said = call("observe", "--state", "run.db", "--csv", "x.csv", code=1)
    assert "x.csv, line 3, label: " in said
    assert "columns source and target" in said
    assert events("run.db") == before
    call("observe", "--state", "run.db", "a", "b - c", 8)
    (tmp_path / "x.csv").write_text("source,target,value\ns,a,1\na - b,c,8\n")
    call("observe", "--state", "run.db", "--csv", "x.csv")
    assert Campaign.open("run.db").samples == 3


def test_rows_of_edges_on_no_route_are_left_out_and_counted(call, tmp_path):
    Campaign.create(
        "run.db", unit_problem(ShortestPathOracle(nx.Graph([("s", "t"), ("s", "pier"), ("pier", "boat")]), "s", "t"))
    )
    (tmp_path / "x.csv").write_text("source,target,value\nt,s,1\npier,s,8\nboat,pier,9\nboat,pier,9\n")
    said = call("observe", "--state", "run.db", "--csv", "x.csv")
    assert "1 of 4 rows taken; 3 left out: edge ('s', 'pier') lies on no route from 's' to 't'" in said
    assert "recorded; 1 measurements so far" in said
    found = call("observe", "--state", "run.db", "--csv", "x.csv", "--json")
    assert found == {
        "samples": 2, "open": 0, "rows": 4, "taken": 1, "left_out": [[["s", "pier"], 1], [["pier", "boat"], 2]],
    }  # fmt: skip
    assert "lies on no route" in call("observe", "--state", "run.db", "pier - boat", 3, code=1)
    assert "lies on no route" in call("observe", "--state", "run.db", "boat", "pier", 3, code=1)


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ([], 1, "give either LABEL VALUE or --csv FILE"),
        (["a", "1", "--csv", "x.csv"], 1, "give either LABEL VALUE or --csv FILE"),
        (["a"], 2, "LABEL and VALUE"),
        (["a", "b"], 2, "VALUE must be a number"),
        (["a", "nan"], 1, "finite"),
        (["--csv", "none.csv"], 1, "none.csv: cannot be read"),
        (["--csv", "x.csv"], 1, "x.csv, line 3, value: must be a finite number, and there is none"),
    ],
)
def test_invalid_observations_are_refused(call, tmp_path, words, code, part):
    Campaign.create("run.db", unit_problem(TopKOracle(["a", "b"], k=1)))
    (tmp_path / "x.csv").write_text("label,value\na,1\nb,NA\n")
    before = events("run.db")
    assert part in call("observe", "--state", "run.db", "--json", *words, code=code)["error"]
    assert events("run.db") == before


def test_results_of_queries_are_told_from_a_spreadsheet(call, tmp_path):
    Campaign.create("run.db", unit_problem(TopKOracle(["a", "b"], k=1))).ask(3)
    (tmp_path / "x.csv").write_bytes("\ufeffId;Label;Value\r\n0;a;1,5\r\n2;b;-0,25\r\n".encode())
    assert call("tell", "--state", "run.db", "--csv", "x.csv", "--json") == {"samples": 2, "open": 1}
    assert "line 2, id" in write_and_tell(call, tmp_path, "id,value\none,2\n")
    assert "name it id" in write_and_tell(call, tmp_path, "label,value\na,2\n")
    assert "sem" in write_and_tell(call, tmp_path, "id,value,sem\n1,2,0\n")
    (tmp_path / "x.csv").write_text("id,value,sem\n1,2,0.5\n")
    assert call("tell", "--state", "run.db", "--csv", "x.csv", "--json") == {"samples": 3, "open": 0}


def write_and_tell(call, folder, text):
    (folder / "x.csv").write_text(text)
    return call("tell", "--state", "run.db", "--csv", "x.csv", code=1)


def test_a_campaign_with_an_epsilon_states_it(call, tmp_path):
    (tmp_path / "beers.csv").write_text("item,mean\nale,1.0\nbock,1.01\ncider,0.0\n")
    init = "init beers.csv --k 1 --noise 0.1 --prior 2 --state run.db"
    assert "epsilon" in call(f"{init} --epsilon -1", code=1)
    call(f"{init} --epsilon 0.5")
    text = call("status --state run.db", code=3)
    assert "worse than the best by more than 0.5 with posterior probability" in text
    assert "at delta = 0.05, epsilon = 0.5 is not satisfied" in text
    for label, y in (("ale", 1.0), ("bock", 1.01), ("cider", 0.0)) * 3:
        Campaign.open("run.db").observe(label, y)
    found = call("status --state run.db --json")
    assert (found["epsilon"], found["stop"]) == (0.5, True)
    assert found["error_probability"] < 0.05
    assert "stop           yes: the answer is worse than the best by more than 0.5" in call("status --state run.db")


def test_a_initial_design_measures_every_arm_so_often(call):
    arms = call("init town --state run.db --initial-design 2 --json")["arms"]
    labels = [tuple(query["label"]) for query in call(f"ask --state run.db -n {2 * arms} --json")["queries"]]
    assert {labels.count(label) for label in labels} == {2}
    assert len(set(labels)) == arms
    assert min(count for _, count in call("solve town --initial-design 3 --json")["pulls"]) >= 3


@pytest.mark.parametrize(("policy", "learns"), [("lingame", True), ("uniform", False)])
def test_ask_stores_a_checkpoint_where_the_policy_learns_from_choices(call, policy, learns):
    campaign = Campaign.create("run.db", unit_problem(TopKOracle(3, k=1)), policy=policy)
    call("ask --state run.db")
    assert (campaign.store.checkpoint() is not None) == learns


def test_results_are_corrected_and_retracted(call, tmp_path):
    call("init town --state run.db")
    for value in ("3.5", "32.5", "4.5"):
        call(f"observe --state run.db station market {value} --yes")
    call("export --state run.db -o run.csv")
    rows = list(csv.DictReader((tmp_path / "run.csv").read_text().splitlines()))
    first, event = rows[0]["event"], next(row["event"] for row in rows if row["value"] == "32.5")
    assert rows[0]["by"] == getpass.getuser()
    assert call(f"correct --state run.db {event} 3.25 --json") == {"samples": 3, "open": 0}
    assert "recorded; 2 measurements so far" in call(f"retract --state run.db {first}")
    assert "corrections    2" in call("status --state run.db", code=3)
    assert call("status --state run.db --json", code=3)["corrections"] == 2
    assert "was retracted" in call(f"retract --state run.db {first}", code=1)
    assert "recorded no result" in call("correct --state run.db 1 3", code=1)
    assert "implausible" in call(f"correct --state run.db {event} 1e6", code=1)
    assert "corrections" not in call("check --state run.db")
    call("export --state run.db -o again.csv")
    rows = list(csv.DictReader((tmp_path / "again.csv").read_text().splitlines()))
    assert [row["value"] for row in rows] == ["3.25", "4.5"]
    stored = [event for _, event in Campaign.open("run.db").store.read().events]
    assert [event["by"] for event in stored[1:]] == [getpass.getuser()] * 5


def test_parts_of_an_action_are_corrected(call):
    campaign = Campaign.create("run.db", unit_problem(PROBLEMS["undirected"], actions="answers"))
    query = campaign.ask()
    campaign.tell(query, [1.0] * len(query.arms))
    event = campaign.measurements()[0].event
    u, v = query.components[0]
    call("correct", "--state", "run.db", event, f"{u} - {v}=2.5")
    assert [one.y for one in campaign.measurements()] == [2.5]
    assert campaign.samples == 1
    call("correct", "--state", "run.db", event, *["0.5"] * len(query.arms))
    assert [one.y for one in campaign.measurements()] == [0.5] * len(query.arms)


def test_leases_are_given_and_shown(call):
    call("init town --state run.db")
    first = call("ask --state run.db --client ann --lease 3600 -n 2")
    assert call("ask --state run.db --client ann -n 2") == first
    call("ask --state run.db --client bob")
    said = call("status --state run.db", code=3)
    assert "(ann, until 2" in said
    assert "(bob)" in said
    waiting = call("status --state run.db --json", code=3)["open"]
    assert [query["client"] for query in waiting] == ["ann", "ann", "bob"]
    assert waiting[0]["until"] > 1e9
    assert waiting[2]["until"] is None
    assert "lease requires client" in call("ask --state run.db --lease 5", code=1)


WRITERS = {"ask": "", "tell": "0 1.5", "observe": "a 1.5", "abandon": "0"}


@pytest.fixture
def campaign(call):
    return Campaign.create("run.db", unit_problem(TopKOracle(["a", "b", "c"], k=1)))


@pytest.mark.parametrize("command", WRITERS)
def test_a_writer_waits_for_the_lock_as_long_as_stated(call, campaign, command):
    campaign.ask()
    line = f"{command} --state run.db {WRITERS[command]} --json --timeout"
    with campaign.store.locked():
        said = call(f"{line} 0.05", code=1)
        assert said["type"] == "LockError"
        assert "0.05 s" in said["error"]
    call(f"{line} 0")


@pytest.mark.parametrize("timeout", ["nan", "-1", "inf", "-inf"])
@pytest.mark.parametrize("command", [*WRITERS, "status"])
def test_an_invalid_timeout_is_refused_before_anything_happens(call, campaign, command, timeout):
    before = events("run.db")
    line = f"{command} --state run.db --timeout={timeout} {WRITERS.get(command, '')} --json"
    assert call(line, code=1)["type"] == "ParameterError"
    assert events("run.db") == before


def test_status_and_check_work_while_others_write(call, campaign):
    campaign.ask()
    with campaign.store.locked():
        said = call("status --state run.db --json", code=3)
        assert (len(said["open"]), said["samples"]) == (1, 0)
        assert call("check --state run.db --json")["asked"] == 1


@pytest.mark.parametrize("command", ["init", *WRITERS, "status", "check"])
def test_an_empty_name_of_a_campaign_is_refused(call, command):
    words = ["town"] if command == "init" else WRITERS.get(command, "").split()
    assert call(command, *words, "--state", "", "--json", code=1)["type"] == "ParameterError"
