"""`observe` understands what `ask` prints, and takes files."""

import networkx as nx
import pytest
from backends import events
from unit_problem import unit_problem

from combopeps import Campaign, MatchingOracle, ShortestPathOracle, TopKOracle


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
def test_what_is_asked_can_be_said_back(call, tmp_path, name):
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


def test_what_may_mean_two_things_is_refused_with_the_cure(call, tmp_path):
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


def test_a_map_of_more_than_is_measured(call, tmp_path):
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
def test_what_is_refused(call, tmp_path, words, code, part):
    Campaign.create("run.db", unit_problem(TopKOracle(["a", "b"], k=1)))
    (tmp_path / "x.csv").write_text("label,value\na,1\nb,NA\n")
    before = events("run.db")
    assert part in call("observe", "--state", "run.db", "--json", *words, code=code)["error"]
    assert events("run.db") == before


def test_results_of_queries_from_a_spreadsheet(call, tmp_path):
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
