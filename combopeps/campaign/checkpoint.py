"""Checkpoints: serialised state, as JSON and raw arrays.

    combopeps checkpoint 3
    <sha256 of everything after this line>
    {"made_by": ..., "state": ..., "arrays": 12}
    <the arrays, one after the other, as numpy writes them to files>

Nothing in it can be imported or run. A checkpoint is valid for the code that wrote it: a hash of the package's source,
the version of numpy and the kind of machine. One that is not valid is ignored, and all events are applied instead.
"""

from __future__ import annotations

import io
import json
import platform
from functools import cache
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import numpy as np

import combopeps
from combopeps.utils.state_dict import StateDict

_MAGIC = b"combopeps checkpoint 3\n"
_SHA = 64  # hexadecimal digits
_ARRAY = "#"  # {"#": 3} stands for the third array


def pack(state: StateDict) -> bytes:
    """Serialise a state of numbers, texts, lists, dicts and arrays."""
    arrays, body = list[np.ndarray[Any, Any]](), io.BytesIO()
    document = {"made_by": _made_by(), "state": _without_arrays(state, arrays), "arrays": len(arrays)}
    body.write(json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n")
    for each in arrays:
        np.lib.format.write_array(body, each, allow_pickle=False)
    return _MAGIC + sha256(body.getbuffer()).hexdigest().encode("ascii") + b"\n" + body.getbuffer()


def unpack(data: bytes, *, any_code: bool = False) -> StateDict:
    """Restore what `pack` of the same code (or `any_code`) was given; ValueError, or another error, for other bytes."""
    begin = len(_MAGIC) + _SHA + 1
    if data[: len(_MAGIC)] != _MAGIC or data[begin - 1 : begin] != b"\n":
        raise ValueError("this is not a checkpoint, or one of another format")
    body = io.BytesIO(data[begin:])
    if data[len(_MAGIC) : begin - 1] != sha256(body.getbuffer()).hexdigest().encode("ascii"):
        raise ValueError("this checkpoint is damaged")
    document = json.loads(body.readline())
    if document.keys() != {"made_by", "state", "arrays"}:
        raise ValueError("a checkpoint has other fields")
    if document["made_by"] != _made_by() and not any_code:
        raise ValueError("this checkpoint was written by other code")
    try:
        arrays = [np.lib.format.read_array(body, allow_pickle=False) for _ in range(document["arrays"])]
    except MemoryError:
        raise ValueError("an array is larger than the data") from None
    if body.read(1):
        raise ValueError("there is more than the arrays")
    state: StateDict = _with_arrays(document["state"], arrays)
    return state


@cache
def _made_by() -> dict[str, str]:
    """What wrote it: a release in development changes its code, and not its version."""
    root, code = Path(combopeps.__file__).parent, blake2b(digest_size=16)
    for path in sorted(root.rglob("*.py")):
        code.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return {"code": code.hexdigest(), "numpy": np.__version__, "machine": platform.machine()}


def _without_arrays(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    if isinstance(value, dict):
        return {name: _without_arrays(each, arrays) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_arrays(each, arrays) for each in value]
    if not isinstance(value, np.ndarray):
        return value
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
