"""Serialisation of checkpoints: JSON and raw arrays, with a checksum.

    combopeps checkpoint 3
    <sha256 of everything after this line>
    {"made_by": ..., "state": ..., "arrays": 12}
    <the arrays, one after the other, as numpy writes them to files>

Nothing in it can be imported or run. A checkpoint is valid only for the code that wrote it, identified by a hash of the
source of the package, the version of numpy and the machine type. Without a valid one, all events are applied.
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
_SHA_LENGTH = 64  # hexadecimal digits
_ARRAY_KEY = "#"  # {"#": 3} stands for the third array


def pack(state: StateDict) -> bytes:
    """Serialise a state of numbers, texts, lists, dicts and arrays."""
    arrays, body = list[np.ndarray[Any, Any]](), io.BytesIO()
    document = {"made_by": _made_by(), "state": _without_arrays(state, arrays), "arrays": len(arrays)}
    body.write(json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n")
    for array in arrays:
        np.lib.format.write_array(body, array, allow_pickle=False)
    return _MAGIC + sha256(body.getbuffer()).hexdigest().encode("ascii") + b"\n" + body.getbuffer()


def unpack(data: bytes, *, any_code: bool = False) -> StateDict:
    """Restore the argument of `pack`, by the same code (or `any_code`); raise an error for other bytes."""
    start = len(_MAGIC) + _SHA_LENGTH + 1
    if data[: len(_MAGIC)] != _MAGIC or data[start - 1 : start] != b"\n":
        raise ValueError("this is not a checkpoint of this format")
    body = io.BytesIO(data[start:])
    if data[len(_MAGIC) : start - 1] != sha256(body.getbuffer()).hexdigest().encode("ascii"):
        raise ValueError("this checkpoint is damaged")
    document = json.loads(body.readline())
    if document.keys() != {"made_by", "state", "arrays"}:
        raise ValueError("this checkpoint has other fields")
    if document["made_by"] != _made_by() and not any_code:
        raise ValueError("this checkpoint was written by other code")
    try:
        arrays = [np.lib.format.read_array(body, allow_pickle=False) for _ in range(document["arrays"])]
    except MemoryError:
        raise ValueError("an array is larger than the data") from None
    if body.read(1):
        raise ValueError("there are data after the last array")
    state: StateDict = _with_arrays(document["state"], arrays)
    return state


@cache
def _made_by() -> dict[str, str]:
    """Return a hash of the source, as the version does not change with every change of the code, numpy and machine."""
    root, code = Path(combopeps.__file__).parent, blake2b(digest_size=16)
    for path in sorted(root.rglob("*.py")):
        code.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return {"code": code.hexdigest(), "numpy": np.__version__, "machine": platform.machine()}


def _without_arrays(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """Replace every array by its position in `arrays`, where it is appended."""
    if isinstance(value, dict):
        return {name: _without_arrays(part, arrays) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_arrays(part, arrays) for part in value]
    if not isinstance(value, np.ndarray):
        return value
    arrays.append(value)
    return {_ARRAY_KEY: len(arrays) - 1}


def _with_arrays(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """Undo `_without_arrays`."""
    if isinstance(value, list):
        return [_with_arrays(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    if _ARRAY_KEY in value:
        return arrays[value[_ARRAY_KEY]]
    return {name: _with_arrays(part, arrays) for name, part in value.items()}
