"""State of a campaign after some of its events.

Events record decisions: queries with their arms, results, and the state of a stopping rule after a look. Applying them
never chooses or looks again. Query i draws from the random stream (seed, i). What a policy has learnt on the way to its
choices (the weights of PEPS, cached facets) is as old as the last checkpoint when a campaign is opened: queries after
that may differ from those of an uninterrupted run; data, claims and the state of the rule do not.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from combopeps.campaign.checkpoint import pack, unpack
from combopeps.campaign.fingerprint import Own, reader
from combopeps.campaign.hands import Holder, check_holder, plain_hands, restored_hands
from combopeps.campaign.keys import Keys, keep, plain_keys, restored_keys
from combopeps.campaign.records import (
    check_header,
    check_options,
    check_record,
    plain_label,
    reading,
    readings_apart,
    whole,
)
from combopeps.campaign.rule_state import RuleState
from combopeps.campaign.store import Event
from combopeps.errors import ComboPepsError, ParameterError, StateFileError
from combopeps.forms import plain
from combopeps.instances.schema import from_document
from combopeps.policies.base import Policy
from combopeps.policies.history import History
from combopeps.policies.ledger import ActionQuery, Query, Reading
from combopeps.policies.pending import Pending
from combopeps.policies.registry import policy_class
from combopeps.problem import Problem
from combopeps.restore import Plain
from combopeps.restore import whole as restored_whole
from combopeps.run.look import View
from combopeps.stopping import StoppingRule, Verdict, stopping_rule
from combopeps.streams import Streams, named


class State:
    """A policy, its queries and results, and the stopping rule, after some events.

    It begins with the header; its problem or its oracle may be given where the log does not hold that. `hands` says who
    has which open query, `keys` what was observed with a key. Raises ValueError or `ComboPepsError` for a bad header.
    """

    def __init__(self, header: Event, problem: Problem | None = None, own: Own | None = None) -> None:
        check_header(header)
        check_options(header)
        self.problem = from_document(header["problem"], reader(own)).problem if problem is None else problem
        self.seed, self.stopping = header["seed"], header["stopping"]
        self.delta, self.epsilon = header["delta"], header.get("epsilon", 0.0)
        streams = Streams([named(self.seed, "policy")])
        self.policy: Policy = policy_class(header["policy"])(self.problem, streams=streams, sweep=header.get("sweep"))
        self.session = self.policy.ask_tell
        self.ledger = self.session.ledger
        rule = self._fresh_rule()
        rule.check_problem(self.problem)
        self._rule_state = RuleState(rule, self.problem) if rule.keeps_notes else None
        self._requests_measurements = rule.requests_measurements
        if rule.keeps_notes:
            rule.requests.follow(self.ledger)
        self._noise: list[float] = self.problem.noise.tolist()
        self._news, self._samples = History([], []), 0
        self._chosen: list[Query] = []  # that were chosen for a preview, and not asked yet
        self._looked = False  # since the last event, a rule that keeps state
        self._seen: tuple[View, Verdict] | None = None  # the last look of one that does not
        self.hands: dict[int, Holder] = {}
        self.keys: Keys = {}

    def apply(self, events: Sequence[tuple[int, Event]], *, own: bool = False) -> None:
        """Apply events; `own` if they record what this state has just chosen."""
        if events:
            self._chosen, self._looked, self._seen = [], False, None
        for number, event in events:
            try:
                self._apply(event, own)
            except StateFileError:
                raise
            except (ComboPepsError, ValueError) as cause:
                raise StateFileError(f"event {number}: {cause}", number) from None
        self._take_in()

    def plain(self) -> Plain | None:
        """Return everything as plain data, for a checkpoint; None where a policy or rule does not support it."""
        rule = None if self._rule_state is None else self._rule_state.plain()
        policy = self.policy.plain()
        if policy["memory"] is None or (rule is None) != (self._rule_state is None):
            return None
        return {
            "policy": policy, "session": self.session.plain(), "rule": rule, "samples": self._samples,
            "hands": plain_hands(self.hands), "keys": plain_keys(self.keys),
        }  # fmt: skip

    def restore(self, data: Plain) -> None:
        """Restore a checkpoint into a state that has just been made; any exception means that it does not fit."""
        self.policy.restore(data["policy"])
        self.session.restore(data["session"])
        self._samples = restored_whole(data["samples"])
        if self.problem.actions is None and self._samples != self.policy.samples:
            raise ValueError("measurements were counted in two ways")
        if self._rule_state is not None:
            self._rule_state.restore(data["rule"], self.ledger.open)
        self.hands = restored_hands(data["hands"], self.ledger.open)
        self.keys = restored_keys(data["keys"], len(self.problem.arms))

    def next_queries(self, n: int) -> list[Query]:
        """Choose the next n queries, without opening them."""
        if len(self._chosen) < n:
            self._chosen += self._choose(n - len(self._chosen), self._chosen, lambda: self.look(record=True)[1])
        return self._chosen[:n]

    def _choose(self, n: int, before: Sequence[Query], look: Callable[[], Verdict]) -> list[Query]:
        """Choose n queries after those that were chosen before: what a rule requests after its `look` comes first."""
        first = self.ledger.next_id + len(before)
        open_arms = self.session.open_arms + [arm for query in before for arm in query.parts]
        actions, queries = self.problem.actions, list[Query]()
        if actions is None:
            labels = self.problem.arms.labels
            arms = self.policy.swept(n, open_arms)
            queries = [Query(first + k, arm, labels[arm], self.problem.arms) for k, arm in enumerate(arms)]
            open_arms = open_arms + arms
        wanted: list[Any] = []
        if len(queries) < n and self._requests_measurements:
            taken = [arm for query in [*before, *queries] for arm in query.parts]
            requested = self.wanted(look(), taken)
            wanted = requested if actions is None else self.session.actions_for(requested, n)[0]
        pending = Pending(self.policy, open_arms)
        for i in range(first + len(queries), first + n):
            if actions is None:
                arm = wanted.pop(0) if wanted else pending.choose(partial(self._seed, i))
                queries.append(Query(i, arm, labels[arm], self.problem.arms))
            else:
                action = wanted.pop(0) if wanted else pending.choose_action(partial(self._seed, i))
                queries.append(self.session.query_for(action, i))
            pending.add(*queries[-1].parts)
        return queries

    def rule_event(self) -> Event:
        """The fields of an ask event that record the rule's state, if it has looked since the last event."""
        if not self._looked or self._rule_state is None:
            return {}
        plain = self._rule_state.plain()
        if plain is None:
            raise ParameterError(f'stopping "{self.stopping}" does not support campaigns: it has no state_dict')
        return {"rule": b64encode(pack(plain)).decode("ascii")}

    def wanted(self, verdict: Verdict, more: Sequence[int] = ()) -> list[int]:
        """Arms that the stopping rule wants measured, less those that somebody is measuring already, or `more`."""
        if verdict.sample_next is None:
            return []
        arms: list[int] = verdict.sample_next.tolist()
        return arms if self._rule_state is not None else self.session.unasked(arms, more)

    def look(self, record: bool = False) -> tuple[View, Verdict]:
        """Return the current view, and the verdict of the stopping rule.

        Looks depend on the data and on random numbers of (seed, samples) alone: samplers begin without cached facets. A
        rule that keeps state changes it only if the look is to be recorded with the next queries.
        """
        if self._seen is not None:
            return self._seen
        self.session.review()
        samples, rule = self.policy.samples, self._rule_state
        view = View(self.policy.viewer(), named(self.seed, "status", samples))
        if rule is None:
            self._seen = view, view.check(self._fresh_rule())
            return self._seen
        if self.policy.unswept or not rule.is_due(samples):
            return view, rule.standing(view)
        if record:
            self._looked = True
            return view, rule.look(view, samples)
        return view, rule.preview(view)

    def preview(self, verdict: Verdict) -> Any:
        """Return the label of the query that `next_queries` returns after this verdict, if nothing changes."""
        if self._chosen:
            return self._chosen[0].label
        chosen, rule = self._choose(1, (), lambda: verdict), self._rule_state
        if not self.wanted(verdict) and (rule is None or not rule.is_due(self.policy.samples)):
            self._chosen = chosen  # otherwise a rule looks when queries are asked for, and requests come first
        return chosen[0].label

    def _fresh_rule(self) -> StoppingRule:
        """Of the campaign, with no look behind it."""
        rule = stopping_rule(self.stopping, self.delta, self.epsilon)
        rule.lasting, rule.in_step = rule.keeps_notes, False
        return rule

    def _seed(self, query: int, policy: Policy) -> None:
        """Draw from the random stream of this query."""
        policy.streams.reseed([named(self.seed, "query", query)])

    def _apply(self, record: Event, own: bool) -> None:
        kind = check_record(record)
        if kind == "ask":
            if "rule" in record and not own:
                self._restore_rule(record["rule"])
            self._ask(record["queries"], check_holder(record))
        elif kind == "hand":
            self._hand(record["ids"], check_holder(record))
        elif kind == "abandon":
            if not whole(record["id"]):
                raise ValueError("an id is a whole number")
            given_up = self.ledger.find(record["id"])
            self.ledger.abandon(given_up)
            self.hands.pop(given_up.id, None)
        elif kind == "tell action":
            self._tell_action(record)
        else:
            arm = self._arm(record)
            said = reading(record, self._noise[arm], self.problem.noise_std is not None)
            if kind == "tell":
                query = self.ledger.open.get(record["id"]) if whole(record["id"]) else None
                if query is None or query.arm != arm:
                    raise ValueError(f"query {record['id']!r:.20} is not open, or was for another arm")
                self.ledger.close(query, said)
                self.hands.pop(query.id, None)
            elif "key" in record or "row" in record:
                keep(self.keys, record.get("key"), record.get("row"), (arm, said))
            self._news.add(arm, said)
            self._samples += said.count

    def _tell_action(self, record: Event) -> None:
        query, said = self.ledger.open.get(record["id"]) if whole(record["id"]) else None, dict[int, Reading | None]()
        for part in readings_apart(record):
            arm = self._arm(part)
            read = part["y"] is not None
            said[arm] = reading(part, self._noise[arm], self.problem.noise_std is not None) if read else None
        if not isinstance(query, ActionQuery) or len(record["arms"]) != len(said) or said.keys() != set(query.parts):
            raise ValueError(f"query {record['id']!r:.20} is not open, or was for an action with other parts")
        readings = tuple(said[part] for part in query.parts)
        self.ledger.close(query, readings)
        self.hands.pop(query.id, None)
        for arm, one in zip(query.parts, readings, strict=True):
            if one is not None:
                self._news.add(arm, one)
        self.policy.count_actions(query.action[None])

    def _hand(self, ids: Any, holder: Holder | None) -> None:
        if not isinstance(ids, list) or not ids or not all(whole(id) and id in self.ledger.open for id in ids):
            raise ValueError("queries that are handed to somebody are a list of numbers of open ones")
        assert holder is not None  # a line without a client has been refused
        self.hands.update(dict.fromkeys(ids, holder))

    def _restore_rule(self, data: Any) -> None:
        """The rule has looked, with all results so far."""
        if self._rule_state is None or not isinstance(data, str):
            raise ValueError(f'stopping "{self.stopping}" keeps no state')
        self._take_in()
        rule = self._fresh_rule()
        rule.check_problem(self.problem)
        self._rule_state.leave(self.ledger)
        self._rule_state = RuleState(rule, self.problem)
        self._rule_state.restore(unpack(b64decode(data, validate=True), any_code=True), self.ledger.open)
        rule.requests.follow(self.ledger)

    def _ask(self, queries: Any, holder: Holder | None) -> None:
        if not isinstance(queries, list) or not queries:
            raise ValueError("an ask has a list of queries")
        earliest, news = self.ledger.next_id, list[Query]()
        measured = "arm" if self.problem.actions is None else "action"
        for entry in queries:
            if not isinstance(entry, dict) or entry.keys() != {"id", measured, "label"} or not whole(entry["id"]):
                raise ValueError(f"a query has an id, an {measured} and a label")
            if entry["id"] < earliest:
                raise ValueError(f"query {entry['id']} exists already; numbers are never used twice")
            earliest = entry["id"] + 1
            news.append(self._asked(entry))
        for query in news:
            self.ledger.enter(query)
            if holder is not None:
                self.hands[query.id] = holder
            if self._rule_state is not None:
                self._rule_state.issue(query)

    def _asked(self, entry: Event) -> Query:
        if self.problem.actions is None:
            arm = self._arm(entry)
            return Query(entry["id"], arm, self.problem.arms.labels[arm], self.problem.arms)
        numbers, action = entry["action"], np.zeros(self.problem.actions.oracle.dim, dtype=bool)
        if not isinstance(numbers, list) or not all(whole(i) and i < len(action) for i in numbers):
            raise ValueError(f"an action is a list of numbers of components, got {numbers!r:.40}")
        action[numbers] = True
        query = self.session.query_for(action, entry["id"])
        if plain(query.label) != entry["label"] or numbers != np.flatnonzero(action).tolist():
            raise ValueError(f"action {numbers!r:.40} is not called {entry['label']!r:.40} in this problem")
        return query

    def _take_in(self) -> None:
        if self._news.arms:
            self.session.take_in(self._news)  # warned of when it was new
            self._news = History([], [])

    def _arm(self, record: Event) -> int:
        arm = record["arm"]
        if not whole(arm) or arm >= len(self._labels) or record["label"] != self._labels[arm]:
            raise ValueError(f"arm {arm!r:.20} is not called {record['label']!r:.40} in this problem")
        return int(arm)

    @cached_property
    def _labels(self) -> list[Any]:
        return [plain_label(label) for label in self.problem.arms.labels]
