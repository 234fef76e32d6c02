"""`identify`: from a way to measure to an answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from combopeps.errors import ParameterError, RewardError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.base import Policy, Recommendation
from combopeps.policies.ledger import Query
from combopeps.policies.registry import policy_class
from combopeps.problem import Problem

_RATIO = 1.1  # looks at the error probability are at geometric times, so that their cost vanishes


@dataclass(frozen=True)
class Result:
    """What `identify` found.

    Attributes
    ----------
    answer, z
        The answer as a person reads it, and as a vector.
    alternative
        The answer most likely to be right instead; None when there is no other.
    error_probability
        Posterior probability that the answer is wrong, under the prior and normal noise: an estimate, and a Bayesian
        claim, not a frequentist guarantee.
    samples
        Measurements made.
    stop_reason
        "posterior" (error_probability <= delta), "budget", or "interrupted".
    delta, seed
        As given.
    pulls
        How often each arm was measured, by label.
    policy
        The policy with everything it learnt: pass it to `identify` again to go on.
    """

    answer: Any
    z: Array
    alternative: Any
    error_probability: float
    samples: int
    stop_reason: Literal["posterior", "budget", "interrupted"]
    delta: float
    seed: int | None
    pulls: dict[Hashable, int]
    policy: Policy


def identify(
    problem: Problem | ArgmaxOracle,
    measure: Callable[[Any], Any],
    *,
    delta: float = 0.05,
    budget: int | None = None,
    policy: str | Policy = "top-two",
    stopping: Literal["posterior", "budget"] = "posterior",
    rng: int | np.random.Generator | None = 0,
    progress: bool = False,
    batch_size: int = 1,
    callback: Callable[[Policy, Query, float], None] | None = None,
) -> Result:
    """Measure until the answer is certain enough.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    measure
        Gets an arm's label (an edge, an item, a worker-task pair) and returns one number. With `batch_size` > 1 it gets
        a list of labels and returns as many numbers. Edges of an undirected graph come as `graph.edges` lists them,
        which may be the reverse of how they were written: look them up with `graph.edges[label]`.
    delta
        Stop when the posterior probability of being wrong is at most this.
    budget
        Stop after so many measurements; None for no limit.
    policy
        Name of the policy, or one that has learnt something already.
    stopping
        "posterior", or "budget" to use the budget up.
    rng
        Seed or generator; a policy that is passed goes on with its own.
    progress
        Show measurements, current answer and error probability.
    batch_size
        Measurements asked for at once.
    callback
        Called after each measurement with the policy, the query and the result.

    If `measure` raises, the exception goes on its way with the policy in its attribute `policy`; pass that to
    `identify` to go on. Ctrl-C ends the run and returns what is known.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.2}, np.random.default_rng(0)
    >>> result = identify(TopKOracle(["a", "b", "c"], k=1), lambda item: truth[item] + noise.normal())
    >>> result.answer, result.stop_reason
    ({'b'}, 'posterior')
    """
    if isinstance(policy, Policy):
        runner, rng = policy, None
        if problem not in (runner.problem, runner.problem.oracle):
            raise ParameterError("the policy was made for another problem; pass policy.problem")
    else:
        runner = policy_class(policy)(problem, rng)
    if not 0 < delta < 1 or batch_size < 1 or (budget is not None and budget < 1):
        raise ParameterError("delta must lie in (0, 1), budget and batch_size be at least 1")
    if stopping not in ("posterior", "budget") or (stopping == "budget" and budget is None):
        raise ParameterError('stopping must be "posterior", or "budget" together with a budget')
    seed = int(rng) if isinstance(rng, (int, np.integer)) else None
    with _Progress(progress, budget) as shown:
        reason, view = _loop(runner, measure, delta, budget, stopping, batch_size, callback, shown)
    pulls = {label: int(n) for label, n in zip(runner.problem.arms.labels, runner.pulls[0], strict=True)}
    doubt = view.error_probability
    return Result(view.answer, view.z, view.alternative, doubt, runner.samples, reason, delta, seed, pulls, runner)


def _loop(
    policy: Policy,
    measure: Callable[[Any], Any],
    delta: float,
    budget: int | None,
    stopping: str,
    batch_size: int,
    callback: Callable[[Policy, Query, float], None] | None,
    shown: _Progress,
) -> tuple[Literal["posterior", "budget", "interrupted"], Recommendation]:
    next_look = max(policy.samples + 1, 10)
    queries: list[Query] = []
    try:
        while budget is None or policy.samples < budget:
            room = batch_size if budget is None else min(batch_size, budget - policy.samples)
            queries = policy.ask(room)
            bad: list[RewardError] = []
            for query, y in zip(queries, _measured(measure, queries, batch_size), strict=True):
                try:
                    policy.tell(query, y)
                except RewardError as error:  # the rest of the batch is good, and is kept
                    bad.append(error)
                    continue
                if callback is not None:
                    callback(policy, query, float(y))
            if bad:
                raise bad[0]
            if policy.samples >= next_look:
                next_look = max(policy.samples + 1, int(policy.samples * _RATIO))
                view = policy.recommend(policy.samples)
                shown.update(policy.samples, view)
                if stopping == "posterior" and view.error_probability <= delta:
                    return "posterior", view
        return "budget", policy.recommend(policy.samples)
    except KeyboardInterrupt:
        _abandon(policy, queries)
        return "interrupted", policy.recommend(policy.samples)
    except Exception as error:
        _abandon(policy, queries)
        error.policy = policy  # type: ignore[attr-defined]
        error.add_note(f"{policy.samples} measurements are kept: go on with identify(..., policy=error.policy)")
        raise


def _measured(measure: Callable[[Any], Any], queries: list[Query], batch_size: int) -> list[Any]:
    if batch_size == 1:
        return [measure(queries[0].label)]
    results = list(measure([query.label for query in queries]))
    if len(results) != len(queries):
        raise RewardError(f"measure got {len(queries)} labels and returned {len(results)} numbers")
    return results


def _abandon(policy: Policy, queries: list[Query]) -> None:
    still_open = set(policy.open_queries)
    for query in queries:
        if query in still_open:
            policy.abandon(query)


class _Progress:
    """A bar that shows samples, current answer and error probability."""

    def __init__(self, show: bool, budget: int | None) -> None:
        self.show, self.budget = show, budget

    def __enter__(self) -> _Progress:
        from tqdm import tqdm

        self._bar = tqdm(total=self.budget, disable=not self.show, unit=" samples")
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def update(self, samples: int, view: Recommendation) -> None:
        """Show the state after so many samples."""
        self._bar.n = samples
        self._bar.set_postfix_str(f"wrong with p = {view.error_probability:.2g}, answer {view.answer!s:.60}")
