"""PEPS against a plain transcription of Algorithm 1 on a listed Z: same draws in, same arms out, line by line."""

import numpy as np
import pytest
from scipy import stats
from sessions import covariance_of, session_of
from unit_problem import unit_problem

from combopeps import PEPS, AlternativeSampler, Box, ExplicitOracle, simulate
from combopeps.alternatives import Alternatives, SamplingStats

T = 150
ALARM = 1e-6  # probability of a false alarm of each chi-square test, over the choice of the seed
THETA = np.array([0.5, -0.2, 0.8])
Z = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.1, 0.6], [0.7, 0.7, -0.2]])
GENERAL = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.5], [0.3, 0.0, 1.0], [1.0, 1.0, 1.0], [0.2, -1.0, 0.4]])
ARMS = {"general arms": GENERAL, "unit arms": np.eye(3), "scaled unit arms": np.diag([1.0, -2.0, 0.5])}


def rejection(rng, mean, covariance, z_hat, n):
    """SAMPLE of line 7, as the paper says: draw until the argmax is another one."""
    thetas, root = [], np.linalg.cholesky(covariance)
    while len(thetas) < n:
        theta = mean + root @ rng.standard_normal(3)
        if not np.array_equal(Z[(Z @ theta).argmax()], z_hat):
            thetas.append(theta)
    return np.array(thetas)


class PlainRejection(AlternativeSampler):
    """The same SAMPLE for PEPS, from a generator of its own."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, _space, eta = question
        thetas = rejection(self.rng, posterior.theta_hat[0], covariance_of(posterior) / eta, z_hat, n)
        return Alternatives(thetas, oracle.argmax(thetas), SamplingStats(n, n))


class Transcription:
    """Algorithm 1 for one run; each line as it is printed."""

    def __init__(self, X, z_hat_1, lam_G, *, eta_lambda=None, eta_p=1.0, alpha=None, sigma=1.0, n=1, gain="sampled"):
        self.X, self.lam_G, self.sigma, self.n, self.gain = X / sigma, lam_G, sigma, n, gain  # unit noise, as printed
        self.eta_lambda, self.eta_p, self.alpha = eta_lambda, eta_p, alpha
        self.lam = np.full(len(X), 1.0 / len(X))  # line 1
        self.V, self.S, self.theta_hat = np.eye(3), np.zeros(3), np.zeros(3)  # line 2
        self.z_hat, self.total, self.Delta, self.t = z_hat_1, np.zeros(len(X)), 0.01, 0

    def choose(self, rng, uniform):
        self.t += 1
        if self.t > 1:
            self.z_hat = Z[(Z @ self.theta_hat).argmax()]  # line 6
        covariance = np.linalg.inv(self.V) / self.eta_p
        self.thetas = rejection(rng, self.theta_hat, covariance, self.z_hat, self.n)  # line 7
        mixed = self.lam
        if self.alpha is not None:
            gamma = self.t**-self.alpha  # line 4
            mixed = (1 - gamma) * self.lam + gamma * self.lam_G  # line 10
        return int(np.searchsorted(np.cumsum(mixed), uniform * mixed.sum(), side="right"))

    def learn(self, arm, y):
        self._line_15()  # before line 14: it speaks of theta_hat_t
        x = self.X[arm]
        self.V = self.V + np.outer(x, x)  # line 14
        self.S = self.S + x * y / self.sigma
        self.theta_hat = np.linalg.solve(self.V, self.S)

    def _line_15(self):
        g = np.mean([[(x @ self._deviation(theta)) ** 2 for x in self.X] for theta in self.thetas], axis=0)
        self.total = self.total + g
        if self.eta_lambda is not None:
            weight = self.lam * np.exp(self.eta_lambda * (g - g.max()))
        else:  # AdaHedge
            eta = np.log(len(self.X)) / self.Delta
            mix = g.max() + np.log(self.lam @ np.exp(eta * (g - g.max()))) / eta
            self.Delta += mix - self.lam @ g
            weight = np.exp(np.log(len(self.X)) / self.Delta * (self.total - self.total.max()))
        self.lam = weight / weight.sum()

    def _deviation(self, theta):
        if self.gain == "sampled":
            return theta - self.theta_hat
        y = Z[(Z @ theta).argmax()] - self.z_hat
        q = np.linalg.solve(self.V, y)
        return q * (y @ (theta - self.theta_hat)) / (y @ q)


def both(X, *, sigma=1.0, **options):
    """Run PEPS and the transcription on the same draws, and compare everything after every round."""
    noise, uniforms = np.random.default_rng(1).normal(size=T), np.random.default_rng(2).random(T)
    policy = PEPS(unit_problem(ExplicitOracle(Z), arms=X, noise_std=sigma), rng=0, sampler=PlainRejection(3), **options)
    feed = iter(uniforms)
    policy.streams.uniform = lambda: np.array([next(feed)])
    renamed = {key: value for key, value in options.items() if key in ("eta_lambda", "eta_p", "alpha", "gain")}
    n = options.get("alternatives_per_round", 1)
    plain = Transcription(X, policy.z_hat()[0], policy.lam_G, sigma=sigma, n=n, **renamed)
    rng, arms = np.random.default_rng(3), []
    for t in range(T):
        arm, wanted = policy.choose(), plain.choose(rng, uniforms[t])
        assert arm[0] == wanted, f"round {t + 1}"
        y = X[wanted] @ THETA + sigma * noise[t]
        policy.learn(arm, y)
        plain.learn(wanted, y)
        np.testing.assert_allclose(policy.learner.lam[0], plain.lam, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(plain.V @ covariance_of(policy.posterior), np.eye(3), atol=1e-9)
        np.testing.assert_allclose(plain.V @ policy.posterior.theta_hat[0], plain.S, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(policy.posterior.theta_hat[0], plain.theta_hat, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(policy.z_hat()[0], Z[(Z @ plain.theta_hat).argmax()])
        arms.append(wanted)
    np.testing.assert_array_equal(policy.pulls[0], np.bincount(arms, minlength=len(X)))
    assert len(set(arms)) == len(X)


PRINTED = {"eta_lambda": 0.3, "eta_p": 0.5, "alpha": 0.25}
VARIANTS = {"as printed": PRINTED, "practical": {}, "projected gain": {"gain": "projected"}}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("X", ARMS.values(), ids=ARMS)
def test_every_line_is_that_of_the_transcription(X, options):
    both(X, **options)


@pytest.mark.parametrize("gain", ["sampled", "projected"])
def test_gains_are_averaged_over_the_alternatives(gain):
    both(GENERAL, alternatives_per_round=5, gain=gain, eta_lambda=0.2)


def test_noise_of_another_size_rescales_measurements():
    both(GENERAL, sigma=2.5, eta_lambda=0.3, alpha=0.5)
    both(GENERAL, sigma=0.3)


@pytest.mark.parametrize("options", [{}, PRINTED], ids=["practical", "printed"])
def test_with_draws_of_its_own_peps_is_right_as_often_as_the_transcription(options):
    runs, looks, rng = 150, [5, 15, 40], np.random.default_rng(8)
    problem = unit_problem(ExplicitOracle(Z), arms=GENERAL)
    trace = simulate(problem, THETA, "peps", budget=40, replications=2000, rng=9, checkpoints=looks, **options)
    lam_G = PEPS(problem, rng=0, alpha=0.25).lam_G
    right, pulls = np.zeros(3, dtype=int), np.zeros(len(GENERAL), dtype=int)
    for _ in range(runs):
        plain = Transcription(GENERAL, Z[rng.integers(len(Z))], lam_G, **options)
        for t in range(1, 41):
            arm = plain.choose(rng, rng.random())
            plain.learn(arm, GENERAL[arm] @ THETA + rng.normal())
            pulls[arm] += 1
            if t in looks:
                right[looks.index(t)] += (Z @ plain.theta_hat).argmax() == (Z @ THETA).argmax()
    for ours, theirs in zip(trace.correct.sum(axis=0), right, strict=True):
        assert stats.chi2_contingency([[ours, 2000 - ours], [theirs, runs - theirs]]).pvalue > ALARM
    assert 0.1 < right[0] / runs < right[2] / runs < 0.99
    shares = trace.pulls / 40  # pulls of one run are dependent: compare means by their standard errors
    error = shares.std(axis=0) * np.sqrt(1 / 2000 + 1 / runs)
    assert (np.abs(shares.mean(axis=0) - pulls / (40 * runs)) < 5.5 * error).all()


def test_the_practical_variant_is_the_default():
    problem = unit_problem(ExplicitOracle(Z), arms=GENERAL)
    of_the_experiments = {"eta_lambda": None, "eta_p": 1.0, "alpha": None, "alternatives_per_round": 1}

    def arms(policy):
        for _ in range(40):
            arm = int(policy.choose()[0])
            policy.learn(arm, GENERAL[arm] @ THETA)
            yield arm

    plain = list(arms(PEPS(problem, rng=4, gain="sampled", tracking=False, **of_the_experiments)))
    assert list(arms(PEPS(problem, rng=4))) == plain
    others = PRINTED | {"alternatives_per_round": 2, "gain": "projected", "tracking": True}
    for option, value in others.items():  # what another default would look like
        assert list(arms(PEPS(problem, rng=4, **{option: value}))) != plain, option


def test_line_1_the_mixture_is_with_the_optimal_design():
    lam_G = PEPS(unit_problem(ExplicitOracle(Z), arms=GENERAL), rng=0, alpha=0.25).lam_G
    inverse = np.linalg.inv(GENERAL.T @ (lam_G[:, None] * GENERAL))
    assert max(x @ inverse @ x for x in GENERAL) <= 3 * 1.001 + 1e-9


def test_the_first_round_of_the_printed_variant_is_all_forced_exploration():
    """gamma_1 = 1: arms that the design drops are not drawn, though lam_1 is uniform."""
    X = np.concatenate([np.eye(3), 0.1 * GENERAL])
    policy = PEPS(unit_problem(ExplicitOracle(Z), arms=X), rng=0, alpha=0.25, replications=400)
    assert set(policy.choose()) == {0, 1, 2}


def test_tracking_measures_the_arm_that_lags_most():
    problem = unit_problem(ExplicitOracle(Z), arms=GENERAL)
    policy, rng = PEPS(problem, rng=0, tracking=True), np.random.default_rng(1)
    wanted, pulls, arms = np.zeros(5), np.zeros(5), []
    for _ in range(T):
        wanted += policy.learner.lam[0]
        arm = int(policy.choose()[0])
        assert (wanted - pulls)[arm] == pytest.approx((wanted - pulls).max(), abs=1e-9)
        policy.learn(arm, GENERAL[arm] @ THETA + rng.normal())
        pulls[arm] += 1
        arms.append(arm)
    assert np.abs(wanted - pulls).max() < 5
    assert len(set(arms)) == 5


def test_tracking_spreads_queries_that_are_asked_at_once():
    session = session_of(PEPS, unit_problem(ExplicitOracle(Z), arms=np.eye(3)), tracking=True, eta_lambda=1e-6)
    arms = [query.arm for query in session.ask(9)]
    np.testing.assert_array_equal(np.bincount(arms, minlength=3), [3, 3, 3])  # lam stays uniform


@pytest.mark.parametrize("X", [GENERAL, np.eye(3)], ids=["general arms", "unit arms"])
@pytest.mark.parametrize("space", [None, Box(-0.3, 1.0)], ids=["R^d", "box"])
def test_line_17_answers_with_the_probability_of_being_best(X, space):
    """theta ~ TN(theta_hat, V^-1; Theta) without eta_p, whatever the step sizes."""
    policy = PEPS(unit_problem(ExplicitOracle(Z), arms=X, space=space), rng=0, eta_p=0.01)
    rng = np.random.default_rng(5)
    for arm in [0, 1, 2] * 4:
        policy.learn(arm, X[arm] @ THETA + rng.normal())
    draws = rng.multivariate_normal(policy.posterior.theta_hat[0], covariance_of(policy.posterior), size=400_000)
    if space is not None:
        draws = draws[((draws >= -0.3) & (draws <= 1.0)).all(axis=1)]
    reference = np.bincount((draws @ Z.T).argmax(axis=1), minlength=len(Z))
    generator = np.random.default_rng(6)
    answers = np.array([policy.sample_answer(generator) for _ in range(3000)])
    seen = (answers[:, None] == Z).all(axis=2).sum(axis=0)
    assert seen.sum() == 3000
    kept = reference > 0.002 * len(draws)
    assert stats.chi2_contingency(np.array([reference, seen])[:, kept]).pvalue > ALARM
    assert kept.sum() >= 3


@pytest.mark.parametrize(
    "options",
    [{"gain": "both"}, {"alternatives_per_round": 0}, {"eta_p": 0.0}, {"eta_lambda": -1.0}, {"alpha": -0.5}],
    ids=lambda options: next(iter(options)),
)
def test_options_out_of_range_are_typed_errors(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        PEPS(unit_problem(ExplicitOracle(Z)), rng=0, **options)
