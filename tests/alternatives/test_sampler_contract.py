"""The contract that ships with the package, on every sampler, and on faulty ones that must not pass.

False alarm: 1e-4 per sampler (`check_sampler` states it); seeds are fixed.
"""

import pytest
from wrong_samplers import (
    AnythingGoes,
    AThirdMissing,
    IgnoresTheBox,
    ImpossibleAccount,
    NearestBoundary,
    NotAlternatives,
    OneAnswerTooRare,
    OwnGenerator,
    StaleAnswers,
    TooWide,
    WrongShape,
)

from combopeps import check_sampler
from combopeps.alternatives import AutoSampler, GibbsSampler, HalfSpaceSampler, HitAndRunSampler, RejectionSampler
from combopeps.utils.interface_checks import ContractError

SAMPLERS = {
    "rejection": RejectionSampler,
    "half-space": HalfSpaceSampler,
    "half-space, facets discovered": lambda: HalfSpaceSampler(closed_form=False),
    "auto": AutoSampler,
    "auto, one try": lambda: AutoSampler(tries=1),
    "auto, facets discovered": lambda: AutoSampler(half_space=HalfSpaceSampler(closed_form=False)),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_contract(name):
    report = check_sampler(SAMPLERS[name])
    assert len(report.passed) == 8


@pytest.mark.parametrize("name", SAMPLERS)
def test_contract_with_one_instance(name):
    """An instance keeps its cache from one problem to the next."""
    assert check_sampler(SAMPLERS[name](), rng=1).ok


@pytest.mark.parametrize("make", [HitAndRunSampler, GibbsSampler])
def test_chains_with_enough_moves_between_draws(make):
    report = check_sampler(lambda: make(steps=12), draws=60)
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("make", [HitAndRunSampler, GibbsSampler])
def test_chains_over_many_draws(make):
    report = check_sampler(lambda: make(steps=60), draws=1000)
    assert report.ok, str(report)


FAULTY = {
    NearestBoundary: "distribution",
    AThirdMissing: "distribution",
    IgnoresTheBox: "distribution in a box",
    TooWide: "distribution",
    NotAlternatives: "alternatives",
    OneAnswerTooRare: "distribution",
    StaleAnswers: "answers",
    OwnGenerator: "reproducible",
    WrongShape: "shapes",
    ImpossibleAccount: "account",
    AnythingGoes: "single answer",
}


@pytest.mark.parametrize("make", FAULTY)
def test_a_faulty_sampler_fails(make):
    with pytest.raises(ContractError) as caught:
        check_sampler(make)
    report = caught.value.report
    assert FAULTY[make] in report.violations, str(report)
    assert not report.violations[FAULTY[make]].startswith("raised"), str(report)


def test_a_chain_that_mixes_badly_fails():
    report = check_sampler(lambda: GibbsSampler(steps=1), draws=300, raises=False)
    assert {"distribution", "distribution in a box"} & report.violations.keys(), str(report)


def test_report_without_an_error():
    report = check_sampler(TooWide, raises=False)
    assert not report.ok
    assert "TooWide" in str(report)
