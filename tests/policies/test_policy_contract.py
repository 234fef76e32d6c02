"""The contract that ships with the package, on every policy, and on broken ones that must not pass.

False alarm: 1e-4 per policy (`check_policy` states it); seeds are fixed.
"""

from functools import partial

import broken_policies as broken
import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import PEPS, Box, DoublingPEPS, ExplicitOracle, GreedyInformation, MatchingOracle, TopTwo, check_policy
from combopeps.errors import ParameterError
from combopeps.policies import CLUCB, FixedAllocation, LinGame, LinGapE, ThompsonSampling, Uniform
from combopeps.policies.registry import POLICIES
from combopeps.utils.contract import ContractError


def boxed_doubling(problem, **options):
    """Algorithm 2 is for a bounded Theta."""
    return DoublingPEPS(unit_problem(problem.oracle, problem.arms, problem.noise_std, Box(-4.0, 4.0)), **options)


MAKERS = {
    "peps": PEPS,
    "peps, as printed": partial(PEPS, eta_lambda=0.3, eta_p=0.5, alpha=0.25),
    "peps, tracking": partial(PEPS, tracking=True, gain="projected"),
    "doubling-peps": boxed_doubling,
    "top-two": TopTwo,
    "greedy": GreedyInformation,
    "uniform": Uniform,
    "fixed": partial(FixedAllocation, lam=[0.2] * 5),
    "thompson": ThompsonSampling,
    "lingame": LinGame,
    "lingape": LinGapE,
    "lingape, no sweep": partial(LinGapE, every_arm_once=False),
    "clucb": CLUCB,
}


@pytest.mark.parametrize("name", MAKERS)
def test_contract(name):
    report = check_policy(MAKERS[name], rng=1, raises=False)
    assert report.ok, str(report)
    assert len(report.passed) == 10


def test_every_policy_is_examined():
    assert set(POLICIES) <= set(MAKERS)


POINTS = np.random.default_rng(0).normal(size=(6, 3))
GENERAL = unit_problem(ExplicitOracle(POINTS), np.random.default_rng(1).normal(size=(7, 3)), 0.1)
PROBLEMS = {
    "matching": MatchingOracle(3, 3),
    "facets that are not listed": MatchingOracle(9, 9),
    "general arms": GENERAL,
}


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        *[(make, problem) for make in (TopTwo, GreedyInformation, PEPS, Uniform) for problem in PROBLEMS.values()],
        (partial(LinGame, optimism=True), GENERAL),
        (LinGapE, GENERAL),
        (partial(LinGapE, every_arm_once=False), GENERAL),
        (ThompsonSampling, unit_problem(ExplicitOracle(POINTS), arms=POINTS)),
    ],
)
def test_contract_on_other_problems(make, problem):
    assert len(check_policy(make, problem=problem).passed) == 8


FAULTS = [
    (broken.ChoosesANumber, "choices", "one arm for each"),
    (broken.ChoosesFloats, "choices", "integer"),
    (broken.CountsFromOne, "choices", "0..4"),
    (broken.OneForAll, "choices", "one arm for each"),
    (broken.TheFirstRowDecides, "replications", "row by row"),
    (broken.TogetherMeasured, "replications", "axis=1"),
    (broken.GlobalNumpy, "reproducible", "self.streams"),
    (broken.GlobalNumpy, "pure choices", "numpy.random"),
    (broken.GlobalRandom, "pure choices", "random"),
    (broken.InTheClass, "reproducible", "class"),
    (broken.Rehearses, "pure choices", "only learn"),
    (broken.ReservesPulls, "pure choices", "only learn"),
    (broken.LearnsNothing, "learning", "super().learn"),
    (broken.LearnsTwice, "learning", "once"),
    (broken.CountsOnly, "learning", "belief"),
    (broken.LearnsPlainResultsOnly, "learning", "weight=1.0, count=1"),
    (broken.ForgetsWeights, "learning", "worth more than one"),
    (broken.SharesItsState, "copies", "shares"),
    (broken.ForgetsItsState, "copies", "left out"),
    (broken.ImaginesInPlace, "fantasies", "with_fantasies"),
    (broken.RestoresTooLittle, "state dict", "add what `choose` depends on"),
    (broken.LowIndicesFirst, "no favourites", "not by index"),
    (broken.LikesTheFirst, "no favourites", "self.streams"),
    (broken.AnswersTheFirst, "no favourites", "answer"),
    (broken.NeverTheLast, "identifies", "never measured"),
    (broken.OnlyTheTopAnswer, "identifies", "never measured"),
    (broken.OneArmForEver, "identifies", "measure whatever"),
]


@pytest.mark.parametrize(
    ("make", "check", "words"), FAULTS, ids=[f"{make.__name__}: {check}" for make, check, _ in FAULTS]
)
def test_a_broken_policy_does_not_pass(make, check, words):
    with pytest.raises(ContractError) as caught:
        check_policy(make)
    report = caught.value.report
    assert words in report.violations.get(check, ""), str(report)


def test_the_honest_one_passes_and_every_check_has_its_fault():
    assert {check for _, check, _ in FAULTS} == set(check_policy(broken.Honest).passed)


def test_the_report_can_be_had_without_an_error():
    report = check_policy(broken.LowIndicesFirst, raises=False)
    assert list(report.violations) == ["no favourites"]
    assert "LowIndicesFirst" in str(report)


def test_what_makes_no_policy_is_refused():
    with pytest.raises(ParameterError, match="instance of Policy"):
        check_policy(lambda problem, **options: problem)
