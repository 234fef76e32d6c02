"""`SealedStorage`: what storages of sealed lines share, whether these stand in a file or in a table.

    lines -> the same chain, nothing missing, doubled or moved -> records with their numbers

A fault names the place, the number of the line and the cure.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from combopeps.campaign.seal import REST, altered, check_first, follows, is_whole, parse_all, seal
from combopeps.campaign.storage import Record, Storage
from combopeps.errors import StateFileError

CURE = "`combopeps doctor --salvage` writes a repaired copy"
MISSING = f"this line is not where it was written: lines before it are missing; {CURE}"


class SealedStorage(Storage):
    """Lines that can be checked, examined, and copied byte for byte to another storage of this kind."""

    @abstractmethod
    def begin(self, lines: Sequence[bytes]) -> None:
        """Begin with these lines, newlines left out, all or nothing; refused where there is something already."""

    @abstractmethod
    def lines(self) -> list[bytes]:
        """All lines that count, checked, newlines left out; damage is a `StateFileError`."""

    @abstractmethod
    def data(self) -> bytes:
        """What is there, as the bytes of a journal, whatever its state; a row that is missing is an empty line."""

    def create(self, records: Sequence[Record]) -> None:
        self.begin(sealed(records, 0))

    def _take(self, lines: Sequence[bytes], first: int, chain: int) -> list[tuple[int, Record]]:
        """Lines from this number on, behind the end of a chain: checked, as records with their numbers."""
        if not lines:
            return []
        number = first
        try:
            if first == 1:
                check_first(lines[0])
            for number, line in enumerate(lines, start=first):  # noqa: B007
                good, chain = follows(line, chain)
                if not good:
                    raise ValueError(MISSING if is_whole(line) else f"this line is damaged; {CURE}")
            return list(enumerate(parse_all(lines), start=first))
        except ValueError as cause:
            if len(cause.args) == 2:  # the index of a line that is no JSON
                number = first + cause.args[1]
            raise self._fault(number, lines[number - first], cause.args[0]) from None

    def _in_full(self, records: list[tuple[int, Record]], lines: Sequence[bytes]) -> int:
        """How many of them have all with them that were added at the same time; their marks are taken off."""
        kept = wanted = 0
        for i, (number, record) in enumerate(records):
            rest = record.pop(REST, 0)
            if type(rest) is not int or (wanted and rest != wanted - 1) or rest < 0:
                raise self._fault(number, lines[i], f"this line does not belong here, by its {REST!r}; {CURE}")
            kept, wanted = kept if rest else i + 1, rest
        return kept

    def _fault(self, number: int, line: bytes, message: str) -> StateFileError:
        change = altered(line)
        return StateFileError(f"{self}, line {number}: {f'this line {change}; {CURE}' if change else message}", number)


def sealed(records: Iterable[Record], chain: int) -> list[bytes]:
    """The lines of records, linked to the end of a chain; newlines left out."""
    lines = []
    for record in records:
        line, chain = seal(record, chain)
        lines.append(line[:-1])
    return lines


def joined(lines: Iterable[bytes]) -> bytes:
    """The bytes of a journal with these lines."""
    return b"".join([line + b"\n" for line in lines])
