"""`identify`: from a way to measure to an answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from combopeps.errors import ParameterError, RewardError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.base import Policy, Recommendation
from combopeps.policies.ledger import Query
from combopeps.policies.registry import policy_class
from combopeps.problem import Problem
from combopeps.result import Look, Result
from combopeps.samplers.doubt import Doubt
from combopeps.stopping.base import Situation, StoppingRule, Verdict
from combopeps.stopping.registry import stopping_rule
from combopeps.ties import tied_answers

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

    If `measure` raises, the exception goes on its way with the policy in its attribute `policy`; pass that to
    `identify` to go on. Ctrl-C ends the run and returns what is known.

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
        Stop after so many measurements; None for no limit.
    policy
        Name of the policy, or one that has learnt something already.
    stopping
        "posterior" (Bayesian), "certified" or "verified" (guaranteed for every theta), "heuristic" (no guarantee),
        "budget" to use the budget up, or a `StoppingRule`.
    epsilon
        Accept an answer that is at most so much worse than the best; a rule that is passed has its own.
    rng
        Seed or generator; a policy that is passed goes on with its own.
    progress
        Show measurements, current answer and error probability.
    batch_size
        Measurements asked for at once.
    callback
        Called after each measurement with the policy, the query and the result.

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
    rule = stopping_rule(stopping, delta, epsilon)
    if stopping == "budget" and budget is None:
        raise ParameterError('stopping="budget" needs a budget')
    seed = int(rng) if isinstance(rng, (int, np.integer)) else None
    run = _Run(runner, rule, budget)
    with _Progress(progress, budget) as shown:
        reason = run.loop(measure, batch_size, callback, shown)
    return run.result(reason, rule.delta if isinstance(stopping, StoppingRule) else delta, seed)


class _Run:
    """Measurements and looks, until the rule or the budget ends them."""

    def __init__(self, policy: Policy, rule: StoppingRule, budget: int | None) -> None:
        self.policy, self.rule = policy, rule
        self.budget = min((limit for limit in (budget, rule.budget) if limit is not None), default=None)
        self.verdict, self.oracle_calls, self.looks = Verdict(False), 0, list[Look]()
        self._queue = np.zeros(0, dtype=np.int64)  # arms that the rule wants measured before its next look
        self._next_look = max(policy.samples + 1, _FIRST_LOOK)

    def loop(
        self,
        measure: Callable[[Any], Any],
        batch_size: int,
        callback: Callable[[Policy, Query, float], None] | None,
        shown: _Progress,
    ) -> str:
        """The reason for which it ended."""
        policy, queries = self.policy, list[Query]()
        try:
            while self.budget is None or policy.samples < self.budget:
                queries = self._queries(batch_size)
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
                if len(self._queue) == 0 and policy.samples >= self._next_look and self._look(shown):
                    return self.rule.name
            return "budget"
        except KeyboardInterrupt:
            _abandon(policy, queries)
            return "interrupted"
        except Exception as error:
            _abandon(policy, queries)
            error.policy = policy  # type: ignore[attr-defined]
            error.add_note(f"{policy.samples} measurements are kept: go on with identify(..., policy=error.policy)")
            raise

    def _queries(self, batch_size: int) -> list[Query]:
        """What to measure next: the rule's wishes first, then the policy's."""
        room = batch_size if self.budget is None else min(batch_size, self.budget - self.policy.samples)
        if len(self._queue):
            wanted, self._queue = self._queue[:room], self._queue[room:]
            return self.policy.request(wanted)
        return self.policy.ask(room)

    def _look(self, shown: _Progress) -> bool:
        policy = self.policy
        z_hat = policy.z_hat()[0]
        rng = policy.streams.aside(0, policy.samples)

        @lru_cache(maxsize=1)
        def doubt() -> Doubt:
            return policy.doubt(z_hat, policy.samples)

        problem = policy.problem
        self.verdict = self.rule.check(
            Situation(policy.belief, problem.oracle, z_hat, problem.space, policy.samples, policy.pulls[0], doubt, rng)
        )
        self.oracle_calls += self.verdict.oracle_calls
        asked = doubt.cache_info().currsize > 0  # reading it is not free: only what the rule has read is kept
        p = doubt().probability if asked else float("nan")
        self.looks.append(Look(policy.samples, p, self.verdict.statistic, self.verdict.threshold))
        pause = max(1, problem.oracle.dim // _PAUSE, int(policy.samples * (self.rule.ratio - 1.0)))
        self._next_look = policy.samples + pause
        if self.verdict.sample_next is not None:
            self._queue, self._next_look = self.verdict.sample_next, policy.samples + 1  # as soon as they are made
        shown.update(policy.samples, problem.oracle, z_hat, doubt)
        return self.verdict.stop

    def result(self, reason: str, delta: float, seed: int | None) -> Result:
        """Everything there is to say."""
        policy, rule = self.policy, self.rule
        view: Recommendation = policy.recommend(policy.samples)
        claim, tied = self.verdict.claim, list[Any]()
        if reason in ("budget", "interrupted") and not self.verdict.stop:
            claim = f"none: the run was {'interrupted' if reason == 'interrupted' else 'ended by its budget'}"
            if reason == "budget" and rule.name != "budget":
                tied = tied_answers(policy)
                reason = "indistinguishable" if tied else reason
        claim = policy.noise.qualify(claim)
        last = self.verdict
        evidence = Verdict(last.stop, last.statistic, last.threshold, self.oracle_calls, claim)
        pulls = {label: int(n) for label, n in zip(policy.problem.arms.labels, policy.pulls[0], strict=True)}
        return Result(
            view.answer,
            view.z,
            view.alternative,
            view.error_probability,
            policy.samples,
            reason,
            rule.name,
            claim,
            evidence,
            tied,
            delta,
            seed,
            pulls,
            policy,
            tuple(self.looks),
        )


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

    def update(self, samples: int, oracle: ArgmaxOracle, z_hat: Array, doubt: Callable[[], Doubt]) -> None:
        """Show the state after so many samples."""
        if self.show:
            self._bar.n = samples
            self._bar.set_postfix_str(f"wrong with p = {doubt().probability:.2g}, answer {oracle.decode(z_hat)!s:.60}")
