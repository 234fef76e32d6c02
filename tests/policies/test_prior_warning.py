"""`PriorWarning`: by chance in fewer than one run in 1,000, however long; at once when the prior is far too small."""

import warnings

import numpy as np
import pytest
from scipy.stats import norm
from unit_problem import unit_problem

from combopeps import Campaign, PriorWarning, TopKOracle, TopTwo
from combopeps.policies.guards import threshold
from combopeps.policies.ledger import Reading

PRIOR, NOISE = 1.0, 2.0
SCALE = np.hypot(PRIOR, NOISE)


def test_all_chances_together_are_below_one_in_a_thousand():
    """Every measurement, under the prior, is N(0, prior^2 + noise^2): the chances add up, whatever is measured."""
    t = np.unique(np.geomspace(1, 1e12, 3000).astype(np.int64))
    chance = np.array([2 * norm.sf(threshold(int(i))) for i in t])
    assert (np.diff(chance) <= 0).all()
    assert (chance[:-1] * np.diff(t)).sum() < 1e-3  # an upper sum: chances fall
    assert (2 * norm.sf(5.0) * np.diff(t)).sum() > 1e-3  # the control: one threshold for ever


def warned(policy, arms, ys):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for arm, y in zip(arms, ys, strict=True):
            policy.ask_tell.warn_of([arm], [Reading(y)])
    return len(seen)


def runs_with_a_warning(runs, length):
    """Theta from the prior; most measurements are too small to be worth a call."""
    rng, count, control = np.random.default_rng(5), 0, 0
    problem = unit_problem(TopKOracle(500, k=1), prior_std=PRIOR, noise_std=NOISE)
    for _ in range(runs):
        policy = TopTwo(problem, 0)
        arms = rng.integers(0, 500, size=length)
        ys = (PRIOR * rng.normal(size=500))[arms] + NOISE * rng.normal(size=length)
        control += bool((np.abs(ys) > 5.0 * SCALE).any())
        for t in np.flatnonzero(np.abs(ys) > 4.0 * SCALE):
            policy.ask_tell.prior._judged = int(t)
            count += warned(policy, [int(arms[t])], [float(ys[t])])
    return count, control


def test_long_runs_under_the_prior_are_silent():
    count, control = runs_with_a_warning(runs=25, length=400_000)
    assert count == 0  # probability of a false verdict below 25 / 1,000, far below with the Gaussian bound's slack
    assert control >= 1  # a fixed threshold of five standard deviations does warn


@pytest.mark.parametrize("before", [0, 10, 5000])
def test_a_prior_that_is_far_too_small_is_noticed_at_once(before):
    policy = TopTwo(unit_problem(TopKOracle(3, k=1)), 0)
    for _ in range(before):
        policy.observe(0, 0.1)
    with pytest.warns(PriorWarning):
        policy.observe(1, 300.0)


def test_measurements_of_earlier_days_count(tmp_path):
    """7.5 is beyond 5 standard deviations, of which there are bound to be some in a long run."""
    oracle = TopKOracle(3, k=1)
    with pytest.warns(PriorWarning):
        Campaign.create(tmp_path / "short.jsonl", unit_problem(oracle)).observe(1, 7.5)
    long = Campaign.create(tmp_path / "long.jsonl", oracle)
    long.tell_many([(query, 0.0) for query in long.ask(60)])
    again = Campaign.open(tmp_path / "long.jsonl")
    again.observe(1, 7.5)  # a warning would be an error
    assert again.samples == 61
