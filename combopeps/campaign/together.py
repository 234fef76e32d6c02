"""Results of several people with one wait for the disk: one that is refused does not keep the others out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from combopeps.campaign import records
from combopeps.campaign.campaign import Campaign
from combopeps.campaign.hands import check_name
from combopeps.campaign.keys import Keys, keep, unrecorded
from combopeps.campaign.state import State
from combopeps.campaign.store import Event
from combopeps.errors import ComboPepsError, QueryError
from combopeps.policies.ledger import Query, Reading, Readings, check_results
from combopeps.tables.written import as_label


@dataclass(frozen=True)
class Told:
    """Results of queries, as `Campaign.tell_many` takes them: all of them or none."""

    results: Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Seen:
    """A measurement that no query asked for, as `Campaign.observe` takes it."""

    label: Hashable
    y: Any
    sem: Any = None
    count: Any = 1
    key: str | None = None


@dataclass(frozen=True)
class Taken:
    """What became of each: None, or why it was refused. And where the campaign stands then."""

    refused: list[ComboPepsError | None]
    samples: int
    waiting: int


def take(campaign: Campaign, entries: Sequence[Told | Seen]) -> Taken:
    """Check each as if those before it had been recorded already, and record what is right by one commit.

    Warnings are not given: `Status.warning` says what there is to say.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import TopKOracle
    >>> campaign = Campaign.create(tempfile.mkdtemp() + "/beans.db", TopKOracle(["a", "b"], k=1))
    >>> taken = take(campaign, [Seen("a", 1.5), Seen("z", 1.5), Seen("b", 0.5)])
    >>> [type(error).__name__ for error in taken.refused], taken.samples
    (['NoneType', 'LabelError', 'NoneType'], 2)
    """
    with campaign._writing() as state:
        batch, refused = _Batch(campaign, state), list[ComboPepsError | None]()
        for entry in entries:
            try:
                batch.add(entry)
                refused.append(None)
            except ComboPepsError as error:
                refused.append(error)
        if None in refused:
            campaign._append(state, batch.lines)
        return Taken(refused, state.policy.samples, len(state.ledger.open))


class _Batch:
    """What is to be recorded; nothing of an entry is, if it is refused."""

    def __init__(self, campaign: Campaign, state: State) -> None:
        self._campaign, self._state = campaign, state
        self._said: dict[int, Reading | Readings] = {}
        self._keys: Keys = {}
        self.lines: list[Event] = []

    def add(self, entry: Told | Seen) -> None:
        """One more, or a typed error."""
        if isinstance(entry, Told):
            self._tell(entry)
        else:
            self._observe(entry)

    def _tell(self, entry: Told) -> None:
        state, news = self._state, list[tuple[Query, Reading | Readings]]()
        found = [(self._campaign._find(state, query), *rest) for query, *rest in check_results(entry.results)]
        read = [(query, state.session.read(query, *rest)) for query, *rest in found]
        for query, value in state.ledger.news(read):
            known = self._said.get(query.id)
            if known is None:
                news.append((query, value))
            elif known != value:
                raise QueryError(
                    f"query {query.id} was answered {known!r} before, now {value!r}; use observe for more data"
                )
        self._said.update((query.id, value) for query, value in news)
        self.lines += [records.tell(query, value) for query, value in news]

    def _observe(self, entry: Seen) -> None:
        session, key = self._state.session, None if entry.key is None else check_name("key", entry.key)
        arm = session.arm_of(as_label(entry.label))
        reading = session.check(arm, entry.y, entry.sem, entry.count)
        if key is not None:
            if not all(unrecorded(keys, key, [(arm, reading)]) for keys in (self._state.keys, self._keys)):
                return
            keep(self._keys, key, None, (arm, reading))
        self.lines.append(records.observe(arm, self._campaign.problem.arms.labels[arm], reading, key))
