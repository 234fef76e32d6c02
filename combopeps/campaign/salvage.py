"""What is wrong with a state file, and a copy of what is right in it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from combopeps.campaign import records
from combopeps.campaign.fingerprint import Own
from combopeps.campaign.registry import storage_at
from combopeps.campaign.replay import State
from combopeps.campaign.seal import REST, chain_of, check_first, follows, is_whole, parse, restored
from combopeps.campaign.sealed import SealedStorage
from combopeps.campaign.storage import Record, Storage
from combopeps.errors import ComboPepsError, OracleError, OtherOracleError, ParameterError, QueryError, StateFileError
from combopeps.oracles.base import ArgmaxOracle


@dataclass(frozen=True)
class Examination:
    """What a look at a state file found.

    Attributes
    ----------
    faults
        Line number and what is wrong with it; an empty list for a sound file.
    kept, asked, told
        Lines that can be used, queries and measurements among them.
    """

    faults: list[tuple[int, str]]
    kept: int
    asked: int
    told: int


def examine(path: str | os.PathLike[str], *, oracle: ArgmaxOracle | None = None) -> Examination:
    """Look at every line; changes nothing. A file without a sound header is a `StateFileError`.

    An oracle of one's own is wanted as by `Campaign.open`.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import Campaign, TopKOracle
    >>> path = tempfile.mkdtemp() + "/beans.jsonl"
    >>> _ = Campaign.create(path, TopKOracle(3, k=1)).ask(2)
    >>> examine(path)
    Examination(faults=[], kept=2, asked=2, told=0)
    """
    return _look(sealed_at(path), oracle)[1]


def salvage(
    path: str | os.PathLike[str], out: str | os.PathLike[str], *, oracle: ArgmaxOracle | None = None
) -> Examination:
    """Write a repaired copy to `out`, a new file: all sound lines, linked anew.

    A result whose query was lost is kept as an observation. Line ends and byte order marks are put right. The original
    is not touched. An oracle of one's own is wanted as by `Campaign.open`.
    """
    good, found = _look(sealed_at(path), oracle)
    sealed_at(out).create(good)
    return found


def sealed_at(place: str | os.PathLike[str] | Storage) -> SealedStorage:
    """The storage there, if it holds sealed lines, so that these can be looked at one by one."""
    storage = storage_at(place)
    if not isinstance(storage, SealedStorage):
        raise ParameterError(
            f"only state files and databases can be examined, salvaged and copied; {storage} is another storage"
        )
    return storage


def _look(storage: SealedStorage, oracle: ArgmaxOracle | None) -> tuple[list[Record], Examination]:
    data, faults = restored(storage.data())
    first, *lines = data.split(b"\n")
    header, state = _begin(storage, first, None if oracle is None else Own(oracle))
    torn = bool(lines) and bool(lines[-1])
    if lines and not lines[-1]:
        lines.pop()
    whole = len(lines) - _unacknowledged(lines, len(lines) - torn)
    good, seen, chain = [header], {first}, follows(first, 0)[1]
    for number, line in enumerate(lines, start=2):
        linked, _ = follows(line, chain)
        chain = chain_of(line)
        if number > whole + 1 and is_whole(line):
            faults.append((number, "was being written with others that are not there; was never acknowledged"))
        elif not is_whole(line):
            last = torn and number == len(lines) + 1
            faults.append((number, "cut off by a crash; was never acknowledged" if last else "damaged"))
        elif line in seen:  # the chain makes every line unique, so that this is a copy
            faults.append((number, "stands there twice"))
        else:
            if not linked:
                faults.append((number, "kept, but lines before it are damaged, missing or were moved"))
            try:
                record = parse(line)
                record.pop(REST, None)
                kept = _rescued(record, state)
                state.apply([(number, one) for one in kept])
                good += kept
            except (ComboPepsError, ValueError) as cause:
                faults.append((number, f"makes no sense here: {cause}"))
        seen.add(line)
    return good, Examination(faults, len(good), state.ledger.next_id, state.policy.samples)


def _begin(storage: SealedStorage, line: bytes, own: Own | None) -> tuple[Record, State]:
    """Without a header nothing can be understood."""
    try:
        check_first(line)
        if not is_whole(line):
            raise ValueError("the header is damaged, and without it nothing can be salvaged")
        header = parse(line)
        return header, State(header, own=own)
    except OracleError:
        raise
    except OtherOracleError as cause:
        raise OtherOracleError(f"{storage}: {cause}", cause.differs) from None
    except (ComboPepsError, ValueError) as cause:
        raise StateFileError(f"{storage}, line 1: {cause}", 1) from None


def _rescued(record: Record, state: State) -> list[Record]:
    """A result whose query was lost is still a measurement; that of an action, one of every part that was read.

    Nobody can be handed a query that was lost, or whose result was.
    """
    if record.get("kind") == "hand":
        records.check_record(record)
        ids = record["ids"] if isinstance(record["ids"], list) else []
        left = [id for id in ids if records.whole(id) and id in state.ledger.open]
        return [record | {"ids": left}] if left else []
    if record.get("kind") == "tell":
        form = records.check_record(record)
        try:
            state.ledger.find(record["id"])
        except (QueryError, TypeError):
            parts = [record] if form == "tell" else records.readings_apart(record)
            keys = "arm", "label", "y", "sem"
            kept = [{key: part[key] for key in keys if key in part} for part in parts if part["y"] is not None]
            return [{"kind": "observe"} | part for part in kept]
    return [record]


def _unacknowledged(lines: list[bytes], ended: int) -> int:
    """How many lines at the end were added together with others that are not there; so many lines have an end."""
    last = next((i for i in reversed(range(len(lines))) if is_whole(lines[i])), None)
    more = 0 if last is None else _more(lines[last])
    if last is None or not more or last + more < ended:  # what is there, if damaged, was written to its end
        return 0
    first = last
    while first and (not is_whole(lines[first - 1]) or _more(lines[first - 1]) == more + last - first + 1):
        first -= 1
    return len(lines) - first


def _more(line: bytes) -> int:
    try:
        more = parse(line).get(REST)
    except ValueError:
        return 0
    return more if type(more) is int else 0
