"""The bundled instances: their folder, and the index that `combopeps list` prints without building them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

INDEX = "index.csv"


class IndexEntry(NamedTuple):
    """Name of an instance, number of components, number of answers as text, and title."""

    name: str
    d: int
    size: str
    title: str


def bundled_folder() -> Path:
    """Return the folder of bundled instances: inside an installed package, or at the root of a checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_instances"
    return installed if installed.is_dir() else package.parent / "instances"


def list_instances() -> list[str]:
    """Return the names of the bundled instances.

    Examples
    --------
    >>> "soare" in list_instances()
    True
    """
    return sorted(path.stem for path in bundled_folder().glob("*.json"))


def read_index() -> list[IndexEntry]:
    """Read the index of the bundled instances.

    Examples
    --------
    >>> [entry.d for entry in read_index() if entry.name == "town"]
    [23]
    """
    with (bundled_folder() / INDEX).open(newline="", encoding="utf-8") as file:
        return [IndexEntry(row["name"], int(row["d"]), row["size"], row["title"]) for row in csv.DictReader(file)]
