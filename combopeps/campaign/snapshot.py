"""Snapshots: what the first lines of a campaign add up to, so that nobody has to read them again.

    combopeps snapshot 1
    <sha256 of all that follows>
    {"versions": ..., "header": ..., "note": ..., "crc": ..., "state": ..., "arrays": [["<f8", [1, 12]], ...]}
    <the bytes of the arrays, one after the other>

Plain data throughout: JSON and arrays of numbers, nothing that could be imported or run. A snapshot is checked, never
trusted. It is for one format, one version of combopeps and numpy and one kind of machine, for one header, and for first
lines with this CRC-32 (`Storage.beginning`); every piece of the state checks what is its own. Whatever does not fit is
as good as no snapshot: the lines are what counts.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any

import numpy as np

import combopeps
from combopeps.campaign.storage import Note, Record
from combopeps.restore import Plain

_MAGIC = b"combopeps snapshot 1\n"
_SHA = 64  # hexadecimal digits
_KINDS = ("<f8", "<i8", "<i4", "<u8", "|b1")
_ARRAY = "#"  # {"#": 3} stands for the third array
_ALIGNED = 16  # bytes
_FIELDS = {"versions", "header", "note", "crc", "state", "arrays"}


@dataclass(frozen=True)
class Snapshot:
    """The state after some lines, as plain data, and which lines these are: the campaign's header, where the last one
    stands, and the CRC-32 of all of them.
    """

    header: Record
    note: Note
    crc: int
    state: Plain

    def packed(self) -> bytes:
        """As bytes."""
        arrays: list[np.ndarray[Any, Any]] = []
        document = {
            "versions": _versions(), "header": self.header, "note": self.note, "crc": self.crc,
            "state": _without_arrays(self.state, arrays),
            "arrays": [[each.dtype.str, list(each.shape)] for each in arrays],
        }  # fmt: skip
        head = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
        parts = [head + b" " * _gap(len(head))]
        for each in arrays:
            data = np.ascontiguousarray(each).tobytes()
            parts += [data, bytes(_gap(len(data)))]
        body = b"".join(parts)
        return _MAGIC + sha256(body).hexdigest().encode("ascii") + b"\n" + body

    @classmethod
    def unpacked(cls, data: bytes) -> Snapshot:
        """From bytes that this release has written; ValueError, or another error of Python, for any others."""
        begin = len(_MAGIC) + _SHA + 1
        if data[: len(_MAGIC)] != _MAGIC or data[begin - 1 : begin] != b"\n":
            raise ValueError("this is no snapshot, or one of another format")
        body = memoryview(data)[begin:]
        if data[len(_MAGIC) : begin - 1] != sha256(body).hexdigest().encode("ascii"):
            raise ValueError("this snapshot is damaged")
        end = data.index(b"\n", begin) + 1 - begin
        document = json.loads(bytes(body[:end]))
        if document.keys() != _FIELDS or document["versions"] != _versions():
            raise ValueError("this snapshot was made by another release")
        arrays = _arrays(document["arrays"], body, end + _gap(end))
        return cls(document["header"], document["note"], document["crc"], _with_arrays(document["state"], arrays))


def _versions() -> dict[str, str]:
    return {"combopeps": combopeps.__version__, "numpy": np.__version__, "machine": platform.machine()}


def _gap(size: int) -> int:
    """Bytes to the next place where an array may begin."""
    return -size % _ALIGNED


def _without_arrays(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, dict):
        return {name: _without_arrays(each, arrays) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_arrays(each, arrays) for each in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.str not in _KINDS:
        raise ValueError(f"arrays of {value.dtype} are not kept")
    arrays.append(value)
    return {_ARRAY: len(arrays) - 1}


def _with_arrays(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, list):
        return [_with_arrays(each, arrays) for each in value]
    if not isinstance(value, dict):
        return value
    return (
        arrays[value[_ARRAY]] if _ARRAY in value else {name: _with_arrays(each, arrays) for name, each in value.items()}
    )


def _arrays(forms: Any, body: memoryview, begin: int) -> list[np.ndarray[Any, Any]]:
    """Views of the bytes, which must be exactly theirs: no form makes an array that is larger than the file."""
    arrays = []
    for kind, shape in forms:
        if kind not in _KINDS or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("an array has an unknown form")
        size = prod(shape) * np.dtype(kind).itemsize
        if begin + size > len(body):
            raise ValueError("an array is larger than what is there")
        each = np.frombuffer(body[begin : begin + size], dtype="u1" if kind == "|b1" else kind).reshape(shape)
        if kind == "|b1":
            if each.size and each.max() > 1:
                raise ValueError("a flag is neither true nor false")
            each = each.view(np.bool_)
        arrays.append(each)
        begin += size + _gap(size)
    if begin != len(body):
        raise ValueError("there is more than the arrays")
    return arrays
