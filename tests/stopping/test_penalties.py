"""The half-normal mixture: its conjugate, its martingale, and the probability that it ever gets large."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import erfcx, log_ndtr
from scipy.stats import binomtest, norm
from tightness import conjugates

from combopeps.oracles.base import as_sparse
from combopeps.stopping.certificates._kernels import CONSTANT, ROOT
from combopeps.stopping.certificates.lagrangian import Gaussian, HalfNormal, conjugate_table

FALSE_ALARM = 1e-4


def h(x):
    """x^2/2 + ln(2 Phi(x)); ln erfcx(-x/sqrt(2)) is the same without cancellation at negative x."""
    low = np.log(erfcx(-np.minimum(x, 0.0) / np.sqrt(2)))
    return np.where(x < 0, low, 0.5 * x * x + np.log(2.0) + log_ndtr(x))


def test_the_table_is_the_conjugate():
    mu, value, slope = (column[::400] for column in conjugate_table())
    for m, v, x in zip(mu, value, slope, strict=True):
        best = minimize_scalar(
            lambda x, m=m: h(x) - m * x,
            bounds=(-2 / m - 2, m + 1),
            method="bounded",
            options={"xatol": 1e-9 / min(m, 1.0)},
        )
        assert v == pytest.approx(-best.fun, abs=1e-7)
        assert x == pytest.approx(best.x, rel=2e-3, abs=1e-3)
    np.testing.assert_allclose(conjugates(mu), value, atol=1e-7)  # the reference of other tests


def test_chords_lie_above_the_conjugate_and_close_to_it():
    rng = np.random.default_rng(0)
    mu = np.exp(rng.uniform(np.log(1e-8), np.log(120.0), 20_000))
    one = HalfNormal(np.array([1e300]), 1.0)  # 1 / sqrt(w) = 1e-150: lam = 1e150 mu
    found = one.matrix(mu / one.terms[0, ROOT])[:, 0] - one.terms[0, CONSTANT]
    exact = conjugates(mu)
    eps = np.finfo(float).eps  # h'(x) = mu is solved to 4 eps |x|, x = -1/mu: an error of 8 eps^2 x^4 in h*
    tolerance = 8 * eps**2 / np.maximum(mu, 1e-6) ** 4 + 1e-10 * np.maximum(1.0, exact)
    assert (found >= exact - tolerance).all()
    assert (found <= exact + 1e-4 * np.maximum(1.0, np.abs(exact))).all()


def test_an_unmeasured_component_costs_everything_and_an_exempt_one_nothing():
    penalty = HalfNormal(np.array([0.0, np.inf, 10.0]), 8.0)
    pen = penalty.matrix(np.array([0.7]))[0]
    assert pen[0] == np.inf
    assert pen[1] == 0.0
    assert np.isfinite(pen[2])


def test_the_best_multiplier_of_a_row():
    rng = np.random.default_rng(1)
    for _ in range(30):
        n, y = 10.0 ** rng.uniform(1, 3, 4), rng.choice([-1.0, 1.0, 2.0], size=4)
        penalty, gap = HalfNormal(n, 64.0, 0.3), float(rng.uniform(0.1, 3))
        lams, values = penalty.best(as_sparse(y[None]), np.array([gap]))
        root = np.sqrt(n**2 / (n + 64.0))
        constant = (0.5 * np.log1p(n / 64.0) + 0.3).sum()
        best = minimize_scalar(
            lambda s, y=y, root=root, gap=gap: conjugates(np.exp(s) * np.abs(y) / root).sum() - np.exp(s) * gap,
            bounds=(np.log(lams[0]) - 2, np.log(lams[0]) + 2),
            method="bounded",
        )
        assert values[0] <= -best.fun - constant + 1e-9
        assert values[0] == pytest.approx(-best.fun - constant, abs=1e-3)
        gauss = Gaussian(1 / n).best(as_sparse(y[None]), np.array([gap]))[1][0]
        assert gauss == pytest.approx(0.5 * gap**2 / (y**2 / n).sum())


def test_a_small_coefficient_does_not_make_all_evidence_worthless():
    """The exact maximum is 12.6: one component counts a thousandth of the other."""
    n, y, gap = np.array([100.0, 100.0]), np.array([-1.0, 1e-3]), 0.8
    root = np.sqrt(n**2 / (n + 8.0))
    constant = 0.5 * np.log1p(n / 8.0).sum()
    lam = np.linspace(30, 150, 1000)
    exact = (lam * gap - conjugates(lam[:, None] * np.abs(y) / root).sum(axis=1)).max() - constant
    assert exact > 10
    assert HalfNormal(n, 8.0).best(as_sparse(y[None]), np.array([gap]))[1][0] == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("share", [0.01, 1.0, 100.0])
def test_the_mixture_has_mean_one(share):
    """E exp(h(x)) / sqrt(1 + n/rho), x = S / sqrt(n + rho), S ~ N(0, n), by quadrature; without the root it is not 1."""
    rho, n = 8.0, 8.0 * share
    far = 12 * np.sqrt(n * (n + rho) / rho)
    mean = sum(
        quad(lambda s: np.exp(h(s / np.sqrt(n + rho)) + norm.logpdf(s, 0, np.sqrt(n))), *ends, limit=200)[0]
        for ends in ((-far, 0), (0, far))
    )
    assert mean / np.sqrt(1 + n / rho) == pytest.approx(1.0, abs=1e-6)
    assert mean > 1.004


def test_the_mixture_has_mean_one_in_simulation():
    rho, n, draws = 64.0, 16, 400_000
    s = np.random.default_rng(2).normal(size=draws) * np.sqrt(n)
    values = np.exp(h(s / np.sqrt(n + rho))) / np.sqrt(1 + n / rho)
    z = (values.mean() - 1) / (values.std() / np.sqrt(draws))
    assert abs(z) < norm.isf(FALSE_ALARM / 2)
    control = values * np.sqrt(1 + n / rho)
    assert (control.mean() - 1) / (control.std() / np.sqrt(draws)) > norm.isf(FALSE_ALARM / 2)


def crossings(normalised, delta, runs=4000, steps=600, rho=8.0, seed=3):
    """Two coordinates; an adversary always measures the one whose evidence is behind, and stops when it likes."""
    rng = np.random.default_rng(seed)
    S, n, crossed, row = np.zeros((runs, 2)), np.zeros((runs, 2)), np.zeros(runs, bool), np.arange(runs)
    for _ in range(steps):
        value = h(S / np.sqrt(n + rho)) - (0.5 * np.log1p(n / rho) if normalised else 0.0)
        crossed |= value.sum(axis=1) > np.log(1 / delta)
        arm = value.argmin(axis=1)
        S[row, arm] += rng.normal(size=runs)
        n[row, arm] += 1
    return int(crossed.sum()), runs


def test_the_mixture_rarely_ever_gets_large():
    """Under any sampling, P(ever above 1/delta) <= delta; without the normalisation it is far more."""
    delta = 0.1
    assert binomtest(*crossings(True, delta), delta, alternative="greater").pvalue > FALSE_ALARM
    assert binomtest(*crossings(False, delta), delta, alternative="greater").pvalue < FALSE_ALARM
