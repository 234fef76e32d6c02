"""`check_policy`: the contract of `Policy` and two statistical tests, for people who write their own."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.oracles.base import ArgmaxOracle, Array, LogCardinality
from combopeps.policies.base import Fantasies, Policy
from combopeps.problem import Problem
from combopeps.random import Streams
from combopeps.utils.contract import ContractReport, run_checks
from combopeps.utils.validation import check_callable, check_flag, check_integer, check_kind

if TYPE_CHECKING:
    from scipy.sparse import csr_array

FALSE_ALARM = 1e-4
"""Probability that a policy without favourites fails the check "no favourites"."""
_ITEMS, _ROUNDS = 5, 30
_SIDE_BY_SIDE = 1000  # runs whose choices are counted: a share of 0.3 instead of 0.2 is noticed in all but 1 of 50
_EASY, _RIGHT = 40, 0.9  # runs on an easy problem, of which so many must end with the right answer
_PATIENCE = 150  # their rounds


def check_policy(
    make: Callable[..., Policy], rng: int = 0, *, problem: Problem | ArgmaxOracle | None = None, raises: bool = True
) -> ContractReport:
    """Run the whole contract on a policy.

    A policy inherits everything but `choose` (see the example of `Policy`). It has as many rows as replications, takes
    its random numbers from `self.streams`, and may look at `self.posterior`, `self.pulls`, `self.z_hat()`,
    `self.alternatives` and `self.problem`. What it learns beyond the posterior, it learns in `learn(arm, y, weight=1.0,
    count=1)`, after handing all four to `super().learn`. While queries are open, a twin chooses whose posterior and pulls
    hold their expected results: attributes that `choose` sets are carried over, arrays that it changes in place are
    shared.

    Parameters
    ----------
    make
        The class, or a function, called as `make(problem, rng=seed)` and as `make(problem, streams=...)`.
    rng
        Seed.
    problem
        What it is examined on, where it is not for the best of five items with one arm each; the statistical checks
        ("no favourites", "identifies"), which are about such items, are then left out.
    raises
        Raise `ContractError` with all violations, or only return the report.

    Examples
    --------
    >>> from combopeps import TopTwo
    >>> print(check_policy(TopTwo))
    TopTwo: 10 checks passed, 0 failed
    """
    check_callable("make", make)
    check_integer("rng", rng)
    check_flag("raises", raises)
    given = _BestItem(range(_ITEMS)) if problem is None else problem
    if not isinstance(given, Problem):
        given = Problem(given, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    probe = _Probe(make, given, rng)
    first = probe.single()
    check_kind("what make returns", first, Policy)
    checks = _CONTRACT if problem is not None else _CONTRACT | _STATISTICS
    return run_checks(type(first).__name__, probe, checks, raises=raises)


class _BestItem(ArgmaxOracle):
    """The best of a few items: what every kind of policy can do, also those that need facets, or arms as answers."""

    binary = antichain = True

    def _argmax_batch(self, thetas: Array) -> Array:
        return np.asarray(np.eye(self.dim)[thetas.argmax(axis=1)])

    def facets(self, z: ArrayLike) -> csr_array:
        from scipy.sparse import csr_array

        rows = np.eye(self.dim) - np.asarray(z)
        return csr_array(rows[np.asarray(z) == 0.0])

    @property
    def facet_count(self) -> int:
        return self.dim - 1

    @property
    def log_cardinality(self) -> LogCardinality:
        return LogCardinality(log(self.dim), exact=True)


class _Probe:
    """Makes fresh policies, and plays with them."""

    def __init__(self, make: Callable[..., Policy], problem: Problem, seed: int) -> None:
        self._make, self._problem, self.seed = make, problem, seed
        mean = 0.0 if problem.prior_mean is None else problem.prior_mean
        std = 1.0 if problem.prior_std is None else problem.prior_std
        theta = mean + std * np.random.default_rng(seed).normal(size=problem.oracle.dim)
        self.means: Array = problem.arms.dot(problem.space.project(theta))

    def single(self) -> Policy:
        return self._make(self._problem, rng=self.seed)

    def rows(self, seeds: list[np.random.SeedSequence]) -> Policy:
        return self._make(self._problem, streams=Streams(seeds))

    def many(self, replications: int) -> Policy:
        return self.rows(np.random.SeedSequence(self.seed).spawn(replications))

    def play(self, policy: Policy, rounds: int = _ROUNDS, *, row: int = 0) -> NDArray[np.intp]:
        """The arms of some rounds, (rounds, R); results depend on the run's number (from `row` on) and its past."""
        rows, noise = row + np.arange(policy.replications), policy.problem.noise
        arms = []
        for t in range(rounds):
            arm = np.array(policy.next_arms())
            arms.append(arm)
            policy.learn(arm, self.means[arm] + noise[arm] * np.sin(1.0 + 3 * t + 7 * arm + 11 * rows))
        return np.array(arms)


Check = Callable[[_Probe], Iterator[str]]


def _choices(p: _Probe) -> Iterator[str]:
    for R in (1, 4):
        policy = p.many(R)
        K = len(policy.problem.arms)
        for t in range(K + 5):
            arm: Any = policy.next_arms()
            if not isinstance(arm, np.ndarray) or arm.shape != (R,) or arm.dtype.kind not in "iu":
                yield f"choose returns {arm!r:.60} for {R} replications; return an integer array with one arm for each"
                return
            if (arm < 0).any() or (arm >= K).any():
                yield f"choose returns arm {arm.max()} of {K}; arms are numbers in 0..{K - 1}"
                return
            if t % 2:  # batches are chosen from one state of knowledge
                policy.learn(arm, p.means[arm])


def _replications(p: _Probe) -> Iterator[str]:
    seeds = np.random.SeedSequence(p.seed).spawn(4)
    together = p.play(p.rows(seeds))
    for r, seed in enumerate(seeds):
        if not np.array_equal(together[:, r], p.play(p.rows([seed]), row=r)[:, 0]):
            yield (
                "a row chooses otherwise than the same run on its own: draw from self.streams, "
                "and compute row by row (axis=1)"
            )


def _reproducible(p: _Probe) -> Iterator[str]:
    if not np.array_equal(p.play(p.single()), p.play(p.single())):
        yield "the same seed gave two runs; draw from self.streams only, and keep nothing in the class or a global"


def _pure_choices(p: _Probe) -> Iterator[str]:
    for R in (1, 4):
        policy = p.many(R)
        p.play(policy, 12)
        before, world = _knowledge(policy), _world()
        policy.next_arms()
        if _knowledge(policy) != before:
            yield "choose changed the posterior, pulls or totals; only learn does that, and arrays of theirs are not yours"
        if _world() != world:
            yield "choose used the random numbers of numpy.random or random; use self.streams, which a seed decides"


def _knowledge(policy: Policy) -> list[bytes]:
    eye = np.eye(policy.problem.oracle.dim)
    spread = [policy.posterior.covariance_dot(np.tile(row, (policy.replications, 1))) for row in eye]
    return [
        part.tobytes() for part in (policy.posterior.theta_hat, policy.pulls, policy.weights, policy.totals, *spread)
    ]


def _world() -> tuple[object, ...]:
    """Random state that belongs to nobody."""
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return name, np.asarray(keys).tobytes(), *rest, random.getstate()


def _learning(p: _Probe) -> Iterator[str]:
    for R in (1, 4):
        policy = p.many(R)
        pulls, totals, rows = np.zeros(policy.pulls.shape), np.zeros(policy.totals.shape), np.arange(R)
        for t in range(12):
            arm = (t + rows) % len(policy.problem.arms)
            y = p.means[arm] + t
            before = policy.posterior.theta_hat.copy()
            policy.learn(arm, y)
            pulls[rows, arm] += 1
            totals[rows, arm] += y / policy.problem.noise[arm]
            if not np.isfinite(policy.posterior.theta_hat).all():
                yield "a result turned the posterior into NaN or infinity"
                return
        if not (
            np.array_equal(policy.pulls, pulls)
            and np.array_equal(policy.weights, pulls)
            and np.allclose(policy.totals, totals)
        ):
            yield "pulls and totals do not hold what was learnt; call super().learn(arm, y) in your learn, once"
        elif np.array_equal(policy.posterior.theta_hat, before):
            yield "a result left the posterior as it was; call super().learn(arm, y) in your learn"
        else:
            yield from _weighted(policy, arm, y)


def _weighted(policy: Policy, arm: NDArray[np.intp], y: Array) -> Iterator[str]:
    """Means of several measurements, and those with a standard error of their own."""
    rows = np.arange(policy.replications)
    before = policy.pulls[rows, arm], policy.weights[rows, arm]
    try:
        policy.learn(arm, y, 2.5, 2)
    except TypeError:
        yield "learn takes (arm, y, weight=1.0, count=1); hand them all on to super().learn"
        return
    after = policy.pulls[rows, arm], policy.weights[rows, arm]
    if not (np.array_equal(after[0] - before[0], 2 + 0 * rows) and np.allclose(after[1] - before[1], 2.5)):
        yield "a result worth more than one measurement was not learnt as such; hand weight and count to super().learn"


def _copies(p: _Probe) -> Iterator[str]:
    policy, untouched = p.single(), p.single()
    for run in (policy, untouched):
        p.play(run, 8)
    twin = copy.deepcopy(policy)
    theirs = p.play(twin)
    mine, wanted = p.play(policy), p.play(untouched)
    if not np.array_equal(theirs, wanted):
        yield "a copy (copy.deepcopy) goes on otherwise than its original; is part of the state left out?"
    if not np.array_equal(mine, wanted):
        yield "a copy (copy.deepcopy) shares state with its original: what one does changes the other"


def _fantasies(p: _Probe) -> Iterator[str]:
    policy = p.single()
    p.play(policy, 6)
    before, fantasies = _knowledge(policy), Fantasies(policy, [0])
    for stream in range(3):
        fantasies.add([int(fantasies.choose(stream))])
    if _knowledge(policy) != before:
        yield "expected results of open queries changed the posterior or the sums: copy them in `with_fantasies`"


def _state_dicts(p: _Probe) -> Iterator[str]:
    policy, twin = p.single(), p.single()
    p.play(policy, 8)
    twin.load_state_dict(policy.state_dict())
    policy = policy.without_cache()  # facets that were found are no part of the state
    for run in (policy, twin):
        run.streams.seek(0)
    if not np.array_equal(p.play(policy, 8), p.play(twin, 8)):
        yield "a policy that was restored from `state_dict` chooses otherwise: add what `choose` depends on"


def _no_favourites(p: _Probe) -> Iterator[str]:
    """All items are equal, so that in every round every item is chosen with the same probability."""
    from scipy.stats import chisquare

    policy, noise = p.many(_SIDE_BY_SIDE), np.random.default_rng(p.seed)
    found = {"the answer before any result": policy.z_hat().argmax(axis=1)}
    for t in range(1, 2 * _ITEMS + 3):
        arm = found[f"the choice of round {t}"] = np.array(policy.next_arms())
        policy.learn(arm, policy.problem.noise[arm] * noise.normal(size=len(arm)))
    found["the answer after them"] = policy.z_hat().argmax(axis=1)
    for name, items in found.items():
        counts = np.bincount(items, minlength=_ITEMS)
        if chisquare(counts).pvalue < FALSE_ALARM / len(found):
            yield (
                f"among {_ITEMS} equal items {name} is one of them too often ({counts} in {_SIDE_BY_SIDE} runs): break "
                "ties by self.streams, not by index"
            )
            return


def _identifies(p: _Probe) -> Iterator[str]:
    """One item is better by two standard deviations of the noise, in each run another one; all are better than 0."""
    policy, noise = p.many(_EASY), np.random.default_rng(p.seed)
    best = np.arange(_EASY) % _ITEMS
    for _ in range(_PATIENCE):
        arm = np.array(policy.next_arms())
        policy.learn(arm, policy.problem.noise[arm] * (1.0 + 2.0 * (arm == best) + noise.normal(size=_EASY)))
    right = float((policy.z_hat().argmax(axis=1) == best).mean())
    if right < _RIGHT:
        missed = int((policy.pulls == 0).any(axis=1).sum())
        yield (
            f"after {_PATIENCE} measurements of {_ITEMS} items, one of them far better, {right:.0%} of runs have the "
            f"right answer, and {missed} of {_EASY} never measured some item: measure whatever may still be best"
        )


_CONTRACT: dict[str, Check] = {
    "choices": _choices,
    "replications": _replications,
    "reproducible": _reproducible,
    "pure choices": _pure_choices,
    "learning": _learning,
    "copies": _copies,
    "fantasies": _fantasies,
    "state dict": _state_dicts,
}
_STATISTICS: dict[str, Check] = {"no favourites": _no_favourites, "identifies": _identifies}
