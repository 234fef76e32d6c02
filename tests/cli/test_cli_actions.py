"""Whole answers on the command line: asked for part by part, told by pairs, in order or from a file."""

import re
import shlex
from pathlib import Path

import networkx as nx
import pytest
from backends import events
from tampering import image, put
from unit_problem import unit_problem

from combopeps import Campaign, ShortestPathOracle, TopKOracle, load_instance, save_instance
from combopeps.io.instance import Instance


@pytest.fixture
def begun(call):
    """Two queries for routes are open."""
    call("init", "town", "--actions", "answers", "--state", "run.db")
    return call("ask", "--state", "run.db", "-n", 2)


def parts_of(text):
    """The parts of every query, as they were printed."""
    queries = {}
    for line in text.splitlines():
        id, label = line.split("\t")
        if id:
            queries[int(id)] = []
        else:
            queries[max(queries)].append(label.strip())
    return queries


def test_an_action_is_printed_with_its_parts_in_order(call, begun):
    queries = Campaign.open("run.db").open_queries
    assert begun.splitlines()[0] == "0\t" + " -> ".join(queries[0].label)
    assert parts_of(begun) == {q.id: [f"{u} - {v}" for u, v in q.components] for q in queries}
    asked = call("ask", "--state", "run.db", "--json")["queries"][0]
    assert asked["label"][:2] == asked["components"][0]
    assert len(asked["components"]) == len(asked["label"]) - 1


def test_told_in_any_form_it_is_the_same(call, begun, tmp_path):
    parts, start = parts_of(begun), image(tmp_path / "run.db")
    values = {id: [1.5 + id + k for k in range(len(each))] for id, each in parts.items()}
    files = []
    for form in ("pairs", "order", "labels", "columns"):
        put(tmp_path / "run.db", start)
        if form in ("pairs", "order"):
            for id, each in parts.items():
                pairs = [f"{label}={y}" for label, y in zip(each, values[id], strict=True)][::-1]
                call("tell", "--state", "run.db", id, *(pairs if form == "pairs" else values[id]))
        else:
            rows = [(id, part, y) for id in parts for part, y in zip(parts[id], values[id], strict=True)]
            header = "id,label,value" if form == "labels" else "Query,source,target,value"
            lines = [f"{id},{part if form == 'labels' else part.replace(' - ', ',')},{y}" for id, part, y in rows]
            (tmp_path / "told.csv").write_text("\n".join([header, *lines[::-1]]) + "\n")
            call("tell", "--state", "run.db", "--csv", "told.csv")
            call("tell", "--state", "run.db", "--csv", "told.csv")  # harmless
        campaign = Campaign.open("run.db")
        files.append((campaign.posterior.theta_hat.tolist(), campaign.actions, campaign.samples, campaign.open_queries))
    assert files[0] == files[1] == files[2] == files[3]
    assert files[0][1:] == (2, sum(map(len, parts.values())), [])


def test_what_was_not_read_is_left_out(call, begun, tmp_path):
    first = parts_of(begun)[0][0]
    said = call("tell", "--state", "run.db", 0, f"{first}=-2e-1", "--json")
    assert said == {"samples": 1, "open": 1, "actions": 1}
    (tmp_path / "more.csv").write_text(f"id;label;value;sem\n1;{parts_of(begun)[1][1]};3,5;0,25\n")
    assert "2 readings, from 2 actions so far, 0 queries open" in call("tell", "--state", "run.db", "--csv", "more.csv")
    line = events("run.db")[-1]
    assert (line["ys"], line["sems"]) == ([None, 3.5, None], [None, 0.25, None])


BAD = [
    ("0 1 2", "3 parts, got 2", 1),
    ("0 1 2 3 4", "3 parts, got 4", 1),
    ("0 1", "3 parts", 1),
    ("0 nowhere=1", "'nowhere' is not the label", 1),
    ("0 {other}=1", "not on the action", 1),
    ("0 {part}=1 {part}=1", "stands there twice", 1),
    ("0 {part}=1 2 3", "LABEL=VALUE for every part", 1),
    ("0 {part}=nan", "finite", 1),
    ("0 {part}=x", "VALUE", 2),
    ("0 {part}=", "VALUE", 2),
    ("0 =1", "is not the label", 1),
    ("9 {part}=1", "never asked", 1),
    ("0 {part}=1 --sem 1", "--csv", 1),
    ("0", "ID VALUE", 1),
]


@pytest.mark.parametrize(("words", "message", "code"), BAD, ids=[words for words, _, _ in BAD])
def test_mistakes_change_nothing(call, begun, tmp_path, words, message, code):
    parts = parts_of(begun)
    other = next(label for label in parts[1] if label not in parts[0])
    before = events("run.db")
    spoken = [word.format(part=parts[0][0], other=other) for word in words.split(" ")]
    assert message in call("tell", "--state", "run.db", *spoken, code=code)
    assert events("run.db") == before


ROWS = [
    ("id,value\n0,1\n", "what was measured"),
    ("label,value\n{part},1\n", "numbers of the queries"),
    ("id,label,value\n0,{part},1\n0,{part},1\n", "line 3"),
    ("id,label,value\n0,{part},1\n0,nowhere,1\n", "line 3"),
    ("id,label,value\n0,{part},1\nx,{part},1\n", "line 3"),
    ("id,label,value\n0,{part},1\n9,{part},1\n", "query 9"),
    ("id,label,value\n0,{part},1\n0,{other},1\n", "not on the action"),
    ("id,label,value\n1,{other},1\n0,{part},\n", "line 3"),
    ("id,label,value,sem\n0,{part},1,-1\n", "line 2"),
]


@pytest.mark.parametrize(("rows", "message"), ROWS, ids=range(len(ROWS)))
def test_bad_files_change_nothing(call, begun, tmp_path, rows, message):
    parts = parts_of(begun)
    other = next(label for label in parts[1] if label not in parts[0])
    (tmp_path / "bad.csv").write_text(rows.format(part=parts[0][0], other=other))
    before = events("run.db")
    assert message in call("tell", "--state", "run.db", "--csv", "bad.csv", code=1)
    assert events("run.db") == before


def test_single_measurements_are_told_as_before(call, tmp_path):
    call("init", "town", "--state", "run.db")
    call("ask", "--state", "run.db", "-n", 2)
    before = events("run.db")
    for words in (["0", "1", "2"], ["0", "station - market=1"]):
        assert "one number" in call("tell", "--state", "run.db", *words, code=1)
    assert events("run.db") == before
    (tmp_path / "told.csv").write_text("id,label,value\n0,whatever,1\n1,this is,2\n")  # labels are not read here
    assert call("tell", "--state", "run.db", "--csv", "told.csv", "--json") == {"samples": 2, "open": 0}
    assert call("status", "--state", "run.db", "--json", code=3)["actions"] is None


def test_status_shows_both_counts(call, begun):
    call("tell", "--state", "run.db", 0, 4, 3, 2)
    text = call("status", "--state", "run.db", code=3)
    assert "samples        3 readings, from 1 action\n" in text
    document = call("status", "--state", "run.db", "--json", code=3)
    assert (document["samples"], document["actions"]) == (3, 1)
    assert [query["id"] for query in document["open"]] == [1]
    assert document["open"][0]["label"][0] == "station"
    assert len(document["open"][0]["components"]) == 3
    assert call("check", "--state", "run.db", "--json")["told"] == 3


def test_solve_and_show(call, tmp_path):
    done = call("solve", "town", "--actions", "answers", "--part-cost", 0.5, "--cost", 2, "--json")
    assert done["correct"]
    assert done["actions"] < done["samples"]
    assert done["cost"] == 2 * done["actions"] + 0.5 * done["samples"]
    assert done["samples"] == sum(count for _, count in done["pulls"])
    text = call("solve", "town", "--actions", "answers", "--batch", 4, "--plot", "town.png")
    assert "readings, from" in text
    assert (tmp_path / "town.png").stat().st_size > 1000
    assert call("solve", "town", "--json")["actions"] is None
    shown = call("show", "cyclic-matching", "--actions", "answers", "--part-cost", 0.5)
    assert "whole answers" in shown
    assert "cost 1 per action and 0.5 per part" in shown
    assert call("show", "town", "--actions", "answers", "--json")["actions"] == "whole answers"
    table = call("compare", "cyclic-matching", "--actions", "answers", "--policies", "top-two,lingame", "--runs", 4,
                 "--budget", 40)  # fmt: skip
    assert "actions until" in table
    assert "chooses single arms" in table


def test_options_that_make_no_sense_are_refused(call, tmp_path):
    town = load_instance("town")
    save_instance(Instance("whole", unit_problem(town.oracle, actions="answers"), town.theta), tmp_path / "whole.json")
    save_instance(Instance("dear", unit_problem(town.oracle, cost=2.0), town.theta), tmp_path / "dear.json")
    assert "leave it out" in call("show", "town", "--part-cost", 1, code=1)
    assert "a number" in call("show", "town", "--actions", "answers", "--cost", "minutes", code=1)
    assert "leave --actions out" in call("show", "whole.json", "--actions", "answers", code=1)
    assert "--part-cost of actions" in call("show", "dear.json", "--actions", "answers", code=1)
    assert "single arms" in call("init", "town", "--actions", "answers", "--policy", "lingape", "--state", "r", code=1)
    call("show", "town", "--actions", "roads", code=2)
    assert call("solve", "whole.json", "--json")["actions"] > 0
    assert not (tmp_path / "r").exists()


def test_costs_of_parts_come_from_a_column(call, tmp_path):
    (tmp_path / "beers.csv").write_text("item,mean,price\nale,1,2\nbock,5,0.5\ncider,3,1\n")
    words = ["--k", "2", "--actions", "answers", "--part-cost", "price", "--cost", "10"]
    call("init", "beers.csv", *words, "--state", "run.db")
    actions = Campaign.open("run.db").problem.actions
    assert (actions.cost, actions.part_cost.tolist()) == (10.0, [2.0, 0.5, 1.0])


def test_labels_with_equals_signs_and_sets_of_numbers(call):
    Campaign.create("items.db", unit_problem(TopKOracle(["a=b", 7, "-c"], k=3), actions=[[1, 1, 1]]))
    assert call("ask", "--state", "items.db").splitlines() == ["0\t0", "\t  a=b", "\t  7", "\t  -c"]
    call("tell", "--state", "items.db", "0", "a=b=1", "7=2", "--", "-c=3")
    assert Campaign.open("items.db").status().pulls == {"a=b": 1, 7: 1, "-c": 1}


def test_parallel_roads_are_told_apart(call, tmp_path):
    graph = nx.MultiGraph([("s", "t", "fast"), ("s", "t", "slow")])
    Campaign.create("run.db", unit_problem(ShortestPathOracle(graph, "s", "t"), actions="answers"))
    text = call("ask", "--state", "run.db", "-n", 2)
    assert sorted(part for each in parts_of(text).values() for part in each) == ["s - t - fast", "s - t - slow"]
    assert "s -[" in text
    key = parts_of(text)[0][0].split(" - ")[2]
    (tmp_path / "told.csv").write_text(f"id,source,target,key,value\n0,s,t,{key},1.5\n")
    call("tell", "--state", "run.db", "--csv", "told.csv")
    assert Campaign.open("run.db").samples == 1


def test_the_page_shows_what_is_printed(call):
    """The block of docs/campaigns.md, command by command."""
    page = (Path(__file__).parents[2] / "docs" / "campaigns.md").read_text()
    block = re.search(r"^```console\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1]
    for part in block.split("$ combopeps ")[1:]:
        command, _, output = part.partition("\n")
        assert call(*shlex.split(command)) == output
