"""`identify`: from a way to measure to an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Policy
from combopeps.policies.registry import DEFAULT
from combopeps.problem import Problem
from combopeps.session.queries import Query
from combopeps.session.result import Result
from combopeps.session.run import check_run
from combopeps.session.session import Session
from combopeps.stopping.base import StoppingRule


def identify(
    problem: Problem | ArgmaxOracle,
    measure: Callable[[Any], Any],
    *,
    delta: float = 0.05,
    budget: int | None = None,
    budget_cost: float | None = None,
    policy: str | Policy = DEFAULT,
    stopping: str | StoppingRule = "posterior",
    epsilon: float = 0.0,
    rng: int | np.random.Generator | None = 0,
    progress: bool = False,
    batch_size: int = 1,
    sweep: bool | int | None = None,
    callback: Callable[[Session, Query, Any], None] | None = None,
) -> Result:
    """Measure until the answer is certain enough.

    The same as `Session(problem, ...).run(measure, ...)`. Nothing that was measured is lost. If anything raises
    (`measure`, the callback, the oracle), the exception has the session in its attribute `session`:
    `error.session.run(measure)` continues. Ctrl-C ends the run and returns what is known; one that comes while the
    result is put together is raised, with the session.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    measure
        Gets an arm's label (an edge, an item, a worker-task pair) and returns one number, or (y, sem) with its own
        standard error. With `batch_size` > 1 it gets a list of labels and returns as many. Edges of an undirected graph
        come as `graph.edges` lists them, which may be the reverse of how they were written: look them up with
        `graph.edges[label]`.
    delta
        The probability of being wrong that the stopping rule allows; a rule that is passed has its own.
    budget
        Stop after so many measurements of this call; None for no limit. What a policy that is passed has learnt before
        does not count.
    budget_cost
        Stop before measurements of this call cost more than so much (see `Problem(cost=)`); None for no limit.
    policy
        Name of the policy, or one that has learnt something already.
    stopping
        "posterior" (Bayesian), "guaranteed" (for every theta: by "verified" or "certified", whichever suits the
        problem), "heuristic" (no guarantee), "budget" to use the budget up and learn how doubtful the answer is (see
        `BudgetRule`), or a `StoppingRule`.
    epsilon
        Accept an answer that is at most so much worse than the best; a rule that is passed has its own. The error
        probability of the result is then that of being worse by more.
    rng
        Seed or generator; a policy that is passed goes on with its own.
    progress
        Show measurements of this call, current answer and error probability.
    batch_size
        Measurements asked for at once. Each is chosen as if those before it had been answered as expected.
    sweep
        Measure every arm so many times (True: once) before the policy chooses and the rule looks; what a policy that is
        passed has measured before counts. For bulk data that are cheap: one at a time, a choice takes far longer.
    callback
        Called after each measurement with the session, the query and the result. If it raises, the rest of the batch is
        told first, without it.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.2}, np.random.default_rng(0)
    >>> result = identify(TopKOracle(["a", "b", "c"], k=1), lambda item: truth[item] + noise.normal())
    >>> result.answer, result.stop_reason
    ({'b'}, 'posterior')
    """
    check_run(measure, callback, progress, batch_size, budget, budget_cost)
    session = Session(
        problem, policy=policy, stopping=stopping, delta=delta, epsilon=epsilon, rng=rng, sweep=sweep
    )  # fmt: skip
    return session.run(
        measure, budget=budget, budget_cost=budget_cost, progress=progress, batch_size=batch_size, callback=callback
    )
