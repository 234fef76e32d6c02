"""`Session`: ask, tell and look at one run in memory, until its stopping rule or a budget ends it.

    ask -> Query -> measure -> tell -> learn -> look -> ... -> Result

`identify` is `Session(...).run(measure)`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from math import isnan
from typing import Any, overload

import numpy as np

from combopeps.belief import GaussianBelief
from combopeps.errors import ParameterError
from combopeps.forms import probability_text
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Policy
from combopeps.policies.ledger import ActionQuery, Query
from combopeps.policies.recommendation import LEADERS, Leader
from combopeps.policies.registry import DEFAULT, policy_class
from combopeps.policies.sweep import sweep_length
from combopeps.problem import Problem
from combopeps.run.batch import Batch, Callback, Measure
from combopeps.run.look import View
from combopeps.run.result import Look, Result
from combopeps.run.status import Status
from combopeps.run.under_prior import Frequency, budget_claim, wrong_under_prior
from combopeps.stopping.base import StoppingRule, Verdict, check_rule
from combopeps.stopping.combine import BudgetRule
from combopeps.stopping.registry import stopping_rule
from combopeps.stopping.requests import Requests
from combopeps.tables import Observed
from combopeps.validation import MOST_QUERIES, check_callable, check_count, check_flag, check_positive

FIRST_LOOK = 10
TOLD_APART = 0.02  # error probability below which two answers are told apart: two standard deviations
PAUSE = 16  # a look costs as much as some rounds, in proportion to d: at least d / 16 rounds lie between two
ROUNDING = 1e-12  # sums of costs may exceed a budget by so much of it


def cost_of(problem: Problem, query: Query) -> float:
    """Cost of measuring a query."""
    if problem.actions is None or not isinstance(query, ActionQuery):
        return float(problem.cost[query.arm])
    return float(problem.actions.cost_of(query.action[None])[0])


def check_run(measure: Any, callback: Any, progress: Any, batch_size: Any, budget: Any, budget_cost: Any) -> None:
    """Refuse arguments of `run` that cannot be used, before anything is measured."""
    check_callable("measure", measure)
    if callback is not None:
        check_callable("callback", callback)
    check_flag("progress", progress)
    check_count("batch_size", batch_size, MOST_QUERIES)
    if budget is not None:
        check_count("budget", budget)
    if budget_cost is not None:
        check_positive("budget_cost", budget_cost)


class Session:
    """One run in memory: a policy that chooses, results, and a stopping rule.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    policy
        Name of the policy, or a policy, which may have learnt something already.
    stopping
        Name of the stopping rule ("posterior", "guaranteed", "verified", "certified", "heuristic", "budget"), or a
        `StoppingRule`, which has its own delta and epsilon.
    delta
        The probability of being wrong that the stopping rule allows.
    epsilon
        Accept an answer that is worse than the best by at most epsilon.
    rng
        Seed or generator; a policy that is passed continues with its own.
    sweep
        Measure every arm so many times (True: once) before the policy chooses.

    Attributes
    ----------
    problem, policy, rule, delta, epsilon, seed
        As given; `rule` is the stopping rule itself.
    looks
        Every look of the stopping rule, in order.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> session = Session(TopKOracle(["a", "b", "c"], k=1), rng=1)
    >>> for _ in range(20):
    ...     query = session.ask()
    ...     session.tell(query, {"a": 0.0, "b": 2.0, "c": 1.0}[query.label])
    >>> session.status().answer
    {'b'}
    """

    def __init__(
        self,
        problem: Problem | ArgmaxOracle,
        *,
        policy: str | Policy = DEFAULT,
        stopping: str | StoppingRule = "posterior",
        delta: float = 0.05,
        epsilon: float = 0.0,
        rng: int | np.random.Generator | None = 0,
        sweep: bool | int | None = None,
    ) -> None:
        check_rule(delta, epsilon, 2.0)
        length, rule = sweep_length(sweep), stopping_rule(stopping, delta, epsilon)
        if rule.budget is not None:
            check_count("the budget of the stopping rule", rule.budget)
        if isinstance(policy, Policy):
            if problem not in (policy.problem, policy.problem.oracle):
                raise ParameterError("the policy was made for another problem; pass policy.problem")
            self.policy, rng = policy, None
        else:
            self.policy = policy_class(policy)(problem, rng)
        rule.check_problem(self.policy.problem, self.policy.noise_estimate)
        if length:
            self.policy.sweep(length)
        own = isinstance(stopping, StoppingRule)
        self.rule, self.delta = rule, rule.delta if own else float(delta)
        self._epsilon = None if own else float(epsilon)  # None: of several rules, the one that stops has its own
        self.seed = int(rng) if isinstance(rng, (int, np.integer)) else None
        self.verdict, self.oracle_calls, self.looks = Verdict(False), 0, list[Look]()
        self.made, self._free = 0, float(self.policy.spent[0])  # of the current call of `run`
        self._budget: int | None = rule.budget
        self._budget_cost: float | None = None
        self._fresh = self.policy.samples == 0
        self._batch: Batch | None = None
        self._seen: View | None = None
        self._looked_at = -1  # measurements at the last look
        self._too_dear = self._following = False
        self._served = self._first_log()
        self._wait()

    @property
    def problem(self) -> Problem:
        return self.policy.problem

    @property
    def epsilon(self) -> float:
        return self.rule.epsilon if self._epsilon is None else self._epsilon

    @property
    def samples(self) -> int:
        """Measurements so far."""
        return self.policy.samples

    @property
    def actions(self) -> int | None:
        """Actions measured so far; None where measurements are single."""
        return self.policy.actions_made

    @property
    def belief(self) -> GaussianBelief:
        """The posterior: a copy."""
        return self.policy.belief.copy()

    @property
    def open_queries(self) -> list[Query]:
        """Queries that have been asked and neither told nor abandoned."""
        return self.policy.open_queries

    def __repr__(self) -> str:
        return f"Session({self.policy!r}, stopping={self.rule.name!r}, delta={self.delta:g})"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_seen": None, "_batch": None}

    @overload
    def ask(self) -> Query: ...
    @overload
    def ask(self, n: int) -> list[Query]: ...
    def ask(self, n: int | None = None) -> Query | list[Query]:
        """Return the next measurement to make, or n at once.

        Open queries count as if they had been answered with their expected results. What the stopping rule requests
        comes first; where it does, it looks when a look is due.
        """
        if n is not None:
            check_count("n", n, MOST_QUERIES)
        self._follow()
        if self.rule.requests_measurements and self.due:
            self._look()
        queries = self._queries(n or 1)
        while len(queries) < (n or 1):
            queries += self.policy.ask((n or 1) - len(queries))
        return queries if n is not None else queries[0]

    def tell(self, query: Query, y: Any, sem: float | None = None) -> None:
        """Record the result of a query, in any order; repeating the same result is harmless.

        With `sem`, the standard error of this very measurement, that takes the place of the arm's noise. Where
        measurements are actions, y holds a result for each of `query.components`: a sequence in their order, or a dict;
        each is a number, (number, sem), or None for what was not read.
        """
        self.policy.ask_tell.tell(query, y, sem)

    def tell_many(self, results: Iterable[tuple[Any, ...]]) -> None:
        """Record several results (query, y) or (query, y, sem): all are checked before the first is taken."""
        self.policy.ask_tell.tell_many(results)

    def observe(self, label: Hashable, y: float, sem: float | None = None, count: int = 1) -> None:
        """Record a measurement without a query, by the arm's label; or the mean of `count` of them.

        With `sem`, the standard error of y. Give all results there are: if some were left out because of what they say,
        no claim holds.
        """
        self.policy.ask_tell.observe(label, y, sem, count)

    def observe_table(self, rows: Any) -> Observed:
        """Record measurements without queries from a table, all or none of them: see `Policy.observe_table`."""
        return self.policy.ask_tell.observe_table(rows)

    def abandon(self, query: Query) -> None:
        """Close a query that will never be answered; one that is abandoned because of its result voids every claim."""
        self.policy.ask_tell.abandon(query)

    def top_answers(self, n: int = LEADERS) -> list[Leader]:
        """Return up to n answers that may be the best, with their posterior probabilities."""
        check_count("n", n)
        view = self._view_aside()
        verdict = self._current(view)
        return view.recommend(verdict.z if verdict.stop else None, self.epsilon, n).leaders

    def status(self) -> Status:
        """Return where the run stands; changes nothing."""
        view = self._view_aside()
        verdict = self._current(view)
        return Status(
            **vars(view.recommend(verdict.z if verdict.stop else None, self.epsilon)),
            delta=self.delta, epsilon=self.epsilon, stop=verdict.stop, claim=verdict.claim, samples=self.samples,
            pulls=view.pulls, open_queries=self.open_queries, next=None, warning=self.policy.ask_tell.warning,
            noise_estimate=self.policy.noise_estimate, actions=self.actions, cost=float(self.policy.spent[0]),
        )  # fmt: skip

    def result(self) -> Result:
        """Return the current answer and what may be claimed about it: the rule looks first, unless it just has."""
        if self._looked_at != self.samples and not self._outstanding:
            self._follow()
            self._look()
        return self._result(self.rule.name if self.verdict.stop else "open")

    def run(
        self,
        measure: Callable[[Any], Any],
        *,
        budget: int | None = None,
        budget_cost: float | None = None,
        progress: bool = False,
        batch_size: int = 1,
        callback: Callable[[Session, Query, Any], None] | None = None,
    ) -> Result:
        """Measure until the stopping rule, a budget of this call, or Ctrl-C ends the run.

        If anything raises, the exception has the session in its attribute `session`, with everything that was
        measured. See `identify` for the parameters.
        """
        check_run(measure, callback, progress, batch_size, budget, budget_cost)
        if self.rule.name == "budget" and self.rule.budget is None and budget is None and budget_cost is None:
            raise ParameterError('stopping="budget" needs a budget, or a budget_cost')
        self._budget = min((limit for limit in (budget, self.rule.budget) if limit is not None), default=None)
        self._budget_cost, self._too_dear = budget_cost, False
        self.made, self._free = 0, float(self.policy.spent[0])
        try:
            try:
                self._follow()
                self._wait()
                with Progress(progress, self._budget) as shown:
                    reason = self._until_certain(measure, batch_size, callback, shown)
                self._leave()
                return self._result(reason)
            except BaseException as error:
                self._carry_on(error)
                raise
        except BaseException as error:  # once more, for a Ctrl-C that came while the first exception was dealt with
            self._carry_on(error)
            raise

    def _until_certain(self, measure: Measure, batch_size: int, callback: Callback, shown: Progress) -> str:
        """Measure, look, stop: the reason for which the run ended."""
        try:
            while not self._spent:
                self._measure(measure, batch_size, callback)
                if self.due and self._look(shown):
                    return self.rule.name
            return "budget"
        except KeyboardInterrupt:
            self._keep()
            return "interrupted"

    @property
    def due(self) -> bool:
        """Whether it is time for a look."""
        return not self._outstanding and self.samples >= self._next_look

    @property
    def _outstanding(self) -> bool:
        """Whether results of the rule's requests are still to come."""
        return self._served is not None and self._served.outstanding

    @property
    def _spent(self) -> bool:
        """Whether the budget of this call is used up, or too small for what would come next."""
        return self._too_dear or (self._budget is not None and self.made >= self._budget)

    def _measure(self, measure: Measure, batch_size: int, callback: Callback) -> None:
        """One batch, from the choice of arms to what the policy learns."""
        room = batch_size if self._budget is None else min(batch_size, self._budget - self.made)
        self._batch = Batch(self, single=batch_size == 1)
        self._batch.run(partial(self._affordable, room), measure, callback)
        self.made += self._batch.told

    def _wait(self) -> None:
        """The next look comes after one more measurement, or at the end of a sweep: it costs as much as hundreds."""
        self._next_look = max(self.samples + 1, self.samples + self.policy.unswept, FIRST_LOOK)

    def _look(self, shown: Progress | None = None) -> bool:
        """Ask the rule whether the answer is certain enough; it may request what to measure until the next look."""
        view, t = self._view(), self.samples
        self.policy.ask_tell.judge()
        found = self.verdict = view.check(self.rule)
        self._looked_at = t
        self.oracle_calls += found.oracle_calls
        self.looks.append(Look(t, found.risk, found.statistic, found.threshold))
        self._next_look = t + max(1, view.situation.oracle.dim // PAUSE, int(t * (self.rule.ratio - 1.0)))
        self.rule.request(found)
        self._served = self._first_log()
        if self._served is not None:
            self._next_look = t + 1  # as soon as they are made
        if shown is not None:
            shown.update(self.made, self.policy, found.risk, self.epsilon)
        return found.stop

    def _current(self, view: View) -> Verdict:
        """The verdict on the data of now, without a change to the rule."""
        if self._looked_at == self.samples:
            return self.verdict
        problem = self.problem
        shared: list[Any] = [problem, problem.oracle, problem.signal, problem.arms]
        return view.check(copy.deepcopy(self.rule, {id(same): same for same in shared}))

    def _result(self, reason: str) -> Result:
        view, last = self._view(), self.verdict
        self.policy.ask_tell.judge()
        claim, tied = last.claim, list[Any]()
        found = view.recommend(last.z if last.stop else None, self.epsilon)
        if not last.stop:
            risk = found.error_probability
            how = {"interrupted": "was interrupted", "open": "has not ended"}.get(reason, "was ended by its budget")
            claim = "; ".join(filter(None, [f"none: the run {how}", self.rule.unfinished(risk, self.epsilon)]))
            if reason == "budget" and isinstance(self.rule, BudgetRule):
                claim = budget_claim(self.policy, self.rule, found.error_text, self.epsilon, self._simulate)
            claim = self.policy.ask_tell.qualify(claim)
            if reason == "budget" and self.rule.name != "budget" and risk > max(self.delta, TOLD_APART):
                tied = view.tied()
                reason = "indistinguishable" if tied else reason
        return Result(
            **vars(found),
            samples=self.samples,
            cost=float(self.policy.spent[0]),
            stop_reason=reason,
            rule=self.rule.name,
            claim=claim,
            evidence=Verdict(last.stop, last.statistic, last.threshold, self.oracle_calls, claim),
            tied=tied,
            delta=self.delta,
            epsilon=self.epsilon,
            seed=self.seed,
            pulls=view.pulls,
            session=self,
            belief=self.belief,
            looks=tuple(self.looks),
            warning=self.policy.ask_tell.warning,
            noise_estimate=self.policy.noise_estimate,
            actions=self.actions,
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

    def _follow(self) -> None:
        """Let the rule's logs follow the queries of the policy."""
        if not self._following:
            for log in self.rule.logs:
                log.follow(self.policy.ask_tell.ledger)
            self._following = True

    def _leave(self) -> None:
        """The run has ended, and all its results are told: the rule keeps its requests for a run that continues it."""
        for log in self.rule.logs:
            log.leave(self.policy.ask_tell.ledger)
        self._following = False

    def _keep(self) -> None:
        """Lose nothing that was measured, whatever has happened."""
        if self._batch is not None:
            self._batch.keep()

    def _carry_on(self, error: BaseException) -> None:
        """Give the session, with everything that was measured, to an exception."""
        self._keep()
        self._leave()
        if getattr(error, "session", None) is not self:
            with suppress(Exception):  # an exception may refuse attributes
                BaseException.__setattr__(error, "session", self)
                error.add_note(f"{self.samples} measurements are kept: go on with error.session.run(measure)")

    def _affordable(self, room: int) -> list[Query]:
        """What to measure next, as far as the cost allows; what it does not is abandoned, and ends the run."""
        queries = self._queries(room)
        if self._budget_cost is None:
            return queries
        left = self._budget_cost - (float(self.policy.spent[0]) - self._free)
        left += ROUNDING * (self._budget_cost + self._free)
        kept = int((np.cumsum([cost_of(self.problem, query) for query in queries]) <= left).sum())
        for query in queries[kept:]:
            self.abandon(query)
        self._too_dear = kept < len(queries)
        return queries[:kept]

    def _queries(self, room: int) -> list[Query]:
        """Up to `room` queries: those that the rule requests first, alone, then the policy's."""
        log = self._served
        if log is None or not log.wanted:
            return self.policy.ask(room)
        if self.problem.actions is not None:
            queries, left = self.policy.ask_tell.request_actions(log.wanted, room)
            log.replace(left)
            return queries or self.policy.ask(room)
        queries = self.policy.request(islice(log.wanted, room))
        for query in queries:
            log.issue(query)
        return queries

    def _first_log(self) -> Requests | None:
        """The first log with requests that are to be issued."""
        return next((log for log in self.rule.logs if log.wanted), None)

    def _view(self) -> View:
        """The run as it stands now: one for each moment."""
        t = self.samples
        if self._seen is None or self._seen.situation.t != t:
            self._seen = View(self.policy, self.policy.streams.named(0, "look", t))
        return self._seen

    def _view_aside(self) -> View:
        """The same, with samplers that share no facets with the run: looking through it changes nothing."""
        return View(self.policy.viewer(), self.policy.streams.named(0, "look", self.samples))


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
