"""`Campaign`: ask and tell over days and processes, on one store."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from pathlib import Path
from time import time
from typing import Any, overload

import numpy as np

from combopeps.belief import GaussianBelief
from combopeps.campaign import records
from combopeps.campaign.fingerprint import Own
from combopeps.campaign.hands import Holder, check_name, check_patience, deadline, handed
from combopeps.campaign.keys import unrecorded
from combopeps.campaign.sqlite import SQLiteStore
from combopeps.campaign.state import State
from combopeps.campaign.store import Event, Store, check_timeout, store_at
from combopeps.campaign.sync import Synced, uncollected
from combopeps.errors import ComboPepsError, ParameterError, QueryError
from combopeps.instances import Instance
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Policy
from combopeps.policies.history import history_told
from combopeps.policies.ledger import Ledger, Query, check_results
from combopeps.policies.recommendation import Leader
from combopeps.policies.registry import DEFAULT
from combopeps.policies.sweep import sweep_length
from combopeps.problem import Problem
from combopeps.risk import check_epsilon
from combopeps.run.for_campaign import measure_for
from combopeps.run.result import Result
from combopeps.run.status import Status
from combopeps.tables import Observed
from combopeps.tables.rows import read_rows
from combopeps.tables.written import as_label
from combopeps.validation import MOST_QUERIES, check_count, check_fraction


class Campaign(Synced):
    """A run whose events are committed to a database before they are acknowledged.

    `Campaign.create(path, problem)` creates one, `Campaign.open(path)` continues it. Several processes and threads may
    use one at the same time: each operation first applies the events of the others, and readers never wait. Opening a
    campaign restores its data, its claims and the state of its stopping rule. What a policy has cached on the way to
    its choices may be lost, so that later queries can differ from those of an uninterrupted campaign.

    Attributes
    ----------
    problem, policy, delta, epsilon, stopping, seed, sweep, versions
        As in the file's header; sweep is 0 where none was asked for.
    store, timeout
        Where the events are, and how many seconds to wait for others that write there.
    author
        Who works with this object; stored with every event that it appends.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import TopKOracle
    >>> path = tempfile.mkdtemp() + "/beans.db"
    >>> campaign = Campaign.create(path, TopKOracle(["a", "b", "c"], k=1))
    >>> query = campaign.ask()
    >>> again = Campaign.open(path)  # the next day
    >>> again.open_queries == [query]
    True
    >>> again.tell(query.id, 1.5)
    >>> campaign.status().samples
    1
    """

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | Store,
        problem: Instance | Problem | ArgmaxOracle,
        *,
        policy: str = DEFAULT,
        delta: float = 0.05,
        epsilon: float = 0.0,
        seed: int = 0,
        stopping: str = "posterior",
        sweep: bool | int | None = None,
        timeout: float = 10.0,
        author: str | None = None,
    ) -> Campaign:
        """Begin a campaign in a new file.

        Parameters
        ----------
        path
            The file; an existing one is never overwritten. Or the URL of a campaign in a database, such as
            `sqlite:///runs.db#beans`, or a `Store` of your own.
        problem
            An instance, a problem or an oracle. The truth of an instance is not stored. Of an oracle that no instance
            file can hold the campaign keeps a fingerprint, and `open` wants the oracle. With actions, queries are for
            whole actions.
        policy
            By name. What a policy such as "peps" has learnt from its own choices is stored in checkpoints only.
        delta, stopping
            When to stop: "posterior" when the posterior probability of being wrong is at most delta, "certified" or
            "verified" for a frequentist guarantee (they also choose what to measure in the end), "heuristic" without
            one.
        epsilon
            Accept an answer that is at most so much worse than the best: being wrong is then to be worse by more.
        seed
            Of all random numbers.
        sweep
            Ask for every arm so many times (True: once) before the policy chooses, in an order that the seed decides;
            what was measured before, or is asked for already, counts.
        timeout
            Seconds to wait for other processes, per operation that writes.
        author
            Stored with every event, as "by".
        """
        check_fraction("delta", delta)
        check_epsilon(epsilon)
        signed = {"at": round(time(), 3)} | ({} if author is None else {"by": check_name("author", author)})
        store, timeout, length = store_at(path), check_timeout(timeout), sweep_length(sweep)
        document, again, own = records.document_of(problem)
        whole_seed = int(seed) if isinstance(seed, np.integer) else seed
        options = {"epsilon": float(epsilon)} if epsilon else {}
        options |= {"sweep": length} if length else {}
        header = records.header(document, policy, float(delta), stopping, whole_seed, **options)
        try:
            State(header, again)  # what it refuses is refused before anything is stored
        except ComboPepsError:
            raise
        except ValueError as cause:
            raise ParameterError(str(cause)) from None
        store.create([header | signed])
        return cls(store, timeout, own, author)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | Store,
        *,
        oracle: ArgmaxOracle | None = None,
        timeout: float = 10.0,
        author: str | None = None,
    ) -> Campaign:
        """Go on with a campaign.

        Where it was begun with an oracle of your own, bring that as `oracle`: it is compared with the fingerprint in
        the file (its components, and what its answers are worth at 16 thetas), and another one is refused with
        `OtherOracleError`.
        """
        return cls(store_at(path), timeout, None if oracle is None else Own(oracle), author)

    @property
    def path(self) -> Path:
        """The file; a campaign in another store has none."""
        if not isinstance(self.store, SQLiteStore):
            raise AttributeError(f"a campaign in {self.store} has no path")
        return self.store.path

    def __repr__(self) -> str:
        return f"Campaign({str(self.store)!r}, {self.problem!r})"

    def __reduce__(self) -> tuple[Callable[[Store], Campaign], tuple[Store]]:
        """A copy, here or in another process, opens the same store."""
        oracle = None if self._own is None else self._own.oracle
        return partial(type(self).open, timeout=self.timeout, oracle=oracle, author=self.author), (self.store,)

    @overload
    def ask(self, *, client: str | None = None, patience: float | None = None) -> Query: ...
    @overload
    def ask(self, n: int, *, client: str | None = None, patience: float | None = None) -> list[Query]: ...
    def ask(
        self, n: int | None = None, *, client: str | None = None, patience: float | None = None
    ) -> Query | list[Query]:
        """The next measurement to make, or n at once; on the disk before it is returned.

        With a `client`, a name of up to 64 characters, the same one asking again gets its open queries back, oldest
        first. After `patience` seconds they may be handed to others who ask; whoever tells first is heard. Asking again
        when more than half of them is over sets a new deadline. Who has a query makes no difference to which one comes
        next.
        """
        if n is not None:
            check_count("n", n, MOST_QUERIES)
        client = None if client is None else check_name("client", client)
        patience = check_patience(patience, client)
        with self._writing() as state:
            queries, lines, holder = list[Query](), list[Event](), None
            if client is not None:
                holder = Holder(client, deadline(patience))
                queries, over = handed(state.ledger.open, state.hands, client, n or 1, patience)
                lines += [records.hand(over, holder)] if over else []
            more = (n or 1) - len(queries)
            if more:
                self._state = None  # a choice may change a policy's memory: if it fails, or is not written, read again
                new = state.next_queries(more)
                queries += new
                lines.append(records.ask(new, holder, **state.rule_event()))
            self._append(state, lines, own=True)
        return queries if n is not None else queries[0]

    def tell(self, query: Query | int, y: Any, sem: float | None = None) -> None:
        """The result of a query, itself or its id; on the disk when this returns. A repetition is harmless.

        With `sem`, the standard error of this very measurement, that takes the place of the arm's noise. Of an action,
        y holds a result for each of `query.components`, as in `Policy.tell`.
        """
        self.tell_many([(query, y, sem)])

    def tell_many(self, results: Iterable[tuple[Any, ...]]) -> None:
        """Several results (query, y) or (query, y, sem) with one wait for the disk; all checked before one is taken."""
        said = check_results(results)
        with self._writing() as state:
            found = [(self._find(state, query), *rest) for query, *rest in said]
            news = state.ledger.news([(query, state.session.read(query, *rest)) for query, *rest in found])
            told = history_told(news)
            state.session.warn_of(told.arms, told.readings)
            self._append(state, [records.tell(query, reading) for query, reading in news])

    def observe(
        self, label: Hashable, y: float, sem: float | None = None, count: int = 1, *, key: str | None = None
    ) -> None:
        """A measurement that no query asked for, by the arm's label, or the mean of `count`.

        With `sem`, the standard error of y. Said twice, it counts twice, unless it has a `key`, a text of up to 64
        characters: with the same one, a repetition is harmless. Give all results there are: if some were left out
        because of what they say, no claim holds.
        """
        key = None if key is None else check_name("key", key)
        with self._writing() as state:
            arm = state.session.arm_of(as_label(label))
            reading = state.session.check(arm, y, sem, count)
            if key is not None and not unrecorded(state.keys, key, [(arm, reading)]):
                self._append(state, [])
                return
            state.session.warn_of([arm], [reading])
            self._append(state, [records.observe(arm, self.problem.arms.labels[arm], reading, key)])

    def observe_table(self, rows: Any, *, key: str | None = None) -> Observed:
        """Measurements that no query asked for, from a table: as in `Policy.observe_table`, and on the disk.

        All of them are recorded or none, also if the machine dies meanwhile. Said twice, they count twice, unless they
        have a `key`, as in `observe`; another table with the same key is refused.
        """
        table, key = read_rows(rows), None if key is None else check_name("key", key)
        with self._writing() as state, uncollected():
            history, observed = state.session.history(table)
            rows, places = list(zip(history.arms, history.readings, strict=True)), range(len(history.arms))
            news = places if key is None else unrecorded(state.keys, key, rows)
            state.session.warn_of([rows[at][0] for at in news], [rows[at][1] for at in news])
            lines = records.observations(history, self.problem.arms.labels, key)
            self._append(state, [lines[at] for at in news])
        return observed

    def abandon(self, query: Query | int) -> None:
        """Close a query that will never be answered; one that is abandoned because of its result voids every claim."""
        with self._writing() as state:
            found = self._find(state, query)
            state.ledger.require_open(found)
            self._append(state, [records.abandon(found)])

    @property
    def open_queries(self) -> list[Query]:
        """Queries that wait for a result."""
        with self._reading() as state:
            return state.policy.open_queries

    @property
    def holders(self) -> dict[int, Holder]:
        """Who has which of the open queries, by their ids, and until when; those of nobody are not in it."""
        with self._reading() as state:
            return state.hands.copy()

    @property
    def samples(self) -> int:
        """Measurements so far."""
        with self._reading() as state:
            return state.policy.samples

    @property
    def actions(self) -> int | None:
        """Actions measured so far; None where measurements are single."""
        with self._reading() as state:
            return state.policy.actions_made

    @property
    def belief(self) -> GaussianBelief:
        """What the measurements say about theta: a copy."""
        with self._reading() as state:
            return state.policy.belief.copy()

    def leaders(self, n: int = 10) -> list[Leader]:
        """Up to n answers that may be the best, with their posterior probabilities: the list of `status`, or more."""
        check_count("n", n)
        with self._reading() as state:
            view, verdict = state.look()
            return view.recommend(verdict.z, self.epsilon, n).leaders

    def learnt(self) -> Policy:
        """A policy that has learnt everything measured so far: a copy, which goes its own way."""
        with self._reading() as state:
            shared: list[Any] = [self.problem, self.problem.oracle, self.problem.arms, self.problem.signal]
            known: dict[int, Any] = {id(same): same for same in shared}
            known[id(state.ledger)] = Ledger(self.problem.arms)  # queries stay with the campaign
            return copy.deepcopy(state.policy, known)

    def run(
        self,
        measure: Callable[[Any], Any],
        *,
        client: str | None = None,
        budget: int | None = None,
        budget_cost: float | None = None,
        batch_size: int = 1,
        progress: bool = False,
        callback: Callable[[Any, Query, Any], None] | None = None,
    ) -> Result:
        """Measure for this campaign, maybe beside other clients, until its status says stop.

        The status is checked whenever the campaign has grown by a tenth or so. What `measure` returned is told whatever
        happens next; if even that fails, it is in the attribute `untold` of the exception, for `tell_many`. A result
        whose query another client has closed meanwhile is recorded as an observation. The result is about all
        measurements of the campaign.

        Parameters
        ----------
        measure, budget, budget_cost, batch_size, progress
            As in `identify`; budgets are for this call.
        client
            The name under which the campaign keeps the queries of this call. A later call with the same name continues
            with those that were left open; without a name they are abandoned when this call ends.
        callback
            Called after each measurement with the campaign, the query and the result.
        """
        return measure_for(
            self, measure, client=client, budget=budget, budget_cost=budget_cost, batch_size=batch_size,
            progress=progress, callback=callback,
        )  # fmt: skip

    def status(self) -> Status:
        """Where the campaign stands; changes nothing."""
        with self._reading() as state:
            view, verdict = state.look()
            return Status(
                **vars(view.recommend(verdict.z, self.epsilon)), delta=self.delta, epsilon=self.epsilon,
                stop=verdict.stop, claim=verdict.claim, samples=state.policy.samples, pulls=view.pulls,
                open_queries=state.policy.open_queries, next=state.preview(verdict),
                warning=state.session.warning, noise_estimate=state.policy.noise_estimate,
                actions=state.policy.actions_made, holders=state.hands.copy(), cost=float(state.policy.spent[0]),
            )  # fmt: skip

    def _find(self, state: State, query: Query | int) -> Query:
        if isinstance(query, Query):
            return query
        if isinstance(query, bool) or not isinstance(query, (int, np.integer)):
            raise QueryError(f"a query, or its number, is wanted, got {query!r:.40}")
        return state.ledger.find(int(query))
