"""Gaps from a thousandth to a million times the noise, deltas far out in the tail: a plan is finite, a run ends."""

import networkx as nx
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import norm
from unit_problem import unit_problem
from unlisted import Unlisted

from combopeps import ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle, TopTwo, VerifiedRule, identify
from combopeps.errors import ParameterError
from combopeps.stopping import View
from combopeps.stopping.certificates.alpha_spending import boundaries, share_at
from combopeps.stopping.certificates.fixed_plan import plan_counts


def routes():
    return ShortestPathOracle(nx.DiGraph([("s", "a"), ("a", "t"), ("s", "b"), ("b", "t")]), "s", "t")


def cyclic():
    return ShortestPathOracle(nx.Graph([("s", "a"), ("a", "t"), ("s", "b"), ("b", "t"), ("a", "b")]), "s", "t")


ORACLES = {
    "top-k": lambda: TopKOracle(4, k=2),
    "routes": routes,
    "cyclic": cyclic,
    "matching": lambda: MatchingOracle(2, 2),
    "listed": lambda: ExplicitOracle(np.eye(3)),
}


def truth(oracle, gap):
    """One answer is better than all others by the gap."""
    best = oracle.argmax(np.arange(1.0, oracle.dim + 1.0))
    theta = np.where(best != 0.0, gap * np.sign(oracle.unit), 0.0) / max(1, np.count_nonzero(best))
    return theta + (gap if oracle.domain == "nonnegative" else 0.0)


by_bets_and_by_plan = pytest.mark.parametrize("hidden", [lambda oracle: oracle, Unlisted], ids=["bets", "plan"])


@by_bets_and_by_plan
@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("gap", [3.0, 1e3, 1e6])
def test_easy_problems_are_verified(kind, gap, hidden):
    oracle = hidden(ORACLES[kind]())
    theta, noise = truth(oracle, gap), np.random.default_rng(0)
    means = dict(zip(oracle.components, theta, strict=True))
    for noise_std in (1.0, 1e-3):
        problem = unit_problem(oracle, noise_std=noise_std, prior_std=gap * noise_std)
        result = identify(
            problem, lambda x, s=noise_std: s * (means[x] + noise.normal()), stopping="verified", budget=3000
        )
        assert result.stop_reason == "verified"
        np.testing.assert_array_equal(result.z, oracle.argmax(theta))


def test_the_routes_of_one_and_eleven():
    length = {("s", "a"): 1.0, ("a", "t"): 1.0, ("s", "b"): 11.0, ("b", "t"): 1.0}
    noise = np.random.default_rng(0)
    result = identify(
        unit_problem(routes(), noise_std=0.1, prior_std=12.0),
        lambda road: length[road] + 0.1 * noise.normal(),
        stopping="verified",
    )
    assert (result.answer, result.stop_reason) == (["s", "a", "t"], "verified")
    assert result.samples < 100


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("gap", [1e-3, 1e-1, 1e3, 1e6])
def test_plans_are_finite(kind, gap):
    """And of the size that a test of two means at this gap needs: (2 to 6 quantiles / gap)^2 per component."""
    oracle = ORACLES[kind]()
    theta = truth(oracle, gap)
    policy = TopTwo(unit_problem(oracle), 0)
    each = max(2, int((2.0 / gap) ** 2))
    policy.pulls[0], policy.weights[0], policy.totals[0] = each, each, each * theta
    flat = View(policy, 0).without_prior()
    n = plan_counts(flat.posterior, oracle, flat.z_hat, 2.0, 0.3, flat.rng)
    assert np.isfinite(n).all()
    assert (n >= 0).all()
    assert n.sum() < 2000.0 * oracle.dim / min(gap, 1.0) ** 2


def test_what_no_plan_can_do_is_said():
    oracle = ExplicitOracle(np.eye(2))
    policy = TopTwo(unit_problem(oracle), 0)
    policy.pulls[0], policy.weights[0], policy.totals[0] = 10**18, 1e18, [1e10, 0.0]  # a gap of 1e-8, known to 1e-9
    flat = View(policy, 0).without_prior()
    with pytest.raises(ParameterError, match="epsilon"):
        plan_counts(flat.posterior, oracle, flat.z_hat, 2.0, 0.3, flat.rng)


@pytest.mark.parametrize("delta", [1e-3, 1e-15, 1e-30, 1e-60, 1e-100])
def test_boundaries_spend_what_they_say(delta):
    """The second of two looks by a one-dimensional integral, in logarithms."""
    t, spend = np.array([0.5, 1.0]), np.array([0.4, 0.6]) * delta
    c = boundaries(t, spend)
    assert norm.sf(c[0]) == pytest.approx(spend[0], rel=1e-9)
    peak = 0.5 * c[1]  # where a path that ends at c_2 most likely was, in units of B(1/2)

    def log_density(x):
        return norm.logpdf(x, scale=np.sqrt(0.5)) + log_ndtr((x - c[1]) / np.sqrt(0.5))

    level = log_density(min(peak, c[0] * np.sqrt(0.5)))
    upper = c[0] * np.sqrt(0.5)
    crossed = quad(lambda x: np.exp(log_density(x) - level), upper - 30.0, upper, limit=1000, points=[min(peak, upper)])
    assert np.log(crossed[0]) + level == pytest.approx(np.log(spend[1]), abs=1e-3)


def test_a_delta_below_what_is_right_is_refused():
    with pytest.raises(ParameterError, match="certified"):
        VerifiedRule(1e-150)


@by_bets_and_by_plan
@pytest.mark.parametrize("delta", [1e-12, 1e-30])
def test_tiny_deltas_take_as_long_as_they_must(delta, hidden):
    """At least as long as a test of two means at this level on its own."""
    noise = np.random.default_rng(1)
    result = identify(
        unit_problem(hidden(TopKOracle(2, k=1))),
        lambda i: [2.0, 0.0][i] + noise.normal(),
        stopping=VerifiedRule(delta),
        budget=20_000,
    )
    assert result.stop_reason == "verified"
    assert result.samples > 4 * 0.5 * (norm.isf(delta) / 2.0) ** 2


def test_shares_sum_to_one():
    total = sum(share_at(t) for t in range(1, 2**14))
    assert total == pytest.approx(1.0 - 1.0 / 15.0)
    assert all(share_at(t) > 0.0 for t in (10**6, 10**12))
