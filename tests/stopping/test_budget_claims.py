"""What a budget ends with: this run's doubt, and how often such runs are wrong."""

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import BudgetRule, CertifiedRule, TopKOracle, any_of, identify, load_instance
from combopeps.errors import ParameterError

TRUTH = np.array([1.0, 0.2, -0.5])
PROBLEM = unit_problem(TopKOracle(3, k=1))


def run(problem=PROBLEM, **options):
    noise = np.random.default_rng(0)
    return identify(problem, lambda i: TRUTH[i] + noise.normal(), **{"stopping": "budget", "budget": 20} | options)


def test_the_claim_says_both():
    result = run()
    assert result.claim.startswith(
        f"the answer is not the best with posterior probability {result.error_probability:.2g} "
        "(an estimate; Bayesian, prior N(0, 1) in every component); the same policy and budget: wrong in "
    )
    assert "of 100 simulated runs with theta drawn from the prior (95 % interval" in result.claim
    assert result.stop_reason == "budget"
    assert not result.evidence.stop


def test_the_same_seed_says_the_same():
    rule = {"simulations": 50, "seconds": 60.0}
    first, second, other = (run(stopping=BudgetRule(**rule), rng=seed) for seed in (3, 3, 4))
    assert first.claim == second.claim
    assert first.claim != other.claim


def test_simulating_changes_nothing_else():
    with_, without = run(), run(stopping=BudgetRule(simulations=0))
    assert (with_.pulls, with_.answer, with_.error_probability) == (
        without.pulls,
        without.answer,
        without.error_probability,
    )
    assert "simulated" not in without.claim
    assert without.claim.startswith("the answer is not the best with posterior probability")


def test_epsilon_is_in_the_claim():
    strict, lenient = (run(epsilon=epsilon, stopping="budget").claim for epsilon in (0.0, 1.5))
    assert lenient.startswith("the answer is worse than the best by more than 1.5 with posterior probability")
    assert int(lenient.split("wrong in ")[1].split()[0]) < int(strict.split("wrong in ")[1].split()[0])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"budget": None, "budget_cost": 7.5}, "the budget is one of cost"),
        ({"problem": unit_problem(TopKOracle(3, k=1), noise_std=None)}, "the size of the noise is unknown"),
        ({"stopping": BudgetRule(2000, seconds=0.02), "budget": None}, "2000 measurements take longer than 0.02 s"),
    ],
)
def test_why_nothing_was_simulated(options, why):
    claim = run(**options).claim
    assert f"not simulated: {why}" in claim or f"not simulated: 20 runs of {why}" in claim
    assert "posterior probability" in claim


def test_a_policy_that_knows_something_is_not_begun_anew():
    first = run()
    second = run(policy=first.session.policy)
    assert "not simulated: the policy had measured before" in second.claim


def test_fewer_runs_where_all_take_too_long(monkeypatch):
    import combopeps.session.prior_predictive as module

    monkeypatch.setattr(module, "_MAX_POSTERIOR_ENTRIES", 3 * 20)
    assert "of 20 simulated runs" in run().claim
    monkeypatch.setattr(module, "_MAX_POSTERIOR_ENTRIES", 3)
    assert "not simulated" in run().claim


@pytest.mark.parametrize("policy", ["peps", "top-two", "uniform", "lingape", "clucb", "thompson"])
def test_every_policy_can_be_simulated(policy):
    assert "simulated runs" in run(policy=policy, budget=12).claim


def test_initial_designs_and_actions_are_simulated():
    rule = BudgetRule(5, seconds=60.0)
    assert "simulated runs" in run(initial_design=2, stopping=BudgetRule(seconds=60.0)).claim
    town = load_instance("town").problem.copy_with(actions="answers", cost=1.0)
    noise = np.random.default_rng(0)
    result = identify(town, lambda route: noise.normal(size=len(route) - 1), stopping=rule)
    assert "simulated runs" in result.claim


def test_other_rules_still_claim_nothing_at_a_budget():
    assert run(stopping="certified").claim.startswith("none: the run was ended by its budget;")
    both = run(stopping=any_of(CertifiedRule(1e-9), BudgetRule(10)))
    assert both.claim.startswith("none: the run was ended by its budget;")


@pytest.mark.parametrize("options", [{"simulations": -1}, {"simulations": 2.5}, {"simulations": True}, {"seconds": 0}])
def test_bad_options(options):
    with pytest.raises(ParameterError):
        BudgetRule(10, **options)
