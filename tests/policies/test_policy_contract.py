"""The contract that ships with the package, on every policy, and on broken ones that must not pass.

False alarm: 1e-4 per policy (`check_policy` states it); seeds are fixed.
"""

import random
from functools import partial

import numpy as np
import pytest
from sessions import POLICIES
from unit_problem import unit_problem

from combopeps import Box, ExplicitOracle, MatchingOracle, Policy, check_policy
from combopeps.errors import ParameterError
from combopeps.utils.interface_checks import ContractError


def boxed_doubling(problem, **options):
    """Algorithm 2 is for a bounded Theta."""
    boxed = unit_problem(problem.oracle, problem.arms, problem.noise_std, Box(-4.0, 4.0))
    return POLICIES["doubling-peps"](boxed, **options)


MAKERS = POLICIES | {
    "doubling-peps": boxed_doubling,
    "fixed": partial(POLICIES["fixed"], lam=[0.2] * 5),
    "lingape, no initial design": partial(POLICIES["lingape"], every_arm_once=False),
    "lingame, optimism": partial(POLICIES["lingame"], optimism=True),
    "peps, as printed": partial(POLICIES["peps"], eta_lambda=0.3, eta_p=0.5, alpha=0.25),
    "peps, tracking": partial(POLICIES["peps"], tracking=True, gain="projected"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_every_policy_keeps_the_contract(name):
    report = check_policy(MAKERS[name], rng=1, raises=False)
    assert report.ok, str(report)
    assert len(report.passed) == 10


POINTS = np.random.default_rng(0).normal(size=(6, 3))
GENERAL = unit_problem(ExplicitOracle(POINTS), np.random.default_rng(1).normal(size=(7, 3)), 0.1)
PROBLEMS = {
    "matching": MatchingOracle(3, 3),
    "facets that are not listed": MatchingOracle(9, 9),
    "general arms": GENERAL,
}


ELSEWHERE = [(name, problem) for name in ("top-two", "greedy", "peps", "uniform") for problem in PROBLEMS.values()]
ELSEWHERE += [(name, GENERAL) for name in ("lingame, optimism", "lingape", "lingape, no initial design")]


@pytest.mark.parametrize(
    ("name", "problem"), [*ELSEWHERE, ("thompson", unit_problem(ExplicitOracle(POINTS), arms=POINTS))]
)
def test_the_contract_holds_on_other_problems(name, problem):
    assert len(check_policy(MAKERS[name], problem=problem).passed) == 8


class Honest(Policy):
    """The least measured arm, ties broken by random numbers of the run: the control."""

    def choose(self):
        return self.fewest().argmax(axis=1)

    def fewest(self):
        least = self.pulls == self.pulls.min(axis=1, keepdims=True)
        return np.where(least, self.streams.normal(len(self.problem.arms)), -np.inf)


honest, learn = Honest.choose, Honest.learn


def rehearses(self):
    """Learns what it expects to see."""
    arm = honest(self)
    self.posterior.update(arm, self.problem.arms.dot(self.posterior.theta_hat).max(axis=1))
    return arm


def reserves_pulls(self):
    arm = honest(self)
    self.pulls[np.arange(self.replications), arm] += 1
    return arm


def mean_over_all_rows(self):
    """`mean` without an axis: what one row has seen decides about another's arms."""
    good = self.posterior.theta_hat >= self.posterior.theta_hat.mean()
    return np.where(good, self.streams.normal(len(self.problem.arms)), -np.inf).argmax(axis=1)


def learns_twice(self, arm, y):
    learn(self, arm, y)
    learn(self, arm, y)


def counts_only(self, arm, y, weight=1.0, count=1):
    """The posterior stays as it was."""
    before = self.posterior.copy()
    learn(self, arm, y, weight, count)
    self.posterior = before


class Shared(list):
    """Is not copied."""

    def __deepcopy__(self, memo):
        return self


class Forgetful(list):
    """Is not copied with what it holds."""

    def __deepcopy__(self, memo):
        return Forgetful([0])


def begins_with(make):
    def begin(self, problem, rng=None, **options):
        Honest.__init__(self, problem, rng, **options)
        self.chosen = make(self)

    return begin


def counts_choices(self):
    self.chosen[0] += 1
    return (honest(self) + self.chosen[0] % 7) % len(self.problem.arms)


def likes_the_first(self):
    """Ties are broken at random, but item 0 counts a little more."""
    scores = Honest.fewest(self)
    scores[:, 0] += 0.8
    return scores


def never_the_last(self):
    scores = np.where(self.pulls[:, :-1] == self.pulls[:, :-1].min(axis=1, keepdims=True), 1.0, 0.0)
    return scores + self.streams.uniform()[:, None] * 0.1 * np.arange(scores.shape[1])


def one_arm(self):
    return (len(self.problem.arms) * self.streams.uniform()).astype(int)


def arms_of(self):
    return range(len(self.problem.arms))


FAULTS = {  # what is overridden, the check that finds it, and its words
    "a number": ({"choose": lambda self: int(honest(self)[0])}, "choices", "one arm for each"),
    "floats": ({"choose": lambda self: honest(self).astype(float)}, "choices", "integer"),
    "counts from one": ({"choose": lambda self: honest(self) + 1}, "choices", "0..4"),
    "one for all rows": ({"choose": lambda self: honest(self)[:1]}, "choices", "one arm for each"),
    "the first row decides": (
        {"choose": lambda self: np.repeat(honest(self)[:1], self.replications)}, "replications", "row by row"),
    "a mean over all rows": ({"choose": mean_over_all_rows}, "replications", "axis=1"),
    "numpy.random": (
        {"choose": lambda self: np.random.randint(len(arms_of(self)), size=self.replications)},  # noqa: NPY002
        "reproducible", "self.streams"),
    "numpy.random in choices": (
        {"choose": lambda self: np.random.randint(len(arms_of(self)), size=self.replications)},  # noqa: NPY002
        "pure choices", "numpy.random"),
    "random": (
        {"choose": lambda self: np.array([random.choice(arms_of(self)) for _ in range(self.replications)])},
        "pure choices", "random"),
    "counts in the class": ({"choose": counts_choices, "chosen": np.zeros(1, dtype=int)}, "reproducible", "class"),
    "rehearses": ({"choose": rehearses}, "pure choices", "only learn"),
    "reserves pulls": ({"choose": reserves_pulls}, "pure choices", "only learn"),
    "learns nothing": ({"learn": lambda self, arm, y: None}, "learning", "super().learn"),
    "learns twice": ({"learn": learns_twice}, "learning", "once"),
    "counts only": ({"learn": counts_only}, "learning", "posterior"),
    "learns plain results only": ({"learn": lambda self, arm, y: learn(self, arm, y)}, "learning", "weight=1.0, count=1"),
    "forgets weights": (
        {"learn": lambda self, arm, y, weight=1.0, count=1: learn(self, arm, y)}, "learning", "weight and count"),
    "shares its state": (
        {"__init__": begins_with(lambda self: Shared([0])), "choose": counts_choices}, "copies", "shares"),
    "forgets its state": (
        {"__init__": begins_with(lambda self: Forgetful([0])), "choose": counts_choices}, "copies", "not copied"),
    "imagines in place": ({"with_fantasies": lambda self: self}, "fantasies", "with_fantasies"),
    "restores too little": (
        {"__init__": begins_with(lambda self: [0]), "choose": counts_choices},
        "state dict", "on which `choose` depends"),
    "low indices first": ({"choose": lambda self: self.pulls.argmin(axis=1)}, "no favourites", "not by index"),
    "likes the first": ({"fewest": likes_the_first}, "no favourites", "self.streams"),
    "answers the first": (
        {"z_hat": lambda self, posterior=None: self.problem.oracle.argmax((posterior or self.posterior).theta_hat)},
        "no favourites", "answer"),
    "never the last": ({"fewest": never_the_last}, "identifies", "never measured"),
    "only the top answer": ({"choose": lambda self: self.z_hat().argmax(axis=1)}, "identifies", "never measured"),
    "one arm for ever": (
        {"__init__": begins_with(one_arm), "choose": lambda self: self.chosen}, "identifies", "measure every item"),
}  # fmt: skip


def broken(name):
    return type(name.title().replace(" ", ""), (Honest,), FAULTS[name][0])


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_policy_does_not_pass(name):
    _, check, words = FAULTS[name]
    with pytest.raises(ContractError) as caught:
        check_policy(broken(name))
    assert words in caught.value.report.violations.get(check, ""), str(caught.value.report)


def test_the_honest_one_passes_and_every_check_has_its_fault():
    assert {check for _, check, _ in FAULTS.values()} == set(check_policy(Honest).passed)


def test_the_report_can_be_had_without_an_error():
    report = check_policy(broken("low indices first"), raises=False)
    assert list(report.violations) == ["no favourites"]
    assert "LowIndicesFirst" in str(report)


def test_what_makes_no_policy_is_refused():
    with pytest.raises(ParameterError, match="instance of Policy"):
        check_policy(lambda problem, **options: problem)
