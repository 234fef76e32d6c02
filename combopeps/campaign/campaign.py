"""`Campaign`: a session whose events are committed to a database before they are acknowledged."""

from __future__ import annotations

import gc
import getpass
import os
import platform
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from combopeps.campaign.custom_oracle import CustomOracle
from combopeps.campaign.open_store import store_at
from combopeps.campaign.records import Decoder, Record
from combopeps.campaign.sql_store import parse_event
from combopeps.campaign.sqlite import SQLiteStore
from combopeps.campaign.store import Checkpoint, Cursor, Store, check_timeout
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

_MAX_READ_AGE = 1.0  # seconds after a read for which only a few new events are expected
_MAX_PRELIMINARY_READS = 5  # before the lock is taken
_MAX_LOCKED_EVENTS = 1_000  # new events that may remain to be applied under the lock
_MIN_CHECKPOINT_GAP = 1_000  # events between two checkpoints,
_CHECKPOINT_FRACTION = 100  # or 1/100 of all events if that is more


class Campaign(Session):
    """A session whose events are stored in a database.

    `Campaign.create(path, problem)` creates one, `Campaign.open(path)` continues it. Several processes and threads may
    use one at the same time: each operation first applies the events of the others, and readers never wait. Opening a
    campaign restores its data, its claims and the state of its stopping rule. State that a policy has cached while it
    chose queries may be lost, so that later queries can differ from those of an uninterrupted campaign.

    It has all methods of `Session`; results are durable when a method returns.

    Attributes
    ----------
    problem, policy, rule, delta, epsilon, seed
        As in `Session`.
    stopping, policy_name, initial design, versions, header
        As stored in the first event; initial design is 0 without an initial design.
    store, timeout
        The store of the events, and the seconds to wait for other writers.
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

    def __init__(
        self, store: Store, timeout: float = 10.0, custom: CustomOracle | None = None, author: str | None = None
    ) -> None:
        self.store, self.timeout = store, check_timeout(timeout)
        self.author = None if author is None else check_name("author", author)
        self._custom = custom  # the oracle, if the database cannot hold it
        self._mutex = RLock()
        renew_after_fork(self)
        self._is_valid = False  # whether the state is that after `_cursor`; if not, it is restored from the store
        self._cursor: Cursor | None = None
        self._read_at = -_MAX_READ_AGE
        self._is_pinned = False
        self._checkpoint_at = 0  # number of the event of the last checkpoint
        self._group: list[Record] | None = None  # records of the group commit under way
        self._group_thread: int | None = None  # the thread that makes it
        self._apply_new_events()

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
            The file, which must not exist; or the URL of a campaign in a database, such as `sqlite:///runs.db#beans`;
            or a user-defined `Store`.
        problem
            An instance, a problem or an oracle. The theta of an instance is not stored. If instance files cannot hold
            the oracle, the campaign stores a fingerprint of it, and `open` requires the oracle.
        policy, stopping
            Names, as in `Session`. What "peps", "doubling-peps" and "lingame" learn from their choices is stored in
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
        document, stored, custom = records.encode_problem(problem)
        seed = int(rng) if isinstance(rng, np.integer) else rng
        options = {"epsilon": float(epsilon)} if epsilon else {}
        options |= {"initial_design": length} if length else {}
        header = records.header(document, policy, float(delta), stopping, seed, **options)
        try:
            records.check_header(header)
            Session(stored, **_options(header))  # validates the options before anything is stored
        except ComboPepsError:
            raise
        except ValueError as cause:
            raise ParameterError(str(cause)) from None
        store.create([header | _signature(author)])
        return cls(store, timeout, custom, author)

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

        Parameters
        ----------
        path
            The file, the URL of a campaign in a database, or a `Store`.
        oracle
            The oracle, if the campaign was created with a user-defined one. It is compared with the fingerprint in the
            database: its components, and the values of its answers at 16 thetas.
        timeout, author
            As in `create`.

        Raises
        ------
        OracleMismatchError
            If the oracle differs from that of the campaign, or is missing.
        """
        return cls(store_at(path), timeout, None if oracle is None else CustomOracle(oracle), author)

    @property
    def path(self) -> Path:
        """The path of the file; `AttributeError` for a campaign in another store."""
        if not isinstance(self.store, SQLiteStore):
            raise AttributeError(f"a campaign in {self.store} has no path")
        return self.store.path

    @property
    def run_client(self) -> str | None:
        """Name of the client under which a run holds queries: user, machine and a random part."""
        return generated_client()

    def _summary(self) -> Mapping[str, Any]:
        return {"store": str(self.store), **super()._summary()}

    def __reduce__(self) -> tuple[Callable[[Store], Campaign], tuple[Store]]:
        """Pickle the store and the options: a copy, here or in another process, opens the same store."""
        oracle = None if self._custom is None else self._custom.oracle
        return partial(type(self).open, timeout=self.timeout, oracle=oracle, author=self.author), (self.store,)

    def after_fork(self) -> None:
        """In a child process, restore a state that another thread was changing from the store."""
        if is_lost(self._mutex):
            self._mutex, self._is_valid, self._group, self._group_thread = RLock(), False, None, None

    def pin(self) -> None:
        """Raise `StateFileError` in later operations if the store holds another campaign by then."""
        self._is_pinned = True

    def commit_group(self, operations: Sequence[Callable[[], Any]]) -> list[Any]:
        """Call operations on this campaign with one commit for all of them (group commit).

        Return the result, or the exception, of each: an operation that raises does not affect the others. If the commit
        fails, its error is raised, and nothing is recorded.
        """
        outcomes = list[Any]()
        with self._updating():
            self._group, self._group_thread = [], get_ident()
            try:
                for operation in operations:
                    outcomes.append(_outcome(operation))
                    if not self._is_valid:  # it failed during a change
                        break
                else:
                    new, self._group = self._group, None
                    self._append(new)
                    return outcomes
            finally:
                self._group_thread = None
                if self._group is not None:
                    self._group, self._is_valid = None, False
        # The state was lost during a change: execute each operation with a commit of its own.
        return outcomes if len(operations) == 1 else [_outcome(operation) for operation in operations]

    def synchronise(self) -> Cursor:
        """Apply the events of other processes, and return the position of the last one."""
        with self._reading():
            assert self._cursor is not None
            return self._cursor

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read the current state, without a lock of the store."""
        with self._mutex:
            self._apply_new_events()
            yield

    def _updating(self) -> AbstractContextManager[Any]:
        """Hold the lock for a change; within a group commit, this thread holds it already."""
        return self._mutex if self._group_thread == get_ident() else self._locked()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the store, with the current state.

        If there are many new events, most are applied before the lock is taken, so that others do not wait for that.
        """
        with self._mutex:
            is_recent = self._is_valid and monotonic() - self._read_at <= _MAX_READ_AGE
            for _ in range(0 if is_recent else _MAX_PRELIMINARY_READS):
                if self._apply_new_events() <= _MAX_LOCKED_EVENTS:
                    break
            with self.store.locked(self.timeout):
                self._apply_new_events()
                yield

    def _commit(self, events: Sequence[Event]) -> None:
        """Apply events, and append their records.

        If anything fails, the state is restored from the store before its next use. An empty sequence is committed,
        too: it repeats an event that another process wrote, and waits until that is durable.
        """
        if self._group is None:  # the status lists the conflicts that a group commit causes
            self._warn_of(events)
        self._is_valid = False
        labels, signature = self.problem.arms.labels, _signature(self.author)
        if events and isinstance(events[0], Looked) and not self.rule.requests_measurements:
            events = events[1:]  # a rule without a state
        new = list[Record]()
        for event in events:  # a look comes first, and stores the state of the rule before the other events are applied
            rule_state = self._rule_state() if isinstance(event, Looked) else None
            new += [record | signature for record in records.encode(event, labels, rule_state)]
        self._apply(events)
        if self._group is not None:
            self._group += new
            self._is_valid = True
        else:
            self._append(new)

    def _append(self, new: list[Record]) -> None:
        """Append records to the store, and save a checkpoint when one is due."""
        self._is_valid = False
        assert self._cursor is not None
        self._cursor, self._read_at = self.store.append(new, self._cursor), monotonic()
        number = self._cursor.number
        if number - self._checkpoint_at >= max(_MIN_CHECKPOINT_GAP, number // _CHECKPOINT_FRACTION):
            self._save_checkpoint()
        self._is_valid = True

    def _choose(self, n: int) -> list[Query]:
        self._is_valid = False  # a choice may change the policy: if it is not committed, the state must be restored
        return super()._choose(n)

    def _look(self) -> None:
        was_valid, self._is_valid = self._is_valid, False
        super()._look()
        self._is_valid = was_valid and not self.rule.requests_measurements  # a rule with state must be committed

    def _apply_new_events(self) -> int:
        """Apply the events that are new in the store; return their number."""
        if self._group is not None:
            return 0
        with _no_garbage_collection():
            if not self._is_valid and self._load_checkpoint():
                with suppress(Exception):  # if the events are at fault, applying all of them raises the same error
                    return self._apply_events_after(self._cursor)
                self._is_valid = False
            return self._apply_events_after(self._cursor if self._is_valid else None)

    def _apply_events_after(self, cursor: Cursor | None) -> int:
        """Apply the events after a cursor, all of them if it is None; return their number."""
        page = self.store.read(cursor)
        events = page.events
        if cursor is not None and not page.restarted and not events:
            self._is_valid, self._read_at = True, monotonic()
            return 0
        self._is_valid = False
        if cursor is None or page.restarted:
            if not events:
                raise StateFileError(f"{self.store} has no events; delete it, and create a new campaign")
            self._initialise(events[0][1])
            events, self._checkpoint_at = events[1:], 0
        try:
            self._apply(self._decoder.decode([record for _, record in events]))
        except (ComboPepsError, ValueError) as cause:
            number = self._event + 1
            raise StateFileError(f"{self.store}, event {number}: {cause}", number) from None
        self._diagnostics.warned_elsewhere = True
        self._cursor, self._read_at, self._is_valid = page.end, monotonic(), True
        return len(page.events)

    def _initialise(self, header: Record) -> None:
        """Set the state to that after the first event."""
        if self._is_pinned and header != self.header:
            raise StateFileError(f"{self.store}, event 1: another campaign took the place of this one", 1)
        with _reading_header(self.store):
            super().__init__(records.decode_problem(header, self._custom), **_options(header))
        self.header, self.versions = header, header["versions"]
        self.policy_name, self.stopping = str(header["policy"]), str(header["stopping"])
        self.initial_design = header.get("initial_design", 0)
        self._decoder = Decoder(self.problem, self._queries, self._ledger)

    def _load_checkpoint(self) -> bool:
        """Restore the last checkpoint; return False if there is none, or it cannot be used."""
        try:
            saved = self.store.checkpoint()
            if saved is None:
                return False
            data = unpack(saved.data)
            self._initialise(data["header"])
            self.load_state_dict(data["state"])
        except Exception:  # its bytes are not trusted; if the events are at fault, applying them raises
            return False
        self._cursor, self._checkpoint_at = saved.cursor, saved.cursor.number
        return True

    def save_checkpoint(self) -> None:
        """Store a checkpoint of the state, including that of the policy.

        Checkpoints are stored after every 1,000 events, or a hundredth of all if that is more. A script that opens the
        campaign for each query, with a policy that `learns_from_choices`, should call this before it ends: otherwise
        the policy loses what it has learnt. It does nothing while another process writes.
        """
        with self._reading():
            self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        """Store a checkpoint; errors are ignored, as the events are recorded without it."""
        assert self._cursor is not None
        self._checkpoint_at = self._cursor.number  # also if it fails, so that it is not tried again at once
        with suppress(Exception):
            data = pack({"header": self.header, "state": self.state_dict()})
            self.store.save_checkpoint(Checkpoint(self._cursor, data))


def _outcome(operation: Callable[[], Any]) -> Any:
    """Return the result of an operation, or its exception."""
    try:
        return operation()
    except Exception as error:
        return error


def session_from_header(store: Store, text: bytes, custom: CustomOracle | None) -> Session:
    """Return a session in memory with the problem and options of a header, before its first event."""
    with _reading_header(store):
        header = parse_event(text)
        return Session(records.decode_problem(header, custom), **_options(header))


def replay(session: Session, new: Sequence[Record], first: int) -> None:
    """Apply the records of events, numbered from `first`, to a session in memory."""
    session._event = first - 1
    session._apply(Decoder(session.problem, session._queries, session._ledger).decode(new))


@contextmanager
def _reading_header(store: Store) -> Iterator[None]:
    """Add the store and the number of the event to errors."""
    try:
        yield
    except OracleError:  # of a user-defined oracle: the database is not at fault
        raise
    except OracleMismatchError as cause:
        raise OracleMismatchError(f"{store}: {cause}", cause.differs) from None
    except (ComboPepsError, ValueError) as cause:
        raise StateFileError(f"{store}, event 1: {cause}", 1) from None


def _options(header: Record) -> dict[str, Any]:
    """Return the arguments of `Session` from a header."""
    return {
        "policy": header["policy"], "stopping": header["stopping"], "delta": header["delta"],
        "epsilon": header.get("epsilon", 0.0), "rng": header["seed"], "initial_design": header.get("initial_design"),
    }  # fmt: skip


def _signature(author: str | None) -> Record:
    """Return the fields of a record for its time and author."""
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
    """Disable garbage collection: collecting among many records takes as long as reading them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
