"""`Policy`: base class of sampling policies.

    choose()                  the next arm of R replications, given the posterior and the counts
    learn(arm, y)             update the posterior with one result in every replication
    state_dict(), load_state_dict(data)

A policy has no queries and no labels: a `Session` asks for its choices and passes results on, a simulation calls the
same methods for hundreds of replications at once. A result of arm x is divided by the arm's noise, and has the weight
of so many ordinary measurements of it:

    V += weight x x',   S += weight x y        in the posterior, under its prior
    n_x += weight,      s_x += weight y        arm by arm, for what rests on data alone
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.actions import Mask
from combopeps.alternatives.base import AlternativeSampler
from combopeps.alternatives.replicated import ReplicatedSampler
from combopeps.errors import NoAlternativeError, ParameterError, SpaceError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.validation import ConsistencyCheck
from combopeps.policies.initial_design import InitialDesign, initial_design_length
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.hierarchical import HierarchicalPrior
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.noise_level import MIN_DOF, NoiseEstimate, NoiseLevel, RefreshTimes
from combopeps.posterior.parameter_space import RealSpace
from combopeps.problem import Problem
from combopeps.random import Streams
from combopeps.utils.jit import njit
from combopeps.utils.locks import Atomic, SessionLock
from combopeps.utils.state_dict import StateDict, integer, load_into
from combopeps.utils.validation import check_kind, check_positive

Arm = NDArray[np.intp]

_T = TypeVar("_T")
_TIE = 1e-9  # relative to what the prior, or one measurement, says about a component
_DESIGN = 8  # arms of the initial design, where the prior is estimated
_ULPS = 16 * np.finfo(np.float64).eps


class Policy(ABC):
    """Chooses what to measure next, for R independent replications.

    A policy of your own needs `choose`, and `state_dict` with `load_state_dict` if it keeps more state than the base
    class. `check_policy` tests it.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    rng
        Seed, generator, or None for an unpredictable one.
    sampler
        Sampler of alternatives; by default the one that suits the problem.
    prior_precision
        V_0 = prior_precision * I; by default 1 / prior_std^2 of the problem, component by component.
    replications
        Number of independent runs.
    streams
        Random streams of the replications, instead of `rng`.
    initial_design
        Measure every arm so many times (True: once) before anything is chosen. Earlier measurements of an arm, and
        those under way, count. The order is random in each replication.

    Attributes
    ----------
    posterior
        Posterior N(theta_hat, V^-1) of every replication: `posterior.theta_hat`, `posterior.std`.
    pulls
        How often each arm was measured, (R, K).
    weights, totals
        What these measurements are worth, in ordinary ones, and the sums of their results, each times what it is worth,
        in units of the noise, (R, K).
    actions
        How many actions were measured, where measurements are actions, (R,).
    streams
        Random numbers; draw from no other source.
    alternatives
        Samples parameters under which another answer is best.
    lock
        Held while a session changes the policy.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> class LeastMeasured(Policy):
    ...     def choose(self):
    ...         fewest = self.pulls == self.pulls.min(axis=1, keepdims=True)
    ...         return np.where(fewest, self.streams.normal(len(self.problem.arms)), -np.inf).argmax(axis=1)
    >>> policy = LeastMeasured(Problem(TopKOracle(3, k=1), noise_std=1.0, prior_mean=0.0, prior_std=1.0), rng=0)
    >>> for _ in range(6):
    ...     arm = policy.next_arms()
    ...     policy.learn(arm, [0.5])
    >>> policy.pulls
    array([[2, 2, 2]])
    """

    by_name = True
    """Whether the class can be created by its registered name, without options of its own."""
    learns_from_choices = False
    """Whether later choices rest on earlier ones, not on the data alone: a `Campaign` stores that in checkpoints."""
    t = 0
    """Rounds, for policies that count them in `choose`; rounds of the initial design are added."""
    _learners: ClassVar[tuple[str, ...]] = ()
    """Attributes with a `state_dict` of their own, or None, that are part of the state."""
    _fantasy_state: ClassVar[tuple[str, ...]] = ("posterior", "pulls", "weights", "totals", "_initial_design")

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        rng: int | np.random.Generator | None = None,
        *,
        sampler: AlternativeSampler | None = None,
        prior_precision: float | None = None,
        replications: int = 1,
        streams: Streams | None = None,
        initial_design: bool | int | None = None,
    ) -> None:
        times = initial_design_length(initial_design)
        problem = problem if isinstance(problem, Problem) else Problem(problem)
        if sampler is not None:
            check_kind("sampler", sampler, AlternativeSampler)
        if streams is not None:
            check_kind("streams", streams, Streams)
        self.streams = streams or Streams.of(rng, replications)
        # A fixed, tiny random vector decides between answers that the data cannot tell apart: no index is favoured.
        self._tie_direction = self.streams.normal(problem.oracle.dim)
        if prior_precision is not None:
            check_positive("prior_precision", prior_precision)
        self.problem, self.replications, self._prior_precision = problem, len(self.streams), prior_precision
        self._action_set: Any = problem.action_set
        self._per_noise = 1.0 / problem.noise
        self._begin()
        oracle = problem.oracle
        self.watch = ConsistencyCheck(oracle, problem.known)
        self.alternatives = ReplicatedSampler(oracle, problem.space, self.streams, sampler, self.watch)
        self.relative_cost = problem.relative_cost if problem.costs_differ else None  # None: costs do not matter
        self._bounds = problem.space.bounds(oracle.dim)
        self.lock = SessionLock()
        self._initial_design: InitialDesign | None = None
        self.initial_design_wanted = 0  # how often every arm is measured first by request
        self._min_readings = 1  # of every component, where measurements are actions, before anything is chosen
        if problem.measures_actions:
            if type(self).weigh is Policy.weigh:
                self.weigh()  # raises, and says why
        elif self._prior is not None:
            repeats = 0 if self._level is None else MIN_DOF
            some = min(len(problem.arms), _DESIGN)
            self._initial_design = InitialDesign(len(problem.arms), 0, self.streams, some=(some, some + repeats))
        if times:
            self.initial_design(times)

    def _begin(self) -> None:
        """The state before the first result."""
        problem, replications, precision = self.problem, len(self.streams), self._prior_precision
        mean, std = problem.prior_mean, problem.prior_std
        if precision is not None:
            std = precision**-0.5
        self.posterior = GaussianPosterior.start(
            problem.signal,
            prior_precision=precision if precision is not None else 1.0 if std is None else 1.0 / std**2,
            prior_mean=0.0 if mean is None else mean,
            replications=replications,
        )
        self._prior = HierarchicalPrior(problem.signal, mean, std) if mean is None or std is None else None
        self.pulls = np.zeros((replications, len(problem.arms)), dtype=np.int64)
        self.weights, self.totals = np.zeros(self.pulls.shape), np.zeros(self.pulls.shape)
        self.actions = np.zeros(replications, dtype=np.int64)
        self._actions_cost = np.zeros(replications)
        self._level: NoiseLevel | None = None
        if problem.noise_std is None:
            self._level = NoiseLevel(self.posterior, prior_known=self._prior is None)
        self._refresh = None if self._level is None and self._prior is None else RefreshTimes()
        if self._refresh is not None:
            self.restate()
        self._scale_tie()

    def _scale_tie(self) -> None:
        """Make the tie breaker small against what the prior, or one measurement, says about a component."""
        problem, prior = self.problem, self.posterior.prior
        if prior is None:
            assert problem.prior_std is not None
            std, mean = (
                np.asarray(float(np.min(problem.prior_std))),
                np.asarray(np.abs(self.posterior.prior_mean).max()),
            )
        else:
            std, mean = prior.precision.max(axis=1)[:, None] ** -0.5, np.abs(prior.mean).max(axis=1)[:, None]
        size = _TIE * np.minimum(std, self.posterior.sigma[:, None] / problem.signal.size)
        self._tie = np.maximum(size, _ULPS * mean) * self._tie_direction  # or rounding would swallow it
        self._tie_size = 2.0 * float(np.abs(self._tie).sum(axis=1).max())

    def reset(self) -> None:
        """Forget all results; learners keep their state."""
        self._begin()
        if self._initial_design is not None:
            self._initial_design.restart()

    def __repr__(self) -> str:
        side = "" if self.replications == 1 else f" in each of {self.replications} replications"
        return f"{type(self).__name__}({self.problem!r}, {self.samples} samples{side})"

    # Learning.

    def learn(self, arm: ArrayLike, y: ArrayLike, weight: float = 1.0, count: int = 1) -> None:
        """One result in every replication: of `count` measurements, worth `weight` ordinary ones of the arm."""
        value = self._in_units(arm, y)
        self.posterior.update(arm, value, weight)
        self._count(arm, value, weight, count)

    def _in_units(self, arm: Any, y: Any) -> Any:
        """y in units of the noise."""
        try:
            if type(arm) is int and type(y) is float:
                return y * self._per_noise.item(arm)
            with np.errstate(over="ignore"):  # what is too large is refused by the posterior
                return np.asarray(y, dtype=np.float64) * self._per_noise[np.asarray(arm)]
        except (IndexError, TypeError, ValueError) as cause:
            raise ParameterError(f"arm and y must be numbers, or one per replication: {cause}") from None

    def _count(self, arm: ArrayLike, value: Any, weight: float, count: int) -> None:
        at: Any = (0, arm) if self.replications == 1 else (np.arange(self.replications), np.asarray(arm))
        self.pulls[at] += count
        self.weights[at] += weight
        self.totals[at] += value * weight
        if self._level is not None:
            self._level.see(at, value, weight)
        if self._refresh is not None and self._refresh.count(1):
            self.restate()

    def second_posterior(self) -> GaussianPosterior | None:
        """Return the posterior under the second estimate of an estimated prior (`HierarchicalPrior`); None if stated.

        Noise that is estimated, too, is larger there by its standard error, sigma / sqrt(2 dof).
        """
        if self._prior is None or self._prior.std_known:
            return None
        posterior = self.posterior.copy()
        sigma = posterior.sigma * (1.0 + (2.0 * posterior.dof) ** -0.5)
        prior = self._prior.estimate(self.weights, self.totals, sigma, second=True)
        posterior.restate(sigma, posterior.dof, self.weights, self.totals, prior)
        return posterior

    def learn_many(
        self,
        arms: Sequence[int] | Arm,
        ys: Sequence[float] | Array,
        weights: Sequence[float] | Array | None = None,
        counts: Sequence[int] | Arm | None = None,
    ) -> None:
        """Results of one replication, in their order; all at once unless a policy has a `learn` of its own."""
        worth = np.ones(len(ys)) if weights is None else np.asarray(weights, dtype=np.float64)
        times = np.ones(len(ys), dtype=np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
        if type(self).learn is Policy.learn:
            arm = np.asarray(arms, dtype=np.intp)
            values = np.asarray(ys, dtype=np.float64) * self._per_noise[arm]
            done = 0 if self._refresh is None else self._refresh.last_due(len(arm))
            if done:  # then the posterior begins anew
                self._count_many(arm[:done], values[:done], worth[:done], times[:done])
                self.restate()
            self.posterior.update_many(arm[done:], values[done:], worth[done:])
            self._count_many(arm[done:], values[done:], worth[done:], times[done:])
        elif weights is None and counts is None:
            for one, y in zip(arms, ys, strict=True):
                self.learn(int(one), float(y))
        else:
            for one, y, weight, count in zip(arms, ys, worth.tolist(), times.tolist(), strict=True):
                self.learn(int(one), float(y), weight, count)

    def learn_action(self, actions: Mask, ys: Array) -> None:
        """One action in every replication, (R, .), and the results of all that it shows, (R, d)."""
        rows, arms = np.nonzero(self._action_set.shown(actions))
        if self._refresh is not None:  # which counts results one by one
            self._single("learning from actions with an estimated prior or noise")
            self.learn_many(arms, ys[0, arms])
        else:
            values = ys[rows, arms] * self._per_noise[arms]
            self.posterior.update_parts(rows, arms, values)
            self.pulls[rows, arms] += 1
            self.weights[rows, arms] += 1.0
            self.totals[rows, arms] += values
        self.count_actions(actions)

    def count_actions(self, actions: Mask) -> None:
        """One was measured in every replication; what it showed has been learnt."""
        self.actions += 1
        self._actions_cost += self._action_set.cost_of(actions)

    def _count_many(self, arm: Arm, values: Array, weights: Array, counts: NDArray[np.int64]) -> None:
        np.add.at(self.pulls[0], arm, counts)
        np.add.at(self.weights[0], arm, weights)
        np.add.at(self.totals[0], arm, values * weights)
        if self._level is not None and len(arm):
            self._level.see_many(arm, values, weights)
        if self._refresh is not None:
            self._refresh.count(len(arm))

    def restate(self, sigma: Array | None = None, dof: Array | None = None) -> None:
        """Begin the posterior anew with estimates of the noise (or these) and of the prior, where they are not stated."""
        if sigma is None or dof is None:
            sigma, dof = self.posterior.sigma, self.posterior.dof
            if self._level is not None:
                sigma, dof = self._level.estimate(self.weights, self.totals)
        prior = None if self._prior is None else self._prior.estimate(self.weights, self.totals, sigma)
        self.posterior.restate(sigma, dof, self.weights, self.totals, prior)
        self._scale_tie()

    def measurements(self) -> Measurements:
        """All that has been measured, arm by arm, with the noise as the posterior has it; of one replication."""
        self._single("measurements")
        pulls, variance = self.pulls[0].astype(np.float64), self.posterior.sigma.item(0) ** 2
        return Measurements(self.problem.signal, self.weights[0] / variance, self.totals[0] / variance, pulls)

    def expect(self, arms: Sequence[int]) -> None:
        """For a copy with fantasies: update as if each arm had been measured once, with its expected result."""
        arm = np.asarray(arms, dtype=np.intp)
        means, weights = self.posterior.expect(arm), self.weights[0, arm]
        known = weights > 0.0  # by data alone, where there are any
        means = np.where(known, self.totals[0, arm] / np.where(known, weights, 1.0), means)
        for sums, value in ((self.pulls, 1), (self.weights, 1.0), (self.totals, means)):
            np.add.at(sums[0], arm, value)

    @property
    def samples(self) -> int:
        """Measurements learnt from, per replication."""
        return int(self.pulls[0].sum())

    @property
    def actions_made(self) -> int | None:
        """How many actions one replication has measured; None where measurements are single."""
        return self.actions.item(0) if self.problem.measures_actions else None

    @property
    def spent(self) -> Array:
        """What all measurements have cost, (R,)."""
        return self._actions_cost if self.problem.measures_actions else np.asarray(self.pulls @ self.problem.cost)

    @property
    def noise_estimate(self) -> NoiseEstimate | None:
        """How large the noise is, where the problem leaves that open; None where it does not, or not yet known."""
        return None if self._level is None else self._level.describe(self.weights, self.totals)

    def _single(self, what: str) -> None:
        if self.replications != 1:
            raise ParameterError(f"{what} is for one replication; this policy runs {self.replications}")

    # Choosing.

    @abstractmethod
    def choose(self) -> Arm:
        """Return the next arm of every replication, (R,)."""

    def next_choices(self) -> Any:
        """Return what every replication measures next: an arm, or an action."""
        return self.next_actions() if self.problem.measures_actions else self.next_arms()

    def next_arms(self) -> Arm:
        """Return the next arm of every replication: of the initial design while it lasts, then by `choose`.

        Where no alternative exists there is nothing to learn, and the least measured arm is returned.
        """
        swept = (
            None if self._initial_design is None or self._initial_design.over else self._initial_design.pick(self.pulls)
        )
        if swept is not None and (swept >= 0).all():
            self.t += 1
            return swept
        try:
            arm = self.choose()
        except NoAlternativeError:
            arm = np.asarray(self.pulls.argmin(axis=1))
        except BaseException:
            self._drop_cache()
            raise
        return arm if swept is None else np.where(swept >= 0, swept, arm)

    def weigh(self) -> tuple[Array, Mask | None]:
        """Where measurements are actions: return the information gain of one more result of every component, (R, d).

        And answers, (R, m, d), that may be better actions than what these gains alone lead to, where the best action is
        hard to find; or None.
        """
        raise ParameterError(
            f"{type(self).__name__} chooses single arms, and this problem is measured by actions: use top-two, "
            "greedy, peps or uniform"
        )

    def next_actions(self) -> Mask:
        """Return the next action of every replication: first those that show unseen components, then by `weigh`."""
        actions: Any = self._action_set
        unseen = np.asarray(self.pulls < self._min_readings)
        news: Mask = np.zeros(self.replications, dtype=bool)
        if unseen.any():
            tie = 0.5 / unseen.shape[1] * (self._tie > 0.0)
            found = actions.best(unseen + tie)
            news = np.asarray((actions.shown(found) & unseen).any(axis=1))
            if news.all():
                return np.asarray(found)
        try:
            gains, rivals = self.weigh()
        except NoAlternativeError:
            gains, rivals = 1.0 / (1.0 + self.weights), None
        except BaseException:
            self._drop_cache()
            raise
        # Of actions with equal gains, the one whose parts are known least.
        size = _TIE * gains.max(axis=1, keepdims=True)
        best = actions.best(gains + size / (1.0 + self.weights), rivals if actions.are_answers else None)
        return np.where(news[:, None], found, best) if news.any() else np.asarray(best)

    def begin_with_every_arm(self, times: int = 1) -> None:
        """For policies whose method begins so: measure every arm first, unless an initial design exists."""
        if self._initial_design is None:
            self._initial_design = InitialDesign(len(self.problem.arms), times, self.streams)
        self._initial_design.times = max(self._initial_design.times, times)

    def initial_design(self, times: bool | int = True) -> None:
        """Measure every arm so many times before anything else is chosen: see the parameter of that name."""
        length = initial_design_length(times)
        if length:
            self.begin_with_every_arm(length)
            assert self._initial_design is not None
            self.initial_design_wanted = self._min_readings = self._initial_design.times

    @property
    def unswept(self) -> int:
        """Measurements that an initial design still takes; of one replication."""
        return (
            self._initial_design.left(self.pulls[0])
            if self._initial_design is not None and self.initial_design_wanted
            else 0
        )

    @property
    def default_initial_design(self) -> int:
        """How often every arm is measured first, by request or as part of the method."""
        return 0 if self._initial_design is None else self._initial_design.times

    def with_fantasies(self) -> Self:
        """Return a copy with statistics of its own, to imagine results in; it shares streams, samplers and learners.

        A policy that keeps more statistics than the base class, and chooses by them, copies these too.
        """
        twin = copy.copy(self)
        twin.posterior, twin._initial_design = self.posterior.copy(), copy.copy(self._initial_design)
        twin.pulls, twin.weights, twin.totals = self.pulls.copy(), self.weights.copy(), self.totals.copy()
        return twin

    def without_cache(self) -> Self:
        """Return a copy whose samplers have found no facets: what it computes depends on data and streams alone."""
        twin = copy.copy(self)
        twin.alternatives = copy.copy(self.alternatives)
        twin.alternatives.forget()
        return twin

    def adopt(self, twin: Self) -> None:
        """Take over the state that a copy with fantasies has changed in `choose`; not its fantasies."""
        self.__dict__.update({name: value for name, value in vars(twin).items() if name not in self._fantasy_state})

    def z_hat(self, posterior: GaussianPosterior | None = None) -> Array:
        """Return the current answers, (R, d): argmax z @ theta_hat, theta_hat projected on Theta."""
        theta_hat = (self.posterior if posterior is None else posterior).theta_hat
        if isinstance(self.problem.space, RealSpace):
            return self._argmax(theta_hat + self._tie)
        return self._argmax(_broken(theta_hat, self._tie, *self._bounds))

    def _argmax(self, thetas: Array) -> Array:
        answers = self.alternatives.answers(thetas)
        self.watch.countdown -= 1
        if self.watch.countdown <= 0:
            self.watch.check(thetas, answers, self._tie_size)  # a solver may be too coarse for the tie breaker
        return answers

    def guarded(self, work: Callable[[], _T]) -> _T:
        """Call `work`, which uses the cached facets; if it raises, they are dropped, as they may be half updated."""
        try:
            return work()
        except BaseException:
            self._drop_cache()
            raise

    def state_dict(self) -> StateDict:
        """Return the state; a policy that keeps more adds it."""
        learners = {
            name.lstrip("_"): getattr(self, name) for name in ("_level", "_refresh", "_initial_design", *self._learners)
        }
        return {
            "posterior": self.posterior.state_dict(), "pulls": self.pulls, "weights": self.weights, "totals": self.totals,
            "actions": self.actions, "actions_cost": self._actions_cost, "t": self.t,
            **{name: None if learner is None else learner.state_dict() for name, learner in learners.items()},
        }  # fmt: skip

    def load_state_dict(self, data: StateDict) -> None:
        """Restore the state into a policy that was created in the same way; ValueError if numbers contradict others."""
        for name in ("pulls", "weights", "totals", "actions", "_actions_cost"):
            load_into(getattr(self, name), data[name.lstrip("_")])
        if (self.pulls < 0).any() or (self.actions < 0).any() or ((self.weights > 0.0) != (self.pulls > 0)).any():
            raise ValueError("what is measured counts, and is worth something")
        for name in ("_level", "_refresh", "_initial_design", *self._learners):
            if getattr(self, name) is not None:
                getattr(self, name).load_state_dict(data[name.lstrip("_")])
        self.posterior.load_state_dict(data["posterior"])
        self._scale_tie()
        self.t = integer(data["t"])
        self.check_sums()

    def check_sums(self) -> None:
        """Raise ValueError if the posterior contradicts the sufficient statistics."""
        self.posterior.check_sums(self.weights, self.totals)

    def _drop_cache(self) -> None:
        """An interrupted sampler may hold half of an update: begin without cached facets."""
        with Atomic(self.lock):
            self.alternatives.forget()


@njit(cache=True, nogil=True)
def _broken(theta: Array, tie: Array, low: Array, high: Array) -> Array:
    """Theta plus the tie breaker, projected on the box, (R, d).

    At a boundary the tie breaker points inwards: projected with the rest, half of it would be lost there.
    """
    out = np.empty(theta.shape)
    for r in range(theta.shape[0]):
        for i in range(theta.shape[1]):
            inside, by = min(max(theta[r, i], low[i]), high[i]), tie[r, i]
            if inside <= low[i]:
                by = abs(by)
            elif inside >= high[i]:
                by = -abs(by)
            out[r, i] = min(max(inside + by, low[i]), high[i])
    return out


class Fantasies:
    """Successive choices of a policy with one replication while some arms are being measured.

    An open query counts as if it had been answered with its expected result: V += x x', theta_hat unchanged, one more
    pull. Otherwise two choices from the same posterior would be for the same arm. Only a copy of the policy holds
    fantasies; while there are none, the policy chooses itself and nothing is copied.

    Parameters
    ----------
    policy
        The policy.
    arms
        Arms of open queries, each as often as it is being measured.
    """

    def __init__(self, policy: Policy, arms: Sequence[int]) -> None:
        self._policy = policy
        self._twin: Policy | None = None
        self._new = list(arms)  # not in the twin yet

    def choose(self, stream: int) -> Any:
        """Return the next arm, or the next action, with random numbers of this stream; it is not added."""
        if self._new:
            if self._twin is None:
                self._twin = self._policy.with_fantasies()
            self._twin.expect(self._new)
            self._new = []
        chooser = self._policy if self._twin is None else self._twin
        chooser.streams.seek(stream)
        chosen = chooser.next_choices()
        if self._twin is not None:
            self._policy.adopt(self._twin)
        return chosen[0]

    def add(self, arms: Sequence[int]) -> None:
        """Add the arms of one more open query."""
        self._new.extend(arms)


def check_unbounded(policy: Policy) -> None:
    """Refuse a bounded Theta."""
    if not isinstance(policy.problem.space, RealSpace):
        raise SpaceError(
            f"{type(policy).__name__} is written for Theta = R^d, got {policy.problem.space!r}; use TopTwo or PEPS"
        )
