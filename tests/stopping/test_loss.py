"""`stopping="loss"`: the expected loss at the stop is at most epsilon, on average over the prior too."""

import numpy as np
import pytest
from scipy.stats import t as student
from slow_oracle import Slow

from combopeps import BudgetRule, Campaign, MatchingOracle, Problem, Session, TopKOracle, any_of, identify, plan
from combopeps.errors import ParameterError
from combopeps.stopping import LossRule, PosteriorRule, stopping_rule

EPSILON = 0.15


def losses(runs, noise_factor=1.0, oracle=None, **options):
    """Real losses of runs with theta from the prior; the noise is `noise_factor` times the stated one."""
    oracle = TopKOracle(8, 3) if oracle is None else oracle
    problem = Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    found = []
    for seed in range(runs):
        rng = np.random.default_rng([seed, 5])
        theta = dict(enumerate(rng.normal(size=oracle.dim)))
        values = np.array(list(theta.values()))
        result = identify(
            problem, lambda i, rng=rng, theta=theta: theta[i] + noise_factor * rng.normal(), stopping="loss",
            epsilon=EPSILON, rng=seed, **options,
        )  # fmt: skip
        assert result.stop_reason == "loss"
        found.append(float((oracle.argmax(values) - result.z) @ values))
    return np.array(found)


def test_mean_losses_over_the_prior_are_at_most_epsilon():
    """One-sided t test at level 1e-4 over 150 runs; runs with five times the stated noise must fail it."""

    def exceeds(found):
        return found.mean() - EPSILON > student.isf(1e-4, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found))

    honest = losses(150)
    assert not exceeds(honest)
    assert honest.mean() > EPSILON / 10  # the rule does not measure far more than necessary
    with pytest.warns(UserWarning, match="noise"):
        assert exceeds(losses(60, noise_factor=5.0))


def test_the_claim_states_the_loss_and_its_assumptions():
    rng = np.random.default_rng(0)
    problem = Problem(TopKOracle(["a", "b", "c"], 1), noise_std=1.0, prior_mean=0.0, prior_std=2.0)
    result = identify(problem, lambda x: "abc".index(x) + rng.normal(), stopping="loss", epsilon=0.2)
    assert (
        result.claim == "the expected loss of the answer is at most 0.2 (Bayesian, prior N(0, 2^2) in every component)"
    )
    assert result.expected_loss <= 0.2
    assert result.evidence.stop
    assert result.evidence.statistic <= result.evidence.threshold == 0.2
    assert result.rule == "loss"


def test_it_stops_long_before_the_error_probability_is_small():
    oracle = MatchingOracle(20, 20, maximize=False)
    rng = np.random.default_rng(2)
    theta = dict(zip(oracle.components, rng.normal(20.0, 4.0, size=oracle.dim), strict=True))
    problem = Problem(oracle, noise_std=2.0, prior_mean=20.0, prior_std=4.0)
    result = identify(
        problem,
        lambda pairs: [theta[e] + 2.0 * rng.normal() for e in pairs],
        stopping="loss",
        epsilon=3.0,
        batch_size=20,
        budget=8000,
    )
    values = np.array(list(theta.values()))
    assert result.stop_reason == "loss"
    assert result.error_probability > 0.2  # of a loss above 3 or so: far from certain
    assert float((oracle.argmax(values) - result.z) @ values) < 9.0


def test_an_epsilon_is_required():
    for make in (
        lambda: LossRule(0.0),
        lambda: stopping_rule("loss", 0.05),
        lambda: Session(TopKOracle(3, 1), stopping="loss"),
        lambda: identify(TopKOracle(3, 1), float, stopping="loss"),
    ):
        with pytest.raises(ParameterError, match="needs an epsilon"):
            make()
    for epsilon in (-1.0, float("nan"), float("inf"), "1"):
        with pytest.raises(ParameterError):
            LossRule(epsilon)


def test_with_estimated_noise_and_prior_it_waits_for_four_degrees_of_freedom():
    rng = np.random.default_rng(3)
    result = identify(TopKOracle(5, 1), lambda i: 100.0 * i + rng.normal(), stopping="loss", epsilon=50.0)
    assert result.stop_reason == "loss"
    assert result.posterior.dof[0] >= 4
    assert "estimated from the data" in result.claim


def test_a_slow_oracle_is_called_only_near_the_stop():
    """Known answers decide as long as their loss is larger: looks take at most three calls per measurement and 320."""

    def run(**options):
        oracle, rng = Slow(TopKOracle(12, 3)), np.random.default_rng(4)
        theta = rng.normal(size=12)
        problem = Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
        return identify(problem, lambda i: theta[i] + rng.normal(), **options), oracle.rows

    result, rows = run(stopping="loss", epsilon=0.3)
    _, without_rule = run(stopping=BudgetRule(simulations=0), budget=result.samples)
    assert result.stop_reason == "loss"
    assert rows - without_rule <= 3 * result.samples + 64 + 256
    assert result.expected_loss <= 0.3


def test_it_combines_with_other_rules():
    rng = np.random.default_rng(5)
    problem = Problem(TopKOracle(4, 1), noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    rule = any_of(LossRule(0.05), PosteriorRule(0.01))
    result = identify(problem, lambda i: 0.5 * i + rng.normal(), stopping=rule)
    assert result.stop_reason in ("loss", "posterior")
    assert rule.delta == 0.01
    assert any_of(LossRule(0.05)).delta == 1.0


def test_campaigns_and_plans_use_it(tmp_path):
    problem = Problem(TopKOracle(["a", "b"], 1), noise_std=1.0, prior_mean=0.0, prior_std=3.0)
    campaign = Campaign.create(tmp_path / "c.db", problem, stopping="loss", epsilon=0.1)
    for label, y in (("a", 3.0), ("b", 0.0)) * 4:
        campaign.observe(label, y)
    status = Campaign.open(tmp_path / "c.db").status()
    assert status.stop
    assert status.claim.startswith("the expected loss of the answer is at most 0.1")
    forecast = plan(problem, stopping=["loss", "posterior"], epsilon=0.1, runs=20, seconds=None)["loss"]
    assert forecast.share_ended.value == 1.0
    assert forecast.mean_loss.value < 0.3
    assert 2 <= forecast.mean_samples.value < 60
