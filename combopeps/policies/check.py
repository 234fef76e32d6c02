"""`check_policy`: contract tests of a `Policy` implementation, and two statistical tests."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.topk import TopKOracle
from combopeps.policies.base import Fantasies, Policy
from combopeps.problem import Problem
from combopeps.random import Streams
from combopeps.utils.interface_checks import ContractReport, run_checks
from combopeps.utils.validation import check_callable, check_flag, check_integer, check_kind

FALSE_ALARM = 1e-4
"""Probability that a policy that breaks ties uniformly fails the check "no favourites"."""
_ITEMS, _ROUNDS = 5, 30
_TIE_RUNS = 1000  # of "no favourites": a share of 0.3 instead of 0.2 is detected with probability 0.98
_EASY_RUNS, _MIN_CORRECT = 40, 0.9  # of "identifies": runs, and the share that must end with the correct answer
_EASY_ROUNDS = 150


def check_policy(
    make: Callable[..., Policy], rng: int = 0, *, problem: Problem | ArgmaxOracle | None = None, raises: bool = True
) -> ContractReport:
    """Test that a policy satisfies the contract of `Policy`.

    A policy implements `choose` (see the example of `Policy`). Arrays have one row per replication; random numbers are
    drawn from `self.streams`; `choose` may read `self.posterior`, `self.pulls`, `self.z_hat()`, `self.alternatives` and
    `self.problem`. State besides the posterior is updated in `learn(arm, y, weight=1.0, count=1)`, which passes all
    four arguments to `super().learn`. While queries are open, `choose` is called on a copy whose posterior and pulls
    include their expected results: attributes that `choose` assigns are copied back, arrays that it changes in place
    are shared.

    Parameters
    ----------
    make
        The class, or a function, called as `make(problem, rng=seed)` and as `make(problem, streams=...)`.
    rng
        Seed.
    problem
        Problem of the tests; by default the best of five items with one arm each. With another problem the statistical
        checks ("no favourites", "identifies"), which are for such items, are skipped.
    raises
        Raise `ContractError` with all violations; otherwise only return the report.

    Examples
    --------
    >>> from combopeps import TopTwo
    >>> print(check_policy(TopTwo))
    TopTwo: 10 checks passed, 0 failed
    """
    check_callable("make", make)
    check_integer("rng", rng)
    check_flag("raises", raises)
    given = TopKOracle(_ITEMS, k=1) if problem is None else problem
    if not isinstance(given, Problem):
        given = Problem(given, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    probe = _Probe(make, given, rng)
    first = probe.single()
    check_kind("what make returns", first, Policy)
    checks = _CONTRACT if problem is not None else _CONTRACT | _STATISTICS
    return run_checks(type(first).__name__, probe, checks, raises=raises)


class _Probe:
    """Create policies and simulate runs with deterministic results."""

    def __init__(self, make: Callable[..., Policy], problem: Problem, seed: int) -> None:
        self._make, self._problem, self.seed = make, problem, seed
        mean = 0.0 if problem.prior_mean is None else problem.prior_mean
        std = 1.0 if problem.prior_std is None else problem.prior_std
        theta = mean + std * np.random.default_rng(seed).normal(size=problem.oracle.dim)
        self.means: Array = problem.arms.dot(problem.space.project(theta))

    def single(self) -> Policy:
        return self._make(self._problem, rng=self.seed)

    def many(self, replications: int, first: int = 0) -> Policy:
        """Return a policy of some replications, whose seeds depend on their numbers `first`, `first` + 1, ..."""
        seeds = np.random.SeedSequence(self.seed).spawn(first + replications)[first:]
        return self._make(self._problem, streams=Streams(seeds))

    def play(self, policy: Policy, rounds: int = _ROUNDS, *, row: int = 0) -> NDArray[np.intp]:
        """Return the arms of some rounds, (rounds, R); results depend on round, arm and run (numbered from `row`)."""
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
            if t % 2:  # otherwise the next choice is from the same posterior, as in a batch
                policy.learn(arm, p.means[arm])


def _replications(p: _Probe) -> Iterator[str]:
    together = p.play(p.many(4))
    for r in range(4):
        if not np.array_equal(together[:, r], p.play(p.many(1, first=r), row=r)[:, 0]):
            yield (
                "a replication chooses other arms than the same run on its own: draw from self.streams, "
                "and compute row by row (axis=1)"
            )


def _reproducible(p: _Probe) -> Iterator[str]:
    if not np.array_equal(p.play(p.single()), p.play(p.single())):
        yield "two runs with the same seed differ; draw from self.streams only, and keep no state in class or module"


def _pure_choices(p: _Probe) -> Iterator[str]:
    for R in (1, 4):
        policy = p.many(R)
        p.play(policy, 12)
        before, global_state = _statistics(policy), _global_random_state()
        policy.next_arms()
        if _statistics(policy) != before:
            yield "choose changed the posterior, pulls or totals; only learn may do that; copy arrays first"
        if _global_random_state() != global_state:
            yield "choose drew from numpy.random or random; draw from self.streams, which are seeded"


def _statistics(policy: Policy) -> bytes:
    """Return posterior and sufficient statistics as bytes, to compare them exactly."""
    return pickle.dumps((policy.posterior.state_dict(), policy.pulls, policy.weights, policy.totals))


def _global_random_state() -> bytes:
    """Return the state of the global generators of numpy and the standard library."""
    return pickle.dumps((np.random.get_state(), random.getstate()))  # noqa: NPY002


def _learning(p: _Probe) -> Iterator[str]:
    for R in (1, 4):
        policy, rows = p.many(R), np.arange(R)
        pulls, totals = np.zeros(policy.pulls.shape), np.zeros(policy.totals.shape)
        for t in range(12):
            arm = (t + rows) % len(policy.problem.arms)
            y, before = p.means[arm] + t, policy.posterior.theta_hat.copy()
            policy.learn(arm, y)
            pulls[rows, arm] += 1
            totals[rows, arm] += y / policy.problem.noise[arm]
            if not np.isfinite(policy.posterior.theta_hat).all():
                yield "a result made the posterior NaN or infinite"
                return
        counts = np.array_equal(policy.pulls, pulls) and np.array_equal(policy.weights, pulls)
        if not (counts and np.allclose(policy.totals, totals)):
            yield "pulls and totals differ from the results; call super().learn(arm, y) in your learn, exactly once"
        elif np.array_equal(policy.posterior.theta_hat, before):
            yield "a result did not change the posterior; call super().learn(arm, y) in your learn"
        else:  # the mean of two measurements, of another weight
            try:
                policy.learn(arm, y, 2.5, 2)
            except TypeError:
                yield "learn takes (arm, y, weight=1.0, count=1); pass all of them to super().learn"
                return
            more = policy.pulls[rows, arm] - pulls[rows, arm], policy.weights[rows, arm] - pulls[rows, arm]
            if not ((more[0] == 2).all() and np.allclose(more[1], 2.5)):
                yield "weight and count of a result were ignored; pass them to super().learn"


def _copies(p: _Probe) -> Iterator[str]:
    policy, reference = p.single(), p.single()
    for run in (policy, reference):
        p.play(run, 8)
    other = copy.deepcopy(policy)
    arms_of_copy = p.play(other)
    arms_of_original, expected = p.play(policy), p.play(reference)
    if not np.array_equal(arms_of_copy, expected):
        yield "a copy (copy.deepcopy) chooses other arms than its original; is part of the state not copied?"
    if not np.array_equal(arms_of_original, expected):
        yield "a copy (copy.deepcopy) shares state with its original: a change of one changes the other"


def _fantasies(p: _Probe) -> Iterator[str]:
    policy = p.single()
    p.play(policy, 6)
    before, fantasies = _statistics(policy), Fantasies(policy, [0])
    for stream in range(3):
        fantasies.add([int(fantasies.choose(stream))])
    if _statistics(policy) != before:
        yield "expected results of open queries changed the posterior or the sums: copy them in `with_fantasies`"


def _state_dicts(p: _Probe) -> Iterator[str]:
    policy, restored = p.single(), p.single()
    p.play(policy, 8)
    restored.load_state_dict(policy.state_dict())
    policy = policy.without_cache()  # cached facets are not part of the state
    for run in (policy, restored):
        run.streams.seek(0)
    if not np.array_equal(p.play(policy, 8), p.play(restored, 8)):
        yield "a policy restored from `state_dict` chooses other arms: add the state on which `choose` depends"


def _no_favourites(p: _Probe) -> Iterator[str]:
    """Test that equal items are chosen with equal probability in every round."""
    from scipy.stats import chisquare

    policy, noise = p.many(_TIE_RUNS), np.random.default_rng(p.seed)
    found = {"the answer before any result": policy.z_hat().argmax(axis=1)}
    for t in range(1, 2 * _ITEMS + 3):
        arm = found[f"the choice of round {t}"] = np.array(policy.next_arms())
        policy.learn(arm, policy.problem.noise[arm] * noise.normal(size=len(arm)))
    found["the answer after them"] = policy.z_hat().argmax(axis=1)
    for name, items in found.items():
        counts = np.bincount(items, minlength=_ITEMS)
        if chisquare(counts).pvalue < FALSE_ALARM / len(found):
            yield (
                f"among {_ITEMS} equal items, {name} is not uniform ({counts} in {_TIE_RUNS} runs): break "
                "ties by self.streams, not by index"
            )
            return


def _identifies(p: _Probe) -> Iterator[str]:
    """Test that an item that is better by two standard deviations of the noise is identified."""
    policy, noise = p.many(_EASY_RUNS), np.random.default_rng(p.seed)
    best = np.arange(_EASY_RUNS) % _ITEMS
    for _ in range(_EASY_ROUNDS):
        arm = np.array(policy.next_arms())
        policy.learn(arm, policy.problem.noise[arm] * (1.0 + 2.0 * (arm == best) + noise.normal(size=_EASY_RUNS)))
    correct = float((policy.z_hat().argmax(axis=1) == best).mean())
    if correct < _MIN_CORRECT:
        missed = int((policy.pulls == 0).any(axis=1).sum())
        yield (
            f"after {_EASY_ROUNDS} measurements of {_ITEMS} items, one of them far better, {correct:.0%} of runs have "
            f"the correct answer, and {missed} of {_EASY_RUNS} never measured some item: measure every item that may "
            "still be best"
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
