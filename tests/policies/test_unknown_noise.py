"""Problem(noise_std=None): the noise is learnt from repetitions, and every probability is a mean over what it may be.

Error rates are for theta drawn from the prior, and noise of sizes that the policy does not know. A rule that keeps its
promise is accused with probability 1e-4 at most; noise that is stated at a third is caught by the same test.
"""

import warnings

import networkx as nx
import numpy as np
import pytest
from scipy import stats
from sessions import session_of
from unit_problem import unit_problem

import combopeps.alternatives as error_probability
from combopeps import (
    PEPS,
    Box,
    Campaign,
    CertifiedRule,
    DoublingPEPS,
    ExplicitOracle,
    PosteriorRule,
    ShortestPathOracle,
    TopKOracle,
    TopTwo,
    any_of,
    check_policy,
    identify,
    load_instance,
    lower_bound,
    simulate,
)
from combopeps.alternatives import SamplingTask, draw_thetas
from combopeps.alternatives.base import draw_thetas_and_noise
from combopeps.errors import ParameterError, PriorWarning
from combopeps.oracles.base import has_equal_value
from combopeps.policies.baselines import CLUCB, LinGame, LinGapE
from combopeps.posterior import GaussianPosterior, RealSpace
from combopeps.posterior.noise_level import MIN_DOF

GENERAL = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.5], [0.3, 0.0, 1.0], [1.0, 1.0, 1.0], [0.2, -1.0, 0.4]])
RATIOS = [1.0, 2.0, 0.5, 1.0, 3.0]


def units(**options):
    return unit_problem(TopKOracle(5, k=2), **{"noise_std": None, "noise_ratio": RATIOS} | options)


def general(**options):
    return unit_problem(ExplicitOracle(np.eye(3)), GENERAL, **{"noise_std": None, "noise_ratio": RATIOS} | options)


def readings(n=60, seed=0, sigma=0.7):
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 5, n)
    return arms, 10.0 + arms + sigma * np.array(RATIOS)[arms] * rng.normal(size=n)


def measure(problem, theta, sigma, rng):
    """Normal noise: sigma times the ratios, or what is stated if sigma is None."""
    noise = problem.noise * (1.0 if sigma is None else sigma)
    known = dict(zip(problem.arms.labels, zip(problem.arms.dot(theta), noise, strict=True), strict=True))
    return lambda label: known[label][0] + known[label][1] * rng.normal()


# ---------------------------------------------------------------- how large it is


SOME = np.array([[1.0, 0, 0], [0, 2.0, 0], [0, 0, -0.5], [0.7, 0, 0], [0, 0, 1.0]])
TWICE = unit_problem(ExplicitOracle(np.eye(3)), SOME, noise_std=None, noise_ratio=RATIOS)


@pytest.mark.parametrize("problem", [units(), general(), TWICE], ids=["units", "general", "several for a component"])
@pytest.mark.parametrize("n", [11, 60])
def test_the_estimate_is_that_of_squares_around_least_squares(problem, n):
    """Where there are more arms than components, arms that are measured once say something too."""
    arms, ys = readings(n)
    policy, scale = TopTwo(problem, 0), np.array(RATIOS)[arms]
    for arm, y in zip(arms, ys, strict=True):
        policy.learn(int(arm), float(y))
    rows = problem.arms.row(arms) / scale[:, None]
    squares, nu = ((ys / scale - rows @ np.linalg.lstsq(rows, ys / scale)[0]) ** 2).sum(), n - problem.oracle.dim
    found = policy.noise_estimate
    assert found.dof == nu
    assert found.value == pytest.approx(np.sqrt(squares / nu), rel=1e-9)
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


def test_many_arms_do_not_make_it_wait():
    rng = np.random.default_rng(0)
    problem = unit_problem(ExplicitOracle(np.eye(4)), rng.normal(size=(3000, 4)), noise_std=None)
    result = identify(problem, measure(problem, np.arange(4.0), 0.1, rng))
    assert result.answer == 3
    assert result.samples < 40


@pytest.mark.parametrize("make", [units, general])
def test_the_posterior_is_that_of_stated_noise_of_the_size_found(make):
    arms, ys = readings(100)
    session = session_of(TopTwo, make(prior_mean=3.0, prior_std=2.0))
    policy = session.policy
    session.observe_table(list(zip(np.array(policy.problem.arms.labels)[arms].tolist(), ys.tolist(), strict=True)))
    sigma = policy.posterior.sigma[0]
    assert sigma == pytest.approx(policy.noise_estimate.value, rel=0.1)
    stated = TopTwo(make(noise_std=sigma * np.array(RATIOS), noise_ratio=None, prior_mean=3.0, prior_std=2.0), 0)
    stated.learn_many(arms, ys)
    np.testing.assert_allclose(policy.posterior.theta_hat, stated.posterior.theta_hat, rtol=1e-9)
    np.testing.assert_allclose(policy.posterior.covariance(), stated.posterior.covariance(), rtol=1e-9)
    np.testing.assert_allclose(policy.posterior.arm_widths(), stated.posterior.arm_widths(), rtol=1e-9)
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
        assert np.array_equal(one.posterior.theta_hat, other.posterior.theta_hat)
        assert np.array_equal(one.posterior.spread, other.posterior.spread)
        assert one.posterior.sigma == other.posterior.sigma
        assert one.posterior.dof == other.posterior.dof


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
    np.testing.assert_allclose(policy.posterior.sigma, sizes, rtol=0.25)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    def run(unit):
        problem = unit_problem(TopKOracle(5, k=2), noise_std=None, prior_std=unit)
        return identify(problem, measure(problem, unit * np.arange(5) / 2, 0.5 * unit, np.random.default_rng(1)))

    here, there = run(1.0), run(scale)
    assert here.pulls == there.pulls
    assert there.noise_estimate.value == pytest.approx(scale * here.noise_estimate.value)


def test_readings_without_noise_are_claimed_after_repetitions():
    """Nothing overflows, and nothing is claimed before there are repetitions; soon after them."""
    for problem in (units(), general()):
        theta = np.linspace(0.0, 1.0, problem.oracle.dim)
        result = identify(problem, measure(problem, theta, 0.0, np.random.default_rng(0)), budget=300)
        assert result.stop_reason == "posterior"
        assert has_equal_value(result.z, problem.oracle.argmax(theta), theta)
        assert result.noise_estimate.dof >= MIN_DOF
        assert result.samples < 60


def test_rounded_readings_do_not_look_certain():
    """Whole numbers repeat themselves by chance: too few repetitions would say that there is no noise."""
    problem, rng = unit_problem(TopKOracle(3, k=1), noise_std=None), np.random.default_rng(0)
    for seed in range(10):
        result = identify(problem, lambda item: round(0.2 * item + rng.normal()), delta=0.05, budget=60, rng=seed)
        assert result.noise_estimate.value > 0.3 or result.stop_reason == "budget"


# ---------------------------------------------------------------- Student's tails


def student(make, nu):
    """A posterior with a noise that nu repetitions have shown."""
    posterior = GaussianPosterior.start(make().signal)
    weights = np.full((1, 5), 4.0)
    posterior.restate(np.array([0.5]), np.array([float(nu)]), weights, weights * np.arange(5.0))
    return posterior


@pytest.mark.parametrize("make", [units, general])
def test_draws_have_students_tails(make):
    nu, rng = 9, np.random.default_rng(0)
    posterior = student(make, nu)
    y = np.arange(1.0, posterior.dim + 1.0)
    width = np.sqrt(y @ posterior.covariance_dot(y[None])[0])

    def p_value(draw, space):
        thetas, inside = draw(posterior, space, 40_000, rng)
        return stats.kstest((thetas[inside] - posterior.theta_hat[0]) @ y / width, stats.t(nu).cdf).pvalue

    assert p_value(draw_thetas_and_noise, RealSpace()) > 1e-4
    assert p_value(draw_thetas_and_noise, Box(-1e6, 1e6)) > 1e-4
    assert p_value(draw_thetas, RealSpace()) < 1e-6  # with the estimate plugged in


@pytest.mark.parametrize("gap", [3.0, 5.0, 9.0])
@pytest.mark.parametrize("nu", [8, 30, 3000])
def test_small_probabilities_are_means_over_the_noise(gap, nu):
    """Two items: exact is Student's tail. The rough estimate may be larger than that, never much smaller."""
    problem = unit_problem(TopKOracle(2, k=1), noise_std=None)
    posterior = GaussianPosterior.start(problem.signal)
    posterior.restate(
        np.ones(1), np.array([float(nu)]), np.full((1, 2), 1e6), np.array([[gap * 1e3 * np.sqrt(2), 0.0]])
    )
    question = SamplingTask(posterior, problem.oracle, np.array([1.0, 0.0]), problem.space)
    sampler, exact = TopTwo(problem, 0).alternatives.at(question.z_hat), stats.t(nu).sf(gap)
    seeds = [np.random.default_rng(i) for i in range(10)]
    found = np.mean([error_probability.rough_error_probability(sampler, question, rng) for rng in seeds])
    assert 0.8 * exact < found < 2.5 * exact + 2.0**-59
    displayed = np.mean([error_probability.rank_answers(sampler, question, rng).error_probability for rng in seeds])
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
    now = result.session.policy.posterior
    lead = (now.theta_hat[0, 2] - now.theta_hat[0, 1]) / np.sqrt(now.variance[0, 1:].sum())
    assert stats.t(now.dof[0]).sf(lead) < 1e-8
    assert stats.norm.sf(lead) < 1e-12


def test_the_claim_and_the_result_state_the_estimate():
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
def test_guarantees_are_refused_before_a_measurement_and_say_what_is_known(rule):
    policy = TopTwo(units(), 0)
    with pytest.raises(ParameterError, match=r'state noise_std .*or use stopping="posterior"'):
        identify(policy.problem, never, policy=policy, stopping=rule)
    policy.learn_many(*readings())
    known = r"measurements so far say 0\.\d+ \(0\.\d+ to 0\.\d+, 55 degrees of freedom"
    with pytest.raises(ParameterError, match=known):
        identify(policy.problem, never, policy=policy, stopping=rule)


def test_what_needs_the_noise_says_so(tmp_path):
    simulated, needs = {"budget": 10, "replications": 1}, r"needs the size of the noise.* state noise_std"
    for refused, words in (
        (lambda: lower_bound(units(), np.arange(5.0)), needs),
        (lambda: CLUCB(units()), needs),
        (lambda: DoublingPEPS(units(space=Box(-1.0, 1.0))), needs),
        (lambda: simulate(units(), np.arange(5.0), **simulated), "true_noise_std"),
        (
            lambda: simulate(units(noise_std=1.0, noise_ratio=None), np.arange(5.0), true_noise_std=1.0, **simulated),
            "true_noise_std",
        ),
        (lambda: Campaign.create(tmp_path / "a.db", units(), stopping="certified"), "noise_std"),
    ):
        with pytest.raises(ParameterError, match=words):
            refused()
    assert not (tmp_path / "a.db").exists()


def test_simulations_have_the_noise_they_are_given():
    easy, hard = (
        simulate(units(), np.arange(5.0), budget=60, replications=100, true_noise_std=sigma) for sigma in (0.1, 10.0)
    )
    assert easy.correct[:, -1].mean() == 1.0
    assert hard.correct[:, -1].mean() < 0.7


def test_the_prior_is_judged_once_the_noise_is_known():
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


# ---------------------------------------------------------------- campaigns


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_a_campaign_is_its_copy_that_is_reopened_and_not_looked_at(policy, tmp_path):
    """Who looks changes nothing; nor does reopening, but for what PEPS has learnt from its own choices."""
    problem, theta = units(), np.array([0.0, 2.0, 3.0, -1.0, -0.5])
    measured = measure(problem, theta, 0.3, np.random.default_rng(0))
    first, second = (Campaign.create(tmp_path / name, problem, policy=policy) for name in ("a.db", "b.db"))
    assert first.problem.noise_std is None
    assert (first.problem.noise == problem.noise).all()
    for i in range(60):
        query = first.ask()
        y = measured(query.label)
        first.tell(query, y)
        if i % 3 == 0:
            first.status()
        if i % 7 == 0 and policy != "peps":
            second = Campaign.open(tmp_path / "b.db")
        again = second.ask()
        assert again.label == query.label
        second.tell(again, y)
    status = first.status()
    assert status.stop
    assert "noise estimated" in status.claim
    assert status.noise_estimate.low < 0.3 < status.noise_estimate.high
    assert status.warning == ""
    assert np.array_equal(Campaign.open(tmp_path / "a.db").posterior.theta_hat, first.posterior.theta_hat)


DELTA, FALSE_ALARM = 0.1, 1e-4


def routes(noise_std):
    graph = nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3), (1, 2)])
    return unit_problem(ShortestPathOracle(graph, 0, 3), noise_std=noise_std)


FAMILIES = {
    "top-k": lambda noise_std: unit_problem(TopKOracle(4, k=1), noise_std=noise_std),
    "path": routes,
    "general arms": lambda noise_std: unit_problem(ExplicitOracle(np.eye(3)), GENERAL, noise_std=noise_std),
}


def wrong_answers(make, sigma, runs, *, stated=None, budget=1000, seed=0):
    """Runs that claim a wrong answer, theta from the prior: no more of them than it takes to know if they are too many.

    `too_many` is what a rule that keeps its promise has with probability 1e-4 at most.
    """
    problem, too_many, errors = make(stated), stats.binom.isf(FALSE_ALARM, runs, DELTA) + 1, 0
    for i in range(runs):
        nature = np.random.default_rng([seed, i])
        theta = nature.normal(size=problem.oracle.dim)
        ask = measure(problem, theta, sigma if stated is None else sigma / stated, nature)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of noise that is stated too small
            result = identify(problem, ask, delta=DELTA, budget=budget, rng=i)
        errors += result.evidence.stop and not has_equal_value(result.z, problem.oracle.argmax(theta), theta)
        if errors >= too_many or errors + runs - i - 1 < too_many:
            break
    return errors, errors >= too_many


@pytest.mark.parametrize("sigma", [0.3, 3.0])
def test_errors_of_a_few_runs_are_as_rare_as_claimed(sigma):
    assert not wrong_answers(FAMILIES["top-k"], sigma, 12, budget=200)[1]


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_errors_are_as_rare_as_claimed(family, sigma):
    assert not wrong_answers(FAMILIES[family], sigma, 1000)[1]


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [1.0, 3.0])
def test_noise_stated_at_a_third_is_caught(sigma):
    assert wrong_answers(FAMILIES["top-k"], sigma, 1000, stated=sigma / 3)[1]


def ratio(name, runs):
    """Measurements without and with the noise stated, on the same seeds."""
    instance = load_instance(name)
    known, means = instance.problem, []
    unknown = unit_problem(known.oracle, known.arms, None, known.space, prior_std=known.prior_std)
    for problem, sigma in ((unknown, known.noise_std), (known, None)):
        ask = [measure(problem, instance.theta, sigma, np.random.default_rng([i, 1])) for i in range(runs)]
        means.append(np.mean([identify(problem, ask[i], rng=i).samples for i in range(runs)]))
    return means[0] / means[1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runs"), [("two-nets", 100), ("cyclic-matching", 100), ("topk-paper", 80)])
def test_what_it_costs_not_to_know(name, runs):
    assert ratio(name, runs) < 1.3
