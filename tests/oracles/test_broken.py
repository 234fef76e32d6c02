"""`check_oracle` finds every deliberate fault under the expected name of a check."""

import broken_oracles as broken
import broken_promises as promises
import pytest

from combopeps import ComboPepsError, check_oracle
from combopeps.utils.interface_checks import ContractError

FAULTS = [
    (broken.ShortAnswer, "shapes", "one vector of length 5"),
    (broken.IntegerAnswer, "shapes", "float64"),
    (broken.ListAnswer, "shapes", "float64"),
    (broken.NoEmptyBatch, "shapes", "need at least one array"),
    (broken.NanAnswer, "shapes", "np.empty"),
    (broken.InfiniteAnswer, "shapes", "infinity"),
    (broken.SharedRows, "batch", "shared between rows"),
    (broken.DiceOnTies, "determinism", "break ties by a fixed rule"),
    (broken.MutatesThroughTheView, "purity", "work on a copy"),
    (broken.NegatesTheta, "purity", "work on a copy"),
    (broken.ClipsTheta, "purity", "work on a copy"),
    (broken.LocksAnswer, "purity", "fresh"),
    (broken.HandsOutItsCache, "purity", "fresh"),
    (broken.ReusesItsBuffer, "purity", "fresh"),
    (broken.HoldsALambda, "pickling", "no lambdas"),
    (broken.ForgetsItsOrder, "pickling", "left out"),
    (broken.Raises, "shapes", "ZeroDivisionError: solver gave up"),
    (broken.RoundsToIntegers, "homogeneity", "rounding to integers"),
    (broken.AbsoluteTolerance, "homogeneity", "absolute tolerance"),
    (broken.WrongSign, "optimality", "sign error"),
    (broken.GreedyMatching, "optimality", "greedy"),
    (broken.OneItemTooMany, "labels", "2 items"),
    (promises.LosesTheSign, "labels", "mind the sign"),
    (promises.MixesUpLabels, "labels", "override the two together"),
    (promises.UnitForgotten, "labels", "set unit"),
    (promises.DecodeCrashes, "labels", "KeyError"),
    (promises.TiesAreNoMembers, "membership", "ties count as yes"),
    (promises.AlwaysMember, "membership", "disagrees with argmax"),
    (promises.OneFacetMissing, "facets", "incomplete"),
    (promises.MoreFacetsThanItSays, "facets", "at most 5"),
    (promises.FewFacetsLeavesOneOut, "facets", "incomplete"),
    (promises.FewFacetsIgnoresTheLimit, "facets", "at most"),
    (promises.FacetsPointTheWrongWay, "facets", "no answer"),
    (promises.ZeroFacet, "facets", "non-zero"),
    (promises.FacetToAStranger, "facets", "no answer"),
    (promises.CountsTooFew, "cardinality", "were seen"),
    (promises.CountsTooMany, "cardinality", "enumeration finds 10"),
    (promises.BoundTooLow, "cardinality", "were seen"),
    (promises.CountsInPlainFloats, "cardinality", "exact"),
    (promises.NotBinaryAfterAll, "promises", "binary = False"),
    (promises.AnswersContainEachOther, "promises", "contains all components"),
    (promises.UnequalEqualities, "promises", "not the same for all answers"),
    (promises.RepeatsALabel, "interface", "repeats a label"),
    (promises.LabelsTooFew, "interface", "one label per coordinate"),
    (promises.UnknownDomain, "interface", "nonnegative"),
    (promises.ForgetsSuper, "interface", "super"),
]


def test_a_correct_oracle_passes_all_checks():
    report = check_oracle(broken.Honest(), raises=False)
    assert report.violations == {}
    assert len(report.passed) == 13


@pytest.mark.parametrize(("kind", "check", "words"), FAULTS, ids=[f"{f[0].__name__}-{f[1]}" for f in FAULTS])
def test_messages_describe_each_fault(kind, check, words):
    report = check_oracle(kind(), raises=False)
    assert not report.ok
    assert words in report.violations[check]
    assert check not in report.passed
    assert words in str(report)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "kind", [broken.GreedyMatching, broken.RoundsToIntegers, promises.OneFacetMissing, broken.DiceOnTies]
)
def test_faults_are_found_for_every_seed(kind, seed):
    assert not check_oracle(kind(), rng=seed, raises=False).ok


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (broken.HoldsALambda, "pickling"),
        (promises.TiesAreNoMembers, "membership"),
        (promises.AlwaysMember, "membership"),
        (promises.OneFacetMissing, "facets"),
        (promises.CountsTooMany, "cardinality"),
        (promises.UnknownDomain, "interface"),
    ],
)
def test_faults_are_attributed_to_the_right_check(kind, check):
    assert list(check_oracle(kind(), raises=False).violations) == [check]


def test_violations_raise_an_error_with_the_report():
    with pytest.raises(ContractError, match="sign error") as caught:
        check_oracle(broken.WrongSign())
    assert caught.value.report.violations.keys() == check_oracle(broken.WrongSign(), raises=False).violations.keys()
    assert isinstance(caught.value, ComboPepsError)
