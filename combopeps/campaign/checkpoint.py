"""Checkpoints: serialised state, as JSON and raw arrays.

    combopeps checkpoint 2
    <sha256 of everything after this line>
    {"made_by": ..., "state": ..., "arrays": [["<f8", [1, 12]], ...]}
    <the bytes of the arrays, one after the other>

Nothing in it can be imported or run. A checkpoint is valid for the code that wrote it: a hash of the package's source,
the version of numpy and the kind of machine. One that is not valid is ignored, and all events are applied instead.
"""

from __future__ import annotations

import json
import platform
from functools import cache
from hashlib import blake2b, sha256
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import combopeps
from combopeps.utils.state_dict import StateDict

_MAGIC = b"combopeps checkpoint 2\n"
_SHA = 64  # hexadecimal digits
_DTYPES = ("<f8", "<i8", "<i4", "<u8", "|b1")
_ARRAY = "#"  # {"#": 3} stands for the third array
_ALIGNMENT = 16  # bytes


def pack(state: StateDict) -> bytes:
    """Serialise a state of numbers, texts, lists, dicts and arrays."""
    arrays: list[np.ndarray[Any, Any]] = []
    document = {"made_by": _made_by(), "state": _without_arrays(state, arrays)}
    document["arrays"] = [[each.dtype.str, list(each.shape)] for each in arrays]
    head = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
    parts = [head + b" " * _gap(len(head))]
    for each in arrays:
        data = np.ascontiguousarray(each).tobytes()
        parts += [data, bytes(_gap(len(data)))]
    body = b"".join(parts)
    return _MAGIC + sha256(body).hexdigest().encode("ascii") + b"\n" + body


def unpack(data: bytes, *, any_code: bool = False) -> StateDict:
    """Restore what `pack` of the same code (or `any_code`) was given; ValueError, or another error, for other bytes."""
    begin = len(_MAGIC) + _SHA + 1
    if data[: len(_MAGIC)] != _MAGIC or data[begin - 1 : begin] != b"\n":
        raise ValueError("this is not a checkpoint, or one of another format")
    body = memoryview(data)[begin:]
    if data[len(_MAGIC) : begin - 1] != sha256(body).hexdigest().encode("ascii"):
        raise ValueError("this checkpoint is damaged")
    end = data.index(b"\n", begin) + 1 - begin
    document = json.loads(bytes(body[:end]))
    if document.keys() != {"made_by", "state", "arrays"}:
        raise ValueError("a checkpoint has other fields")
    if document["made_by"] != _made_by() and not any_code:
        raise ValueError("this checkpoint was written by other code")
    arrays = _arrays(document["arrays"], body, end + _gap(end))
    state: StateDict = _with_arrays(document["state"], arrays)
    return state


@cache
def _made_by() -> dict[str, str]:
    """What wrote it: a release in development changes its code, and not its version."""
    root, code = Path(combopeps.__file__).parent, blake2b(digest_size=16)
    for path in sorted(root.rglob("*.py")):
        code.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return {"code": code.hexdigest(), "numpy": np.__version__, "machine": platform.machine()}


def _gap(size: int) -> int:
    """Bytes to the next place where an array may begin."""
    return -size % _ALIGNMENT


def _without_arrays(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, dict):
        return {name: _without_arrays(each, arrays) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_arrays(each, arrays) for each in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.str not in _DTYPES:
        raise ValueError(f"arrays of {value.dtype} are not supported")
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
    """Views of the bytes, which must be exactly theirs: no form makes an array that is larger than the data."""
    arrays = []
    for dtype, shape in forms:
        if dtype not in _DTYPES or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("an array has an unknown form")
        size = prod(shape) * np.dtype(dtype).itemsize
        if begin + size > len(body):
            raise ValueError("an array is larger than the data")
        each = np.frombuffer(body[begin : begin + size], dtype="u1" if dtype == "|b1" else dtype).reshape(shape)
        if dtype == "|b1":
            if each.size and each.max() > 1:
                raise ValueError("a flag is neither true nor false")
            each = each.view(np.bool_)
        arrays.append(each)
        begin += size + _gap(size)
    if begin != len(body):
        raise ValueError("there is more than the arrays")
    return arrays
