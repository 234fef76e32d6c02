"""`GuaranteedRule` takes the rule that suits the problem, does exactly what that one does, and says which it was."""

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Campaign, CertifiedRule, Session, ShortestPathOracle, TopKOracle, VerifiedRule, identify
from combopeps.errors import ParameterError
from combopeps.stopping import GuaranteedRule

TRUTH = {"a": 0.1, "b": 2.0, "c": 1.0}


def run(stopping, **options):
    noise = np.random.default_rng(0)
    problem = unit_problem(TopKOracle(list(TRUTH), k=1), **options)
    one = "actions" not in options

    def measure(label):
        return TRUTH[label] + noise.normal() if one else [TRUTH[item] + noise.normal() for item in label]

    return identify(problem, measure, stopping=stopping, rng=3)


@pytest.mark.parametrize(
    ("delta", "options", "twin"),
    [(0.05, {}, VerifiedRule), (0.05, {"actions": "answers"}, CertifiedRule), (1e-120, {}, CertifiedRule)],
)
def test_it_is_the_rule_that_it_took(delta, options, twin):
    ours, theirs = run(GuaranteedRule(delta), **options), run(twin(delta), **options)
    assert (ours.samples, ours.pulls, ours.answer) == (theirs.samples, theirs.pulls, theirs.answer)
    assert ours.stop_reason == theirs.stop_reason == twin.name
    assert ours.claim.startswith(theirs.claim)
    assert f"the rule was {twin.name}" in ours.claim


@pytest.mark.parametrize(("side", "twin"), [(12, "certified"), (3, "verified")])
def test_large_roads_with_cycles_are_for_the_certified_rule(side, twin, tmp_path):
    problem = unit_problem(ShortestPathOracle(nx.grid_2d_graph(side, side), (0, 0), (side - 1, side - 1)))
    assert Session(problem, stopping="guaranteed").rule.rule.name == twin
    assert Campaign.create(tmp_path / "run.db", problem, stopping="guaranteed").rule.rule.name == twin


def test_what_no_rule_can_promise_is_refused():
    with pytest.raises(ParameterError, match="state noise_std"):
        run("guaranteed", noise_std=None)
