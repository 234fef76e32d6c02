"""Instances by name, by recipe and by file."""

from __future__ import annotations

import json
import os
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from combopeps.errors import InstanceError
from combopeps.io.instance import Instance
from combopeps.io.parsing import parse_json, read_text
from combopeps.io.schema import from_document, to_document
from combopeps.utils import files


def list_instances() -> list[str]:
    """Names of the instances that come with the package.

    Examples
    --------
    >>> "soare" in list_instances()
    True
    """
    return sorted(path.stem for path in _folder().glob("*.json"))


def load_instance(name: str | os.PathLike[str]) -> Instance:
    """An instance that comes with the package, one made to order, or one from a file.

    Parameters
    ----------
    name
        A name out of `list_instances()`; a recipe such as "grid:n=100,seed=0" (see `generate`); or the path of a file
        that `save_instance` wrote: a `Path`, or a string that ends in .json.

    Examples
    --------
    >>> load_instance("topk-paper").problem
    Problem(TopKOracle(3 of 12), 12 arms, noise_std=1)
    >>> load_instance("matching:n=200,degree=3,seed=1").oracle
    MatchingOracle(200 x 200, 600 edges, engine=compiled)
    """
    if not isinstance(name, (str, os.PathLike)):
        raise InstanceError(f"an instance is a name or a path, got {type(name).__name__}")
    if isinstance(name, os.PathLike) or name.endswith(".json"):
        return _load_file(Path(name))
    if ":" in name:
        from combopeps.io.generators import generate

        return generate(name)
    names = list_instances()
    if name not in names:
        near = get_close_matches(name, names, cutoff=0.4) or names
        raise InstanceError(
            f"no instance is called {name!r:.80}; did you mean {', '.join(near)}? A file's name ends in .json"
        )
    return _load_file(_folder() / f"{name}.json")


def save_instance(instance: Instance, path: str | os.PathLike[str]) -> None:
    """Write an instance to a JSON file: whole or not at all, with a checksum.

    An oracle of no kind in `combopeps.io.oracle_kinds.KINDS`, or one made with `prune=False`, is refused. The engine
    of a `MatchingOracle` is not part of the instance and is chosen anew on loading.

    Examples
    --------
    >>> import tempfile
    >>> soare = load_instance("soare")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_instance(soare, Path(folder) / "mine.json")
    ...     load_instance(Path(folder) / "mine.json").best
    0
    """
    if not isinstance(instance, Instance):
        raise InstanceError(f"save_instance writes an Instance, got {type(instance).__name__}")
    document = to_document(instance)
    if to_document(from_document(document)) != document:
        raise InstanceError("oracle: would not come back the same; was it made with prune=False?", "oracle")
    files.write_atomically(path, (_layout(document) + "\n").encode())


def _load_file(path: Path) -> Instance:
    document = parse_json(path, read_text(path))
    try:
        return from_document(document)
    except InstanceError as error:
        raise InstanceError(f"{path}: {error}", error.field) from error


def _folder() -> Path:
    """Inside the package where it was installed from a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_instances"
    return installed if installed.is_dir() else package.parent / "instances"


def _layout(value: Any, indent: str = "") -> str:
    """JSON with one line per field, and one per row of a matrix or list of edges."""
    inner = indent + "  "
    if isinstance(value, dict):
        lines = [f"{inner}{json.dumps(key)}: {_layout(entry, inner)}" for key, entry in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and isinstance(value[0], list):
        return "[\n" + ",\n".join(inner + json.dumps(row) for row in value) + f"\n{indent}]"
    return json.dumps(value)
