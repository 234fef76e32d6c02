"""Invalid input to a posterior: a typed error, and an unchanged posterior."""

import numpy as np
import pytest
from ridge import general_arms, unit_arms

from combopeps import ComboPepsError
from combopeps.errors import ParameterError
from combopeps.posterior import Arms, DensePosterior, DiagonalPosterior, GaussianPosterior

KINDS = {"diagonal": (DiagonalPosterior, unit_arms(3, 1)), "dense": (DensePosterior, general_arms(4, 3, 2))}
NAN, INF = float("nan"), float("inf")

UPDATES = {
    "reward NaN": (0, NAN, 1),
    "reward inf": (0, INF, 1),
    "reward -inf": (0, -INF, 1),
    "one of two rewards NaN": (0, [1.0, NAN], 1),
    "arm below": (-1, 1.0, 1),
    "arm above": (99, 1.0, 1),
    "one of two arms above": ([0, 99], 1.0, 1),
    "arm between two": (0.5, 1.0, 1),
    "arms of the wrong length": ([0, 1, 2], 1.0, 1),
    "rewards of the wrong length": (0, [1.0, 2.0, 3.0], 1),
    "reward a word": (0, "much", 1),
    "count 0": (0, 1.0, 0),
    "count negative": (0, 1.0, -3),
    "count NaN": (0, 1.0, NAN),
    "count inf": (0, 1.0, INF),
}


def state(posterior):
    return {name: value.copy() for name, value in vars(posterior).items() if isinstance(value, np.ndarray)}


@pytest.mark.parametrize("fault", UPDATES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_measurement_changes_nothing(kind, fault):
    make, matrix = KINDS[kind]
    posterior = make(Arms(matrix), replications=2)
    posterior.update([0, 1], [1.0, -1.0])
    before = state(posterior)
    arm, y, count = UPDATES[fault]
    with pytest.raises(ParameterError):
        posterior.update(arm, y, count=count)
    for name, value in state(posterior).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


OPTIONS = {
    "prior_precision 0": {"prior_precision": 0.0},
    "prior_precision negative": {"prior_precision": -1.0},
    "prior_precision NaN": {"prior_precision": NAN},
    "prior_precision inf": {"prior_precision": INF},
    "prior_precision a word": {"prior_precision": "flat"},
    "prior_precision None": {"prior_precision": None},
    "prior_precision of one component 0": {"prior_precision": np.array([1.0, 0.0, 1.0])},
    "prior_precision of one component NaN": {"prior_precision": np.array([1.0, 1.0, NAN])},
    "prior_precision of one component inf": {"prior_precision": np.array([INF, 1.0, 1.0])},
    "prior_precision of the wrong length": {"prior_precision": np.ones(2)},
    "prior_mean NaN": {"prior_mean": NAN},
    "prior_mean of one component inf": {"prior_mean": np.array([0.0, -INF, 0.0])},
    "prior_mean a word": {"prior_mean": "high"},
    "prior_mean of the wrong length": {"prior_mean": np.zeros(4)},
    "replications 0": {"replications": 0},
    "replications negative": {"replications": -2},
    "replications half": {"replications": 1.5},
}


@pytest.mark.parametrize("fault", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_option_is_refused_by_name(kind, fault):
    with pytest.raises(ParameterError, match=fault.split()[0]) as caught:
        GaussianPosterior.start(Arms(KINDS[kind][1]), **OPTIONS[fault])
    assert isinstance(caught.value, ComboPepsError)
