"""Certificates on graphs with cycles, against enumeration: what is ruled out is refuted, route by route."""

import numpy as np
import pytest
from families import draw
from scipy.special import log_ndtr
from unit_problem import unit_problem

from combopeps.posterior.gaussian import Normal
from combopeps.posterior.least_squares import Measurements
from combopeps.stopping.certificates.betting_rounds import BettingRounds
from combopeps.stopping.certificates.lagrangian import HalfNormal, lagrangian_bound
from combopeps.stopping.certificates.time_uniform import RHOS, SupportTest
from combopeps.stopping.requested_measurements import FreshResults

ROUNDING = 1e-9


def cyclic_case(rng):
    """At least three routes, lengths of which some are known to be positive and some are not."""
    while True:
        case = draw("cyclic", rng, scale=float(10.0 ** rng.uniform(-1, 1)))
        if case.oracle.domain == "nonnegative" and len(case.Z) > 2:
            return case


def h(x):
    return 0.5 * x * x + np.log(2.0) + log_ndtr(x)


def penalties(lam, n, rho, kappa, limit):
    """max over x <= limit sqrt(w) of lam x / sqrt(w) - h(x), by a fine grid: never above the truth."""
    if n == 0.0:
        return kappa
    root = np.sqrt(n + rho) / n
    room = min(limit / root, 60.0)
    x = np.concatenate([np.linspace(-60.0, room, 20_001), [room]])
    return (lam * root * x - h(x)).max() + 0.5 * np.log1p(n / rho) + kappa


def test_a_limit_on_errors_against_a_grid():
    rng = np.random.default_rng(0)
    for _ in range(150):
        n, rho, kappa = 10.0 ** rng.uniform(-1, 3), float(rng.choice(RHOS)), float(rng.uniform(0, 1))
        limit = float(rng.normal(0.5, 1.0)) * np.sqrt(n + rho) / n * 5.0
        lam = 10.0 ** rng.uniform(-1, 1) * n / np.sqrt(n + rho)
        found = HalfNormal(np.array([n]), rho, kappa, limit).matrix(np.array([lam]))[0, 0]
        assert found == pytest.approx(penalties(lam, n, rho, kappa, limit), rel=1e-3, abs=1e-3)
        free = HalfNormal(np.array([n]), rho, kappa).matrix(np.array([lam]))[0, 0]
        assert found <= free + ROUNDING


def test_what_was_never_measured_costs_nothing_if_it_has_a_limit():
    pen = HalfNormal(np.zeros(2), 8.0, 0.0, np.array([0.0, np.inf])).matrix(np.array([0.7]))[0]
    assert pen.tolist() == [0.0, np.inf]


def check_supports(seed, cases):
    """No component of an answer with less evidence than the target is ruled out, nor is the bound above the least."""
    refuted = 0
    for i in range(cases):
        rng = np.random.default_rng([seed, i])
        case = cyclic_case(rng)
        oracle, z_hat, d = case.oracle, case.z_hat, case.oracle.dim
        n = np.where((rng.random(d) < 0.2) & (z_hat == 0.0), 0.0, case.n)  # some were never measured
        theta = np.where(n > 0.0, case.theta - 0.3 * (rng.random(d) < 0.1), 0.0)  # some estimates are negative
        theta = np.where(z_hat != 0.0, case.theta, theta)
        epsilon = float(rng.choice([0.0, 0.1]))
        test = SupportTest(oracle, unit_problem(oracle).arms, 0.1, epsilon)
        test.threshold = float(rng.choice([1.0, 5.0, 30.0]))
        estimate, y = Normal(theta, 1.0 / np.maximum(n, 1e-300)), case.others
        lams, gaps = np.geomspace(1e-6, 1e8, 1500), epsilon - y @ theta
        truth = np.full(len(y), -np.inf)
        for rho in RHOS:
            penalty = test.penalty(n, rho, z_hat, estimate)
            value = (lams[:, None] * gaps - penalty.matrix(lams) @ (y != 0.0).T).max(axis=0)
            truth = np.maximum(truth, value + 1e-3 * np.maximum(1.0, np.abs(value)))  # the grid is a little below
            bound = lagrangian_bound(oracle, z_hat, theta, penalty, target=test.threshold, epsilon=epsilon).value
            assert bound <= value.min() + 1e-3 * max(1.0, abs(value.min()))
        test._rule_out(n, estimate, z_hat)
        safe = y[truth < test.threshold]
        assert test.candidates[(safe != 0.0).any(axis=0) & (z_hat == 0.0)].all()
        refuted += int((~test.candidates & (z_hat == 0.0)).sum())
    return refuted


def check_rounds(seed, cases, rule=BettingRounds):
    """After some rounds: components that are ruled out are in no route whose evidence, added up by hand, falls short."""
    refuted = 0
    for i in range(cases):
        rng = np.random.default_rng([seed, i])
        case = cyclic_case(rng)
        oracle, z_hat, epsilon = case.oracle, case.z_hat, float(rng.choice([0.0, 0.1]))
        sigma = 10.0 ** rng.uniform(-2, 0, oracle.dim)
        arms = unit_problem(oracle, noise_std=dict(zip(oracle.components, sigma, strict=True))).signal
        counts = rng.integers(1, 5, oracle.dim).astype(float)
        totals = counts * case.theta / sigma + np.sqrt(counts) * rng.normal(size=oracle.dim)
        data = Measurements(arms, counts, totals)
        attempt = rule(data, oracle, z_hat, 0.1, epsilon, np.ones(oracle.dim, dtype=bool))
        y = case.others
        sums, best = np.repeat(attempt.offset[:, None], len(y), axis=1), np.full(len(y), -np.inf)
        for _ in range(3):
            wanted, weight, guess = attempt.wanted.astype(float), attempt.weight, attempt.guess
            squares = wanted * rng.choice([1.0, rng.uniform(0.2, 3.0)])  # of standard errors, which results may have
            fresh = wanted * case.theta / sigma + np.sqrt(squares) * rng.normal(size=oracle.dim)
            data = Measurements(arms, data.weights + wanted, data.totals + fresh)
            results = FreshResults(arms)
            results.counts[:], results.totals[:], results.squares[:] = attempt.wanted, fresh, squares
            for j, lam in enumerate(attempt.lams):
                for k, row in enumerate(y):
                    for a in np.flatnonzero(row):
                        mean, v = (fresh[a] * sigma[a] / wanted[a], sigma[a] ** 2 / wanted[a]) if wanted[a] else (0, 1)
                        m = lam * weight if z_hat[a] else min(lam * weight, max(guess[a], 0.0) / v)
                        m = m if wanted[a] else 0.0
                        realised = v * squares[a] / wanted[a] if wanted[a] else 0.0
                        sums[j, k] += (-m * mean if z_hat[a] else m * mean) - 0.5 * m * m * realised
                    sums[j, k] += lam * weight * epsilon
            best = np.maximum(best, sums.max(axis=0))
            attempt.look(data, results)
            assert results.samples == 0
            safe = y[best < attempt.threshold - ROUNDING]
            assert attempt.candidates[(safe != 0.0).any(axis=0) & (z_hat == 0.0)].all()
            assert attempt.statistic <= best.min() + ROUNDING * max(1.0, abs(best.min())) or attempt.confirmed
            if attempt.confirmed:
                break
        refuted += int((~attempt.candidates & (z_hat == 0.0)).sum())
    return refuted


def test_what_is_ruled_out_is_refuted():
    assert check_supports(1, 40) > 20


@pytest.mark.slow
def test_what_is_ruled_out_is_refuted_in_a_thousand_cases():
    assert check_supports(2, 1000) > 500


def test_rounds_refute_what_enumeration_refutes():
    assert check_rounds(3, 12) > 10


@pytest.mark.slow
def test_rounds_refute_what_enumeration_refutes_in_a_thousand_cases():
    assert check_rounds(4, 1000) > 500


class Generous(BettingRounds):
    """Adds a little to what every component says."""

    def look(self, data, fresh):
        self.lengths[:, ~self.inside] += 1.0
        super().look(data, fresh)


def test_evidence_from_nowhere_is_noticed():
    with pytest.raises(AssertionError):
        check_rounds(3, 12, Generous)
