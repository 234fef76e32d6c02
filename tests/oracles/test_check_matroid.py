"""`check_oracle` detects set systems that are not matroids, and names the sets that prove it."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from matroids import MATROIDS, NOT_MATROIDS, Knapsack, Matching, independent_sets, random_matroid

from combopeps import MatroidOracle, check_oracle
from combopeps.oracles import CheckedOracle
from combopeps.oracles.check import MATROID_CHECKS


@pytest.mark.parametrize("bases", [True, False], ids=["bases", "independent sets"])
@pytest.mark.parametrize("name", MATROIDS)
def test_matroids_pass(name, bases):
    components, test = MATROIDS[name]
    report = check_oracle(MatroidOracle(components, test, bases=bases), raises=False)
    assert report.violations == {}
    assert {"subsets", "exchange"} <= set(report.passed)
    assert len(report.passed) == 15


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NOT_MATROIDS)
def test_violations_are_found_for_every_seed(name, seed):
    check, components, test = NOT_MATROIDS[name]
    report = check_oracle(MatroidOracle(components, test), rng=seed, raises=False)
    assert "not a matroid" in report.violations[check]


def sets_named(message):
    return [eval(text) for text in re.findall(r"\[(?:\(\d+, \d+\)|\d+)?(?:, (?:\(\d+, \d+\)|\d+))*\]", message)]


@pytest.mark.parametrize("name", NOT_MATROIDS)
def test_named_sets_violate_the_axiom(name):
    check, components, test = NOT_MATROIDS[name]
    message = check_oracle(MatroidOracle(components, test), raises=False).violations[check]
    if check == "subsets":
        whole, part = sets_named(message)
        assert set(part) < set(whole)
        assert test(whole)
        assert not test(part)
    else:
        smaller, larger = sets_named(message)
        assert len(smaller) < len(larger)
        assert test(smaller)
        assert test(larger)
        assert not any(test([*smaller, e]) for e in set(larger) - set(smaller))


def is_matroid(components, test):
    """Test the definition on all pairs of sets."""
    found = {frozenset(chosen) for chosen in independent_sets(components, test, bases=False)}
    hereditary = all(chosen - {i} in found for chosen in found for i in chosen)
    return hereditary and all(
        any(small | {e} in found for e in large - small)
        for small in found
        for large in found
        if len(small) < len(large)
    )


def test_results_on_random_set_systems_agree_with_the_definition():
    """No false alarms on matroids; all violations are found on small knapsacks and matchings."""
    rng, missed, wrong = np.random.default_rng(0), 0, 0
    for trial in range(150):
        if trial % 3 == 0:
            components, test = random_matroid(rng)
        elif trial % 3 == 1:
            components, test = range(6), Knapsack(rng.integers(1, 5, size=6).tolist(), int(rng.integers(4, 12)))
        else:
            pairs = [(int(u), int(v) + 10) for u, v in rng.integers(0, 3, size=(6, 2))]
            components, test = sorted(set(pairs)), Matching()
        oracle = MatroidOracle(components, test)
        probe = SimpleNamespace(oracle=oracle, rng=np.random.default_rng(trial))
        found = [fault for check in MATROID_CHECKS.values() for fault in check(probe)]
        if is_matroid(components, test):
            assert found == []
        else:
            wrong += 1
            missed += not found
    assert wrong > 40
    assert missed == 0


def test_other_and_wrapped_oracles_have_the_general_checks():
    oracle = CheckedOracle(MatroidOracle(*MATROIDS["graphic"]))
    assert len(check_oracle(oracle).passed) == 13


def test_local_independence_tests_pass():
    capacity = 2
    assert check_oracle(MatroidOracle(5, lambda chosen: len(chosen) <= capacity)).ok


class Unpicklable:
    def __init__(self):
        self.file = open(__file__)  # noqa: SIM115

    def __call__(self, chosen):
        return len(chosen) <= 2


def test_independence_tests_that_cannot_be_pickled_are_reported():
    test = Unpicklable()
    try:
        assert list(check_oracle(MatroidOracle(5, test), raises=False).violations) == ["pickling"]
    finally:
        test.file.close()
