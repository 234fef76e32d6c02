"""Lines of a state file: one JSON object each, sealed with a checksum.

    {"kind":"tell","id":0,"arm":2,"label":"c","y":1.5,"sum":"<own><chain>"}

own = crc32(body), chain = crc32(body, chain of the line before), eight hexadecimal digits each; the body is the line
without `,"sum":"..."`. The first half finds a damaged line, the second one a line that was removed, doubled or moved.
Lines that were added together count when the last of them is there: the others say how many follow (`rest`).
Lines are ASCII without control characters: what editors, shells and git do to a copy can be taken back without loss.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from typing import Any, NoReturn, cast
from zlib import crc32

from combopeps.campaign.storage import Record, check_schema

REST = "rest"
_SEAL = b',"sum":"%08x%08x"}'
_LENGTH = len(_SEAL % (0, 0))
_MARKS = {  # the longer ones first: that of UTF-32 begins like that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_ENDS = "ends in a carriage return: an editor, or git's autocrlf, has changed the line ends"


def seal(record: Record, chain: int) -> tuple[bytes, int]:
    """The line of a record, newline included, and the new end of the chain."""
    body = _encode(record).encode("ascii")
    chained = crc32(body, chain)
    return body[:-1] + _SEAL % (crc32(body), chained) + b"\n", chained


def grouped(records: Sequence[Record]) -> list[Record]:
    """Records that are added together: each says how many follow, the last one nothing."""
    last = len(records) - 1
    return [record | {REST: last - i} if i < last else record for i, record in enumerate(records)]


def chain_of(line: bytes) -> int:
    """The end of the chain as the line itself has it; 0 if it is damaged there."""
    try:
        return int(line[-10:-2], 16)
    except ValueError:
        return 0


def is_whole(line: bytes) -> bool:
    """Is this, newline left out, what was once written, wherever in the file it stood?"""
    body = line[:-_LENGTH] + b"}"
    own = _SEAL % (crc32(body), 0)
    return line[-_LENGTH:-10] == own[:-10] and line[-2:] == b'"}'


def follows(line: bytes, chain: int) -> tuple[bool, int]:
    """Is the line whole, and the next one of this chain? And the new end of the chain."""
    body = line[:-_LENGTH] + b"}"
    chained = crc32(body, chain)
    return line[-_LENGTH:] == _SEAL % (crc32(body), chained), chained


def parse(line: bytes) -> Record:
    """The record of a line, without its checksum; ValueError for what is not strict JSON."""
    try:
        record = _decode(line)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None
    if not isinstance(record, dict):
        raise ValueError("a line must be a JSON object")
    record.pop("sum", None)
    return record


def parse_all(lines: Sequence[bytes]) -> list[Record]:
    """The records of many lines; ValueError with the index of the first bad one as its second argument."""
    try:  # one call of the parser for all: several times as fast
        records = _decode(b"[%s]" % b",".join(lines))
        if len(records) == len(lines):
            for record in records:
                del record["sum"]
            return cast(list[Record], records)
    except (ValueError, RecursionError, TypeError, KeyError):
        pass
    records = []
    for index, line in enumerate(lines):
        try:
            records.append(parse(line))
        except ValueError as cause:
            raise ValueError(str(cause), index) from None
    return records


def check_first(line: bytes) -> None:
    """Is this the first line of a state file that we can read? ValueError says why not, before any checksum is."""
    try:
        header = parse(line)
    except ValueError:
        header = {}
    check_schema(header)


def altered(line: bytes) -> str:
    """In words, what has happened to a line that is not as it was written; empty for nothing of this kind."""
    for mark, encoding in _MARKS.items():
        if line.startswith(mark):
            return f"begins with a byte order mark: an editor or a shell has saved the file as {encoding}"
    return _ENDS if line.endswith(b"\r") else ""


def restored(data: bytes) -> tuple[bytes, list[tuple[int, str]]]:
    """A file as it was written, and what has happened to it: the number of the first line concerned, and words."""
    faults = []
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            faults.append((1, altered(data)))
            data = data.decode(encoding, "replace").encode("ascii", "replace")
            break
    end = b"\r\n" if b"\n" in data else b"\r"
    if end in data:
        faults.append((1 + data[: data.index(end)].count(b"\n"), _ENDS))
        data = data.replace(end, b"\n")
    return data, faults


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _decode(text: bytes) -> Any:
    return json.loads(text.decode("utf-8"), parse_constant=_refuse)
