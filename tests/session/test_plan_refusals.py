"""Invalid arguments of `plan` raise typed errors before any run begins."""

import time

import networkx as nx
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Box, ComboPepsError, PosteriorRule, ShortestPathOracle, TopKOracle, load_instance, plan
from combopeps.errors import DomainError, LabelError, ParameterError, PriorWarning, ThetaError, TieError
from combopeps.session import plan as plan_module

LABELS = ["a", "b", "c", "d"]
PROBLEM = unit_problem(TopKOracle(LABELS, k=1), prior_std=2.0)
GOOD = [0.0, 1.0, 2.0, 0.5]
TRIANGLE = unit_problem(ShortestPathOracle(nx.Graph([("a", "b"), ("b", "c"), ("a", "c")]), "a", "c"))

BAD = {
    "too short": ({"theta": GOOD[:3]}, ThetaError, "each of the 4 components"),
    "too long": ({"theta": [*GOOD, 1.0]}, ThetaError, "each of the 4 components"),
    "a table": ({"theta": [GOOD]}, ThetaError, "each of the 4 components"),
    "one number": ({"theta": 1.0}, ThetaError, "each of the 4 components"),
    "NaN": ({"theta": [*GOOD[:3], np.nan]}, ThetaError, "finite"),
    "infinite": ({"theta": [*GOOD[:3], np.inf]}, ThetaError, "finite"),
    "words": ({"theta": list("abcd")}, ThetaError, "real numbers"),
    "unknown label": ({"theta": dict(zip("abcx", GOOD, strict=True))}, LabelError, "'x', which is not one of"),
    "missing label": ({"theta": {"a": 1.0, "b": 2.0}}, ParameterError, "says nothing about 2 of 4"),
    "tie": ({"theta": [1.0, 1.0, 0.0, 0.0]}, TieError, "equally good"),
    "all alike": ({"theta": [0.0] * 4}, TieError, "equally good"),
    "std without theta": ({"theta_std": 0.1}, ParameterError, "say theta="),
    "negative std": ({"theta": GOOD, "theta_std": -0.1}, ParameterError, "must not be negative"),
    "NaN std": ({"theta": GOOD, "theta_std": np.nan}, ParameterError, "theta_std"),
    "std of a wrong length": ({"theta": GOOD, "theta_std": [0.1, 0.2]}, ParameterError, "2 numbers"),
    "no runs": ({"runs": 0}, ParameterError, "runs must be an integer of at least 1"),
    "half a run": ({"runs": 1.5}, ParameterError, "runs"),
    "negative runs": ({"runs": -3}, ParameterError, "runs"),
    "delta 0": ({"delta": 0.0}, ParameterError, "delta"),
    "delta 1": ({"delta": 1.0}, ParameterError, "delta"),
    "delta NaN": ({"delta": np.nan}, ParameterError, "delta"),
    "no such rule": ({"stopping": "lucky"}, ParameterError, "unknown stopping rule 'lucky'"),
    "one rule of two": ({"stopping": ["posterior", "lucky"]}, ParameterError, "lucky"),
    "no rule": ({"stopping": []}, ParameterError, "name of a rule"),
    "twice": ({"stopping": ["posterior", "posterior"]}, ParameterError, "different names"),
    "an object": ({"stopping": PosteriorRule(0.1)}, ParameterError, "name of a rule"),
    "no budget": ({"stopping": "budget"}, ParameterError, "needs a budget"),
    "budget 0": ({"budget": 0}, ParameterError, "budget must be an integer"),
    "below the first initial design": ({"budget": 3}, ParameterError, "each of the 4 arms once: give at least 4"),
    "below two initial designs": ({"budget": 7, "initial_design": 2}, ParameterError, "arms 2 times: give at least 8"),
    "a policy that initial designs": (
        {"budget": 3, "initial_design": 0, "policy": "lingape"},
        ParameterError,
        "give at least 4",
    ),
    "no such policy": ({"policy": "best"}, ParameterError, "unknown policy"),
    "no such noise": ({"noise": "pink"}, ParameterError, "no noise is called"),
    "means that noise cannot have": ({"theta": GOOD, "noise": "bernoulli"}, ParameterError, "needs means from 0 to 1"),
    "draws that noise cannot have": ({"noise": "bernoulli"}, ParameterError, "needs means from 0 to 1"),
    "noise that is known": ({"true_noise_std": 1.0}, ParameterError, "give both, or neither"),
    "no time": ({"seconds": 0.0}, ParameterError, "seconds must be a positive number"),
    "no processes": ({"n_jobs": 0}, ParameterError, "n_jobs"),
    "most": ({"most": 0}, ParameterError, "most"),
    "seed": ({"rng": -1}, ParameterError, "rng"),
    "epsilon": ({"epsilon": -1.0}, ParameterError, "epsilon"),
}


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    def run(*task):
        raise AssertionError("a run was begun")

    monkeypatch.setattr(plan_module, "planned_run", run)


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    options, error, words = BAD[case]
    begin = time.perf_counter()
    with pytest.raises(error, match=words) as seen:
        plan(PROBLEM, **options)
    assert isinstance(seen.value, ComboPepsError)
    assert time.perf_counter() - begin < 5.0


def test_thetas_outside_the_parameter_space():
    with pytest.raises(DomainError, match="theta >= 0 only"):
        plan(TRIANGLE, theta=[1.0, -1.0, 1.0])
    boxed = unit_problem(TopKOracle(LABELS, k=1), space=Box(0.0, 1.5), prior_std=2.0)
    with pytest.raises(DomainError, match="outside Box"):
        plan(boxed, theta=GOOD)


def test_noise_of_unknown_size_requires_true_noise_std():
    with pytest.raises(ParameterError, match="true_noise_std is the size"):
        plan(unit_problem(TopKOracle(LABELS, k=1), noise_std=None), theta=GOOD)
    with pytest.raises(ParameterError, match="noise of a stated size"):
        plan(unit_problem(TopKOracle(LABELS, k=1), noise_std=None), true_noise_std=1.0, stopping="certified")


def test_rules_that_do_not_fit_the_problem():
    town = load_instance("town")
    with pytest.raises(ParameterError, match="plans single measurements"):
        plan(town.problem.copy_with(actions="answers", cost=1.0), stopping="verified")


def test_a_guess_that_contradicts_the_prior_warns():
    far = unit_problem(TopKOracle(LABELS, k=1), prior_std=0.1)
    with pytest.warns(PriorWarning, match="'c', where the problem expects 0"), pytest.raises(AssertionError):
        plan(far, theta=GOOD)


@pytest.mark.parametrize("options", [{"budget": 4}, {"budget": 3, "initial_design": 0}, {"theta": dict(zip("dcba", GOOD, strict=True))},
                                     {"theta": [1.0, 1.0, 0.0, 0.0], "theta_std": 0.1}, {"theta": GOOD, "theta_std": {"a": 0.1, "b": 0, "c": 1, "d": 2}}])  # fmt: skip
def test_valid_input_is_accepted(options):
    with pytest.raises(AssertionError, match="a run was begun"):
        plan(PROBLEM, **options)
