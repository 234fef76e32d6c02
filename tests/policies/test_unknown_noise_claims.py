"""Problem(noise_std=None): claims say so, guarantees are refused, and campaigns know it."""

import warnings

import numpy as np
import pytest
from sessions import session_of
from unit_problem import unit_problem
from unknown_cases import measure, readings, units

from combopeps import (
    Box,
    Campaign,
    CertifiedRule,
    DoublingPEPS,
    PosteriorRule,
    TopKOracle,
    TopTwo,
    any_of,
    identify,
    lower_bound,
    simulate,
)
from combopeps.errors import ParameterError, PriorWarning
from combopeps.policies import CLUCB

# ------------------------------------------------------------------------------------------------ claims and refusals


def test_claim_and_result():
    problem = units()
    theta = np.array([0.0, 1.0, 2.0, -1.0, 0.5])
    result = identify(problem, measure(problem, theta, 0.3, np.random.default_rng(0)))
    assert "noise estimated from the data" in result.claim
    assert "degrees of freedom" in result.claim
    assert result.noise_estimate.low < 0.3 < result.noise_estimate.high
    assert "noise is an estimate" in identify(problem, measure(problem, theta, 0.3, np.random.default_rng(0)),
                                              stopping="heuristic").claim  # fmt: skip
    stated = units(noise_std=0.3, noise_ratio=None)
    known = identify(stated, measure(stated, theta, None, np.random.default_rng(0)))
    assert known.noise_estimate is None
    assert "estimated" not in known.claim


def never(label):
    raise AssertionError("measured")


@pytest.mark.parametrize(
    "rule",
    ["certified", "verified", "clucb", any_of(PosteriorRule(0.05), CertifiedRule(0.05))],
    ids=lambda rule: rule if isinstance(rule, str) else "any_of",
)
def test_guarantees_are_refused_before_a_measurement(rule):
    with pytest.raises(ParameterError, match=r'state noise_std .*or use stopping="posterior"'):
        identify(units(), never, stopping=rule)


def test_the_refusal_tells_what_is_known():
    policy = TopTwo(units(), 0)
    policy.learn_many(*readings())
    with pytest.raises(
        ParameterError, match=r"measurements so far say 0\.\d+ \(0\.\d+ to 0\.\d+, 55 degrees of freedom"
    ):
        identify(policy.problem, never, policy=policy, stopping="certified")


def test_what_needs_the_noise_says_so(tmp_path):
    for refused in (
        lambda: lower_bound(units(), np.arange(5.0)),
        lambda: CLUCB(units()),
        lambda: DoublingPEPS(units(space=Box(-1.0, 1.0))),
    ):
        with pytest.raises(ParameterError, match=r"needs the size of the noise.* state noise_std"):
            refused()
    with pytest.raises(ParameterError, match="true_noise_std"):
        simulate(units(), np.arange(5.0), budget=10, replications=1)
    with pytest.raises(ParameterError, match="true_noise_std"):
        simulate(unit_problem(TopKOracle(5, k=2)), np.arange(5.0), budget=10, replications=1, true_noise_std=1.0)
    with pytest.raises(ParameterError, match="noise_std"):
        Campaign.create(tmp_path / "a.db", units(), stopping="certified")
    assert not (tmp_path / "a.db").exists()


def test_simulate():
    easy, hard = (
        simulate(units(), np.arange(5.0), budget=60, replications=100, true_noise_std=sigma) for sigma in (0.1, 10.0)
    )
    assert easy.correct[:, -1].mean() == 1.0
    assert hard.correct[:, -1].mean() < 0.7


def test_guards():
    """The noise cannot contradict what was not stated; the prior is held against results once the noise is known."""
    session = session_of(TopTwo, units(noise_ratio=None, prior_mean=0.0, prior_std=1.0))
    rng = np.random.default_rng(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(100):
            session.observe(i % 5, 30.0 * rng.normal())
    assert session.status().warning == ""
    with pytest.warns(PriorWarning, match="1 is .* standard deviations off its prior mean 0"):
        session.observe_table([(1, 500.0 + 30.0 * rng.normal()) for _ in range(20)], confirm=True)


# ------------------------------------------------------------------------------------------------ campaigns


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_campaigns(policy, tmp_path):
    """Who looks changes nothing; nor does reopening, but for what PEPS has learnt from its own choices."""
    problem, theta = units(), np.array([0.0, 2.0, 3.0, -1.0, -0.5])
    measured = measure(problem, theta, 0.3, np.random.default_rng(0))
    first = Campaign.create(tmp_path / "a.db", problem, policy=policy)
    assert first.problem.noise_std is None
    assert (first.problem.noise == problem.noise).all()
    second, asked = Campaign.create(tmp_path / "b.db", problem, policy=policy), []
    for i in range(60):
        query = first.ask()
        y = measured(query.label)
        first.tell(query, y)
        if i % 3 == 0:
            first.status()
        if i % 7 == 0 and policy != "peps":
            second = Campaign.open(tmp_path / "b.db")
        again = second.ask()
        asked.append((query.label, again.label))
        second.tell(again, y)
    assert all(one == other for one, other in asked)
    status = first.status()
    assert status.stop
    assert "noise estimated" in status.claim
    assert status.noise_estimate.low < 0.3 < status.noise_estimate.high
    assert status.warning == ""
    assert np.array_equal(Campaign.open(tmp_path / "a.db").belief.theta_hat, first.belief.theta_hat)
