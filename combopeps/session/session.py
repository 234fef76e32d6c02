"""`Session`: ask-and-tell interface of one run; `identify`: measure until a stopping rule or a budget ends the run.

    ask -> Query -> measure -> tell -> update -> look -> ... -> Result

Every change of the state is an event (`combopeps.session.events`): methods validate their arguments, create events and
commit them. Applying the events in order gives the state, without choosing or computing anything again. A session in
memory applies events at once; a `Campaign` stores them first, and applies those of other processes before its own.
`identify(...)` is `Session(...).run(measure)`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, overload

import numpy as np

from combopeps.errors import ImplausibleValueError, ParameterError, QueryError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Fantasies, Policy
from combopeps.policies.initial_design import initial_design_length
from combopeps.policies.registry import DEFAULT_POLICY, policy_class
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.least_squares import Measurements
from combopeps.problem import Problem
from combopeps.random import Streams, named_seed, seed_sequence
from combopeps.session.diagnostics import Conflict, Diagnostics
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
from combopeps.session.measurement_table import TableSummary, read_observations
from combopeps.session.queries import (
    Ledger,
    Query,
    QueryFactory,
    Reading,
    Readings,
    ResultReader,
    check_results,
)
from combopeps.session.reports import Measurement, list_measurements, qualified, result_of, status_of
from combopeps.session.result import TOP_ANSWERS, Look, Result, Status, TopAnswer, recommendation_of
from combopeps.session.run import Callback, Run, check_run
from combopeps.stopping.base import StoppingRule, Verdict, View, check_rule_parameters
from combopeps.stopping.registry import stopping_rule
from combopeps.stopping.requested_measurements import Requests
from combopeps.utils.formatting import ShortRepr
from combopeps.utils.label_format import as_label, label_text
from combopeps.utils.locks import Atomic
from combopeps.utils.state_dict import StateDict, integer
from combopeps.utils.validation import MAX_QUERIES, check_count, check_flag, check_integer

FIRST_LOOK = 10  # measurements before the first look
LOOK_DIVISOR = 16  # at least d / 16 measurements between two looks, whose cost grows with d
# A value is implausible if it is 3 ranges away from all of at least 8 results, or 20 noise levels away from the mean of
# an arm with at least 2 results.
_MIN_RESULTS, _MAX_RANGES = 8, 3.0
_MIN_REPEATS, _MAX_NOISE = 2, 20.0
_MIN_DOF = 8  # degrees of freedom at which an estimated noise level is used for this


class Session(ShortRepr):
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
    looks, verdict, oracle_calls
        All looks of the stopping rule, in order, its last verdict, and the oracle calls of all looks.

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
        self.lock = self._policy.lock
        self._earlier = self._policy.measurements() if self._policy.samples else None
        self._queries, self._reader = QueryFactory(self.problem), ResultReader(self.problem)
        self._ledger = Ledger(self._queries)
        self._diagnostics = Diagnostics(self._policy, self._ledger.results)
        self._leases: dict[int, Lease] = {}
        self._corrections = 0
        self._range = (np.inf, -np.inf, 0)  # smallest and largest result, and their number
        self._event = 1  # number of the last event; event 1 of a campaign is its description
        self.verdict, self.oracle_calls, self.looks = Verdict(False), 0, list[Look]()
        self._last_look = -1  # number of measurements at the last look
        self._attached = False  # whether the rule's request logs follow this session
        self._fresh = False  # whether the current run began without measurements
        self._follow_requests()
        self._schedule_look()

    @property
    def problem(self) -> Problem:
        return self._policy.problem

    @property
    def policy(self) -> Any:
        return self._policy

    @property
    def epsilon(self) -> float:
        return self.rule.epsilon if self._epsilon is None else self._epsilon

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
            queries: list[Query] = []
            events: list[Event] = []
            held = None
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
            The result, or a pair (y, sem). Where measurements are actions, one result for each of `query.components`: a
            sequence in their order, or a dict by label; each is a number, (number, sem), or None for a component that
            was not read.
        sem
            Standard error of this result, instead of the arm's noise.
        confirm
            Accept a value that is implausible given the results so far (`ImplausibleValueError`).
        """
        self.tell_many([(query, y, sem)], confirm=confirm)

    def tell_many(self, results: Iterable[tuple[Any, ...]], *, confirm: bool = False) -> None:
        """Record several results (query, y) or (query, y, sem); all are validated before the first is recorded."""
        given = check_results(results)
        new: dict[int, Told] = {}
        with self._updating():
            for one, *values in given:
                query = self._ledger.find(one)
                readings = self._reader.result(query, *values)
                is_new = self._ledger.is_new(query, readings)
                if is_new and new.setdefault(query.id, Told(query, readings)).readings != readings:
                    raise QueryError(f"query {query.id} is in the batch twice, with different results")
            for told in new.values():
                self._check_plausible(confirm, told.query.arms, told.readings, told.query)
            self._commit(list(new.values()))

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

    def observe_table(self, rows: Any, *, key: str | None = None, confirm: bool = False) -> TableSummary:
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
        key = None if key is None else check_name("key", key)
        arms, readings, observed = read_observations(rows, self._reader)
        with self._updating():
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
            found = self._ledger.find(query)
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
            return list_measurements(self._ledger.results, self.problem.arms)

    def top_answers(self, n: int = TOP_ANSWERS) -> list[TopAnswer]:
        """Return up to n answers that may be the best, with their posterior probabilities."""
        check_count("n", n)
        with self._reading():
            view, verdict, _ = self._current()
            ranking = view.rank(verdict.z if verdict.stop else None, self.epsilon)
            return recommendation_of(self.problem.oracle, view.posterior, ranking, n).top_answers

    def status(self) -> Status:
        """Return the state of the run, without changing it."""
        with self._reading():
            return status_of(self, *self._current())

    def result(self) -> Result:
        """Return the current answer and its claim, without changing the state."""
        with self._reading():
            view, verdict, conflict = self._current()
            return result_of(self, verdict.rule if verdict.stop else "open", view, verdict, conflict)

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
            self._warn_of(events)
            self._apply(events)

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
            if self.look_first and (not has_state or (samples and self._current()[1].stop)):
                self._next_look = samples
        return self.rule.budget

    def finish_run(self, reason: str, made: int, by_cost: bool) -> Result:
        """Return the result of a run with `made` measurements; `by_cost` if a budget of cost has ended it."""
        self.end_run()
        with self._reading():
            conflict, reason = self._diagnostics.test(), reason or self.rule.name
            return result_of(self, reason, self._view(), self.verdict, conflict, made=made, by_cost=by_cost)

    def end_run(self) -> None:
        """Detach a stopping rule that the user passed, so that another session can use it."""
        if self._stopping is self.rule:
            self._detach()

    # Validation.

    def _check_plausible(
        self, confirm: bool, arms: Sequence[int], readings: Sequence[Reading | None], query: Query | None = None
    ) -> None:
        """Raise ImplausibleValueError for a value that is far from all results so far, unless it is confirmed.

        A confirmed one is a reason to test the assumptions.
        """
        if type(confirm) is not bool:
            check_flag("confirm", confirm)
        for arm, reading in zip(arms, readings, strict=True):
            if reading is None or not (reason := self._implausible(arm, reading)):
                continue
            if not confirm:
                label = label_text(self.problem.arms.labels[arm])
                name = f"{label:.60}" if query is None else f"query {query.id} ({label:.60})"
                raise ImplausibleValueError(
                    f"{reading.y:g} is implausible for {name}: {reason}; if it is right, confirm it (confirm=True)"
                )
            self._diagnostics.next_test = 0

    def _implausible(self, arm: int, reading: Reading) -> str:
        """Return why a value is implausible; empty if it is not."""
        policy, (low, high, number) = self._policy, self._range
        posterior, unit = policy.posterior, policy.problem.noise.item(arm)
        noise = posterior.sigma.item(0) * unit if posterior.dof.item(0) >= _MIN_DOF else 0.0  # infinite if stated
        if number >= _MIN_RESULTS:
            margin = _MAX_RANGES * max(high - low, noise)
            if not low - margin <= reading.y <= high + margin and margin > 0.0:
                return f"all {number} results so far lie between {low:g} and {high:g}"
        pulls = policy.pulls.item(0, arm)
        if noise and pulls >= _MIN_REPEATS:
            mean = policy.totals.item(0, arm) / policy.weights.item(0, arm) * unit
            if abs(reading.y - mean) > _MAX_NOISE * max(noise, reading.sem or 0.0):
                return f"{pulls} results of it so far have mean {mean:g}, and the noise is {noise:g}"
        return ""

    # Events.

    def _warn_of(self, events: Sequence[Event]) -> None:
        """Warn of conflicts that results will cause, before the state changes, if a test is due."""
        results = [event for event in events if isinstance(event, (Told, Observed))]
        number = len(self._ledger.results) + sum(len(event.readings) for event in results)
        if results and number >= self._diagnostics.next_test:
            self._diagnostics.test(*_results_of(results))

    def _apply(self, events: Iterable[Event]) -> None:
        """Update the state by events, which are numbered consecutively; the policy, with all results at the end."""
        changed = False
        results: list[Told | Observed] = []
        for event in events:
            number = self._event + 1
            if type(event) is Told:
                self._close(event.query, event.readings, number)
                results.append(event)
            elif type(event) is Asked:
                self._open(event.queries, event.lease)
            elif type(event) is Observed:
                self._ledger.observe(number, event.arms, event.readings, event.key)
                results.append(event)
                number += len(event.arms) - 1
            elif type(event) is Abandoned:
                self._ledger.abandon(event.query)
                self._leases.pop(event.query.id, None)
                for log in self._logs:
                    log.abandon(event.query.id)
            elif type(event) is Leased:
                if not all(id in self._ledger.open for id in event.ids):
                    raise ValueError("a lease must be for open queries")
                self._leases.update(dict.fromkeys(event.ids, event.lease))
            elif type(event) is Looked:
                if event.state is not None:
                    self._load_rule(event.state)
            else:
                assert isinstance(event, (Corrected, Retracted))
                changed = True
                self._change(event)
            self._event = number
        if changed:
            self._learn_again()
        elif results:
            self._learn(*_results_of(results))

    def _open(self, queries: Sequence[Query], lease: Lease | None) -> None:
        for query in queries:
            self._ledger.enter(query)
            if lease is not None:
                self._leases[query.id] = lease
            for log in self._logs_of_queries:
                log.issue(query.id, query.arm)

    def _close(self, query: Query, readings: Readings, number: int) -> None:
        row = self._ledger.close(query, readings, number)
        if self._leases:
            self._leases.pop(query.id, None)
        for log in self._logs_of_queries:
            reading = readings[0]
            assert reading is not None
            requested = log.answer(query.id, query.arm, reading.y, reading.sem, reading.count)
            self._ledger.results.in_proof[row] |= requested
        self.problem.action_set.count(self._policy, query.measured)

    def _learn(self, arms: list[int], readings: list[Reading]) -> None:
        if not arms:
            return
        low, high, number = self._range
        ys = [reading.y for reading in readings]
        self._range = min(low, *ys), max(high, *ys), number + len(ys)
        if len(arms) == 1 and readings[0].is_plain:
            self._policy.learn(arms[0], readings[0].y)
        else:
            noise = self.problem.noise
            weights = [reading.weight(noise[arm]) for arm, reading in zip(arms, readings, strict=True)]
            counts = [reading.count for reading in readings]
            self._policy.learn_many(arms, ys, weights, counts)

    def _change(self, event: Corrected | Retracted) -> None:
        """Change a recorded result; a proof of the stopping rule that uses it is discarded."""
        results, rows = self._ledger.results, self._recorded(event.event)
        if isinstance(event, Corrected):
            for row, reading in zip(rows, event.readings, strict=True):
                results.change(int(row), reading)
        else:
            results.active[rows] = False
        self._corrections += 1
        in_proof, counted = bool(results.in_proof[rows].any()), results.counted()
        told = counted[results.query[counted] >= 0] if self._logs_of_queries else counted[:0]
        self.rule.results_changed(self._sums(told), in_proof)
        if in_proof:
            results.in_proof[:] = False

    def _learn_again(self) -> None:
        """Recompute policy and diagnostics from the current results, after some were changed."""
        policy, results = self._policy, self._ledger.results
        policy.reset()
        self._diagnostics.reset()
        self._range = (np.inf, -np.inf, 0)
        if (earlier := self._earlier) is not None:
            arms = np.flatnonzero(earlier.weights)
            weights, pulls = earlier.weights[arms], None if earlier.pulls is None else earlier.pulls[arms]
            means = earlier.totals[arms] / weights * self.problem.noise[arms]
            policy.learn_many(arms, means, weights, None if pulls is None else pulls.astype(np.int64))
        rows = results.counted()
        readings = [reading for row in rows if (reading := results.reading(int(row))) is not None]
        self._learn(results.arm[rows].tolist(), readings)
        for query in self._ledger.answered_actions(rows):
            self.problem.action_set.count(policy, query.measured)
        self.verdict, self._last_look = Verdict(False), -1

    def _sums(self, rows: Any) -> Measurements:
        """Return the sufficient statistics of some rows, in units of the noise."""
        results, noise = self._ledger.results, self.problem.noise
        arms, sem, count = results.arm[rows], results.sem[rows], results.count[rows].astype(np.float64)
        weights = np.where(sem > 0.0, (noise[arms] / np.where(sem > 0.0, sem, 1.0)) ** 2, count)
        sums: list[Any] = [
            np.bincount(arms, weights=values, minlength=len(noise))
            for values in (weights, weights * results.y[rows] / noise[arms], count)
        ]
        return Measurements(self.problem.signal, *sums)

    # Choice of queries.

    def _choose(self, n: int) -> list[Query]:
        """Return the next n queries, without opening them: requests of the rule first, then the policy's choices."""
        first = self._ledger.next_id
        choices: list[Any] = self._requested(n)
        queries = [self._queries.of_choice(first + i, choice) for i, choice in enumerate(choices)]
        busy = [*self._ledger.open_arms, *(arm for query in queries for arm in query.arms)]
        fantasies = Fantasies(self._policy, busy)
        for id in range(first + len(queries), first + n):
            queries.append(self._queries.of_choice(id, fantasies.choose(id)))
            fantasies.add(queries[-1].arms)
        return queries

    def _requested(self, n: int) -> list[Any]:
        """Return up to n arms that the stopping rule requests, or actions that measure them."""
        self._attach()
        log = self._first_log()
        if log is None:
            return []
        chosen, left = self.problem.action_set.requested(log.wanted, n)
        if left is not None:  # an action measures several of them at once
            log.replace(left)
        return list(chosen)

    def _first_log(self) -> Requests | None:
        """Return the first log with pending requests."""
        return next((log for log in self._logs if log.wanted), None)

    def _attach(self) -> None:
        """Attach the request logs of the rule to this session."""
        if not self._attached:
            for log in self._logs:
                log.attach()
            self._attached = True

    def _detach(self) -> None:
        """Detach the request logs at the end of a run; the rule keeps its requests for a run that continues it."""
        if self._attached:
            for log in self._logs:
                log.detach()
            self._attached = False

    # Looks of the stopping rule.

    def _follow_requests(self) -> None:
        """Set the request logs of the rule; only logs of single arms are informed of queries."""
        self._logs: Sequence[Requests] = self.rule.logs if self.rule.requests_measurements else ()
        self._logs_of_queries: Sequence[Requests] = () if self.problem.measures_actions else self._logs

    def _is_due(self) -> bool:
        return self._policy.samples >= self._next_look and not any(log.outstanding for log in self._logs)

    def _schedule_look(self, pause: int = 1) -> None:
        """Schedule the next look after `pause` measurements, and after the initial design."""
        samples = self._policy.samples
        self._next_look = max(samples + pause, samples + self._policy.unswept, FIRST_LOOK)

    def _look(self) -> None:
        """Evaluate the stopping rule, with cached facets; it may request measurements."""
        self._attach()
        view, t = self._view(), self._policy.samples
        found = self.verdict = self._check(self.rule, view)
        self._last_look = t
        self.oracle_calls += found.oracle_calls
        self.looks.append(Look(t, found.error_probability, found.statistic, found.threshold))
        self._schedule_look(max(1, self.problem.oracle.dim // LOOK_DIVISOR, int(t * (self.rule.ratio - 1.0))))
        self.rule.request(found)
        if self._first_log() is not None:
            self._next_look = t + 1  # due when the requested measurements are complete

    def _check(self, rule: StoppingRule, view: View, conflict: Conflict | None = None) -> Verdict:
        """Return the verdict of a rule, with its answer, and its claim qualified by conflicts, by default those now."""
        rule.check_problem(self.problem, self._policy.noise_estimate)
        found = self._policy.guarded(lambda: rule.check(view))
        if not found.stop:
            return replace(found, claim="", z=view.z_hat, rule=rule.name)
        certified = view.z_hat if found.z is None else found.z  # may differ from the answer under the prior
        conflict = self._diagnostics.test() if conflict is None else conflict
        claim = qualified(self, found.claim, conflict, uses_prior=not rule.proves)
        return replace(found, claim=claim, z=certified, rule=rule.name)

    def _current(self) -> tuple[View, Verdict, Conflict]:
        """Return view, verdict and conflicts of the current results, without changing the rule."""
        view, verdict, conflict = self._view(cached=False), self.verdict, self._diagnostics.find()
        if self._last_look != self._policy.samples:
            problem = self.problem
            shared: list[Any] = [problem, problem.oracle, problem.signal, problem.arms]
            rule = copy.deepcopy(self.rule, {id(same): same for same in shared})
            verdict = self._check(rule, view, conflict)
        return view, verdict, conflict

    def _view(self, *, cached: bool = True) -> View:
        """Return a view of the current state; without cached facets it depends on the results alone."""
        policy = self._policy if cached else self._policy.without_cache()
        return View(policy, policy.streams.named(0, "look", policy.samples))

    def _recorded(self, event: Any) -> Any:
        """Return the rows of an event with a result; QueryError if it has none."""
        check_integer("event", event)
        rows = self._ledger.results.rows_of_event(int(event))
        if not len(rows):
            raise QueryError(f"event {event} recorded no result; measurements() lists those that did")
        if not self._ledger.results.active[rows].all():
            raise QueryError(f"the result of event {event} was retracted; use observe(label, y) if it is correct")
        return rows

    # Serialised state.

    def state_dict(self) -> StateDict:
        """Return the state as plain data and arrays."""
        return {
            "policy": self._policy.state_dict(), "ledger": self._ledger.state_dict(), "event": self._event,
            "rule": self._rule_state(), "corrections": self._corrections,
            "leases": [[id, lease.client, lease.until] for id, lease in self._leases.items()],
        }  # fmt: skip

    def load_state_dict(self, data: StateDict) -> None:
        """Restore the state of a session that was created in the same way; raises if it is inconsistent."""
        self._policy.load_state_dict(data["policy"])
        self._ledger.load_state_dict(data["ledger"])
        self._event, self._corrections = integer(data["event"], least=1), integer(data["corrections"])
        self._leases = {id: Lease(client, until) for id, client, until in data["leases"]}
        if not self._leases.keys() <= self._ledger.open.keys():
            raise ValueError("a lease must be for an open query")
        results = self._ledger.results
        counted = results.y[results.counted()]
        self._range = counted.min(initial=np.inf), counted.max(initial=-np.inf), len(counted)
        self._load_rule(data["rule"])

    def _rule_state(self) -> StateDict:
        """Return the state of the stopping rule and of its schedule."""
        return {"rule": self.rule.state_dict(), "next_look": int(self._next_look)}

    def _load_rule(self, data: StateDict) -> None:
        """Replace the rule by a new one with this state."""
        self._detach()
        self.rule = stopping_rule(self._stopping, self.delta, self.epsilon)
        self.rule.check_problem(self.problem, self._policy.noise_estimate)
        self.rule.load_state_dict(data["rule"], self.problem)
        self._follow_requests()
        for log in self._logs:
            log.require_open(self._ledger.open)
        self._next_look = integer(data["next_look"])
        self._attach()


def _results_of(events: Sequence[Told | Observed]) -> tuple[list[int], list[Reading]]:
    """Return the arms and readings of events, without components that were not read."""
    arms: list[int] = []
    readings: list[Reading] = []
    for event in events:
        measured = event.query.arms if isinstance(event, Told) else event.arms
        for arm, reading in zip(measured, event.readings, strict=True):
            if reading is not None:
                arms.append(arm)
                readings.append(reading)
    return arms, readings


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
        "posterior" (Bayesian: the answer is wrong with probability at most delta), "loss" (Bayesian: its expected loss
        is at most epsilon), "guaranteed" (for every theta: "verified" or "certified", depending on the problem; both
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
        Called after each measurement with the session, the query and what `measure` returned for it. All results of the
        batch have been recorded before.

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
