"""`identify`: from a way to measure to an answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from combopeps.belief.scales import check_count
from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Policy
from combopeps.policies.ledger import Query
from combopeps.policies.registry import policy_class
from combopeps.problem import Problem
from combopeps.run.batch import Batch
from combopeps.run.look import look_at
from combopeps.run.progress import Progress
from combopeps.run.result import Look, Result
from combopeps.run.ties import tied_answers
from combopeps.stopping.base import Situation, StoppingRule, Verdict, check_rule
from combopeps.stopping.registry import stopping_rule

_FIRST_LOOK = 10
_PAUSE = 16  # a look costs as much as some rounds, in proportion to d: at least d / 16 rounds lie between two


def identify(
    problem: Problem | ArgmaxOracle,
    measure: Callable[[Any], Any],
    *,
    delta: float = 0.05,
    budget: int | None = None,
    policy: str | Policy = "top-two",
    stopping: str | StoppingRule = "posterior",
    epsilon: float = 0.0,
    rng: int | np.random.Generator | None = 0,
    progress: bool = False,
    batch_size: int = 1,
    callback: Callable[[Policy, Query, float], None] | None = None,
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
        Gets an arm's label (an edge, an item, a worker-task pair) and returns one number. With `batch_size` > 1 it gets
        a list of labels and returns as many numbers. Edges of an undirected graph come as `graph.edges` lists them,
        which may be the reverse of how they were written: look them up with `graph.edges[label]`.
    delta
        The probability of being wrong that the stopping rule allows; a rule that is passed has its own.
    budget
        Stop after so many measurements of this call; None for no limit. What a policy that is passed has learnt before
        does not count.
    policy
        Name of the policy, or one that has learnt something already.
    stopping
        "posterior" (Bayesian), "certified" or "verified" (guaranteed for every theta), "heuristic" (no guarantee),
        "budget" to use the budget up, or a `StoppingRule`.
    epsilon
        Accept an answer that is at most so much worse than the best; a rule that is passed has its own. The error
        probability of the result is then that of being worse by more.
    rng
        Seed or generator; a policy that is passed goes on with its own.
    progress
        Show measurements of this call, current answer and error probability.
    batch_size
        Measurements asked for at once.
    callback
        Called after each measurement with the policy, the query and the result. If it raises, the rest of the batch is
        told first, without it.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> truth, noise = {"a": 0.1, "b": 2.0, "c": 1.2}, np.random.default_rng(0)
    >>> result = identify(TopKOracle(["a", "b", "c"], k=1), lambda item: truth[item] + noise.normal())
    >>> result.answer, result.stop_reason
    ({'b'}, 'posterior')
    """
    for name, function in (("measure", measure), ("callback", callback)):
        if not callable(function) and (name == "measure" or function is not None):
            raise ParameterError(f"{name} must be a function, got {function!r:.40}")
    check_rule(delta, epsilon, 2.0)
    check_count("batch_size", batch_size)
    if budget is not None:
        check_count("budget", budget)
    rule = stopping_rule(stopping, delta, epsilon)
    if rule.budget is not None:
        check_count("the budget of the stopping rule", rule.budget)
    if stopping == "budget" and budget is None:
        raise ParameterError('stopping="budget" needs a budget')
    if isinstance(policy, Policy):
        runner, rng = policy, None
        if problem not in (runner.problem, runner.problem.oracle):
            raise ParameterError("the policy was made for another problem; pass policy.problem")
    else:
        runner = policy_class(policy)(problem, rng)
    seed = int(rng) if isinstance(rng, (int, np.integer)) else None
    given = isinstance(stopping, StoppingRule)
    run = _Run(runner, rule, budget, None if given else epsilon)
    try:
        try:
            with Progress(progress, run.budget) as shown:
                reason = run.loop(measure, batch_size, callback, shown)
            return run.result(reason, rule.delta if given else delta, seed)
        except BaseException as error:
            run.carry_on(error)
            raise
    except BaseException as error:  # once more, for a Ctrl-C that came while the first exception was dealt with
        run.carry_on(error)
        raise


class _Run:
    """Measurements and looks, until the rule or the budget ends them."""

    def __init__(self, policy: Policy, rule: StoppingRule, budget: int | None, epsilon: float | None) -> None:
        self.policy, self.rule = policy, rule
        self.budget = min((limit for limit in (budget, rule.budget) if limit is not None), default=None)
        self.made = 0  # measurements of this run; the policy may have had others before
        self.verdict, self.oracle_calls, self.looks = Verdict(False), 0, list[Look]()
        self._epsilon = epsilon
        self._batch: Batch | None = None
        self._queue = np.zeros(0, dtype=np.int64)  # arms that the rule wants measured before its next look
        self._next_look = max(policy.samples + 1, _FIRST_LOOK)

    @property
    def epsilon(self) -> float:
        """How much worse than the best the answer may be; of several rules, the one that stops says it."""
        return self.rule.epsilon if self._epsilon is None else self._epsilon

    def loop(
        self,
        measure: Callable[[Any], Any],
        batch_size: int,
        callback: Callable[[Policy, Query, float], None] | None,
        shown: Progress,
    ) -> str:
        """The reason for which it ended."""
        policy = self.policy
        try:
            while self.budget is None or self.made < self.budget:
                room = batch_size if self.budget is None else min(batch_size, self.budget - self.made)
                self._batch = Batch(policy, single=batch_size == 1)
                self._batch.run(partial(self._queries, room), measure, callback)
                self.made += self._batch.told
                if len(self._queue) == 0 and policy.samples >= self._next_look and self._look(shown):
                    return self.rule.name
            return "budget"
        except KeyboardInterrupt:
            self.keep()
            return "interrupted"

    def keep(self) -> None:
        """Lose nothing that was measured, whatever has happened."""
        if self._batch is not None:
            self._batch.keep()

    def carry_on(self, error: BaseException) -> None:
        """Give the policy, with everything that was measured, to an exception."""
        self.keep()
        if getattr(error, "policy", None) is not self.policy:
            n = self.policy.samples
            with suppress(Exception):  # an exception may refuse attributes
                BaseException.__setattr__(error, "policy", self.policy)
                error.add_note(f"{n} measurements are kept: go on with identify(..., policy=error.policy)")

    def _queries(self, room: int) -> list[Query]:
        """What to measure next: the rule's wishes first, then the policy's."""
        if len(self._queue):
            wanted, self._queue = self._queue[:room], self._queue[room:]
            return self.policy.request(wanted)
        return self.policy.ask(room)

    def _now(self) -> Situation:
        return look_at(self.policy, self.policy.streams.aside(0, self.policy.samples))

    def _look(self, shown: Progress) -> bool:
        policy = self.policy
        now = self._now()
        found = self.verdict = self.rule.check(now)
        self.oracle_calls += found.oracle_calls
        self.looks.append(Look(policy.samples, found.risk, found.statistic, found.threshold))
        pause = max(1, now.oracle.dim // _PAUSE, int(policy.samples * (self.rule.ratio - 1.0)))
        self._next_look = policy.samples + pause
        if found.sample_next is not None:
            self._queue, self._next_look = found.sample_next, policy.samples + 1  # as soon as they are made
        shown.update(self.made, now, self.epsilon)
        return self.verdict.stop

    def result(self, reason: str, delta: float, seed: int | None) -> Result:
        """Everything there is to say."""
        policy, rule = self.policy, self.rule
        last, epsilon = self.verdict, self.epsilon
        view = policy.recommend(policy.samples, z=last.z if last.stop else None)
        risk = view.error_probability
        if epsilon > 0.0:  # by the draws of the last look
            risk = replace(self._now(), z_hat=view.z).risk(epsilon)
        claim, tied = last.claim, list[Any]()
        if reason in ("budget", "interrupted") and not last.stop:
            claim = f"none: the run was {'interrupted' if reason == 'interrupted' else 'ended by its budget'}"
            if reason == "budget" and rule.name != "budget":
                tied = tied_answers(policy)
                reason = "indistinguishable" if tied else reason
        claim = policy.noise.qualify(claim)
        evidence = Verdict(last.stop, last.statistic, last.threshold, self.oracle_calls, claim)
        pulls = {label: int(n) for label, n in zip(policy.problem.arms.labels, policy.pulls[0], strict=True)}
        return Result(
            view.answer,
            view.z,
            view.alternative,
            risk,
            policy.samples,
            reason,
            rule.name,
            claim,
            evidence,
            tied,
            delta,
            epsilon,
            seed,
            pulls,
            policy,
            tuple(self.looks),
        )
