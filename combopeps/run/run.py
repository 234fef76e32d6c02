"""`Run`: measurements and looks, until the rule or the budget ends them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import islice
from math import isnan
from typing import Any

import numpy as np

from combopeps.forms import probability_text
from combopeps.policies.base import Policy
from combopeps.policies.ledger import ActionQuery, Query
from combopeps.problem import Problem
from combopeps.run.batch import Batch, Callback, Measure
from combopeps.run.look import View
from combopeps.run.result import Look, Result
from combopeps.run.under_prior import Frequency, budget_claim, wrong_under_prior
from combopeps.stopping.base import StoppingRule, Verdict
from combopeps.stopping.combine import BudgetRule
from combopeps.stopping.requests import Requests

FIRST_LOOK = 10
TOLD_APART = 0.02  # error probability below which two answers are told apart: two standard deviations
PAUSE = 16  # a look costs as much as some rounds, in proportion to d: at least d / 16 rounds lie between two
ROUNDING = 1e-12  # sums of costs may exceed a budget by so much of it


def cost_of(problem: Problem, query: Query) -> float:
    """What a query costs to answer."""
    if problem.actions is None or not isinstance(query, ActionQuery):
        return float(problem.cost[query.arm])
    return float(problem.actions.cost_of(query.action[None])[0])


class Run:
    """One run of `identify`: what it has measured and seen so far.

    The budgets, of measurements and of cost, are for this run; the policy may have measured before. Epsilon says how
    much worse than the best the answer may be; None: of several rules, the one that stops says it.
    """

    def __init__(
        self,
        policy: Policy,
        rule: StoppingRule,
        budget: int | None,
        epsilon: float | None,
        budget_cost: float | None = None,
    ) -> None:
        self.policy, self.rule = policy, rule
        self.budget = min((limit for limit in (budget, rule.budget) if limit is not None), default=None)
        self.budget_cost = budget_cost
        self.made, self._free = 0, float(policy.spent[0])  # what was measured before is not paid by this run
        self._fresh = policy.samples == 0
        self.verdict, self.oracle_calls, self.looks = Verdict(False), 0, list[Look]()
        self._epsilon = epsilon
        self._batch: Batch | None = None
        self._seen: View | None = None
        self._too_dear = False
        self._logs = rule.logs  # what the rule wants measured before its next look, also from a run before this one
        self._served = self._first_log()
        # A look costs as much as hundreds of measurements of a sweep: it waits for the end of one.
        self._next_look = max(policy.samples + 1, policy.samples + policy.unswept, FIRST_LOOK)
        for log in self._logs:
            log.follow(policy.ask_tell.ledger)

    @property
    def epsilon(self) -> float:
        return self.rule.epsilon if self._epsilon is None else self._epsilon

    @property
    def spent(self) -> bool:
        """Is the budget used up, or too small for what would come next?"""
        return self._too_dear or (self.budget is not None and self.made >= self.budget)

    @property
    def due(self) -> bool:
        """Is it time for a look?"""
        return not (self._served is not None and self._served.wanted) and self.policy.samples >= self._next_look

    def measure(self, measure: Measure, batch_size: int, callback: Callback) -> None:
        """One batch, from the choice of arms to what the policy learns."""
        room = batch_size if self.budget is None else min(batch_size, self.budget - self.made)
        self._batch = Batch(self.policy, single=batch_size == 1)
        self._batch.run(partial(self._affordable, room), measure, callback)
        self.made += self._batch.told

    def look(self, shown: Progress) -> bool:
        """Is it certain enough? If not, the rule may say what to measure until it is asked again."""
        view, t = self._view(), self.policy.samples
        self.policy.ask_tell.judge()
        found = self.verdict = view.check(self.rule)
        self.oracle_calls += found.oracle_calls
        self.looks.append(Look(t, found.risk, found.statistic, found.threshold))
        self._next_look = t + max(1, view.situation.oracle.dim // PAUSE, int(t * (self.rule.ratio - 1.0)))
        self.rule.request(found)
        self._served = self._first_log()
        if self._served is not None:
            self._next_look = t + 1  # as soon as they are made
        shown.update(self.made, self.policy, found.risk, self.epsilon)
        return found.stop

    def result(self, reason: str, delta: float, seed: int | None) -> Result:
        """Everything there is to say."""
        self._leave()
        view, last = self._view(), self.verdict
        self.policy.ask_tell.judge(frames=5)  # fewer lie between here and whoever called `identify`
        claim, tied = last.claim, list[Any]()
        found = view.recommend(last.z if last.stop else None, self.epsilon)
        if not last.stop:
            risk = found.error_probability
            how = "interrupted" if reason == "interrupted" else "ended by its budget"
            claim = "; ".join(filter(None, [f"none: the run was {how}", self.rule.unfinished(risk, self.epsilon)]))
            if reason == "budget" and isinstance(self.rule, BudgetRule):
                claim = budget_claim(self.policy, self.rule, found.error_text, self.epsilon, self._simulate)
            claim = self.policy.ask_tell.qualify(claim)
            if reason == "budget" and self.rule.name != "budget" and risk > max(delta, TOLD_APART):
                tied = view.tied()
                reason = "indistinguishable" if tied else reason
        return Result(
            **vars(found),
            samples=self.policy.samples,
            cost=float(self.policy.spent[0]),
            stop_reason=reason,
            rule=self.rule.name,
            claim=claim,
            evidence=Verdict(last.stop, last.statistic, last.threshold, self.oracle_calls, claim),
            tied=tied,
            delta=delta,
            epsilon=self.epsilon,
            seed=seed,
            pulls=view.pulls,
            policy=self.policy,
            belief=self.policy.belief.copy(),
            looks=tuple(self.looks),
            warning=self.policy.ask_tell.warning,
            noise_estimate=self.policy.noise_estimate,
            actions=self.policy.actions_made,
        )

    def _simulate(self, rule: BudgetRule) -> Frequency:
        """How often runs such as this one are wrong under the prior."""
        if not self._fresh:
            return Frequency(0, 0, "the policy had measured before")
        if self._too_dear:
            return Frequency(0, 0, "the budget is one of cost")
        seed = self.policy.streams.named(0, "claim")
        return wrong_under_prior(
            self.policy, self.made, runs=rule.simulations, seconds=rule.seconds, seed=seed, epsilon=self.epsilon
        )

    def _leave(self) -> None:
        """The run has ended, and all its results are told: the rule keeps its requests for a run that continues it."""
        for log in self._logs:
            log.leave(self.policy.ask_tell.ledger)

    def keep(self) -> None:
        """Lose nothing that was measured, whatever has happened."""
        if self._batch is not None:
            self._batch.keep()

    def carry_on(self, error: BaseException) -> None:
        """Give the policy, with everything that was measured, to an exception."""
        self.keep()
        self._leave()
        if getattr(error, "policy", None) is not self.policy:
            n = self.policy.samples
            with suppress(Exception):  # an exception may refuse attributes
                BaseException.__setattr__(error, "policy", self.policy)
                error.add_note(f"{n} measurements are kept: go on with identify(..., policy=error.policy)")

    def _affordable(self, room: int) -> list[Query]:
        """What to measure next, as far as the cost allows; what it does not is abandoned, and ends the run."""
        queries = self._queries(room)
        if self.budget_cost is None:
            return queries
        left = self.budget_cost - (float(self.policy.spent[0]) - self._free)
        left += ROUNDING * (self.budget_cost + self._free)
        kept = int((np.cumsum([cost_of(self.policy.problem, query) for query in queries]) <= left).sum())
        for query in queries[kept:]:
            self.policy.abandon(query)
        self._too_dear = kept < len(queries)
        return queries[:kept]

    def _queries(self, room: int) -> list[Query]:
        """What to measure next: the rule's wishes first, then the policy's."""
        log = self._served
        if log is None or not log.wanted:
            return self.policy.ask(room)
        if self.policy.problem.actions is not None:
            queries, left = self.policy.ask_tell.request_actions(log.wanted, room)
            log.replace(left)
            return queries or self.policy.ask(room)
        queries = self.policy.request(islice(log.wanted, room))
        for query in queries:
            log.issue(query)
        return queries

    def _first_log(self) -> Requests | None:
        """The first log with requests that are to be issued."""
        return next((log for log in self._logs if log.wanted), None)

    def _view(self) -> View:
        """The run as it stands now: one for each moment."""
        t = self.policy.samples
        if self._seen is None or self._seen.situation.t != t:
            self._seen = View(self.policy, self.policy.streams.named(0, "look", t))
        return self._seen


class Progress:
    """A bar with measurements, current answer and error probability; it ends at the budget, if there is one."""

    def __init__(self, show: bool, budget: int | None) -> None:
        self.show, self.budget = show, budget

    def __enter__(self) -> Progress:
        from tqdm import tqdm

        self._bar = tqdm(total=self.budget, disable=not self.show, unit=" samples")
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def update(self, made: int, policy: Policy, risk: float, epsilon: float) -> None:
        """Show the state after so many measurements: the rough estimate that the rule went by, or one made apart."""
        if self.show:
            text = policy.recommend(epsilon=epsilon).error_text if isnan(risk) else probability_text(risk, digits=1)
            self.say(made, policy.problem.oracle.decode(policy.z_hat()[0]), text, epsilon)

    def say(self, made: int, answer: Any, error: str, epsilon: float) -> None:
        """Show an answer, and its error probability, after so many measurements."""
        wrong = "wrong" if epsilon == 0.0 else f"worse by more than {epsilon:g}"
        self._bar.n = made
        self._bar.set_postfix_str(f"{wrong} with p = {error}, answer {answer!s:.60}")
