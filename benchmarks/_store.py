"""Units of work whose results are kept on disk, so that an interrupted command goes on where it was."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from combopeps.session import Trace
from combopeps.utils.parallel import code_mark

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Unit:
    """Something to compute once: `compute(jobs)` returns arrays, which depend on `params` alone.

    `sources` are the files, beside the package, that the result depends on; by default the one that holds `compute`.
    """

    name: str
    params: Mapping[str, Any]
    compute: Callable[[int], Arrays]
    sources: tuple[Path, ...] = ()


class Store:
    """Results under `folder/raw`, by name and parameters."""

    def __init__(self, folder: Path) -> None:
        self.raw = folder / "raw"
        self.raw.mkdir(parents=True, exist_ok=True)

    def __contains__(self, unit: Unit) -> bool:
        return self.path(unit).exists()

    def run(self, unit: Unit, jobs: int) -> None:
        """Compute and keep."""
        self.save(unit, unit.compute(jobs))

    def save(self, unit: Unit, arrays: Arrays) -> None:
        """Write in one step: a file is whole or not there."""
        path = self.path(unit)
        partial = path.with_suffix(".part")
        with partial.open("wb") as file:
            np.savez_compressed(file, **arrays)
        path.with_suffix(".json").write_text(self._text(unit))
        os.replace(partial, path)

    def load(self, unit: Unit) -> Arrays:
        """What `run` computed, now or before."""
        with np.load(self.path(unit), allow_pickle=False) as data:
            return {key: data[key] for key in data.files}

    def trace(self, unit: Unit) -> Trace:
        """The result of a simulation."""
        arrays = self.load(unit)
        return Trace(**{**arrays, "seed": int(arrays["seed"])})

    def path(self, unit: Unit) -> Path:
        """Where it is kept."""
        mark = hashlib.sha256(self._text(unit).encode()).hexdigest()[:10]
        return self.raw / f"{unit.name.replace(' ', '-').lower()}-{mark}.npz"

    @staticmethod
    def _text(unit: Unit) -> str:
        sources = unit.sources or (Path(unit.compute.__code__.co_filename),)
        made_by = {"package": package_mark(), "module": _mark(*sources)}
        return json.dumps({"name": unit.name, **made_by, **unit.params}, sort_keys=True)


def package_mark() -> str:
    """A fingerprint of the package's source: results of other code are not taken for this one's."""
    return code_mark(("combopeps",))


@cache  # one answer per process, although files may be edited meanwhile
def _mark(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def as_arrays(trace: Trace) -> Arrays:
    """A trace as the store keeps it."""
    return {field.name: np.asarray(getattr(trace, field.name)) for field in fields(trace)}


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Numbers with six digits, infinity as `inf`."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{x:.6g}" if isinstance(x, float) else x for x in row] for row in rows)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Differences by column name."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
