"""One honest policy, and one policy per fault that a person may build into theirs."""

import random

import numpy as np

from combopeps import Policy


class Honest(Policy):
    """The least measured arm, ties broken by random numbers of the run: the control."""

    def choose(self):
        return self.fewest().argmax(axis=1)

    def fewest(self):
        least = self.pulls == self.pulls.min(axis=1, keepdims=True)
        return np.where(least, self.streams.normal(len(self.problem.arms)), -np.inf)


# ---------------------------------------------------------------- the form of the choice


class ChoosesANumber(Honest):
    def choose(self):
        return int(super().choose()[0])


class ChoosesFloats(Honest):
    def choose(self):
        return super().choose().astype(float)


class CountsFromOne(Honest):
    def choose(self):
        return super().choose() + 1


class OneForAll(Honest):
    """Forgets the replications."""

    def choose(self):
        return super().choose()[:1]


# ---------------------------------------------------------------- rows and random numbers


class TheFirstRowDecides(Honest):
    def choose(self):
        return np.repeat(super().choose()[:1], self.replications)


class TogetherMeasured(Honest):
    """`mean` without an axis: what one row has seen decides about another's arms."""

    def choose(self):
        good = self.belief.theta_hat >= self.belief.theta_hat.mean()
        return np.where(good, self.streams.normal(len(self.problem.arms)), -np.inf).argmax(axis=1)


class GlobalNumpy(Honest):
    def choose(self):
        return np.random.randint(len(self.problem.arms), size=self.replications)  # noqa: NPY002


class GlobalRandom(Honest):
    def choose(self):
        return np.array([random.randrange(len(self.problem.arms)) for _ in range(self.replications)])


class InTheClass(Honest):
    """Counts in an attribute of the class, which all runs share."""

    rounds = np.zeros(1, dtype=int)

    def choose(self):
        self.rounds += 1
        return (super().choose() + self.rounds[0] // 7) % len(self.problem.arms)


# ---------------------------------------------------------------- learning and copies


class Rehearses(Honest):
    """Learns what it expects to see."""

    def choose(self):
        arm = super().choose()
        self.belief.update(arm, self.problem.arms.dot(self.belief.theta_hat).max(axis=1))
        return arm


class ReservesPulls(Honest):
    def choose(self):
        arm = super().choose()
        self.pulls[np.arange(self.replications), arm] += 1
        return arm


class LearnsNothing(Honest):
    def learn(self, arm, y):
        self.last = arm, y


class LearnsTwice(Honest):
    def learn(self, arm, y):
        super().learn(arm, y)
        super().learn(arm, y)


class LearnsPlainResultsOnly(Honest):
    def learn(self, arm, y):
        super().learn(arm, y)


class ForgetsWeights(Honest):
    def learn(self, arm, y, weight=1.0, count=1):
        super().learn(arm, y)


class CountsOnly(Honest):
    def learn(self, arm, y, weight=1.0, count=1):
        self._count(arm, self._in_units(arm, y), weight, count)


class SharesItsState(Honest):
    """What it has chosen is not copied with it."""

    def __init__(self, problem, rng=None, **options):
        super().__init__(problem, rng, **options)
        self.chosen = Shared([0])

    def choose(self):
        self.chosen[0] += 1
        return (super().choose() + self.chosen[0] % 7) % len(self.problem.arms)


class Shared(list):
    def __deepcopy__(self, memo):
        return self


class ForgetsItsState(SharesItsState):
    def __init__(self, problem, rng=None, **options):
        super().__init__(problem, rng, **options)
        self.chosen = Forgetful([0])


class Forgetful(list):
    def __deepcopy__(self, memo):
        return Forgetful([0])


class ImaginesInPlace(Honest):
    """Expected results of open queries change its own statistics."""

    def with_fantasies(self):
        return self


class RestoresTooLittle(Honest):
    """What it has chosen is not part of its state."""

    def __init__(self, problem, rng=None, **options):
        super().__init__(problem, rng, **options)
        self.chosen = 0

    def choose(self):
        self.chosen += 1
        return (super().choose() + self.chosen % 7) % len(self.problem.arms)


# ---------------------------------------------------------------- what it finds out


class LowIndicesFirst(Honest):
    def choose(self):
        return self.pulls.argmin(axis=1)


class LikesTheFirst(Honest):
    """Ties are broken at random, but item 0 counts a little more."""

    def fewest(self):
        scores = super().fewest()
        scores[:, 0] += 0.8
        return scores


class AnswersTheFirst(Honest):
    """Answers by the belief, without the tie breaker."""

    def z_hat(self, belief=None):
        return self.problem.oracle.argmax((belief or self.belief).theta_hat)


class NeverTheLast(Honest):
    def fewest(self):
        scores = np.where(self.pulls[:, :-1] == self.pulls[:, :-1].min(axis=1, keepdims=True), 1.0, 0.0)
        return scores + self.streams.uniform()[:, None] * 0.1 * np.arange(scores.shape[1])


class OnlyTheTopAnswer(Honest):
    def choose(self):
        return self.z_hat().argmax(axis=1)


class OneArmForEver(Honest):
    def __init__(self, problem, rng=None, **options):
        super().__init__(problem, rng, **options)
        self.arm = (len(self.problem.arms) * self.streams.uniform()).astype(int)

    def choose(self):
        return self.arm
