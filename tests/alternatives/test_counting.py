"""Skipping facets by the slack of components must not change the draws."""

import numpy as np
import pytest

from combopeps import ExplicitOracle, MatchingOracle, PartitionOracle, TopKOracle
from combopeps.alternatives import _kernels
from combopeps.alternatives import _kernels as _draw_kernels
from combopeps.alternatives.cone import Cone, Limits
from combopeps.posterior import Arms, GaussianPosterior
from combopeps.posterior.parameter_space import RealSpace


def cone_of(oracle, rounds, seed, theta=None):
    """Return a cone in sync with a posterior after some measurements and incremental updates."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=oracle.dim) if theta is None else theta
    posterior = GaussianPosterior.start(Arms.of(oracle))
    for arm in range(oracle.dim):
        posterior.update(arm, float(theta[arm]), count=rounds)
    cone = Cone(oracle, oracle.argmax(posterior.theta_hat[0]), RealSpace())
    cone.prepare(posterior, 1.0, rng, Limits())
    for arm in rng.integers(oracle.dim, size=150):
        posterior.update(int(arm), float(posterior.theta_hat[0, arm] + 0.1 * rng.normal()))
        cone.sync(posterior, 1.0)
    return cone, posterior


def draw(cone, posterior, slack, n=200):
    thetas = np.empty((n, posterior.dim))
    state = np.arange(1, 5, dtype=np.uint64)
    each, blocks, total, _ = cone.weights
    none = np.empty(0)
    scratch = np.zeros(posterior.dim, bool), np.empty(posterior.dim, int), np.empty(cone.size, int)
    counts = _draw_kernels.karp_luby(
        state, cone.rows, cone.index, posterior.theta_hat[0], posterior.spread[0], 1.0, cone.gap, cone.width, each, blocks,
        total, slack, none, none, 10**6, scratch, thetas,
    )  # fmt: skip
    return counts, thetas


ORACLES = {
    "top-k": lambda: TopKOracle(60, 9),
    "matching": lambda: MatchingOracle(5, 5),
    "groups, at most": lambda: PartitionOracle([range(30), range(30, 60)], [4, 9], exactly=False),
    "listed": lambda: ExplicitOracle(np.eye(40) * np.linspace(0.5, 3.0, 40)),
}


@pytest.mark.parametrize("rounds", [1, 30, 1000])
@pytest.mark.parametrize("name", ORACLES)
def test_draws_equal_those_of_evaluating_all_facets(name, rounds):
    cone, posterior = cone_of(ORACLES[name](), rounds, seed=1)
    (*here, _), thetas = draw(cone, posterior, cone.slack)
    (*there, _), again = draw(cone, posterior, np.empty((2, 0)))
    assert here == there
    np.testing.assert_array_equal(thetas, again)


def test_few_facets_are_evaluated_late_in_a_run():
    """Even where all facets are equally near, so that none has a negligible weight."""
    cone, posterior = cone_of(TopKOracle(300, 30), 50, seed=2, theta=np.repeat([1.0, 0.0], [30, 270]))
    (_, proposals, _, _, evaluated), _ = draw(cone, posterior, cone.slack)
    assert cone.size == 30 * 270
    assert evaluated / proposals < cone.size / 20


def test_too_large_slack_changes_the_draws():
    """Negative control: with too large a slack facets are skipped that contain theta, and N is too small."""
    cone, posterior = cone_of(TopKOracle(60, 9), 1, seed=3)
    right = draw(cone, posterior, cone.slack)[0]
    wrong = draw(cone, posterior, 3.0 * cone.slack)[0]
    assert wrong[2] / wrong[1] > 1.01 * right[2] / right[1]


def test_block_sums_after_thousands_of_updates():
    cone, posterior = cone_of(TopKOracle(60, 9), 5, seed=4)
    rng = np.random.default_rng(5)
    for _ in range(3000):
        arm = int(rng.integers(60))
        posterior.update(arm, float(posterior.theta_hat[0, arm] + rng.normal()))
        cone.sync(posterior, 1.0)
    log_mass = np.logaddexp.reduce(cone.log_w[: cone.size])
    assert cone.log_mass == pytest.approx(log_mass, rel=1e-9, abs=1e-9)
    assert cone.weights.blocks[: -(-cone.size // _kernels.BLOCK)].sum() == pytest.approx(cone.weights.total)
