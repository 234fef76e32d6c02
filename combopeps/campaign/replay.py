"""What the lines of a state file add up to.

The random numbers of query i come from (seed, i) alone, and samplers begin without memories. So the state after any
line is a function of the lines up to it, the next query is a function of the state (open queries count as if they had
been answered as expected), and reading a file leaves nothing to re-run: sums per arm, and the book of queries. Only for
policies with a memory of their own (PEPS: its learner) every choice is made again, by the queries that were open then,
and a rule that keeps notes looks again where it looked before (`notes`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from combopeps.actions import Mask
from combopeps.campaign.fingerprint import Own, reader
from combopeps.campaign.hands import Holder, check_holder, plain_hands, restored_hands
from combopeps.campaign.keys import Keys, keep, plain_keys, restored_keys
from combopeps.campaign.notes import Notes
from combopeps.campaign.records import (
    check_header,
    check_options,
    check_record,
    plain_label,
    reading,
    readings_apart,
    whole,
)
from combopeps.campaign.storage import Record
from combopeps.errors import ComboPepsError, StateFileError
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
    """A policy, and its asking and telling (`session`), after some lines.

    `hands` says who has which open query, `keys` what was observed with a key.
    It begins after the header, whose problem may be at hand, or its oracle where the file does not hold that;
    ValueError or `ComboPepsError` if that is wrong.
    """

    def __init__(self, header: Record, problem: Problem | None = None, own: Own | None = None) -> None:
        check_header(header)
        check_options(header)
        self.problem = from_document(header["problem"], reader(own)).problem if problem is None else problem
        self.seed, self.stopping = header["seed"], header["stopping"]
        self.delta, self.epsilon = header["delta"], header.get("epsilon", 0.0)
        streams = Streams([named(self.seed, "policy")])
        self.policy: Policy = policy_class(header["policy"])(self.problem, streams=streams, sweep=header.get("sweep"))
        rule = self._fresh_rule()
        rule.check_problem(self.problem)
        self._notes = Notes(rule, self.problem) if rule.keeps_notes else None
        self._requests_measurements = rule.requests_measurements
        self.session = self.policy.ask_tell
        self.ledger = self.session.ledger
        if rule.keeps_notes:
            rule.requests.follow(self.ledger)
        self._noise: list[float] = self.problem.noise.tolist()
        self._news, self._samples = History([], []), 0
        self.hands: dict[int, Holder] = {}
        self.keys: Keys = {}

    def apply(self, records: Sequence[tuple[int, Record]], *, chosen: bool = False) -> None:
        """Take lines in; `chosen` if the queries of an ask are those that `choose` has just returned."""
        for line, record in records:
            try:
                self._apply(record, chosen)
            except StateFileError:
                raise
            except (ComboPepsError, ValueError) as cause:
                raise StateFileError(f"line {line}: {cause}", line) from None
        self._take_in()

    def plain(self) -> Plain | None:
        """All that the lines so far add up to, as plain data; None where some of it cannot be given so.

        What else a state comes to hold, its own data or another's, is given here and taken back in `restore`.
        """
        notes = None if self._notes is None else self._notes.plain()
        policy = self.policy.plain()
        if policy["memory"] is None or (notes is None) != (self._notes is None):
            return None
        return {
            "policy": policy, "session": self.session.plain(), "notes": notes, "samples": self._samples,
            "hands": plain_hands(self.hands), "keys": plain_keys(self.keys),
        }  # fmt: skip

    def restore(self, data: Plain) -> None:
        """Take that back after the header. ValueError, or what Python says, if it does not fit: then make a new one."""
        self.policy.restore(data["policy"])
        self.session.restore(data["session"])
        self._samples = restored_whole(data["samples"])
        if self.problem.actions is None and self._samples != self.policy.samples:
            raise ValueError("measurements were counted in two ways")
        if self._notes is not None:
            self._notes.restore(data["notes"], self.ledger.open)
        self.hands = restored_hands(data["hands"], self.ledger.open)
        self.keys = restored_keys(data["keys"], len(self.problem.arms))

    @property
    def is_costly(self) -> bool:
        """Do lines take long to go through, because choices or looks are made again?"""
        return not self.policy.memoryless or self._notes is not None

    def choose(self, n: int) -> list[tuple[int, int, Any]]:
        """Id, arm and label of the next n queries; the ledger does not know them yet."""
        first, labels, open_arms = self.ledger.next_id, self.problem.arms.labels, self.session.open_arms
        arms = self.policy.swept(n, open_arms)
        wanted: list[int] = []
        if len(arms) < n and self._requests_measurements:
            wanted = self.wanted(self.look(noted=True)[1], arms)[: n - len(arms)]
        pending = Pending(self.policy, open_arms + arms)
        for i in range(first + len(arms), first + n):
            arm = self._arm_for(pending, i)  # for a policy's memory, even if unused
            arms.append(wanted.pop(0) if wanted else arm)
            pending.add(arms[-1])
        return [(first + k, arm, labels[arm]) for k, arm in enumerate(arms)]

    def next_queries(self, n: int) -> list[Query]:
        """The next n queries; the ledger does not know them yet."""
        if self.problem.actions is None:
            return [Query(*entry, self.problem.arms) for entry in self.choose(n)]
        wanted = list[Mask]()
        if self._requests_measurements:
            wanted = self.session.actions_for(self.wanted(self.look()[1]), n)[0]
        pending, queries = Pending(self.policy, self.session.open_arms), list[Query]()
        for i in range(self.ledger.next_id, self.ledger.next_id + n):
            action = self._action_for(pending, i)  # for a policy's memory, even if unused
            queries.append(self.session.query_for(wanted.pop(0) if wanted else action, i))
            pending.add(*queries[-1].parts)
        return queries

    def wanted(self, verdict: Verdict, more: Sequence[int] = ()) -> list[int]:
        """Arms that the stopping rule wants measured, less those that somebody is measuring already, or `more`."""
        if verdict.sample_next is None:
            return []
        arms: list[int] = verdict.sample_next.tolist()
        return arms if self._notes is not None else self.session.unasked(arms, more)

    def look(self, noted: bool = False) -> tuple[View, Verdict]:
        """The campaign as it stands, and the stopping rule's verdict.

        Every look takes a fresh rule, with random numbers that depend on the seed and the number of measurements alone.
        A rule that keeps notes does so when queries are asked for (`noted`).
        """
        self.policy.forget()
        self.session.review()
        samples, notes = self.policy.samples, self._notes
        view = View(self.policy, named(self.seed, "status", samples))
        if notes is None:
            return view, view.check(self._fresh_rule())
        if self.policy.unswept or not notes.is_due(samples):
            return view, notes.standing(view)
        return view, notes.look(view, samples) if noted else notes.preview(view)

    def preview(self, verdict: Verdict) -> Any:
        """The label of the next query after this verdict, without asking for it."""
        policy, open_arms = self.policy, self.session.open_arms
        if not policy.memoryless:
            policy = copy.deepcopy(
                policy, {id(same): same for same in (self.problem, self.problem.oracle, self.session)}
            )
        if self.problem.actions is not None:
            actions = self.session.actions_for(self.wanted(verdict), 1)[0]
            actions = actions or [self._action_for(Pending(policy, open_arms), self.ledger.next_id)]
            return self.problem.actions.label(actions[0])
        known = policy.swept(1, open_arms) or self.wanted(verdict)
        if known:
            return self.problem.arms.labels[known[0]]
        return self.problem.arms.labels[self._arm_for(Pending(policy, open_arms), self.ledger.next_id)]

    def _fresh_rule(self) -> StoppingRule:
        """Of the campaign, with no look behind it."""
        rule = stopping_rule(self.stopping, self.delta, self.epsilon)
        rule.lasting, rule.in_step = rule.keeps_notes, False
        return rule

    def _arm_for(self, pending: Pending, query: int) -> int:
        """Choose with the random numbers of this query, whatever happened before."""
        return pending.choose(partial(self._prepare, query))

    def _action_for(self, pending: Pending, query: int) -> Mask:
        """The same, where measurements are actions."""
        return pending.choose_action(partial(self._prepare, query))

    def _prepare(self, query: int, policy: Policy) -> None:
        policy.forget()
        policy.streams.reseed([named(self.seed, "query", query)])

    def _apply(self, record: Record, chosen: bool) -> None:
        kind = check_record(record)
        if kind == "ask":
            self._ask(record["queries"], chosen, check_holder(record))
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

    def _tell_action(self, record: Record) -> None:
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

    def _ask(self, queries: Any, chosen: bool, holder: Holder | None) -> None:
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
        if not self.policy.memoryless:  # its choice needs what was measured before
            self._take_in()
            if not chosen:
                self._choose_again(news)
        if self._notes is not None and not chosen and self._notes.is_due(self._samples):
            self._take_in()
            self.look(noted=True)
        for query in news:
            self.ledger.enter(query)
            if holder is not None:
                self.hands[query.id] = holder
            if self._notes is not None:
                self._notes.issue(query)

    def _choose_again(self, queries: Sequence[Query]) -> None:
        """As when these queries were chosen, for what the policy learnt by that."""
        open_arms, actions = self.session.open_arms, self.problem.actions
        swept = len(self.policy.swept(len(queries), open_arms)) if actions is None else 0
        pending = Pending(self.policy, open_arms + [query.arm for query in queries[:swept]])
        for query in queries[swept:]:
            if actions is None:
                self._arm_for(pending, query.id)
            else:
                self._action_for(pending, query.id)
            pending.add(*query.parts)

    def _asked(self, entry: Record) -> Query:
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

    def _arm(self, record: Record) -> int:
        arm = record["arm"]
        if not whole(arm) or arm >= len(self._labels) or record["label"] != self._labels[arm]:
            raise ValueError(f"arm {arm!r:.20} is not called {record['label']!r:.40} in this problem")
        return int(arm)

    @cached_property
    def _labels(self) -> list[Any]:
        return [plain_label(label) for label in self.problem.arms.labels]
