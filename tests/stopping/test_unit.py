"""`unit` may be any number: what a chosen component counts changes gaps and widths alike, and no claim."""

import numpy as np
import pytest
from families import Listed
from runs import Instance, run_many
from unit_problem import unit_problem

from combopeps import CertifiedRule, VerifiedRule, check_oracle, lower_bound
from combopeps.oracles.base import as_sparse
from combopeps.stopping.certificates.lagrangian import Gaussian, HalfNormal, _Search, lagrangian_bound
from combopeps.utils.interface_checks import ContractError

UNITS = [2.0, 0.25, -3.0, -0.5]
SUBSETS = np.array([row for row in (np.arange(32)[:, None] >> np.arange(5) & 1).astype(float) if row.sum() == 2])


class Sets(Listed):
    """A user's 0/unit set, not listed as far as the package knows."""

    antichain = True

    def __init__(self, unit):
        self.unit = unit
        super().__init__(SUBSETS * unit)


def smallest(oracle, theta, penalty):
    """By enumeration."""
    z_hat = oracle.argmax(theta)
    y = oracle.Z - z_hat
    y = y[y.any(axis=1)]
    return float(penalty.best(as_sparse(y), -(y @ theta))[1].min())


@pytest.mark.parametrize("unit", UNITS)
def test_bounds_never_exceed_the_truth(unit):
    rng, oracle = np.random.default_rng(0), Sets(unit)
    tight = 0
    for _ in range(60):
        theta, n = rng.normal(size=5), 10.0 ** rng.uniform(0, 3, size=5)
        for penalty in (Gaussian(1.0 / n), HalfNormal(n, 64.0, 0.2)):
            truth = smallest(oracle, theta, penalty)
            found = lagrangian_bound(oracle, oracle.argmax(theta), theta, penalty)
            assert found.value <= truth + 1e-9 * abs(truth)
            tight += found.value >= 0.9 * truth
    assert tight > 30


def test_a_penalty_that_ignores_the_unit_is_caught(monkeypatch):
    """Negative control: the fault that this file is about."""
    rng, oracle, above = np.random.default_rng(0), Sets(2.0), 0
    start = _Search.__init__

    def ignorant(self, *arguments):
        start(self, *arguments)
        self.price, self.size = self.price * 1.0, 1.0

    monkeypatch.setattr(_Search, "__init__", ignorant)
    for _ in range(30):
        theta, n = rng.normal(size=5), 10.0 ** rng.uniform(0, 3, size=5)
        truth = smallest(oracle, theta, Gaussian(1.0 / n))
        above += lagrangian_bound(oracle, oracle.argmax(theta), theta, Gaussian(1.0 / n)).value > truth * (1 + 1e-6)
    assert above > 0


@pytest.mark.parametrize("unit", UNITS)
def test_the_lower_bound_does_not_depend_on_it(unit):
    theta = np.array([1.0, 0.7, 0.2, -0.1, -1.0]) * np.sign(unit)
    plain = lower_bound(unit_problem(Sets(np.sign(unit))), theta)
    other = lower_bound(unit_problem(Sets(unit)), theta)
    assert other.certified
    assert other.lower <= other.upper
    assert other.tau_star == pytest.approx(plain.tau_star, rel=2e-4)


@pytest.mark.parametrize("unit", UNITS)
def test_the_contract_holds(unit):
    check_oracle(Sets(unit))


@pytest.mark.parametrize("unit", [0.0, np.nan, np.inf])
def test_a_unit_that_is_no_number_is_named(unit):
    oracle = Sets(1.0)
    oracle.unit = unit
    with pytest.raises(ContractError, match="unit is"):
        check_oracle(oracle)


@pytest.mark.parametrize("rule", [CertifiedRule, VerifiedRule])
@pytest.mark.parametrize("unit", [2.0, -0.5])
def test_rules_measure_as_much_as_ever(rule, unit):
    theta = np.array([2.0, 1.8, 0.2, -0.1, -1.0]) * np.sign(unit)
    samples = []
    for oracle in (Sets(np.sign(unit)), Sets(unit)):
        outcome = run_many(lambda: rule(0.1), Instance(unit_problem(oracle), theta, 3000), 4, seed=0, policy="uniform")
        assert (outcome.stopped, outcome.errors) == (4, 0)
        samples.append(outcome.samples.mean())
    assert 0.8 < samples[0] / samples[1] < 1.25
