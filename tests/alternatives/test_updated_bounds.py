"""Bounds updated from one measurement to the next equal those of a computation from scratch."""

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import norm
from situations import Situation, measured

from combopeps import Box, TopKOracle
from combopeps.alternatives.facets import Facets
from combopeps.alternatives.truncated_normal import TiltedWeights

ENDS = {"orthant": (0.0, np.inf), "short": (-0.5, 1.0), "below": (-np.inf, 0.75)}


def situation_of(oracle, count):
    return Situation(measured(oracle, np.random.default_rng(1).uniform(0.3, 1.2, oracle.dim), count), oracle, None)


def log_mass(theta, s, ends, tilt=0.0):
    """ln of the integral of exp(tilt x) over an interval under N(theta, s^2)."""
    low, high = ((end - theta - tilt * s * s) / s for end in ends)
    if low > 0.0:
        low, high = -high, -low
    whole, cut = log_ndtr(high), log_ndtr(low)
    return tilt * theta + 0.5 * (tilt * s) ** 2 + whole + np.log1p(-np.exp(cut - whole))


def log_m(tilted, f, posterior, ends):
    """ln M_f by its formula, with the kappa, s_0 and split that are in use."""
    kappa, sigma, _, centre, *_ = (row[f] for row in tilted._tilt)
    _, indptr, indices, data = tilted.facets.rows
    total, drift, variance = 0.0, 0.0, 0.0
    for p in range(indptr[f], indptr[f + 1]):
        i, y, s = indices[p], data[p], posterior.spread[0, indices[p]] ** 0.5
        theta = posterior.theta_hat[0, i]
        total -= log_mass(theta, s, ends)
        if tilted._free[p]:
            drift, variance = drift + y * theta, variance + (y * s) ** 2
        else:
            total += log_mass(theta, s, ends, kappa * y)
    if sigma == 0.0:
        return total
    b = -(drift + centre) / variance**0.5
    if not tilted._free[indptr[f] : indptr[f + 1]].all():
        assert kappa == pytest.approx(np.exp(norm.logpdf(b) - log_ndtr(-b)) / variance**0.5)
    return total + log_ndtr(-b) - (kappa * centre if centre else 0.0)


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_updated_bounds_equal_the_formula(ends):
    oracle, rng = TopKOracle(12, 4), np.random.default_rng(1)
    situation = situation_of(oracle, 30)
    posterior, z_hat = situation.posterior, situation.z_hat
    facets = Facets(z_hat)
    answers = z_hat + oracle.facets(z_hat).toarray()
    facets.add(np.concatenate([answers[:20], [oracle.argmax(rng.normal(size=12)) for _ in range(40)]]))
    tilted = TiltedWeights(facets, Box(*ends))
    carried = 0
    for step in range(120):
        facets.sync(posterior, 1.0)
        before, tilts = tilted._tilt[4].copy(), tilted._tilt[0].copy()
        tilted.draw(posterior, 1.0, rng, 1, cap=50)
        if step == 40:
            facets.add(answers[20:])  # which no index knows yet
        known = np.flatnonzero(tilted._tilt[4] > -np.inf)
        for f in known:
            assert tilted._tilt[4][f] == pytest.approx(log_m(tilted, f, posterior, ends), abs=1e-8)
            if len(before) == len(tilted._stale):
                carried += before[f] != tilted._tilt[4][f] and tilts[f] == tilted._tilt[0][f]
        arm = int(rng.integers(12))
        posterior.update(arm, float(z_hat[arm] + rng.normal()))
    assert carried > 100  # bounds that followed the posterior while their tilt stayed


def test_an_outdated_bound_is_detected():
    oracle = TopKOracle(12, 4)
    situation = situation_of(oracle, 30)
    facets = Facets(situation.z_hat)
    facets.set_all(oracle.facets(situation.z_hat))
    tilted = TiltedWeights(facets, Box(0.0, np.inf))
    facets.sync(situation.posterior, 1.0)
    tilted.draw(situation.posterior, 1.0, np.random.default_rng(0), 1, cap=50)
    situation.posterior.update(0, 1.0)
    wrong = [
        f
        for f in range(facets.size)
        if abs(tilted._tilt[4][f] - log_m(tilted, f, situation.posterior, (0.0, np.inf))) > 1e-8
    ]
    assert wrong
