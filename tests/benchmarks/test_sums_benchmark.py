"""`python -m benchmarks.sums`: towns are of the size they claim, and their routes tell the answers apart."""

import numpy as np
import pytest

from benchmarks import sums


@pytest.mark.parametrize("seed", sums.TOWNS)
def test_towns(seed):
    town = sums.town(seed)
    assert town.oracle.domain == "nonnegative"
    assert 40 <= town.oracle.dim <= 2 * sums.STREETS
    assert town.routes.shape == (sums.ROUTES, town.oracle.dim)
    assert set(np.unique(town.routes)) == {0.0, 1.0}
    town.problem(1.0)  # which checks that differences of answers can be measured


def test_one_run_and_one_line_of_alternatives():
    *_, stop, right, _ = sums.run(0, 0.1)
    assert (stop, right) == ("posterior", "yes")
    ((_, theta, alt, *_),) = sums.alternatives(4, (1000,), 2)
    assert float(theta) < 1e-5
    assert float(alt) < 1e-5
