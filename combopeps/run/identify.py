"""`identify`: from a way to measure to an answer."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Policy
from combopeps.policies.ledger import Query
from combopeps.policies.registry import DEFAULT, policy_class
from combopeps.policies.sweep import sweep_length
from combopeps.problem import Problem
from combopeps.run.batch import Callback, Measure
from combopeps.run.for_campaign import Host, measure_for
from combopeps.run.result import Result
from combopeps.run.run import Progress, Run
from combopeps.stopping.base import StoppingRule, check_rule
from combopeps.stopping.registry import stopping_rule
from combopeps.validation import MOST_QUERIES, check_callable, check_count, check_flag, check_positive, shown


class _Unsaid:
    """The value of an option that nobody has given."""


class _Number(_Unsaid, float): ...


class _Name(_Unsaid, str): ...


class _Seed(_Unsaid, int): ...


_DELTA, _EPSILON, _POLICY, _STOPPING, _RNG = _Number(0.05), _Number(0.0), _Name(DEFAULT), _Name("posterior"), _Seed(0)


def identify(
    problem: Problem | ArgmaxOracle,
    measure: Callable[[Any], Any],
    *,
    delta: float = _DELTA,
    budget: int | None = None,
    budget_cost: float | None = None,
    policy: str | Policy = _POLICY,
    stopping: str | StoppingRule = _STOPPING,
    epsilon: float = _EPSILON,
    rng: int | np.random.Generator | None = _RNG,
    progress: bool = False,
    batch_size: int = 1,
    sweep: bool | int | None = None,
    callback: Callable[[Policy, Query, float], None] | None = None,
    campaign: Host | None = None,
    client: str | None = None,
) -> Result:
    """Measure until the answer is certain enough.

    Nothing that was measured is lost. If anything raises (`measure`, the callback, the oracle), the exception goes on
    its way with the policy in its attribute `policy`; pass that to `identify` to go on. Ctrl-C ends the run and returns
    what is known; one that comes while the result is put together is raised, with the policy.

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
        Called after each measurement with the policy, the query and the result. If it raises, the rest of the batch is
        told first, without it. With a campaign, it gets that instead of the policy.
    campaign
        Measure for a `Campaign` or a `RemoteCampaign`, maybe beside others who do so, until its status says stop. It
        has its own policy, rule, delta, epsilon, seed and sweep. Its status is asked for whenever it has grown by a
        tenth or so. What came back from `measure` is told whatever happens next; if even that fails, it is in the
        attribute `untold` of the exception, for `campaign.tell_many`. A result whose query somebody else has closed
        meanwhile is recorded as an observation. The result is about all that was measured, by whomever; its policy
        is a copy.
    client
        The name under which a campaign keeps our queries. Who comes back under the same name gets those first that
        were left unanswered; without a name they are abandoned when this call ends.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.2}, np.random.default_rng(0)
    >>> result = identify(TopKOracle(["a", "b", "c"], k=1), lambda item: truth[item] + noise.normal())
    >>> result.answer, result.stop_reason
    ({'b'}, 'posterior')
    """
    check_callable("measure", measure)
    if callback is not None:
        check_callable("callback", callback)
    check_flag("progress", progress)
    check_count("batch_size", batch_size, MOST_QUERIES)
    if budget is not None:
        check_count("budget", budget)
    if budget_cost is not None:
        check_positive("budget_cost", budget_cost)
    if campaign is not None:
        said = {"delta": delta, "policy": policy, "stopping": stopping, "epsilon": epsilon, "rng": rng}
        given = [name for name, value in said.items() if not isinstance(value, _Unsaid)]
        given += ["sweep"] if sweep is not None else []
        if given:
            raise ParameterError(
                f"the campaign has its own {' and '.join(given)}: leave out what was said when it began"
            )
        if isinstance(campaign, (str, PathLike)):
            raise ParameterError(f"campaign is a Campaign, not where it is kept: Campaign.open({str(campaign)!r:.80})")
        if not all(callable(getattr(campaign, name, None)) for name in ("ask", "tell_many", "status", "is_about")):
            raise ParameterError(f"campaign must be a Campaign or a RemoteCampaign, got {shown(campaign)}")
        return measure_for(
            campaign, problem, measure, client=client, budget=budget, budget_cost=budget_cost, batch_size=batch_size,
            progress=progress, callback=callback,
        )  # fmt: skip
    if client is not None:
        raise ParameterError("client is a name in a campaign: say campaign=, too")
    check_rule(delta, epsilon, 2.0)
    length = sweep_length(sweep)
    rule = stopping_rule(stopping, delta, epsilon)
    if rule.budget is not None:
        check_count("the budget of the stopping rule", rule.budget)
    if stopping == "budget" and budget is None and budget_cost is None:
        raise ParameterError('stopping="budget" needs a budget, or a budget_cost')
    if isinstance(policy, Policy):
        runner, rng = policy, None
        if problem not in (runner.problem, runner.problem.oracle):
            raise ParameterError("the policy was made for another problem; pass policy.problem")
    else:
        runner = policy_class(policy)(problem, rng)
    rule.check_problem(runner.problem, runner.noise_estimate)
    if length:
        runner.sweep(length)
    seed = int(rng) if isinstance(rng, (int, np.integer)) else None
    own = isinstance(stopping, StoppingRule)
    run = Run(runner, rule, budget, None if own else float(epsilon), budget_cost)
    try:
        try:
            with Progress(progress, run.budget) as bar:
                reason = _until_certain(run, measure, batch_size, callback, bar)
            return run.result(reason, rule.delta if own else float(delta), seed)
        except BaseException as error:
            run.carry_on(error)
            raise
    except BaseException as error:  # once more, for a Ctrl-C that came while the first exception was dealt with
        run.carry_on(error)
        raise


def _until_certain(run: Run, measure: Measure, batch_size: int, callback: Callback, shown: Progress) -> str:
    """Measure, look, stop: the reason for which it ended."""
    try:
        while not run.spent:
            run.measure(measure, batch_size, callback)
            if run.due and run.look(shown):
                return run.rule.name
        return "budget"
    except KeyboardInterrupt:
        run.keep()
        return "interrupted"
