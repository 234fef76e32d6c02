"""Problem(noise_std=None): the noise is learnt from repetitions, and every probability is a mean over what it may be."""

import numpy as np
import pytest
from scipy import stats
from sessions import session_of
from unit_problem import unit_problem
from unknown_cases import GENERAL, RATIOS, general, measure, readings, units

import combopeps.alternatives as risk
from combopeps import PEPS, Box, ExplicitOracle, PosteriorRule, TopKOracle, TopTwo, check_policy, identify
from combopeps.alternatives import sample_belief
from combopeps.alternatives.base import Question, sample_posterior
from combopeps.oracles.base import as_good
from combopeps.policies import LinGame, LinGapE
from combopeps.posterior import GaussianBelief
from combopeps.posterior.noise_level import ENOUGH
from combopeps.posterior.parameter_space import RealSpace

# ------------------------------------------------------------------------------------------------ how large it is


def test_squares_within_arms():
    arms, ys = readings()
    policy = TopTwo(units(), 0)
    for arm, y in zip(arms, ys, strict=True):
        policy.learn(int(arm), float(y))
    scaled = ys / np.array(RATIOS)[arms]
    groups = [scaled[arms == arm] for arm in range(5)]
    nu, squares = sum(len(g) - 1 for g in groups), sum(((g - g.mean()) ** 2).sum() for g in groups)
    found = policy.noise_estimate
    assert found.dof == nu
    assert found.value == pytest.approx(np.sqrt(squares / nu), rel=1e-12)
    assert found.low < 0.7 < found.high
    posterior = stats.invgamma(nu / 2, scale=squares / 2)
    np.testing.assert_allclose([found.low**2, found.high**2], posterior.ppf([0.025, 0.975]))


def test_means_count_as_one_result_of_their_worth():
    """Two means of 4 and 9 readings: (y - y')^2 / (1/4 + 1/9) is one squared residual, of one degree of freedom."""
    session = session_of(TopTwo, units(noise_ratio=None))
    for arm in range(5):
        session.observe(arm, 1.0, count=4)
        session.observe(arm, 1.5, count=9)
        session.observe(arm, 1.5 - 0.5 * 4 / 13)  # at the mean: adds a degree of freedom, and no square
    found = session.status().noise_estimate
    assert found.dof == 10
    assert found.value == pytest.approx(np.sqrt(5 * 0.25 / (1 / 4 + 1 / 9) / 10))
    assert session.samples == 5 * 14


@pytest.mark.parametrize(
    "arms", [GENERAL, np.array([[1.0, 0, 0], [0, 2.0, 0], [0, 0, -0.5], [0.7, 0, 0], [0, 0, 1.0]])]
)
def test_squares_around_least_squares(arms):
    """Where there are more arms than components, arms that are measured once say something too."""
    problem = unit_problem(ExplicitOracle(np.eye(3)), arms, noise_std=None, noise_ratio=RATIOS)
    policy, rng = TopTwo(problem, 0), np.random.default_rng(0)
    chosen = np.array([0, 1, 2, 3, 4, 4, 0, 1, 2, 2, 2])
    ys = arms[chosen] @ [1.0, 2.0, 3.0] + np.array(RATIOS)[chosen] * rng.normal(size=len(chosen))
    policy.learn_many(chosen, ys)
    rows, values = arms[chosen] / np.array(RATIOS)[chosen, None], ys / np.array(RATIOS)[chosen]
    squares = ((values - rows @ np.linalg.lstsq(rows, values)[0]) ** 2).sum()
    assert policy.noise_estimate.dof == 8
    assert policy.noise_estimate.value == pytest.approx(np.sqrt(squares / 8))


def test_many_arms_do_not_make_it_wait():
    rng = np.random.default_rng(0)
    problem = unit_problem(ExplicitOracle(np.eye(4)), rng.normal(size=(3000, 4)), noise_std=None)
    result = identify(problem, measure(problem, np.arange(4.0), 0.1, rng))
    assert result.answer == 3
    assert result.samples < 40


@pytest.mark.parametrize("make", [units, general])
def test_the_belief_is_that_of_stated_noise_of_the_size_found(make):
    arms, ys = readings(100)
    session = session_of(TopTwo, make(prior_mean=3.0, prior_std=2.0))
    policy = session.policy
    session.observe_table(list(zip(np.array(policy.problem.arms.labels)[arms].tolist(), ys.tolist(), strict=True)))
    sigma = policy.belief.sigma[0]
    assert sigma == pytest.approx(policy.noise_estimate.value, rel=0.1)
    stated = TopTwo(make(noise_std=sigma * np.array(RATIOS), noise_ratio=None, prior_mean=3.0, prior_std=2.0), 0)
    stated.learn_many(arms, ys)
    np.testing.assert_allclose(policy.belief.theta_hat, stated.belief.theta_hat, rtol=1e-9)
    np.testing.assert_allclose(policy.belief.covariance(), stated.belief.covariance(), rtol=1e-9)
    np.testing.assert_allclose(policy.belief.arm_widths(), stated.belief.arm_widths(), rtol=1e-9)
    alone, theirs = (p.measurements().least_squares() for p in (policy, stated))
    np.testing.assert_allclose(alone.theta, theirs.theta, rtol=1e-9)
    np.testing.assert_allclose(alone.quadratic(np.eye(len(alone.theta))), theirs.quadratic(np.eye(len(alone.theta))))


@pytest.mark.parametrize("make", [units, general])
@pytest.mark.parametrize("n", [1, 9, 37, 700])
def test_many_at_once_are_the_same_bits(make, n):
    arms, ys = readings(n)
    one, many, parts = (TopTwo(make(), 0) for _ in range(3))
    for arm, y in zip(arms, ys, strict=True):
        one.learn(int(arm), float(y))
    many.learn_many(arms, ys)
    for begin in range(0, n, 10):
        parts.learn_many(arms[begin : begin + 10], ys[begin : begin + 10])
    for other in (many, parts):
        assert np.array_equal(one.belief.theta_hat, other.belief.theta_hat)
        assert np.array_equal(one.belief.spread, other.belief.spread)
        assert one.belief.sigma == other.belief.sigma
        assert one.belief.dof == other.belief.dof


@pytest.mark.parametrize("policy", [TopTwo, PEPS, LinGame, LinGapE])
@pytest.mark.parametrize("make", [units, general])
def test_rows_side_by_side(policy, make):
    assert check_policy(policy, problem=make()).ok


def test_each_replication_has_its_own_level():
    problem = units(noise_ratio=None)
    policy, rng = TopTwo(problem, 0, replications=3), np.random.default_rng(0)
    sizes = np.array([0.01, 1.0, 30.0])
    for _ in range(200):
        policy.learn(policy.next_arms(), sizes * rng.normal(size=3))
    np.testing.assert_allclose(policy.belief.sigma, sizes, rtol=0.25)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    def run(unit):
        problem = unit_problem(TopKOracle(5, k=2), noise_std=None, prior_std=unit)
        return identify(problem, measure(problem, unit * np.arange(5) / 2, 0.5 * unit, np.random.default_rng(1)))

    here, there = run(1.0), run(scale)
    assert here.pulls == there.pulls
    assert there.noise_estimate.value == pytest.approx(scale * here.noise_estimate.value)


def test_readings_without_noise():
    """Nothing overflows, and nothing is claimed before there are repetitions; soon after them."""
    for problem in (units(), general()):
        theta = np.linspace(0.0, 1.0, problem.oracle.dim)
        result = identify(problem, measure(problem, theta, 0.0, np.random.default_rng(0)), budget=300)
        assert result.stop_reason == "posterior"
        assert as_good(result.z, problem.oracle.argmax(theta), theta)
        assert result.noise_estimate.dof >= ENOUGH
        assert result.samples < 60


def test_rounded_readings_do_not_look_certain():
    """Whole numbers repeat themselves by chance: too few repetitions would say that there is no noise."""
    problem, rng = unit_problem(TopKOracle(3, k=1), noise_std=None), np.random.default_rng(0)
    for seed in range(10):
        result = identify(problem, lambda item: round(0.2 * item + rng.normal()), delta=0.05, budget=60, rng=seed)
        assert result.noise_estimate.value > 0.3 or result.stop_reason == "budget"


# ------------------------------------------------------------------------------------------------ Student's tails


def student(make, nu):
    """A belief with a noise that nu repetitions have shown."""
    belief = GaussianBelief.start(make().signal)
    weights = np.full((1, 5), 4.0)
    belief.restate(np.array([0.5]), np.array([float(nu)]), weights, weights * np.arange(5.0))
    return belief


@pytest.mark.parametrize("make", [units, general])
def test_draws_have_students_tails(make):
    nu, rng = 9, np.random.default_rng(0)
    belief = student(make, nu)
    y = np.arange(1.0, belief.dim + 1.0)
    width = np.sqrt(y @ belief.covariance_dot(y[None])[0])

    def p_value(draw, space):
        thetas, inside = draw(belief, space, 40_000, rng)
        return stats.kstest((thetas[inside] - belief.theta_hat[0]) @ y / width, stats.t(nu).cdf).pvalue

    assert p_value(sample_posterior, RealSpace()) > 1e-4
    assert p_value(sample_posterior, Box(-1e6, 1e6)) > 1e-4
    assert p_value(sample_belief, RealSpace()) < 1e-6  # with the estimate plugged in


@pytest.mark.parametrize("gap", [3.0, 5.0, 9.0])
@pytest.mark.parametrize("nu", [8, 30, 3000])
def test_small_probabilities_are_means_over_the_noise(gap, nu):
    """Two items: exact is Student's tail. The rough estimate may be larger than that, never much smaller."""
    problem = unit_problem(TopKOracle(2, k=1), noise_std=None)
    belief = GaussianBelief.start(problem.signal)
    belief.restate(np.ones(1), np.array([float(nu)]), np.full((1, 2), 1e6), np.array([[gap * 1e3 * np.sqrt(2), 0.0]]))
    question = Question(belief, problem.oracle, np.array([1.0, 0.0]), problem.space)
    sampler, exact = TopTwo(problem, 0).alternatives.at(question.z_hat), stats.t(nu).sf(gap)
    seeds = [np.random.default_rng(i) for i in range(10)]
    found = np.mean([risk.rough_error_probability(sampler, question, rng) for rng in seeds])
    assert 0.8 * exact < found < 2.5 * exact + 2.0**-59
    displayed = np.mean([risk.rank_answers(sampler, question, rng).error_probability for rng in seeds])
    assert displayed == pytest.approx(exact, rel=0.1)
    if nu == 8:
        assert found > 3.0 * stats.norm.sf(gap)


def test_small_delta_of_the_posterior_rule():
    """Too small for plain draws: the bound behind half-spaces is a mean over the noise, too."""
    problem, theta = unit_problem(TopKOracle(3, k=1), noise_std=None), np.array([0.0, 1.0, 4.0])
    result = identify(problem, measure(problem, theta, 0.5, np.random.default_rng(0)), stopping=PosteriorRule(1e-8))
    assert result.answer == {2}
    assert result.evidence.stop
    assert result.evidence.statistic <= 1e-8
    now = result.session.policy.belief
    lead = (now.theta_hat[0, 2] - now.theta_hat[0, 1]) / np.sqrt(now.variance[0, 1:].sum())
    assert stats.t(now.dof[0]).sf(lead) < 1e-8
    assert stats.norm.sf(lead) < 1e-12
