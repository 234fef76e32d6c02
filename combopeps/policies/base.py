"""`Policy`: base class of sampling policies.

    V += weight x x',   S += weight x y        Gaussian posterior, with its prior
    n_x += weight,      s_x += weight y        sufficient statistics of each arm, without a prior

The interface consists of

    choose()                                next arm of R replications, given the posterior and the counts
    learn(arm, y)                           update the posterior with one result in every replication
    state_dict(), load_state_dict(data)

A policy handles neither queries nor labels: a `Session` requests its choices and passes the results to it, and a
simulation calls the same methods for hundreds of replications at once. y is in units of the arm's noise; a result of
weight w counts as w measurements with the noise stated in the problem.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.actions import Mask
from combopeps.alternatives.base import AlternativeSampler
from combopeps.alternatives.replications import ReplicatedSampler
from combopeps.errors import NoAlternativeError, ParameterError, SpaceError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.runtime_checks import ConsistencyCheck
from combopeps.policies.initial_design import InitialDesign, initial_design_length
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.hierarchical import HierarchicalPrior
from combopeps.posterior.least_squares import Measurements
from combopeps.posterior.noise_level import MIN_DOF, NoiseEstimate, NoiseLevel, RefreshTimes
from combopeps.posterior.parameter_space import RealSpace
from combopeps.problem import Problem
from combopeps.random import Streams
from combopeps.utils.formatting import ShortRepr, stored_options
from combopeps.utils.jit import njit
from combopeps.utils.locks import Atomic, SessionLock
from combopeps.utils.state_dict import StateDict, integer, load_into
from combopeps.utils.validation import check_kind, check_positive

Arm = NDArray[np.intp]

_T = TypeVar("_T")
_TIE_SCALE = 1e-9  # relative to the std of a component under the prior, or after one measurement
_PRIOR_DESIGN_ARMS = 8  # arms of the initial design where the prior is estimated
_ROUNDING = 16 * np.finfo(np.float64).eps


class Policy(ShortRepr, ABC):
    """Base class of sampling policies: choose the next arm in R independent replications.

    A subclass implements `choose`, and extends `state_dict` and `load_state_dict` if it keeps more state than the base
    class. `check_policy` tests a subclass.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    rng
        Seed, generator, or None for an unpredictable one.
    sampler
        Sampler of alternatives; by default selected by the problem.
    prior_precision
        V_0 = prior_precision * I; by default diag(1 / prior_std^2) with the problem's `prior_std`.
    replications
        Number of independent runs.
    streams
        Random streams of the replications, instead of `rng`.
    initial_design
        Initial design: how often every arm is measured before `choose` is called (True: once). Earlier measurements of
        an arm and open queries count. The order is random in each replication.

    Attributes
    ----------
    posterior
        Posterior N(theta_hat, V^-1) of every replication: `posterior.theta_hat`, `posterior.std`.
    pulls
        Number of measurements of each arm, (R, K).
    weights, totals
        Sum of the weights of these measurements, and weighted sum of their results in units of the noise, (R, K).
    actions, actions_cost
        Number of actions measured, where measurements are actions, and their total cost, (R,) each.
    streams
        Random numbers; the only source a policy may draw from.
    alternatives
        Sampler of parameters under which another answer is best.
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
    """Whether choices depend on earlier choices besides the data; a `Campaign` then stores the state in checkpoints."""
    t = 0
    """Number of rounds, for policies that count them in `choose`; rounds of the initial design are included."""
    _learners: ClassVar[tuple[str, ...]] = ()
    """Attributes that are part of the state: objects with a `state_dict`, or None."""
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
        # Ties between answers are broken by a small random vector, fixed per run, so that no index is favoured.
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
        self.initial_design_wanted = 0  # measurements per arm in the initial design, as requested by the user
        if problem.measures_actions:
            if type(self).weigh is Policy.weigh:
                self.weigh()  # raises ParameterError: this policy does not support actions
        elif self._prior is not None:
            repeats = 0 if self._level is None else MIN_DOF
            subset = min(len(problem.arms), _PRIOR_DESIGN_ARMS)
            self._initial_design = InitialDesign(len(problem.arms), self.streams, arms=subset, length=subset + repeats)
        if times:
            self.initial_design(times)

    def _begin(self) -> None:
        """Set the state before the first result."""
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
        self.actions_cost = np.zeros(replications)
        self._level: NoiseLevel | None = None
        if problem.noise_std is None:
            self._level = NoiseLevel(self.posterior, prior_known=self._prior is None)
        self._refresh = None if self._level is None and self._prior is None else RefreshTimes()
        if self._refresh is not None:
            self.restate()
        self._scale_tie()

    def _scale_tie(self) -> None:
        """Scale the tie breaker to `_TIE_SCALE` times the std of a component."""
        problem, prior = self.problem, self.posterior.prior
        if prior is None:
            assert problem.prior_std is not None
            std, mean = (
                np.asarray(float(np.min(problem.prior_std))),
                np.asarray(np.abs(self.posterior.prior_mean).max()),
            )
        else:
            std, mean = prior.precision.max(axis=1)[:, None] ** -0.5, np.abs(prior.mean).max(axis=1)[:, None]
        size = _TIE_SCALE * np.minimum(std, self.posterior.sigma[:, None] / problem.signal.size)
        # At least the rounding error of theta_hat: a smaller tie breaker would be lost in the sum.
        self._tie = np.maximum(size, _ROUNDING * mean) * self._tie_direction
        self._tie_size = 2.0 * float(np.abs(self._tie).sum(axis=1).max())

    def reset(self) -> None:
        """Discard all results; learners keep their state."""
        self._begin()
        if self._initial_design is not None:
            self._initial_design.restart()

    def __repr__(self) -> str:
        suffix = "" if self.replications == 1 else f" in each of {self.replications} replications"
        return f"{type(self).__name__}({self.problem!r}, {self.samples} samples{suffix})"

    def _summary(self) -> Mapping[str, Any]:
        common = {"problem": self.problem, "samples": self.samples, "replications": self.replications}
        return common | {name: value for name, value in stored_options(self).items() if name != "streams"}

    # Update of the posterior and the sufficient statistics.

    def learn(self, arm: ArrayLike, y: ArrayLike, weight: float = 1.0, count: int = 1) -> None:
        """Update with one result per replication: the mean of `count` measurements, of weight `weight`."""
        value = self._in_noise_units(arm, y)
        self.posterior.update(arm, value, weight)
        self._count(arm, value, weight, count)

    def _in_noise_units(self, arm: Any, y: Any) -> Any:
        """Return y in units of the noise."""
        try:
            if type(arm) is int and type(y) is float:
                return y * self._per_noise.item(arm)
            with np.errstate(over="ignore"):  # the posterior raises on infinite values
                return np.asarray(y, dtype=np.float64) * self._per_noise[np.asarray(arm)]
        except (IndexError, TypeError, ValueError) as cause:
            raise ParameterError(f"arm and y must be numbers, or one per replication: {cause}") from None

    def _count(self, arm: ArrayLike, value: Any, weight: float, count: int) -> None:
        index: Any = (0, arm) if self.replications == 1 else (np.arange(self.replications), np.asarray(arm))
        self.pulls[index] += count
        self.weights[index] += weight
        self.totals[index] += value * weight
        if self._level is not None:
            self._level.see(index, value, weight)
        if self._refresh is not None and self._refresh.count(1):
            self.restate()

    def second_posterior(self) -> GaussianPosterior | None:
        """Return the posterior under the second estimate of the prior (`HierarchicalPrior`); None if it is stated.

        If the noise is estimated too, it is increased by its standard error, sigma / sqrt(2 dof).
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
        """Update with results of one replication, in order; vectorised unless a subclass overrides `learn`."""
        w = np.ones(len(ys)) if weights is None else np.asarray(weights, dtype=np.float64)
        n = np.ones(len(ys), dtype=np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
        if type(self).learn is Policy.learn:
            arm = np.asarray(arms, dtype=np.intp)
            values = np.asarray(ys, dtype=np.float64) * self._per_noise[arm]
            done = 0 if self._refresh is None else self._refresh.last_due(len(arm))
            # At the last refresh the posterior is computed from the sums: rank-one updates before it are not needed.
            if done:
                self._count_many(arm[:done], values[:done], w[:done], n[:done])
                self.restate()
            self.posterior.update_many(arm[done:], values[done:], w[done:])
            self._count_many(arm[done:], values[done:], w[done:], n[done:])
        else:
            for x, y, weight, count in zip(arms, ys, w.tolist(), n.tolist(), strict=True):
                self.learn(int(x), float(y), weight, count)

    def learn_action(self, actions: Mask, ys: Array) -> None:
        """Update with one action per replication, (R, .), and the results of the components on it, (R, d)."""
        rows, arms = np.nonzero(self._action_set.shown(actions))
        if self._refresh is not None:  # the refresh schedule counts single results
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
        """Count one action in every replication, and its cost; its results are learnt separately."""
        self.actions += 1
        self.actions_cost += self._action_set.cost_of(actions)

    def _count_many(self, arm: Arm, values: Array, weights: Array, counts: NDArray[np.int64]) -> None:
        np.add.at(self.pulls[0], arm, counts)
        np.add.at(self.weights[0], arm, weights)
        np.add.at(self.totals[0], arm, values * weights)
        if self._level is not None and len(arm):
            self._level.see_many(arm, values, weights)
        if self._refresh is not None:
            self._refresh.count(len(arm))

    def restate(self, sigma: Array | None = None, dof: Array | None = None) -> None:
        """Recompute the posterior with new estimates of noise and prior, where the problem does not state them.

        `sigma` and `dof` replace the estimate of the noise.
        """
        if sigma is None or dof is None:
            sigma, dof = self.posterior.sigma, self.posterior.dof
            if self._level is not None:
                sigma, dof = self._level.estimate(self.weights, self.totals)
        prior = None if self._prior is None else self._prior.estimate(self.weights, self.totals, sigma)
        self.posterior.restate(sigma, dof, self.weights, self.totals, prior)
        self._scale_tie()

    def measurements(self) -> Measurements:
        """Return the sufficient statistics of each arm, with the posterior's noise; for one replication."""
        self._single("measurements")
        pulls, variance = self.pulls[0].astype(np.float64), self.posterior.sigma.item(0) ** 2
        return Measurements(self.problem.signal, self.weights[0] / variance, self.totals[0] / variance, pulls)

    def expect(self, arms: Sequence[int]) -> None:
        """Update as if each arm had been measured once with its expected result; for copies with fantasies."""
        arm = np.asarray(arms, dtype=np.intp)
        means, weights = self.posterior.expect(arm), self.weights[0, arm]
        measured = weights > 0.0  # their expected result is their sample mean, so that sample means do not change
        means = np.where(measured, self.totals[0, arm] / np.where(measured, weights, 1.0), means)
        for sums, value in ((self.pulls, 1), (self.weights, 1.0), (self.totals, means)):
            np.add.at(sums[0], arm, value)

    @property
    def samples(self) -> int:
        """Number of measurements per replication."""
        return int(self.pulls[0].sum())

    @property
    def actions_made(self) -> int | None:
        """Number of actions measured in one replication; None where single arms are measured."""
        return self.problem.action_set.number(self)

    @property
    def spent(self) -> Array:
        """Total cost of the measurements, (R,)."""
        return self.problem.action_set.spent(self)

    @property
    def noise_estimate(self) -> NoiseEstimate | None:
        """Estimate of the noise; None if the problem states it, or before it can be estimated."""
        return None if self._level is None else self._level.describe(self.weights, self.totals)

    def _single(self, what: str) -> None:
        if self.replications != 1:
            raise ParameterError(f"{what} is for one replication; this policy runs {self.replications}")

    # Choice of arms and actions.

    @abstractmethod
    def choose(self) -> Arm:
        """Return the next arm of every replication, (R,)."""

    def next_arms(self) -> Arm:
        """Return the next arm of every replication: from the initial design until it is complete, then by `choose`.

        Where no alternative exists, the least measured arm is returned.
        """
        plan = self._initial_design
        design = None if plan is None or plan.is_complete else plan.pick(self.pulls)
        if design is not None and (design >= 0).all():
            self.t += 1
            return design
        try:
            arm = self.guarded(self.choose)
        except NoAlternativeError:
            arm = np.asarray(self.pulls.argmin(axis=1))
        return arm if design is None else np.where(design >= 0, design, arm)

    def weigh(self) -> tuple[Array, Mask | None]:
        """Return the information gain of one more result of every component, where measurements are actions.

        Returns
        -------
        gains
            (R, d).
        candidates
            Where the action of the largest total gain is hard to compute: answers, (R, m, d), that are compared with
            the action found heuristically. None otherwise.
        """
        raise ParameterError(
            f"{type(self).__name__} chooses single arms, and this problem is measured by actions: use top-two, "
            "greedy, peps or uniform"
        )

    def next_actions(self) -> Mask:
        """Return the next action of every replication: first those with unmeasured components, then by `weigh`."""
        actions: Any = self._action_set
        unmeasured = np.asarray(self.pulls < max(1, self.initial_design_wanted))
        covers_new: Mask = np.zeros(self.replications, dtype=bool)
        if unmeasured.any():
            # A bonus below 1 / d per component never outweighs one more unmeasured component.
            tie = 0.5 / unmeasured.shape[1] * (self._tie > 0.0)
            covering = actions.best(unmeasured + tie)
            covers_new = np.asarray((actions.shown(covering) & unmeasured).any(axis=1))
            if covers_new.all():
                return np.asarray(covering)
        try:
            gains, candidates = self.guarded(self.weigh)
        except NoAlternativeError:
            gains, candidates = 1.0 / (1.0 + self.weights), None
        # Among actions with equal gains, prefer the one whose components were measured least.
        size = _TIE_SCALE * gains.max(axis=1, keepdims=True)
        best = actions.best(gains + size / (1.0 + self.weights), candidates if actions.are_answers else None)
        return np.where(covers_new[:, None], covering, best) if covers_new.any() else np.asarray(best)

    def begin_with_every_arm(self, times: int = 1) -> None:
        """Require that every arm is measured `times` times first, as part of a policy's method."""
        if self._initial_design is None:
            self._initial_design = InitialDesign(len(self.problem.arms), self.streams)
        self._initial_design.require(times)

    def initial_design(self, times: bool | int = True) -> None:
        """Request an initial design: measure every arm `times` times before `choose` is called."""
        if length := initial_design_length(times):
            self.begin_with_every_arm(length)
            self.initial_design_wanted = self.default_initial_design

    @property
    def unswept(self) -> int:
        """Number of measurements left in a requested initial design; for one replication."""
        return int(np.maximum(self.initial_design_wanted - self.pulls[0], 0).sum())

    @property
    def default_initial_design(self) -> int:
        """How often every arm is measured in the initial design, by request or as part of the method."""
        return 0 if self._initial_design is None else self._initial_design.times

    def with_fantasies(self) -> Self:
        """Return a copy for fantasies: statistics are copied; streams, samplers and learners are shared.

        A policy whose `choose` depends on further statistics copies these too.
        """
        other = copy.copy(self)
        other.posterior, other._initial_design = self.posterior.copy(), copy.deepcopy(self._initial_design)
        other.pulls, other.weights, other.totals = self.pulls.copy(), self.weights.copy(), self.totals.copy()
        return other

    def without_cache(self) -> Self:
        """Return a copy without cached facets: its choices depend on data and streams only."""
        other = copy.copy(self)
        other.alternatives = copy.copy(self.alternatives)
        other.alternatives.forget()
        return other

    def adopt(self, other: Self) -> None:
        """Take over the state that `choose` changed in a copy with fantasies, without the fantasies."""
        self.__dict__.update({name: value for name, value in vars(other).items() if name not in self._fantasy_state})

    def z_hat(self, posterior: GaussianPosterior | None = None) -> Array:
        """Return the current answers, (R, d): argmax z @ theta_hat, theta_hat projected on Theta."""
        theta_hat = (self.posterior if posterior is None else posterior).theta_hat
        if isinstance(self.problem.space, RealSpace):
            return self._argmax(theta_hat + self._tie)
        return self._argmax(_add_tie_breaker(theta_hat, self._tie, *self._bounds))

    def _argmax(self, thetas: Array) -> Array:
        answers = self.alternatives.answers(thetas)
        self.watch.countdown -= 1
        if self.watch.countdown <= 0:
            self.watch.check(thetas, answers, self._tie_size)  # the tie breaker may be below a solver's tolerance
        return answers

    def guarded(self, work: Callable[[], _T]) -> _T:
        """Call `work`, which uses cached facets; if it is interrupted, drop the cache, which may be partly updated."""
        try:
            return work()
        except NoAlternativeError:
            raise
        except BaseException:
            with Atomic(self.lock):
                self.alternatives.forget()
            raise

    def state_dict(self) -> StateDict:
        """Return the state; a subclass adds its own."""
        learners = {name.lstrip("_"): getattr(self, name) for name in ("_level", "_refresh", *self._learners)}
        return {
            "posterior": self.posterior.state_dict(), "pulls": self.pulls, "weights": self.weights,
            "totals": self.totals,
            "actions": self.actions, "actions_cost": self.actions_cost, "t": self.t,
            **{name: None if learner is None else learner.state_dict() for name, learner in learners.items()},
        }  # fmt: skip

    def load_state_dict(self, data: StateDict) -> None:
        """Restore the state of a policy that was created in the same way; ValueError if it is inconsistent."""
        for name in ("pulls", "weights", "totals", "actions", "actions_cost"):
            load_into(getattr(self, name), data[name])
        if (self.pulls < 0).any() or (self.actions < 0).any() or ((self.weights > 0.0) != (self.pulls > 0)).any():
            raise ValueError("pulls must be non-negative, and weights positive for measured arms only")
        for name in ("_level", "_refresh", *self._learners):
            if getattr(self, name) is not None:
                getattr(self, name).load_state_dict(data[name.lstrip("_")])
        self.posterior.load_state_dict(data["posterior"])
        self._scale_tie()
        self.t = integer(data["t"])
        self.check_sums()

    def check_sums(self) -> None:
        """Raise ValueError if the posterior contradicts the sufficient statistics."""
        self.posterior.check_sums(self.weights, self.totals)


@njit
def _add_tie_breaker(theta: Array, tie: Array, low: Array, high: Array) -> Array:
    """Return theta plus the tie breaker, projected on the box, (R, d).

    At a boundary the tie breaker points inwards; otherwise the projection would remove half of its entries.
    """
    out = np.empty(theta.shape)
    for r in range(theta.shape[0]):
        for i in range(theta.shape[1]):
            projected, shift = min(max(theta[r, i], low[i]), high[i]), tie[r, i]
            if projected <= low[i]:
                shift = abs(shift)
            elif projected >= high[i]:
                shift = -abs(shift)
            out[r, i] = min(max(projected + shift, low[i]), high[i])
    return out


class Fantasies:
    """Successive choices of a policy with one replication while queries are open.

    An open query counts as answered with its expected result: V += x x', theta_hat unchanged, one more pull. Without
    this, successive choices from the same posterior would select the same arm. Fantasies are added to a copy of the
    policy; without open queries nothing is copied.

    Parameters
    ----------
    policy
        The policy.
    arms
        Arms of open queries; an arm of several queries is repeated.
    """

    def __init__(self, policy: Policy, arms: Sequence[int]) -> None:
        self._policy = policy
        self._copy: Policy | None = None
        self._pending = list(arms)  # not yet added to the copy

    def choose(self, stream: int) -> Any:
        """Return the next arm or action, with random numbers of this stream, without adding it."""
        if self._pending:
            if self._copy is None:
                self._copy = self._policy.with_fantasies()
            self._copy.expect(self._pending)
            self._pending = []
        policy = self._policy if self._copy is None else self._copy
        policy.streams.seek(stream)
        chosen = policy.problem.action_set.choose(policy)
        if self._copy is not None:
            self._policy.adopt(self._copy)
        return chosen[0]

    def add(self, arms: Sequence[int]) -> None:
        """Add the arms of one more open query."""
        self._pending.extend(arms)


def check_unbounded(policy: Policy) -> None:
    """Raise SpaceError if Theta is bounded."""
    if not isinstance(policy.problem.space, RealSpace):
        raise SpaceError(
            f"{type(policy).__name__} is written for Theta = R^d, got {policy.problem.space!r}; use TopTwo or PEPS"
        )
