"""Reading the state of a run does not change it; slow samplers and interrupts during a check do no harm."""

import numpy as np
import pytest
from unit_problem import unit_problem

from benchmarks._problems import grid_oracle
from combopeps import PEPS, Box, BudgetRule, ExplicitOracle, Session, TopKOracle, TopTwo, identify
from combopeps.alternatives import HalfSpaceSampler, HitAndRunSampler, RejectionSampler
from combopeps.alternatives.cone import Cone, Limits
from combopeps.alternatives.replications import Cones
from combopeps.policies.baselines import LinGame, Uniform
from combopeps.posterior import Arms, GaussianPosterior
from combopeps.posterior.parameter_space import RealSpace
from combopeps.stopping import PosteriorRule


def grid_run(**options):
    oracle = grid_oracle(6)
    theta = np.random.default_rng(1).uniform(0.5, 1.5, oracle.dim)
    truth, noise = dict(zip(oracle.components, theta, strict=True)), np.random.default_rng(2)
    problem = unit_problem(oracle, noise_std=0.3)
    return identify(
        problem,
        lambda edge: truth[edge] + 0.3 * noise.normal(),
        stopping=BudgetRule(simulations=0),
        budget=500,
        rng=0,
        **options,
    )


def test_progress_bar_and_reports_do_not_change_the_run(capsys):
    plain = grid_run()
    assert grid_run(progress=True).pulls == plain.pulls
    capsys.readouterr()

    def curious(session, query, y):
        if session.samples % 50 == 0:
            session.top_answers()
            session.status()

    assert grid_run(callback=curious).pulls == plain.pulls


@pytest.mark.parametrize("policy", [TopTwo, Uniform])
def test_a_sampler_too_slow_for_a_check_does_not_stop_the_run(policy):
    made = policy(unit_problem(TopKOracle(30, 3)), 0, sampler=RejectionSampler(cap=500))
    made.learn_many(range(30), [float(arm < 3) for arm in range(30)], [400.0] * 30, [400] * 30)
    found = Session(made.problem, policy=made).status()
    assert found.answer == {0, 1, 2}
    assert found.runner_up not in (None, {0, 1, 2})
    assert 0.0 < found.error_probability < 1e-20


def test_chains_and_arms_that_do_not_span_the_space():
    arms = (np.eye(6) - 1.0 / 6.0)[:5]
    problem = unit_problem(TopKOracle(6, 2), arms)
    theta, noise = np.array([2.0, 1.8, 0.2, 0.1, 0.0, -0.1]), np.random.default_rng(0)
    policy = TopTwo(problem, 0, sampler=HitAndRunSampler(steps=4))
    result = identify(
        problem, lambda i: float(arms[i] @ theta + noise.normal()), policy=policy, stopping="certified", budget=150
    )
    assert result.answer == {0, 1}


@pytest.mark.parametrize("replications", [1, 2, 7])
def test_number_of_cached_cones_does_not_depend_on_replications(replications):
    oracle = TopKOracle(5, 2)
    cones = Cones(oracle, RealSpace(), replications)
    answers = [oracle.argmax(np.roll(np.arange(5.0), k)) for k in range(3)]
    first = cones.at(0, answers[0])
    second = cones.at(0, answers[1])
    assert cones.at(0, answers[0]) is first
    assert cones.at(0, answers[1]) is second
    cones.at(0, answers[2])
    assert cones.at(0, answers[0]) is not first


def test_an_interrupted_check_drops_the_cones(monkeypatch):
    session, noise = Session(unit_problem(grid_oracle(6), noise_std=0.3), policy="top-two"), np.random.default_rng(0)
    for _ in range(200):
        session.tell(session.ask(), 1.0 + 0.3 * noise.normal())
    cones = session.policy.alternatives.cones

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(PosteriorRule, "check", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.look()
    assert session.policy.alternatives.cones is not cones


def posterior_of(oracle, theta, rounds, arms=None, **options):
    posterior = GaussianPosterior.start(Arms.of(oracle, arms), **options)
    for arm in range(len(posterior.arms)):
        posterior.update(arm, float(posterior.arms.row(arm) @ theta), count=rounds)
    return posterior


def test_a_dense_posterior_between_two_diagonal_ones():
    oracle, theta = TopKOracle(6, 2), np.array([1.0, 0.9, 0.3, 0.2, 0.1, 0.0])
    diagonal = posterior_of(oracle, theta, 5)
    dense = posterior_of(oracle, theta, 400, np.eye(6) + 0.1)
    cone, rng = Cone(oracle, oracle.argmax(theta), RealSpace()), np.random.default_rng(0)
    cone.prepare(diagonal, 1.0, rng, Limits())
    before = cone.log_mass
    cone.sync(dense, 1.0)
    assert cone.log_mass < before - 1.0
    assert cone.slack.shape[1] == 0
    cone.sync(diagonal, 1.0)
    assert cone.log_mass == pytest.approx(before, rel=1e-12)


def test_widths_keep_their_digits_under_a_vague_prior():
    oracle, rng = TopKOracle(6, 2), np.random.default_rng(3)
    theta = np.array([1.0, 0.9, 0.3, 0.2, 0.1, 0.0])
    posterior = GaussianPosterior.start(Arms.of(oracle), prior_precision=1e-20)
    cone = Cone(oracle, oracle.argmax(theta), RealSpace())
    cone.prepare(posterior, 1.0, rng, Limits())
    for arm in [0, 1, 2, 3, 4, 5] * 3:
        posterior.update(arm, float(theta[arm] + rng.normal()))
        cone.sync(posterior, 1.0)
        rows = oracle.facets(cone.z_hat).toarray()
        np.testing.assert_allclose(cone.width[: cone.size], rows**2 @ posterior.variance[0], rtol=1e-6)


def test_rows_without_zeros_are_read_in_the_order_of_components():
    """The second of two items is best: the swap is listed as (inside, outside), which is not in order."""
    oracle = TopKOracle(2, 1)
    policy = LinGame(unit_problem(oracle, np.array([[1.0, 0.5], [0.3, 1.0]])), rng=0)
    policy.facets.set_answers(np.array([[0.0, 1.0]]))
    gap, _ = policy.facets.weigh(np.array([[-0.5, 0.9]]), np.eye(2)[None])
    assert gap == pytest.approx(1.4)


@pytest.mark.parametrize("stopping", ["certified", "verified"])
def test_a_component_that_no_arm_measures_in_a_box(stopping):
    """Answers do not differ there; without a prior the posterior has variance 0 there."""
    oracle = ExplicitOracle(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]))
    problem = unit_problem(oracle, [0, 1], space=Box(-5.0, 5.0))
    noise, theta = np.random.default_rng(4), [1.5, 0.0]
    result = identify(problem, lambda i: theta[i] + noise.normal(), stopping=stopping, delta=0.1, budget=2000, rng=0)
    assert (result.answer, result.stop_reason) == (0, stopping)


def test_a_used_sampler_is_copied_without_its_cone():
    oracle = grid_oracle(6)
    posterior = posterior_of(oracle, np.ones(oracle.dim), 20)
    used = HalfSpaceSampler()
    used.sample(posterior, oracle, oracle.argmax(posterior.theta_hat[0]), 1, 0)
    assert used.cone is not None
    policy = PEPS(unit_problem(oracle), 0, sampler=used, replications=3)
    z_hat = policy.z_hat()[0]
    assert policy.alternatives.aside(z_hat).cone is not used.cone
    assert not policy.alternatives.aside(z_hat).cone.explored
