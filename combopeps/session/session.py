"""`Session`: ask-and-tell interface of one run; `identify`: measure until a stopping rule or a budget ends the run.

    ask -> Query -> measure -> tell -> update -> look -> ... -> Result

Every change of the state is an event (`combopeps.session.events`): methods validate their arguments, create events and
commit them. A session in memory applies events at once; a `Campaign` stores them first, and applies those of other
processes before its own. `identify(...)` is `Session(...).run(measure)`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from combopeps.errors import ImplausibleValueError, ParameterError, QueryError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Policy
from combopeps.policies.initial_design import initial_design_length
from combopeps.policies.registry import DEFAULT_POLICY, policy_class
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.problem import Problem
from combopeps.random import Streams, named_seed, seed_sequence
from combopeps.session.events import (
    Abandoned,
    Asked,
    Corrected,
    Event,
    Lease,
    Leased,
    Looked,
    Observed,
    Retracted,
    Told,
    check_lease,
    check_name,
    new_lease,
    queries_for_client,
)
from combopeps.session.measurement_table import TableSummary as ObservedTable
from combopeps.session.measurement_table import read_rows
from combopeps.session.prior_predictive import Frequency, budget_claim, wrong_under_prior
from combopeps.session.queries import Query, Reading, check_results, read_observations
from combopeps.session.result import TOP_ANSWERS, Result, Status, TopAnswer, recommendation_of
from combopeps.session.run import Callback, Run, check_run
from combopeps.session.state import SessionState
from combopeps.stopping.base import StoppingRule, Verdict, View, check_rule_parameters
from combopeps.stopping.combine import BudgetRule
from combopeps.stopping.registry import stopping_rule
from combopeps.utils.formatting import ShortRepr
from combopeps.utils.label_format import as_label, label_text
from combopeps.utils.locks import Atomic
from combopeps.utils.validation import MAX_QUERIES, check_count, check_flag

_MAX_TIED_ERROR = 0.02  # answers are "indistinguishable" above this error probability: two standard deviations
# A value is implausible if it is 3 ranges away from all of at least 8 results, or 20 noise levels away from the mean of
# an arm with at least 2 results.
_MIN_RESULTS, _MAX_RANGES = 8, 3.0
_MIN_REPEATS, _MAX_NOISE = 2, 20.0
_MIN_DOF = 8  # degrees of freedom at which an estimated noise level is used for this


@dataclass(frozen=True, repr=False)
class Measurement(ShortRepr):
    """A recorded result.

    Attributes
    ----------
    event
        Number of the event that recorded it, for `correct` and `retract`.
    query
        Id of its query; None for an observation.
    label, y, sem, count
        Label of the arm, the result, its own standard error if it has one, and the number of measurements in the mean.
    retracted
        Whether it was retracted.
    """

    event: int
    query: int | None
    label: Any
    y: float
    sem: float | None
    count: int
    retracted: bool


class Session(ShortRepr, SessionState):
    """One run: a policy, results, and a stopping rule.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    policy, stopping, delta, epsilon, initial_design
        As in `identify`.
    rng
        Seed or generator; a policy that is passed keeps its own. Query i uses the random stream (seed, i).

    Attributes
    ----------
    problem, policy, rule, delta, epsilon, seed
        As given; `rule` is the stopping rule itself.
    looks
        All looks of the stopping rule, in order.

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
        policy: str | Policy = DEFAULT_POLICY,
        stopping: str | StoppingRule = "posterior",
        delta: float = 0.05,
        epsilon: float = 0.0,
        rng: int | np.random.Generator | None = 0,
        initial_design: bool | int | None = None,
    ) -> None:
        check_rule_parameters(delta, epsilon, 2.0)
        length, rule = initial_design_length(initial_design), stopping_rule(stopping, delta, epsilon)
        if rule.budget is not None:
            check_count("the budget of the stopping rule", rule.budget)
        if isinstance(policy, Policy):
            if problem not in (policy.problem, policy.problem.oracle):
                raise ParameterError("the policy was made for another problem; pass policy.problem")
            if policy.replications != 1:
                raise ParameterError(f"a session is for one replication; this policy runs {policy.replications}")
            self._policy, rng = policy, None
        else:
            self._policy = policy_class(policy)(problem, streams=Streams([named_seed(seed_sequence(rng), "policy")]))
        self._stopping = stopping
        rule.check_problem(self._policy.problem, self._policy.noise_estimate)
        if length:
            self._policy.initial_design(length)
        own = isinstance(stopping, StoppingRule)
        self.rule, self.delta = rule, rule.delta if own else float(delta)
        self._epsilon = None if own else float(epsilon)  # None: that of the rule, which may be one of several
        self.seed = int(rng) if isinstance(rng, (int, np.integer)) else None
        self._begin()

    @property
    def samples(self) -> int:
        """Number of measurements so far."""
        with self._reading():
            return self._policy.samples

    @property
    def actions(self) -> int | None:
        """Number of actions measured so far; None where single arms are measured."""
        with self._reading():
            return self._policy.actions_made

    @property
    def cost(self) -> float:
        """Cost of all measurements so far."""
        with self._reading():
            return float(self._policy.spent[0])

    @property
    def posterior(self) -> GaussianPosterior:
        """Copy of the posterior."""
        with self._reading():
            return self._policy.posterior.copy()

    @property
    def open_queries(self) -> list[Query]:
        """Queries that were asked and neither told nor abandoned, oldest first."""
        with self._reading():
            return list(self._ledger.open.values())

    @property
    def leases(self) -> dict[int, Lease]:
        """Leases of open queries, by query id."""
        with self._reading():
            return self._leases.copy()

    def _summary(self) -> Mapping[str, Any]:
        # Of the state in memory, without a lock: a campaign is not read again.
        return {
            "policy": type(self._policy).__name__,
            "stopping": self.rule.name,
            "delta": self.delta,
            "samples": self._policy.samples,
            "open_queries": len(self._ledger.open),
            "cost": float(self._policy.spent[0]),
            "problem": self._policy.problem,
        }

    @overload
    def ask(self, *, client: str | None = None, lease: float | None = None) -> Query: ...
    @overload
    def ask(self, n: int, *, client: str | None = None, lease: float | None = None) -> list[Query]: ...
    def ask(
        self, n: int | None = None, *, client: str | None = None, lease: float | None = None
    ) -> Query | list[Query]:
        """Return the next query, or the next n queries.

        Open queries count as if they had been answered with their expected results. Requests of the stopping rule are
        issued first; a rule with requests looks here if a look is due.

        Parameters
        ----------
        n
            Number of queries; None for one, which is returned without a list.
        client
            Name of the client that measures, of up to 64 characters. A client that asks again gets its open queries
            first, the oldest at the head.
        lease
            Seconds after which other clients may get the queries; the first result counts. A client that asks again
            when more than half of the lease is over gets a new deadline.
        """
        if n is not None and not (type(n) is int and 0 < n <= MAX_QUERIES):
            check_count("n", n, MAX_QUERIES)
        if client is not None or lease is not None:
            client = None if client is None else check_name("client", client)
            lease = check_lease(lease, client)
        with self._updating():
            queries, events, held = list[Query](), list[Event](), None
            if client is not None:
                held = new_lease(client, lease)
                queries, renewed = queries_for_client(self._ledger.open, self._leases, client, n or 1, lease)
                if renewed:
                    events.append(Leased([query.id for query in renewed], held))
            more = (n or 1) - len(queries)
            if more:
                if self.rule.requests_measurements and self._is_due():
                    self._look()
                    events.insert(0, Looked())
                new = self._choose(more)
                queries += new
                events.append(Asked(new, held))
            self._commit(events)
        return queries if n is not None else queries[0]

    def tell(self, query: Query | int, y: Any, sem: float | None = None, *, confirm: bool = False) -> None:
        """Record the result of a query. Results may come in any order; repeating the same result has no effect.

        Parameters
        ----------
        query
            The query, or its id.
        y
            The result. Where measurements are actions, one result for each of `query.components`: a sequence in their
            order, or a dict by label; each is a number, (number, sem), or None for a component that was not read.
        sem
            Standard error of this result, instead of the arm's noise.
        confirm
            Accept a value that is implausible given the results so far (`ImplausibleValueError`).
        """
        with self._updating():
            found = self._find(query)
            readings = self._reader.result(found, y, sem)
            new = self._ledger.is_new(found, readings)
            if new:
                self._check_plausible(confirm, found.arms, readings, found)
            self._commit([Told(found, readings)] if new else [])

    def tell_many(self, results: Iterable[tuple[Any, ...]], *, confirm: bool = False) -> None:
        """Record several results (query, y) or (query, y, sem); all are validated before the first is recorded."""
        given = check_results(results)
        with self._updating():
            found = [(self._find(query), *rest) for query, *rest in given]
            new = self._ledger.new_results((query, self._reader.result(query, *rest)) for query, *rest in found)
            for query, readings in new:
                self._check_plausible(confirm, query.arms, readings, query)
            self._commit([Told(query, readings) for query, readings in new])

    def observe(
        self,
        label: Hashable,
        y: float,
        sem: float | None = None,
        count: int = 1,
        *,
        key: str | None = None,
        confirm: bool = False,
    ) -> None:
        """Record a measurement without a query, by the arm's label.

        All results must be recorded: if some are omitted because of their values, no claim holds.

        Parameters
        ----------
        label, y
            Label of the arm, and the result, or the mean of `count` results.
        sem
            Standard error of y.
        count
            Number of measurements in the mean y.
        key
            Idempotency key of up to 64 characters: a repetition with the same key has no effect. Without a key, a
            repetition counts again.
        confirm
            Accept an implausible value, as in `tell`.
        """
        key = None if key is None else check_name("key", key)
        with self._updating():
            arm = self._reader.arm(as_label(label))
            reading = self._reader.observation(arm, y, sem, count)
            self._observe([arm], [reading], key, confirm)

    def observe_table(self, rows: Any, *, key: str | None = None, confirm: bool = False) -> ObservedTable:
        """Record measurements without queries from a table, all or none of them.

        Parameters
        ----------
        rows
            A data frame, the path of a CSV file, or rows: (label, value[, sem[, count]]), or dicts with these keys.
            Columns are found by name: `label`, or `source`, `target` (and `key`) for edges, or `left`, `right` for
            pairs; `value`; and optionally `sem`, the standard error of the value, and `count`, the number of
            measurements in the mean. Labels may be written as `ask` of the command line prints them.
        key, confirm
            As in `observe`; another table with the same key raises `QueryError`.

        Returns
        -------
        TableSummary
            How many rows were recorded, and which were left out because no answer has what they measured.

        Examples
        --------
        >>> from combopeps import TopKOracle
        >>> session = Session(TopKOracle(["ale", "bock"], k=1))
        >>> session.observe_table([("ale", 1.5), ("bock", 0.5), ("ale", 2.0)])
        all 3 rows taken
        >>> session.samples
        3
        """
        table, key = read_rows(rows), None if key is None else check_name("key", key)
        with self._updating():
            arms, readings, observed = read_observations(table, self._reader)
            self._observe(arms, readings, key, confirm)
        return observed

    def _observe(self, arms: list[int], readings: list[Reading], key: str | None, confirm: bool) -> None:
        if self._ledger.is_repetition(key, arms, readings):
            self._commit([])
            return
        self._check_plausible(confirm, arms, readings)
        self._commit([Observed(arms, readings, key)] if arms else [])

    def abandon(self, query: Query | int) -> None:
        """Close a query without a result. No claim holds if it is abandoned because of its result."""
        with self._updating():
            found = self._find(query)
            self._ledger.require_open(found)
            self._commit([Abandoned(found)])

    def correct(self, event: int, y: Any, sem: float | None = None, *, confirm: bool = False) -> None:
        """Replace a result that was recorded wrongly.

        The posterior and all statistics are recomputed from the corrected results. A proof on fresh results that uses
        the value is discarded, and a new one begins with the remaining delta. No claim holds if a result is corrected
        because of its value; `claim` and `status` state the number of corrections.

        Parameters
        ----------
        event
            Number of the event that recorded the result: see `measurements`.
        y, sem, confirm
            The corrected result, as in `tell`.
        """
        with self._updating():
            rows = self._recorded(event)
            results, query = self._ledger.results, self._ledger.results.query.item(rows[0])
            if query >= 0:
                readings = self._reader.result(self._ledger.find(query), y, sem)
            else:
                count = results.count.item(rows[0])
                readings = (self._reader.observation(results.arm.item(rows[0]), y, sem, count),)
            self._check_plausible(confirm, results.arm[rows].tolist(), readings)
            self._commit([Corrected(event, readings)])

    def retract(self, event: int) -> None:
        """Retract a result that should not have been recorded; see `correct` for the effect on claims."""
        with self._updating():
            self._recorded(event)
            self._commit([Retracted(event)])

    def measurements(self) -> list[Measurement]:
        """Return all recorded results, in the order of their events."""
        with self._reading():
            results, labels = self._ledger.results, self.problem.arms.labels
            return [
                Measurement(
                    results.event.item(row),
                    None if (query := results.query.item(row)) < 0 else query,
                    labels[results.arm.item(row)],
                    results.y.item(row),
                    results.sem.item(row) or None,
                    results.count.item(row),
                    not results.active.item(row),
                )
                for row in np.flatnonzero(results.count[: len(results)])
            ]

    def top_answers(self, n: int = TOP_ANSWERS) -> list[TopAnswer]:
        """Return up to n answers that may be the best, with their posterior probabilities."""
        check_count("n", n)
        with self._reading():
            view = self._view(cached=False)
            verdict = self._current(view)
            ranking = view.rank(verdict.z if verdict.stop else None, self.epsilon)
            return recommendation_of(self.problem.oracle, ranking, n).top_answers

    def status(self) -> Status:
        """Return the state of the run, without changing it."""
        with self._reading():
            view = self._view(cached=False)
            self._diagnostics.refresh()
            verdict = self._current(view)
            ranking = view.rank(verdict.z if verdict.stop else None, self.epsilon)
            return Status(
                **vars(recommendation_of(self.problem.oracle, ranking)),
                **self._facts(),
                stop=verdict.stop,
                rule=verdict.rule or self.rule.name,
                claim=verdict.claim if verdict.stop else "",
                open_queries=list(self._ledger.open.values()),
                leases=self._leases.copy(),
            )

    def result(self) -> Result:
        """Return the current answer and its claim, without changing the state."""
        with self._reading():
            view = self._view(cached=False)
            self._diagnostics.refresh()
            verdict = self._current(view)
            return self._result(verdict.rule if verdict.stop else "open", view, verdict)

    def look(self) -> Verdict:
        """Evaluate the stopping rule on the current results, and return its verdict."""
        if not self.rule.requests_measurements:  # it has no state
            with self._reading():
                self._look()
                return self.verdict
        with self._updating():
            self._look()
            self._commit([Looked()])
            return self.verdict

    @property
    def due(self) -> bool:
        """Whether a look of the stopping rule is due."""
        with self._reading():
            return self._is_due()

    def run(
        self,
        measure: Callable[[Any], Any],
        *,
        client: str | None = None,
        budget: int | None = None,
        budget_cost: float | None = None,
        progress: bool = False,
        batch_size: int = 1,
        callback: Callback = None,
    ) -> Result:
        """Measure until the stopping rule, a budget of this call, or Ctrl-C ends the run.

        Values returned by `measure` are recorded in any case. An exception that is raised has the attributes `session`,
        and `untold` with the results that could not be recorded.

        Parameters
        ----------
        measure, budget, budget_cost, progress, batch_size, callback
            As in `identify`; budgets are for this call.
        client
            Name of the client that holds the queries of this call. A later call with the same name continues with its
            open queries; without a name they are abandoned when this call ends.
        """
        return Run(self, measure, client, budget, budget_cost, progress, batch_size, callback).run()

    def cost_of(self, query: Query) -> float:
        """Return the cost of measuring a query."""
        return self._queries.cost(query)

    # Access to the state. A `Campaign` overrides these three methods.

    def _reading(self) -> AbstractContextManager[None]:
        """Return a context that excludes other threads, with an up-to-date state."""
        if self.lock.lost:
            raise self.lock.error()
        return self.lock

    def _updating(self) -> AbstractContextManager[None]:
        """Return a context that excludes other threads and processes, with an up-to-date state."""
        return Session._reading(self)

    def _commit(self, events: Sequence[Event]) -> None:
        """Apply events atomically."""
        if len(events) == 1 and type(events[0]) is Asked:  # if interrupted, it leaves open queries only
            self._apply(events)
            return
        with Atomic(self.lock):
            self._apply(events, self._warn_of(events))

    # Methods of the protocol `Host`, used by `Run`.

    @property
    def run_client(self) -> str | None:
        """Name of the client that holds the queries of a run; None if they are identified by their ids."""
        return None

    look_first = False
    """Whether a run begins with a look, and ends with one at the end of its budget: other clients may measure too."""

    def start_run(self, has_budget: bool) -> int | None:
        """Begin a run; return the budget of the stopping rule."""
        if self.rule.name == "budget" and self.rule.budget is None and not has_budget:
            raise ParameterError('stopping="budget" needs a budget, or a budget_cost')
        with self._reading():
            self._attach()
            samples, has_state = self._policy.samples, self.rule.requests_measurements
            self._fresh = samples == 0
            self._schedule_look()
            if self.look_first and (not has_state or (samples and self._current(self._view(cached=False)).stop)):
                self._next_look = samples
        return self.rule.budget

    def finish_run(self, reason: str, made: int, by_cost: bool) -> Result:
        """Return the result of a run with `made` measurements; `by_cost` if a budget of cost has ended it."""
        self.end_run()
        with self._reading():
            self._diagnostics.check()
            return self._result(reason or self.rule.name, self._view(), self.verdict, made, by_cost)

    def end_run(self) -> None:
        """Detach a stopping rule that the user passed, so that another session can use it."""
        if self._stopping is self.rule:
            self._detach()

    def current_answer(self) -> tuple[Any, str]:
        """Return the current answer, and its error probability in words."""
        with self._reading():
            found = recommendation_of(self.problem.oracle, self._view(cached=False).rank(None, self.epsilon))
            return found.answer, found.error_text

    def _result(self, reason: str, view: View, last: Verdict, made: int | None = None, by_cost: bool = False) -> Result:
        policy, claim, tied = self._policy, last.claim, list[Any]()
        found = recommendation_of(self.problem.oracle, view.rank(last.z if last.stop else None, self.epsilon))
        if not last.stop:
            error_probability = found.error_probability
            how = {"interrupted": "was interrupted", "open": "has not ended"}.get(reason, "was ended by its budget")
            claim = "; ".join(
                filter(None, [f"none: the run {how}", self.rule.explain_missing_proof(error_probability, self.epsilon)])
            )
            if reason == "budget" and isinstance(self.rule, BudgetRule):
                claim = budget_claim(policy, found.error_text, self.epsilon)
                if self.rule.simulations:
                    claim += f"; the same policy and budget: {self._frequency(self.rule, made, by_cost)}"
            claim = self._qualified(claim)
            if (
                reason == "budget"
                and self.rule.name != "budget"
                and error_probability > max(self.delta, _MAX_TIED_ERROR)
            ):
                tied = view.tied()
                reason = "indistinguishable" if tied else reason
        return Result(
            **vars(found),
            **self._facts(),
            stop_reason=reason,
            rule=self.rule.name,
            claim=claim,
            evidence=Verdict(last.stop, last.statistic, last.threshold, self.oracle_calls, claim),
            tied=tied,
            seed=self.seed,
            session=self,
            posterior=policy.posterior.copy(),
            looks=tuple(self.looks),
        )

    def _facts(self) -> dict[str, Any]:
        """Return the common fields of `Status` and `Result`."""
        policy = self._policy
        return {
            "samples": policy.samples, "cost": float(policy.spent[0]), "actions": policy.actions_made,
            "pulls": dict(zip(self.problem.arms.labels, policy.pulls[0].tolist(), strict=True)),
            "delta": self.delta, "epsilon": self.epsilon, "corrections": self._corrections,
            "warning": str(self._diagnostics.conflict), "noise_estimate": policy.noise_estimate,
        }  # fmt: skip

    def _frequency(self, rule: BudgetRule, made: int | None, by_cost: bool) -> Frequency:
        """Return the prior predictive error rate of this policy and budget."""
        if made is None or not self._fresh:
            return Frequency(0, 0, "the policy had measured before")
        if by_cost:
            return Frequency(0, 0, "the budget is one of cost")
        policy, seed = self._policy, self._policy.streams.named(0, "claim")
        return wrong_under_prior(
            policy, made, runs=rule.simulations, seconds=rule.seconds, seed=seed, epsilon=self.epsilon
        )

    # Validation.

    def _find(self, query: Any) -> Query:
        """Return a query, given the query or its id."""
        if isinstance(query, Query):
            return query
        if isinstance(query, bool) or not isinstance(query, (int, np.integer)):
            raise QueryError(
                f"a query is required, as ask() returned it, or its number, got {query!r:.40}; open_queries lists "
                "those that wait, and observe(label, y) takes results without a query"
            )
        return self._ledger.find(int(query))

    def _check_plausible(
        self, confirm: bool, arms: Sequence[int], readings: Sequence[Reading | None], query: Query | None = None
    ) -> None:
        """Raise ImplausibleValueError for a value that is far from all results so far, unless it is confirmed."""
        if confirm is True:
            return
        if confirm is not False:
            check_flag("confirm", confirm)
        policy, (low, high, number) = self._policy, self._range
        noise_known = self.problem.noise_std is not None or policy.posterior.dof.item(0) >= _MIN_DOF
        sigma = policy.posterior.sigma.item(0) if noise_known else 0.0
        for arm, reading in zip(arms, readings, strict=True):
            if reading is None:
                continue
            noise = sigma * self.problem.noise.item(arm)
            reason = ""
            if number >= _MIN_RESULTS:
                margin = _MAX_RANGES * max(high - low, noise)
                if not low - margin <= reading.y <= high + margin and margin > 0.0:
                    reason = f"all {number} results so far lie between {low:g} and {high:g}"
            pulls, weight = policy.pulls.item(0, arm), policy.weights.item(0, arm)
            if not reason and noise and pulls >= _MIN_REPEATS:
                mean = policy.totals.item(0, arm) / weight * self.problem.noise.item(arm)
                if abs(reading.y - mean) > _MAX_NOISE * max(noise, reading.sem or 0.0):
                    reason = f"{pulls} results of it so far have mean {mean:g}, and the noise is {noise:g}"
            if reason:
                label = label_text(self.problem.arms.labels[arm])
                name = f"{label:.60}" if query is None else f"query {query.id} ({label:.60})"
                raise ImplausibleValueError(
                    f"{reading.y:g} is implausible for {name}: {reason}; if it is right, confirm it (confirm=True)"
                )

    def __getstate__(self) -> dict[str, Any]:
        return vars(self).copy()


def identify(
    problem: Problem | ArgmaxOracle,
    measure: Callable[[Any], Any],
    *,
    delta: float = 0.05,
    budget: int | None = None,
    budget_cost: float | None = None,
    policy: str | Policy = DEFAULT_POLICY,
    stopping: str | StoppingRule = "posterior",
    epsilon: float = 0.0,
    rng: int | np.random.Generator | None = 0,
    progress: bool = False,
    batch_size: int = 1,
    initial_design: bool | int | None = None,
    callback: Callable[[Session, Query, Any], None] | None = None,
) -> Result:
    """Identify the best answer: measure until a stopping rule or a budget ends the run.

    The same as `Session(problem, ...).run(measure, ...)`. No result is lost: an exception of `measure`, the callback or
    the oracle has the attribute `session`, and `error.session.run(measure)` continues the run. Ctrl-C ends the run and
    returns the current result; if it comes while the result is computed, KeyboardInterrupt is raised, with `session`.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    measure
        Function of an arm's label (an edge, an item, a worker-task pair) that returns a number, or (y, sem) with its
        own standard error. With `batch_size` > 1 it is called with a list of labels and returns as many results. Edges
        of an undirected graph are as in `graph.edges`, which may be the reverse of the input: look them up with
        `graph.edges[label]`.
    delta
        Error probability that the stopping rule allows; a rule that is passed has its own.
    budget
        Maximum number of measurements in this call; None for no limit. Earlier measurements of a policy that is passed
        do not count.
    budget_cost
        Maximum cost of the measurements in this call (see `Problem(cost=)`); None for no limit.
    policy
        Name of the policy, or a `Policy`, which may have measurements.
    stopping
        "posterior" (Bayesian), "guaranteed" (for every theta: "verified" or "certified", depending on the problem; both
        names can be used too), "heuristic" (no guarantee), "budget" to use up the budget and report the error
        probability (see `BudgetRule`), or a `StoppingRule`.
    epsilon
        Accept an answer that is at most epsilon worse than the best; a rule that is passed has its own. The error
        probability of the result is then that of an answer worse by more than epsilon.
    rng
        Seed or generator; a policy that is passed keeps its own.
    progress
        Show a progress bar with measurements of this call, current answer and error probability.
    batch_size
        Number of measurements per call of `measure`. Each is chosen as if those before it had their expected results.
    initial_design
        Initial design: how often every arm is measured (True: once) before the policy chooses and the rule looks;
        earlier measurements of a policy that is passed count. Intended for cheap measurements, for which a choice takes
        far longer than a measurement.
    callback
        Called after each measurement with the session, the query and the result. If it raises, the remaining results of
        the batch are recorded first.

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
        problem, policy=policy, stopping=stopping, delta=delta, epsilon=epsilon, rng=rng, initial_design=initial_design
    )  # fmt: skip
    return session.run(
        measure, budget=budget, budget_cost=budget_cost, progress=progress, batch_size=batch_size, callback=callback
    )
