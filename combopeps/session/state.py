"""`SessionState`: state of a session, its update by events, and the choice of queries and looks.

Applying the events of a session in order gives its state, without choosing or computing anything again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from combopeps.errors import QueryError
from combopeps.policies.base import Fantasies, Policy
from combopeps.posterior.least_squares import Measurements
from combopeps.problem import Problem
from combopeps.session.diagnostics import Diagnostics
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
)
from combopeps.session.queries import Ledger, Query, QueryFactory, Reading, Readings, ResultReader
from combopeps.session.result import Look
from combopeps.stopping.base import StoppingRule, Verdict, View
from combopeps.stopping.registry import stopping_rule
from combopeps.stopping.requested_measurements import Requests
from combopeps.utils.state_dict import StateDict, boolean, integer
from combopeps.utils.validation import check_integer

FIRST_LOOK = 10  # measurements before the first look
LOOK_DIVISOR = 16  # at least d / 16 measurements between two looks, whose cost grows with d


class SessionState:
    """Policy, queries, results, leases, diagnostics and stopping rule of a session.

    Attributes
    ----------
    rule
        The stopping rule.
    verdict
        Verdict of its last look.
    oracle_calls
        Number of oracle calls in all looks.
    looks
        All looks of the rule, in order.
    """

    _policy: Policy
    rule: StoppingRule
    delta: float
    _epsilon: float | None
    _stopping: str | StoppingRule

    def _begin(self) -> None:
        """Create the state before the first event."""
        problem = self.problem
        self.lock = self._policy.lock
        self._earlier = self._policy.measurements() if self._policy.samples else None
        self._queries, self._reader = QueryFactory(problem), ResultReader(problem)
        self._ledger, self._diagnostics = Ledger(self._queries), Diagnostics(self._policy)
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

    def _follow_requests(self) -> None:
        """Set the request logs of the rule; only logs of single arms are informed of queries."""
        self._logs: Sequence[Requests] = self.rule.logs if self.rule.requests_measurements else ()
        self._logs_of_queries: Sequence[Requests] = () if self.problem.measures_actions else self._logs

    @property
    def problem(self) -> Problem:
        return self._policy.problem

    @property
    def policy(self) -> Any:
        return self._policy

    @property
    def epsilon(self) -> float:
        return self.rule.epsilon if self._epsilon is None else self._epsilon

    # Events.

    def _warn_of(self, events: Sequence[Event], take_in: bool = True) -> bool:
        """Warn of conflicts that results will cause, before the state changes.

        With `take_in`, a single result is added to the diagnostics at once, which is faster. Returns whether it was.
        """
        arms, readings = list[int](), list[Reading]()
        for event in events:
            if type(event) is Told:
                _collect(event.query.arms, event.readings, arms, readings)
            elif type(event) is Observed:
                _collect(event.arms, event.readings, arms, readings)
        if take_in and len(arms) == 1:
            self._diagnostics.add_one(arms[0], readings[0])
            return True
        if arms:
            self._diagnostics.warn_about(arms, readings)
        return False

    def _apply(self, events: Iterable[Event], seen: bool = False) -> None:
        """Update the state by events, which are numbered consecutively.

        The policy is updated with all results at the end. `seen` is whether the diagnostics include them already.
        """
        changed, arms, readings = False, list[int](), list[Reading]()
        for event in events:
            number = self._event + 1
            if type(event) is Told:
                self._close(event.query, event.readings, number)
                _collect(event.query.arms, event.readings, arms, readings)
            elif type(event) is Asked:
                self._open(event.queries, event.lease)
            elif type(event) is Observed:
                self._ledger.observe(number, event.arms, event.readings, event.key)
                _collect(event.arms, event.readings, arms, readings)
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
        else:
            self._learn(arms, readings, seen=seen)

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
        if self.problem.measures_actions:
            self._policy.count_actions(self._queries.choice(query)[None])

    def _learn(self, arms: list[int], readings: list[Reading], *, seen: bool = False) -> None:
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
        if not seen:
            self._diagnostics.add(arms, readings)

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
        told = counted[(results.query[counted] >= 0) & (not self.problem.measures_actions)]
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
        if self.problem.measures_actions:
            for id in np.unique(results.query[rows][results.query[rows] >= 0]).tolist():
                policy.count_actions(self._queries.choice(self._ledger.find(id))[None])
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

    def _is_due(self) -> bool:
        return self._policy.samples >= self._next_look and not any(log.outstanding for log in self._logs)

    def _schedule_look(self, pause: int = 1) -> None:
        """Schedule the next look after `pause` measurements, and after the initial design."""
        samples = self._policy.samples
        self._next_look = max(samples + pause, samples + self._policy.unswept, FIRST_LOOK)

    def _look(self) -> None:
        """Evaluate the stopping rule, with cached facets; it may request measurements."""
        self._attach()
        self._diagnostics.check()
        view, t = self._view(), self._policy.samples
        found = self.verdict = self._check(self.rule, view)
        self._last_look = t
        self.oracle_calls += found.oracle_calls
        self.looks.append(Look(t, found.error_probability, found.statistic, found.threshold))
        self._schedule_look(max(1, self.problem.oracle.dim // LOOK_DIVISOR, int(t * (self.rule.ratio - 1.0))))
        self.rule.request(found)
        if self._first_log() is not None:
            self._next_look = t + 1  # due when the requested measurements are complete

    def _check(self, rule: StoppingRule, view: View) -> Verdict:
        """Return the verdict of a rule, with its answer and qualified claim."""
        rule.check_problem(self.problem, self._policy.noise_estimate)
        found = self._policy.guarded(lambda: rule.check(view))
        if not found.stop:
            return replace(found, claim="", z=view.z_hat, rule=rule.name)
        certified = view.z_hat if found.z is None else found.z  # may differ from the answer under the prior
        return replace(found, claim=self._qualified(found.claim, not rule.proves), z=certified, rule=rule.name)

    def _qualified(self, claim: str, uses_prior: bool = True) -> str:
        """Return a claim with conflicts of the results with its assumptions, and the number of corrections."""
        claim = self._diagnostics.conflict.qualify(claim, uses_prior)
        if self._corrections:
            results = "1 result was" if self._corrections == 1 else f"{self._corrections} results were"
            claim += f"; {results} corrected or retracted: it holds if that was not done because of the values"
        return claim

    def _current(self, view: View) -> Verdict:
        """Return the verdict on the current results, without changing the rule."""
        if self._last_look == self._policy.samples:
            return self.verdict
        problem = self.problem
        shared: list[Any] = [problem, problem.oracle, problem.signal, problem.arms]
        return self._check(copy.deepcopy(self.rule, {id(same): same for same in shared}), view)

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
            "diagnostics": self._diagnostics.state_dict(), "rule": self._rule_state(),
            "leases": [[id, lease.client, lease.until] for id, lease in self._leases.items()],
            "corrections": self._corrections,
        }  # fmt: skip

    def load_state_dict(self, data: StateDict) -> None:
        """Restore the state of a session that was created in the same way; raises if it is inconsistent."""
        self._policy.load_state_dict(data["policy"])
        self._ledger.load_state_dict(data["ledger"])
        self._diagnostics.load_state_dict(data["diagnostics"])
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
        stopped = bool(self.verdict.stop) and self._last_look == self._policy.samples
        return {"rule": self.rule.state_dict(), "next_look": int(self._next_look), "stopped": stopped}

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
        boolean(data["stopped"])
        self._attach()


def _collect(
    arms: Iterable[int], readings: Iterable[Reading | None], all_arms: list[int], all_readings: list[Reading]
) -> None:
    """Append arms and readings of a result to the lists, without components that were not read."""
    for arm, reading in zip(arms, readings, strict=True):
        if reading is not None:
            all_arms.append(arm)
            all_readings.append(reading)
