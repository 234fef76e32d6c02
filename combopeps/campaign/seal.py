"""Lines of a state file: one JSON object each, sealed with a checksum.

    {"kind":"tell","id":0,"arm":2,"label":"c","y":1.5,"sum":"<own><chain>"}

own = crc32(body), chain = crc32(body, chain of the line before), eight hexadecimal digits each; the body is the line
without `,"sum":"..."`. The first half finds a damaged line, the second one a line that was removed, doubled or moved.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn, cast
from zlib import crc32

SCHEMA = 1
Record = dict[str, Any]
_SEAL = b',"sum":"%08x%08x"}'
_LENGTH = len(_SEAL % (0, 0))


def seal(record: Record, chain: int) -> tuple[bytes, int]:
    """The line of a record, newline included, and the new end of the chain."""
    body = json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii")
    chained = crc32(body, chain)
    return body[:-1] + _SEAL % (crc32(body), chained) + b"\n", chained


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


def check_schema(line: bytes) -> None:
    """Is this the first line of a state file that we can read? ValueError says why not, before any checksum is."""
    try:
        header = parse(line)
    except ValueError:
        header = {}
    schema = header.get("schema")
    if header.get("kind") != "campaign" or type(schema) is not int or schema < 1:
        raise ValueError("this is not a state file of combopeps, or its first line is damaged beyond recognition")
    if schema > SCHEMA:
        raise ValueError(f"the file has schema {schema}, this combopeps reads {SCHEMA}; install a newer combopeps")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _decode(text: bytes) -> Any:
    return json.loads(text.decode("utf-8"), parse_constant=_refuse)
