"""Bets against listed rivals: their mathematics, and what they measure."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binomtest, norm
from unit_problem import unit_problem

from combopeps import ExplicitOracle, TopKOracle, TopTwo
from combopeps.stopping import View
from combopeps.stopping.certificates.e_process import Bet, BettingAttempt, complete_estimate
from combopeps.stopping.certificates.glr import listed_rows
from combopeps.stopping.requested_measurements import FreshResults


def begun(problem, theta, each=4, level=0.05, epsilon=0.0):
    """Bets after `each` measurements of every arm without noise."""
    policy = TopTwo(problem, 0)
    for arm, mean in enumerate(problem.arms.dot(np.asarray(theta, dtype=float))):
        for _ in range(each):
            policy.learn(arm, float(mean))
    flat = View(policy, 0).without_prior()
    fresh = FreshResults(problem.signal)
    return policy, Begun(fresh, flat.data, [placed(flat, flat.z_hat, level, epsilon)])


class Begun(BettingAttempt):
    """Bets that hold the results of their own measurements."""

    def __init__(self, fresh, data, placed):
        self.results = fresh
        super().__init__(data, placed, fresh)


def placed(flat, z, level=0.05, epsilon=0.0):
    """Bets on an answer at this moment."""
    return Bet(complete_estimate(flat.data), z, listed_rows(flat.oracle, z, epsilon), level, epsilon)


def epoch(policy, bets, draw):
    """Measure what the epoch wants, and look."""
    for arm in np.repeat(np.arange(len(bets.wanted)), bets.wanted):
        y = draw(int(arm))
        policy.learn(int(arm), y)
        bets.results.add(int(arm), y / policy.problem.noise[arm])
    flat = View(policy, 0).without_prior()
    return bets.look(flat.data, flat.z_hat, flat.rng, bets.results)


@pytest.mark.parametrize(("X", "information"), [(0.0, 0.0), (3.0, 2.0), (-4.0, 5.0), (40.0, 30.0), (0.3, 900.0)])
def test_the_evidence_is_the_integral(X, information):
    _, bets = begun(unit_problem(TopKOracle(2, k=1)), [1.2, 0.0])
    bets.lead.X[:], bets.lead.I[:] = X, information
    g0, v0 = bets.lead.g0[0], bets.lead.v0[0]
    prior = norm(g0, np.sqrt(v0))
    mean = quad(
        lambda lam: prior.pdf(lam) * np.exp(lam * X - 0.5 * lam**2 * information), 0.0, g0 + 40 * np.sqrt(v0), limit=500
    )
    assert bets.lead.log_evidence()[0] == pytest.approx(np.log(mean[0] / prior.sf(0.0)), rel=1e-6, abs=1e-6)


def test_nothing_is_lost_where_the_prior_is_a_million_deviations_away():
    _, bets = begun(unit_problem(TopKOracle(2, k=1)), [1e6, 0.0])
    assert bets.lead.log_evidence()[0] == 0.0
    bets.lead.X[:], bets.lead.I[:] = 1e6, 1.0  # one measurement of the gap itself
    assert bets.lead.log_evidence()[0] == pytest.approx(0.5e12, rel=1e-6)


def passes(prior, runs=4000, alpha=0.1, epochs=300):
    """How many of so many exactly tied rivals pass in epochs of 3 %, with the prior of their bets set before each."""
    rng, bets = np.random.default_rng(1), object.__new__(Bet)
    bets.X, bets.I = np.zeros(runs), np.zeros(runs)
    passed = np.zeros(runs, dtype=bool)
    for _ in range(epochs):
        information = np.maximum(rng.uniform(1.0, 5.0, size=runs), 0.03 * bets.I)
        bets.X += np.sqrt(information) * rng.normal(size=runs)
        bets.I += information
        bets.g0, bets.v0 = prior(bets)
        passed |= bets.log_evidence() >= np.log(1.0 / alpha)
    return int(passed.sum())


def is_refuted(passed, runs=4000, alpha=0.1):
    """More than alpha explains; false alarm 1e-4."""
    return binomtest(passed, runs, alpha, alternative="greater").pvalue < 1e-4


@pytest.mark.parametrize(("g0", "v0"), [(0.4, 0.25), (0.0, 0.25), (2.0, 0.01), (0.05, 0.002)])
def test_a_tied_rival_passes_at_most_as_often_as_alpha(g0, v0):
    """Ville's bound, at the worst point of the null, whatever the prior of the bets that was fixed before."""
    passed = passes(lambda bets: (np.full(len(bets.X), g0), np.full(len(bets.X), v0)))
    assert passed > 0
    assert not is_refuted(passed)


def test_a_prior_that_is_refreshed_from_fresh_data_is_caught():
    """The bets then know what they bet on."""
    assert is_refuted(passes(lambda bets: (np.maximum(bets.X / bets.I, 0.0), 1.0 / bets.I)))


def test_a_quantile_looked_at_again_and_again_is_caught():
    """As if the lead alone were the evidence: a bet that was placed afterwards."""
    assert is_refuted(passes(lambda bets: (np.maximum(bets.X / bets.I, 0.0), np.full(len(bets.X), 1e-12))))


@pytest.mark.parametrize(
    "arms", [None, np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])], ids=["unit", "dense"]
)
def test_true_rivals_pass(arms):
    theta, rng = np.array([1.0, 0.0, -1.0]), np.random.default_rng(2)
    problem = unit_problem(ExplicitOracle(np.eye(3)), arms)
    policy, bets = begun(problem, theta)
    means = problem.arms.dot(theta)
    for _ in range(60):
        assert epoch(policy, bets, lambda arm: float(means[arm] + rng.normal()))
        if bets.confirmed:
            break
    assert bets.confirmed


def test_a_rival_that_has_passed_gets_no_more_measurements():
    policy, bets = begun(unit_problem(TopKOracle(3, k=1)), [1.0, 0.6, -40.0])
    means = [1.0, 0.6, -40.0]
    epoch(policy, bets, lambda arm: means[arm])
    assert bets.lead.passed.sum() == 1
    assert bets.wanted[2] == 0
    assert (bets.wanted[:2] > 0).all()


def test_an_answer_that_falls_behind_is_given_up():
    policy, bets = begun(unit_problem(TopKOracle(2, k=1)), [0.5, 0.0])
    goes_on = True
    for _ in range(5):
        goes_on = goes_on and epoch(policy, bets, lambda arm: [0.0, 2.0][arm])
    assert not goes_on
    assert not bets.confirmed


def test_shares_are_balanced():
    """Top-k: the rivals across the boundary are equally far from passing, and the far ones want nearly nothing."""
    theta = np.array([1.0, 0.9, 0.5, 0.4, -5.0])
    _, bets = begun(unit_problem(TopKOracle(5, k=2)), theta, each=400)
    shares = bets.state_dict()["shares"]
    assert shares[4] < 0.02
    assert shares[1] > shares[0]
    assert shares[2] > shares[3]


def test_an_epsilon_moves_the_null():
    """With epsilon = 1 an answer that is worse by 0.5 is good enough."""
    rng = np.random.default_rng(3)
    policy, bets = begun(unit_problem(TopKOracle(2, k=1)), [0.1, 0.0], epsilon=1.0)
    for _ in range(40):
        epoch(policy, bets, lambda arm: float([0.0, 0.05][arm] + rng.normal()))
        if bets.confirmed:
            break
    assert bets.confirmed


@pytest.mark.parametrize(("truth", "goes_on"), [([0.4, 0.0], True), ([-0.4, 0.0], False)])
def test_with_an_epsilon_an_answer_that_is_clearly_behind_is_given_up(truth, goes_on):
    """Within 0.5 of the best by a hair: to confirm it would take 25 times as long as to confirm the best."""
    policy, bets = begun(unit_problem(TopKOracle(2, k=1), noise_std=0.1), [0.1, 0.0], epsilon=0.5)
    bets.lead.threshold = 1000.0  # it shall not pass
    for _ in range(20):
        if not epoch(policy, bets, lambda arm: truth[arm]):
            assert not goes_on
            return
    assert goes_on


def test_the_runner_up_takes_over_with_all_its_data():
    """The lead changes: its bets have taken in every epoch, also those that were measured for the other one."""
    policy, bets = begun(unit_problem(TopKOracle(2, k=1)), [0.5, 0.0])
    flat = View(policy, 0).without_prior()
    bets.placed.append(placed(flat, np.array([0.0, 1.0])))
    while not bets.confirmed:
        assert epoch(policy, bets, lambda arm: [0.0, 2.0][arm])
    assert bets.z_hat.tolist() == [0.0, 1.0]
    assert bets.lead is bets.placed[1]
    np.testing.assert_array_equal(bets.placed[0].I, bets.placed[1].I)
    np.testing.assert_allclose(bets.placed[0].X, -bets.placed[1].X)
    assert not bets.placed[0].confirmed


@pytest.mark.parametrize("lead", [1e-9, 1.0, 1e3, 1e6, 1e9, 1e12])
def test_an_answer_that_is_far_behind_has_no_evidence_from_rounding(lead):
    """Its bets begin at 1, and data that speak against it only ever take from that."""
    policy, _ = begun(unit_problem(TopKOracle(2, k=1)), [lead, 0.0])
    bet = placed(View(policy, 0).without_prior(), np.array([0.0, 1.0]))
    assert bet.log_evidence()[0] == pytest.approx(0.0, abs=1e-9)
    for information in (0.1, 1.0, 100.0):
        bet.X[:], bet.I[:] = -lead * information, information
        assert bet.log_evidence()[0] <= 1e-9
