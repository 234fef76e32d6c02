"""Actions in instance files: round trips, and errors by field."""

import json

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import ShortestPathOracle, TopKOracle, load_instance, save_instance, simulate
from combopeps.errors import InstanceError
from combopeps.io import Instance
from combopeps.io.instance_files import from_document, to_document

TEAM = TopKOracle(["a", "b", "c"], k=2)
ROUTES = ShortestPathOracle(nx.Graph([(0, 1), (1, 3), (0, 2), (2, 3), (1, 9)]), 0, 3)
PROBLEMS = {
    "answers": unit_problem(TEAM, actions="answers"),
    "priced": unit_problem(TEAM, actions="answers", cost=3.0, part_cost=[0.0, 0.5, 1.0]),
    "rows": unit_problem(TEAM, actions={"x": [1, 1, 0], ("y", 1): [0, 0, 1]}),
    "numbers": unit_problem(TEAM, actions=np.array([[1, 1, 0], [0, 0, 1]])),
    "another": unit_problem(TEAM, actions=TopKOracle(["c", "b", "a", "z"], k=3)),
    "routes": unit_problem(ROUTES, actions="answers", part_cost=0.5),
    "some routes": unit_problem(ROUTES, actions=[[1, 1, 0, 0], [0, 0, 1, 1]]),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_round_trip(tmp_path, name):
    problem = PROBLEMS[name]
    theta = np.arange(1.0, problem.oracle.dim + 1)
    save_instance(Instance("it", problem, theta), tmp_path / "it.json")
    again = load_instance(tmp_path / "it.json")
    assert to_document(again) == to_document(Instance("it", problem, theta))
    mine, theirs = problem.actions, again.problem.actions
    assert (theirs.cost, theirs.part_cost.tolist()) == (mine.cost, mine.part_cost.tolist())
    runs = [simulate(p, theta, budget=20, replications=3, rng=1).pulls for p in (problem, again.problem)]
    np.testing.assert_array_equal(*runs)


def test_files_without_actions_have_no_such_field():
    document = to_document(Instance("it", unit_problem(TEAM)))
    assert not {"actions", "part_cost", "cost"} & document.keys()


def document(**fields):
    said = to_document(Instance("it", PROBLEMS["answers"]))
    del said["sha256"]
    return json.loads(json.dumps(said | fields))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"actions": "everything"}, "actions"),
        ({"actions": 3}, "actions"),
        ({"actions": {"rows": []}}, "actions.rows"),
        ({"actions": {"rows": [["a", "b"], []]}}, "actions.rows[1]"),
        ({"actions": {"rows": [["a", "b"], ["x"]]}}, "actions.rows[1]"),
        ({"actions": {"rows": [["a", "b"], ["c", "c"]]}}, "actions.rows[1][1]"),
        ({"actions": {"rows": [["a", "b"], ["c"]], "labels": ["one"]}}, "actions.labels"),
        ({"actions": {"rows": [["a", "b"]]}}, "actions"),  # nothing shows c
        ({"actions": {"kind": "topk", "items": ["p", "q"], "k": 1}}, "actions"),
        ({"actions": {"kind": "magic"}}, "actions.kind"),
        ({"cost": [1.0, 2.0, 3.0]}, "actions"),
        ({"part_cost": -1.0}, "actions"),
        ({"part_cost": [1.0]}, "part_cost"),
        ({"part_cost": "much"}, "part_cost"),
        ({"arms": {"components": ["a", "b"]}}, "actions"),
    ],
)
def test_invalid_actions_are_rejected_by_field(fields, field):
    with pytest.raises(InstanceError) as caught:
        from_document(document(**fields))
    assert caught.value.field == field


def test_part_costs_without_actions_are_refused():
    said = document(part_cost=1.0)
    del said["actions"]
    with pytest.raises(InstanceError, match="part_cost is for actions"):
        from_document(said)
