"""Many updates at once give the same bits as single updates."""

import numpy as np
import pytest
from ridge import in_units

from combopeps.errors import ParameterError
from combopeps.posterior import GaussianPosterior

UNITS = in_units(np.diag([1.0, 0.3, -2.0, 7.0, 1e-3]), 0.7)
GENERAL = in_units(np.random.default_rng(0).normal(size=(9, 4)), 0.7)


@pytest.mark.parametrize("arms", [UNITS, GENERAL], ids=["diagonal", "dense"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pieces", [[1], [511], [512], [513], [100, 411, 1, 1, 1024, 37], [0, 1500]], ids=str)
def test_bit_for_bit(arms, pieces, weighted):
    rng = np.random.default_rng(1)
    one, many = (GaussianPosterior.start(arms, prior_precision=0.37) for _ in range(2))
    for n in pieces:
        arm, y = rng.integers(0, len(arms), n), rng.normal(size=n) * 10.0 ** rng.integers(-6, 7, n)
        counts = rng.uniform(0.01, 40.0, n) if weighted else np.ones(n)
        many.update_many(arm.tolist(), y.tolist(), counts.tolist() if weighted else None)
        for a, value, count in zip(arm, y, counts, strict=True):
            one.update(a, value, count)
    fields = [name for name, value in vars(one).items() if isinstance(value, np.ndarray)]
    assert {"theta_hat", "moment"} < set(fields)
    for field in fields:
        np.testing.assert_array_equal(getattr(one, field), getattr(many, field), field)


@pytest.mark.parametrize(("arms", "ys"), [([5], [0.0]), ([-1], [0.0]), ([0], [np.nan]), ([0], [1.0, 2.0])])
def test_bad_input_changes_nothing(arms, ys):
    posterior = GaussianPosterior.start(UNITS)
    with pytest.raises(ParameterError):
        posterior.update_many(arms, ys)
    assert not posterior.theta_hat.any()


def test_one_replication_only():
    with pytest.raises(ParameterError, match="one replication"):
        GaussianPosterior.start(UNITS, replications=2).update_many([0], [1.0])
