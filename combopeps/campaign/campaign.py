"""`Campaign`: a session whose events are committed to a database before they are acknowledged."""

from __future__ import annotations

import gc
import getpass
import os
import platform
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import RLock, get_ident
from time import monotonic, time
from typing import Any

import numpy as np

from combopeps.alternatives.error_probability import check_epsilon
from combopeps.campaign import records
from combopeps.campaign.checkpoint import pack, unpack
from combopeps.campaign.fingerprint import Own
from combopeps.campaign.records import Decoder, Record
from combopeps.campaign.sqlite import SQLiteStore
from combopeps.campaign.store import Checkpoint, Cursor, Store, check_timeout, parsed, store_at
from combopeps.errors import ComboPepsError, OracleError, OracleMismatchError, ParameterError, StateFileError
from combopeps.io.instance import Instance
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.initial_design import initial_design_length
from combopeps.policies.registry import DEFAULT_POLICY
from combopeps.problem import Problem
from combopeps.session.events import Event, Looked, check_name
from combopeps.session.queries import Query
from combopeps.session.session import Session
from combopeps.utils.locks import is_lost, renew_after_fork
from combopeps.utils.validation import check_fraction

_RECENT = 1.0  # seconds for which only a few new events are expected
_ROUNDS, _FEW_EVENTS = 5, 1_000  # before the lock is taken: reads, until one finds no more than so many events
_CHECKPOINT_EVERY, _CHECKPOINT_SHARE = 1_000, 100  # events between two checkpoints: so many, or a hundredth of all


class Campaign(Session):
    """A session in a database, over days and processes.

    `Campaign.create(path, problem)` creates one, `Campaign.open(path)` continues it. Several processes and threads may
    use one at the same time: each operation first applies the events of the others, and readers never wait. Opening a
    campaign restores its data, its claims and the state of its stopping rule. What a policy has cached on the way to
    its choices may be lost, so that later queries can differ from those of an uninterrupted campaign.

    All methods of `Session`; results are durable when a method returns.

    Attributes
    ----------
    problem, policy, rule, delta, epsilon, seed
        As in `Session`.
    stopping, policy_name, initial design, versions, header
        As stored in the first event; initial design is 0 where none was asked for.
    store, timeout
        Where the events are, and how many seconds to wait for other writers.
    author
        Stored with every event that this object appends.

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

    look_first = True
    header: Record
    versions: dict[str, Any]
    policy_name: str
    stopping: str
    initial_design: int

    def __init__(self, store: Store, timeout: float = 10.0, own: Own | None = None, author: str | None = None) -> None:
        self.store, self.timeout = store, check_timeout(timeout)
        self.author = None if author is None else check_name("author", author)
        self._own = own  # the oracle, where the database does not hold it
        self._mutex = RLock()
        renew_after_fork(self)
        self._valid = False  # whether the state is that after `_cursor`; if not, it is read again
        self._cursor: Cursor | None = None
        self._read_at = -_RECENT
        self._is_pinned = False
        self._saved = 0  # number of the event of the last checkpoint
        self._group: list[Record] | None = None  # records of a group commit
        self._group_thread: int | None = None  # and the thread that makes it
        self._synchronise()

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | Store,
        problem: Instance | Problem | ArgmaxOracle,
        *,
        policy: str = DEFAULT_POLICY,
        stopping: str = "posterior",
        delta: float = 0.05,
        epsilon: float = 0.0,
        rng: int = 0,
        initial_design: bool | int | None = None,
        timeout: float = 10.0,
        author: str | None = None,
    ) -> Campaign:
        """Create a campaign in a new file or database.

        Parameters
        ----------
        path
            The file; an existing one is never overwritten. Or the URL of a campaign in a database, such as
            `sqlite:///runs.db#beans`, or a `Store` of your own.
        problem
            An instance, a problem or an oracle. The truth of an instance is not stored. Of an oracle that no instance
            file can hold the campaign keeps a fingerprint, and `open` requires the oracle.
        policy, stopping
            Names, as in `Session`. What "peps", "doubling-peps" and "lingame" learn from their own choices is stored in
            checkpoints only: see `save_checkpoint`.
        delta, epsilon, initial_design
            As in `Session`.
        rng
            Seed of all random numbers.
        timeout
            Seconds to wait for other processes, per operation that writes.
        author
            Stored with every event, as "by".
        """
        author = None if author is None else check_name("author", author)
        store, timeout, length = store_at(path), check_timeout(timeout), initial_design_length(initial_design)
        check_fraction("delta", delta)
        check_epsilon(epsilon)
        document, again, own = records.document_of(problem)
        seed = int(rng) if isinstance(rng, np.integer) else rng
        options = {"epsilon": float(epsilon)} if epsilon else {}
        options |= {"initial_design": length} if length else {}
        header = records.header(document, policy, float(delta), stopping, seed, **options)
        try:
            records.check_header(header)
            Session(again, **_options(header))  # what it refuses is refused before anything is stored
        except ComboPepsError:
            raise
        except ValueError as cause:
            raise ParameterError(str(cause)) from None
        store.create([header | _signature(author)])
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
        """Continue a campaign.

        Where it was created with an oracle of your own, pass that as `oracle`: it is compared with the fingerprint in
        the database (its components, and what its answers are worth at 16 thetas), and another one is refused with
        `OracleMismatchError`.
        """
        return cls(store_at(path), timeout, None if oracle is None else Own(oracle), author)

    @property
    def path(self) -> Path:
        """The file; a campaign in another store has none."""
        if not isinstance(self.store, SQLiteStore):
            raise AttributeError(f"a campaign in {self.store} has no path")
        return self.store.path

    @property
    def run_client(self) -> str | None:
        """A name for queries of a run: user and machine, for other people, and a random part."""
        return generated_client()

    def __repr__(self) -> str:
        return f"Campaign({str(self.store)!r}, {self.problem!r})"

    def __reduce__(self) -> tuple[Callable[[Store], Campaign], tuple[Store]]:
        """A copy, here or in another process, opens the same store."""
        oracle = None if self._own is None else self._own.oracle
        return partial(type(self).open, timeout=self.timeout, oracle=oracle, author=self.author), (self.store,)

    def after_fork(self) -> None:
        """In a child process: a state that another thread was changing is read again from the store."""
        if is_lost(self._mutex):
            self._mutex, self._valid, self._group, self._group_thread = RLock(), False, None, None

    def pin(self) -> None:
        """Refuse, from now on, another campaign that takes the place of this one in the store."""
        self._is_pinned = True

    def apply_together(self, operations: Sequence[Callable[[], Any]]) -> list[Any]:
        """Call operations on this campaign with one commit for all of them (group commit).

        Returns the result, or the exception, of each: an operation that is refused does not affect the others. If the
        commit fails, its error is raised, and nothing is recorded.
        """
        answers = list[Any]()
        with self._updating():
            self._group, self._group_thread = [], get_ident()
            try:
                for operation in operations:
                    answers.append(_outcome(operation))
                    if not self._valid:  # it failed in the middle of a change
                        break
                else:
                    new, self._group = self._group, None
                    self._append(new)
                    return answers
            finally:
                self._group_thread = None
                if self._group is not None:
                    self._group, self._valid = None, False
        return answers if len(operations) == 1 else [_outcome(operation) for operation in operations]

    def synchronised(self) -> Cursor:
        """Apply the events of other processes, and return the position of the last one."""
        with self._reading():
            assert self._cursor is not None
            return self._cursor

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """On an up-to-date state, without a lock of the store."""
        with self._mutex:
            self._synchronise()
            yield

    def _updating(self) -> AbstractContextManager[Any]:
        return self._mutex if self._group_thread == get_ident() else self._locked()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Under the lock of the store, on an up-to-date state. Many events are applied before the lock is taken."""
        with self._mutex:
            for _ in range(_ROUNDS if not self._valid or monotonic() - self._read_at > _RECENT else 0):
                if self._synchronise() <= _FEW_EVENTS:
                    break
            with self.store.locked(self.timeout):
                self._synchronise()
                yield

    def _commit(self, events: Sequence[Event]) -> None:
        """Apply events, and append their records.

        If anything fails, the state is read again before it is used. No events are a repetition, of what a process
        wrote that may have died before it was durable.
        """
        seen = self._warn_of(events)
        self._valid = False
        labels, signature = self.problem.arms.labels, _signature(self.author)
        if events and isinstance(events[0], Looked) and not self.rule.requests_measurements:
            events = events[1:]  # a rule without a state
        new = list[Record]()
        for event in events:  # a look comes first: the state of the rule is that after it, before the other events
            rule_state = self._rule_state() if isinstance(event, Looked) else None
            new += [record | signature for record in records.encode(event, labels, rule_state)]
        self._apply(events, seen)
        if self._group is not None:
            self._group += new
            self._valid = True
        else:
            self._append(new)

    def _warn_of(self, events: Sequence[Event], take_in: bool = False) -> bool:
        """Warn of new conflicts only: others may have been warned of by the process that recorded the results.

        In a group commit, conflicts are not warned of: the status has them.
        """
        return False if self._group is not None else super()._warn_of(events, take_in)

    def _append(self, new: list[Record]) -> None:
        self._valid = False
        assert self._cursor is not None
        self._cursor, self._read_at = self.store.append(new, self._cursor), monotonic()
        number = self._cursor.number
        if number - self._saved >= max(_CHECKPOINT_EVERY, number // _CHECKPOINT_SHARE):
            self._save_checkpoint()
        self._valid = True

    def _choose(self, n: int) -> list[Query]:
        self._valid = False  # a choice may change a policy: if it is not committed, the state is read again
        return super()._choose(n)

    def _look(self) -> None:
        valid, self._valid = self._valid, False
        super()._look()
        self._valid = valid and not self.rule.requests_measurements  # a rule with state must be committed

    def _synchronise(self) -> int:
        """Apply the events that are new in the store, and return their number."""
        if self._group is not None:
            return 0
        with _no_garbage_collection():
            if not self._valid and self._load_checkpoint():
                with suppress(Exception):  # applying all events shows whether they are to blame
                    return self._read_on(self._cursor)
                self._valid = False
            return self._read_on(self._cursor if self._valid else None)

    def _read_on(self, cursor: Cursor | None) -> int:
        page = self.store.read(cursor)
        events = page.events
        if cursor is not None and not page.restarted and not events:
            self._valid, self._read_at = True, monotonic()
            return 0
        self._valid = False
        if cursor is None or page.restarted:
            if not events:
                raise StateFileError(f"{self.store} has no events; delete it, and create a new campaign")
            self._restart(events[0][1])
            events, self._saved = events[1:], 0
        try:
            self._apply(self._decoder.decode([record for _, record in events]))
        except (ComboPepsError, ValueError) as cause:
            number = self._event + 1
            raise StateFileError(f"{self.store}, event {number}: {cause}", number) from None
        self._cursor, self._read_at, self._valid = page.end, monotonic(), True
        return len(page.events)

    def _restart(self, header: Record) -> None:
        """Create the state after the first event."""
        if self._is_pinned and header != self.header:
            raise StateFileError(f"{self.store}, event 1: another campaign took the place of this one", 1)
        with _reading_header(self.store):
            super().__init__(records.problem_of(header, self._own), **_options(header))
        self.header, self.versions = header, header["versions"]
        self.policy_name, self.stopping = str(header["policy"]), str(header["stopping"])
        self.initial_design = header.get("initial_design", 0)
        self._decoder = Decoder(self.problem, self._queries, self._ledger)

    def _load_checkpoint(self) -> bool:
        """Restore the last checkpoint; False if there is none, or it does not fit for whatever reason."""
        try:
            saved = self.store.checkpoint()
            if saved is None:
                return False
            data = unpack(saved.data)
            self._restart(data["header"])
            self.load_state_dict(data["state"])
        except Exception:  # bytes may say anything; what the events are to blame for, they will show
            return False
        self._cursor, self._saved = saved.cursor, saved.cursor.number
        return True

    def save_checkpoint(self) -> None:
        """Store the state now, with what the policy has learnt from its choices.

        Checkpoints are stored after every 1,000 events, or a hundredth of all. A script that opens the campaign for
        each query, with a policy that `learns_from_choices`, calls this before it ends: otherwise the policy begins
        anew each time. It does nothing while another process writes.
        """
        with self._reading():
            self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        """Store a checkpoint; if that fails, the events are recorded all the same."""
        assert self._cursor is not None
        self._saved = self._cursor.number  # also if it fails: it is not tried again at once
        with suppress(Exception):
            data = pack({"header": self.header, "state": self.state_dict()})
            self.store.save_checkpoint(Checkpoint(self._cursor, data))


def _outcome(operation: Callable[[], Any]) -> Any:
    try:
        return operation()
    except Exception as error:
        return error


def session_of(store: Store, text: bytes, own: Own | None) -> Session:
    """Return the session in memory that the text of a header describes, before its first event."""
    with _reading_header(store):
        header = parsed(text)
        return Session(records.problem_of(header, own), **_options(header))


def replayed(session: Session, new: Sequence[Record], first: int) -> Session:
    """Apply records, of events from this number on, to a session in memory."""
    session._event = first - 1
    session._apply(Decoder(session.problem, session._queries, session._ledger).decode(new))
    return session


@contextmanager
def _reading_header(store: Store) -> Iterator[None]:
    """Name the store, and its first event, in errors."""
    try:
        yield
    except OracleError:  # of the user's own oracle: the database is not to blame
        raise
    except OracleMismatchError as cause:
        raise OracleMismatchError(f"{store}: {cause}", cause.differs) from None
    except (ComboPepsError, ValueError) as cause:
        raise StateFileError(f"{store}, event 1: {cause}", 1) from None


def _options(header: Record) -> dict[str, Any]:
    """Arguments of the session that a header describes."""
    return {
        "policy": header["policy"], "stopping": header["stopping"], "delta": header["delta"],
        "epsilon": header.get("epsilon", 0.0), "rng": header["seed"], "initial_design": header.get("initial_design"),
    }  # fmt: skip


def _signature(author: str | None) -> Record:
    """Time and author of an event."""
    return {"at": round(time(), 3)} | ({} if author is None else {"by": author})


def generated_client() -> str:
    """Return a name for a client: user and machine, and a random part."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no name for this user id
        user = "user"
    return f"{user[:20]}@{platform.node()[:30]}-{secrets.token_hex(4)}"


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """None of the records read is garbage, and searching for some takes as long as reading."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
