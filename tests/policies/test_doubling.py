"""DoublingPEPS: the appendix's constants, epochs of length 2^l, and nothing remembered."""

from dataclasses import asdict
from math import log, sqrt

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import PEPS, Box, DoublingPEPS, ExplicitOracle, TopKOracle
from combopeps.errors import ParameterError, SpaceError
from combopeps.policies import epoch_constants

X = np.array([[3.0, 4.0], [1.0, -2.0], [0.0, 1.0]])
PROBLEM = unit_problem(ExplicitOracle(np.eye(2)), arms=X, space=Box([-1.0, 0.0], [2.0, 0.5]))
# By hand: L = |(3, 4)|; B = |(2, 0.5)|; B_X = 3 * 2 + 4 * 0.5; Delta_max = 3 * 3 + 4 * 0.5
L, B, B_X, DELTA_MAX, D = 5.0, sqrt(4.25), 8.0, 11.0, 2


def beta(epoch):
    return B + sqrt(2 * log(max(epoch, 1) ** 2) + D * log((D + 2**epoch * L**2) / D))


@pytest.mark.parametrize("epoch", [0, 1, 2, 3, 7])
def test_constants_are_those_of_the_appendix(epoch):
    found, printed = epoch_constants(PROBLEM, epoch), epoch_constants(PROBLEM, epoch, "printed")
    T, C_1 = 2**epoch, DELTA_MAX + L**2 * beta(epoch)
    C_3 = B_X + C_1
    assert found.length == T
    assert (found.beta, found.C_1, found.C_3) == pytest.approx((beta(epoch), C_1, C_3), rel=1e-12)
    assert found.eta_lambda == pytest.approx(sqrt(log(3) / (C_3**4 * T)), rel=1e-12)
    assert found.eta_p == pytest.approx(sqrt(D * log(T * C_3**2) / (2 * C_3**4 * T)), rel=1e-12)
    assert printed.eta_lambda == pytest.approx(sqrt(log(3) / (C_3**2 * T)), rel=1e-12)
    assert printed.eta_p == pytest.approx(sqrt(D * log(T * C_3) / (C_3**2 * T)), rel=1e-12)


@pytest.mark.parametrize("constants", ["proved", "printed"])
@pytest.mark.parametrize("arms", [X, np.diag([3.0, -2.0])], ids=["general arms", "unit arms"])
def test_constants_are_those_of_the_problem_in_the_units_of_the_paper(arms, constants):
    """Unit noise and V_0 = I: theta is counted in prior_std = 5, and x @ theta in noise_std = 0.1."""
    oracle, low, high = ExplicitOracle(np.eye(2)), np.array([-1.0, 0.0]), np.array([2.0, 0.5])
    ours = unit_problem(oracle, arms, 0.1, Box(low, high), prior_std=5.0)
    printed = unit_problem(oracle, arms * 5.0 / 0.1, 1.0, Box(low / 5.0, high / 5.0))
    for epoch in (0, 1, 6):
        found, wanted = epoch_constants(ours, epoch, constants), epoch_constants(printed, epoch, constants)
        assert asdict(found) == pytest.approx(asdict(wanted), rel=1e-12)


def test_unit_arms_have_the_constants_of_a_full_matrix():
    """By hand, for rows (3, 0) and (0, -2): B_X = max(3 * 2, -2 * -1), Delta_max = max(3 * 3, 2 * 1.5)."""
    problem = unit_problem(ExplicitOracle(np.eye(2)), np.diag([3.0, -2.0]), space=Box([-1.0, -1.0], [2.0, 0.5]))
    found = epoch_constants(problem, 0)
    beta_0 = sqrt(5.0) + sqrt(2 * log((2 + 9.0) / 2))
    np.testing.assert_allclose([found.C_1, found.C_3], [9.0 + 9.0 * beta_0, 6.0 + 9.0 + 9.0 * beta_0], rtol=1e-12)
    one, other = (unit_problem(TopKOracle(4, k=2), arms, space=Box(-1.0, 2.0)) for arms in (None, np.eye(4)))
    assert epoch_constants(one, 3) == epoch_constants(other, 3)


def test_a_prior_given_to_the_policy_counts():
    policy = DoublingPEPS(PROBLEM, rng=0, prior_precision=0.25)
    assert policy._run.eta_p == epoch_constants(PROBLEM, 0, prior_std=2.0).eta_p
    assert policy._run.eta_p != epoch_constants(PROBLEM, 0).eta_p


@pytest.mark.parametrize("constants", ["proved", "printed"])
def test_small_arms_and_a_small_space_have_constants_too(constants):
    problem = unit_problem(TopKOracle(3, k=1), arms=0.01 * np.eye(3), space=Box(-0.01, 0.01))
    for epoch in range(4):
        found = epoch_constants(problem, epoch, constants)
        assert np.isfinite(found.eta_p)
        assert found.eta_p > 0


def test_other_constants_are_refused():
    with pytest.raises(ParameterError, match="printed"):
        epoch_constants(PROBLEM, 0, "folklore")


@pytest.mark.parametrize("space", [None, Box(0.0, np.inf), Box([-1.0, -np.inf], 1.0)])
def test_an_unbounded_space_is_a_typed_error(space):
    with pytest.raises(SpaceError, match="bounded"):
        DoublingPEPS(unit_problem(ExplicitOracle(np.eye(2)), arms=X, space=space), rng=0)


def bounded():
    return unit_problem(TopKOracle(["a", "b", "c"], k=1), space=Box(-2.0, 2.0))


def test_epochs_double_and_each_begins_from_the_prior():
    """The answer's posterior has seen the longer of the last two epochs, and nothing before them."""
    policy, rng = DoublingPEPS(bounded(), rng=0), np.random.default_rng(1)
    for n in range(1, 140):
        arm = policy.choose()
        policy.learn(arm, rng.normal())
        epoch = (n + 1).bit_length() - 1  # 2^0 + ... + 2^(l-1) = 2^l - 1 measurements come before epoch l
        assert policy.epoch == epoch
        seen = max(2**epoch // 2, n - (2**epoch - 1))
        assert policy.posterior.precision.sum() - 3 == pytest.approx(seen)
        assert policy.samples == n
    assert policy.pulls.sum() == 139


def test_a_restart_forgets_the_learner_and_the_clock():
    policy = DoublingPEPS(bounded(), rng=0)
    for _ in range(2 + 1 + 4):  # epochs 0, 1, 2
        policy.learn(policy.choose(), 5.0)
    run = policy._run
    np.testing.assert_array_equal(run.learner.lam, np.full((1, 3), 1 / 3))
    np.testing.assert_array_equal(run.posterior.theta_hat, np.zeros((1, 3)))
    assert (run.t, run.alpha) == (0, 0.25)
    expected = epoch_constants(bounded(), 3)
    assert (run.eta_p, run.learner.eta) == (expected.eta_p, expected.eta_lambda)


def test_a_drawn_answer_comes_from_the_posterior_of_the_answer():
    policy, rng = DoublingPEPS(bounded(), rng=0), np.random.default_rng(4)
    for n in range(1, 60):
        arm = policy.choose()
        policy.learn(arm, rng.normal())
        drawn = [policy.sample_answer(seed) for seed in range(5)]
        twin = PEPS(bounded(), rng=0)
        twin.posterior = policy.posterior  # the last epoch's while the present one is shorter
        np.testing.assert_array_equal(drawn, [twin.sample_answer(seed) for seed in range(5)], str(n))
