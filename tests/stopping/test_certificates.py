"""Certified lower bounds against enumeration: never above the truth, and tight enough to be of use."""

from itertools import combinations

import numpy as np
import pytest
from families import FAMILIES, Case, draw
from tightness import glr_of, half_normal_of, table, true_glr, true_half_normal

from combopeps import MatchingOracle, TopKOracle
from combopeps.posterior.gaussian import Normal
from combopeps.stopping.certificates.glr import glr_bound

ROUNDING = 1e-9
BINARY = [family for family in FAMILIES if family != "explicit"]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_glr_bound_is_a_lower_bound(family):
    (row,) = table(120, seed=1, families=(family,), bounds=("glr",))
    assert row.excess <= ROUNDING
    assert row.median > (0.5 if family == "cyclic" else 0.999)  # clipping at 0 costs something


@pytest.mark.parametrize("family", BINARY)
def test_the_half_normal_bound_is_a_lower_bound(family):
    (row,) = table(15, seed=2, families=(family,), bounds=("half-normal",))
    assert row.excess <= ROUNDING
    if family != "cyclic":
        assert row.median > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("family", BINARY)
def test_the_half_normal_bound_is_a_lower_bound_in_many_cases(family):
    (row,) = table(400, seed=3, families=(family,), bounds=("half-normal",))
    assert row.excess <= ROUNDING


@pytest.mark.parametrize("family", FAMILIES)
def test_glr_with_a_target_decides_soundly_and_completely(family):
    """value > target only if the truth is; and the branch and bound gets there when the truth is 1 % above."""
    rng = np.random.default_rng(4)
    for i in range(40):
        case = draw(family, rng)
        epsilon = 0.0 if i % 2 else 0.3
        truth = true_glr(case, epsilon)
        for factor in (0.5, 1 / 1.01, 1.0 + 1e-6, 1.01, 2.0):
            target = truth * factor
            value = glr_of(case, epsilon, target)
            assert value <= truth * (1 + ROUNDING) + 1e-12
            if factor < 1 and case.oracle.domain == "real":
                assert value > target


@pytest.mark.parametrize("family", BINARY)
def test_half_normal_with_a_target_decides_soundly_and_completely(family):
    """Counts within a factor 30, where the conjugate's table does not end."""
    rng = np.random.default_rng(5)
    decided = 0
    for i in range(9):
        case = draw(family, rng)
        case.n[:] = 10.0 ** rng.uniform(1.5, 3, case.oracle.dim)
        rho, kappa, epsilon = (8.0, 512.0)[i % 2], rng.uniform(0, 1, case.oracle.dim), 0.3 * (i % 3)
        truth = true_half_normal(case, rho, kappa, epsilon)
        if truth < 0.5:
            continue
        for factor in (0.5, 1 / 1.01, 1.01):
            value = half_normal_of(case, rho, kappa, epsilon, truth * factor)
            assert value <= truth * (1 + ROUNDING)
            if factor < 1 and case.oracle.domain == "real":
                assert value > truth * factor
                decided += 1
    assert decided >= 2 or case.oracle.domain == "nonnegative"


def test_a_bound_that_is_too_high_is_noticed():
    """The upper bound of a local search (the first rival only) is above the truth: the comparison above can fail."""
    rng, above = np.random.default_rng(6), 0
    for _ in range(50):
        case = draw("square matching", rng)
        y = case.others[:1]
        first = 0.5 * float(-(y @ case.theta)[0]) ** 2 / float((y**2 @ (1 / case.n))[0])
        above += first > true_glr(case, 0.0) * (1 + ROUNDING)
    assert above > 10


@pytest.mark.parametrize("family", ["top-k", "square matching", "dag", "size 1 or 2"])
def test_an_answer_that_is_not_the_best_has_no_evidence(family):
    rng = np.random.default_rng(7)
    for _ in range(20):
        case = draw(family, rng)
        worst = case.Z[(case.Z @ case.theta).argmin()]
        assert glr_bound(case.oracle, worst, Normal(case.theta, 1 / case.n), target=1.0).value == 0.0


def test_a_single_answer_has_infinite_evidence():
    oracle = TopKOracle(3, k=3)
    bound = glr_bound(oracle, np.ones(3), Normal(np.zeros(3), np.ones(3)), target=1.0)
    assert bound.value == np.inf


@pytest.mark.parametrize("engine", ["compiled", "scipy", "ortools"])
def test_without_any_gap_there_is_no_evidence(engine):
    """theta = 0: nothing but the weights that force components is left."""
    oracle = MatchingOracle(3, 3, engine=engine)
    estimate = Normal(np.zeros(9), np.ones(9))
    assert glr_bound(oracle, oracle.argmax(np.zeros(9)), estimate, target=1.0).value == 0.0


@pytest.mark.parametrize("most", [1e4, 1e7])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_uneven_counts_do_not_spoil_the_bound(most, scale):
    """Counts that differ by four and by seven decades within one answer."""
    Z = np.array([np.isin(np.arange(6), chosen).astype(float) for chosen in combinations(range(6), 3)])
    theta = scale * np.array([1.0, 1.0, 0.9, 0.0, 0.1, 0.0])
    case = Case(TopKOracle(6, k=3), Z, theta, np.array([1.0, most, 1.0, most, 1.0, most]))
    truth = true_half_normal(case, 4096.0, np.zeros(6), 0.0)
    assert truth - 1e-4 < half_normal_of(case, 4096.0, np.zeros(6), 0.0) <= truth
