"""CSV files: items and their means (the best k, those that fit, so many of each group), and tables of pairs."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from combopeps.io.instance import Instance, in_file, instance_from_file
from combopeps.oracles import ArgmaxOracle, KnapsackOracle, MatchingOracle, PartitionOracle, TopKOracle
from combopeps.utils.csv_files import CsvFile, is_unnamed_column, read_csv
from combopeps.utils.validation import check_text


def read_items(
    path: str | os.PathLike[str],
    k: int,
    *,
    item: str = "item",
    mean: str = "mean",
    noise_std: float | str | None = None,
    cost: float | str = 1.0,
    prior_mean: float | str | None = None,
    prior_std: float | str | None = None,
) -> Instance:
    r"""The best k of the items in a CSV file with a header.

    Parameters
    ----------
    path
        The file, in UTF-8; fields are separated by commas, semicolons or tabs. A first column without a name is not
        read.
    k
        How many items to choose.
    item, mean
        Names of the two columns to read. A file with the item column alone has an unknown theta.
    noise_std, cost, prior_mean, prior_std
        As for `Problem`; or the name of a column that has the numbers.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "beers.csv"
    ...     _ = path.write_text("item,mean,spread\nale,0.2,1\nbock,0.9,2\ncider,0.4,1\n")
    ...     beers = read_items(path, k=1, noise_std="spread")
    >>> beers.best, beers.noise_std
    ({'bock'}, array([1., 2., 1.]))
    """
    items = _read(path, item, mean, (noise_std, cost, prior_mean, prior_std))
    return items.instance(TopKOracle(items.names, k))


def read_knapsack(
    path: str | os.PathLike[str],
    capacity: float,
    *,
    item: str = "item",
    weight: str = "weight",
    mean: str = "mean",
    noise_std: float | str | None = None,
    cost: float | str = 1.0,
    prior_mean: float | str | None = None,
    prior_std: float | str | None = None,
) -> Instance:
    r"""The best items in a CSV file that together weigh at most `capacity`.

    The column `weight` has their weights, which are known; all else is as for `read_items`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "bag.csv"
    ...     _ = path.write_text("item,weight,mean\ntent,5,9\nrope,2,3\nstove,3,5\nbook,4,1\n")
    ...     sorted(read_knapsack(path, 8).best)
    ['stove', 'tent']
    """
    items = _read(path, item, mean, (noise_std, cost, prior_mean, prior_std), weight)
    return items.instance(KnapsackOracle(items.column(weight), capacity, labels=items.names))


def read_groups(
    path: str | os.PathLike[str],
    quotas: int | Mapping[Hashable, int],
    *,
    exactly: bool = True,
    item: str = "item",
    group: str = "group",
    mean: str = "mean",
    noise_std: float | str | None = None,
    cost: float | str = 1.0,
    prior_mean: float | str | None = None,
    prior_std: float | str | None = None,
) -> Instance:
    r"""The best items of each group in a CSV file: exactly (or at most) so many from each.

    `quotas` is one number for all groups, or one by the name of each; the column `group` says which group an item is
    in, and all else is as for `read_items`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "team.csv"
    ...     _ = path.write_text("item,group,mean\nann,cook,3\nbob,cook,4\ncleo,driver,1\ndan,driver,2\n")
    ...     read_groups(path, 1).best
    {'cook': {'bob'}, 'driver': {'dan'}}
    """
    items = _read(path, item, mean, (noise_std, cost, prior_mean, prior_std), group)
    members: dict[str, list[str]] = {}
    for name, (line, text) in zip(items.names, items.texts(group), strict=True):
        if not text:
            items.file.refuse("is empty", line, group)
        members.setdefault(text, []).append(name)
    return items.instance(PartitionOracle(members, quotas, exactly=exactly))


@dataclass(frozen=True)
class _Items:
    """A file with one item per row."""

    file: CsvFile
    names: list[str]
    mean: str
    said: dict[str, Any]

    def texts(self, name: str) -> list[tuple[int, str]]:
        """Line and text of a column's cells."""
        header = self.file.header
        if name not in header:
            named = ", ".join(column for column in header if not is_unnamed_column(column))
            self.file.refuse(f"there is no such column; the header has {named}", self.file.first, name)
        at = header.index(name)
        return [(line, row[at].strip()) for line, row in self.file.rows]

    def column(self, name: str) -> list[float]:
        """Its numbers."""
        return self.file.numbers([(line, name, text) for line, text in self.texts(name)])

    def instance(self, oracle: ArgmaxOracle) -> Instance:
        """Columns in the order of the oracle's components."""
        at = {name: i for i, name in enumerate(self.names)}
        order = [at[str(label)] for label in oracle.components]

        def ordered(name: str) -> list[float]:
            values = self.column(name)
            return [values[i] for i in order]

        known = self.mean in self.file.header
        theta = ordered(self.mean) if known else None
        origin = f"{'' if known else 'there is no '}column `{self.mean}`"
        return instance_from_file(self.file.path, oracle, theta, in_file(self.said, ordered), origin)


def _read(path: str | os.PathLike[str], item: str, mean: str, said: tuple[Any, ...], *more: str) -> _Items:
    """The items of a file; a column that nobody asks for is a sign that the one with the truth has another name."""
    for column in (item, mean, *more):
        check_text("the name of a column", column)
    file = read_csv(path)
    items = _Items(file, [], mean, dict(zip(("noise_std", "cost", "prior_mean", "prior_std"), said, strict=True)))
    named = [name for name in file.header if not is_unnamed_column(name)]
    names = items.texts(item)
    if mean not in file.header and set(named) - set(said) - {item, *more}:
        file.refuse(f"there is no such column; the header has {', '.join(named)}", file.first, mean)
    return replace(items, names=_distinct(file, names, item))


def read_table(
    path: str | os.PathLike[str],
    *,
    maximize: bool = True,
    noise_std: float | None = None,
    cost: float = 1.0,
    prior_mean: float | None = None,
    prior_std: float | None = None,
) -> Instance:
    r"""The best assignment in a CSV table: one row per worker, one column per task, with a header.

    A cell holds the worth of the pair; an empty cell forbids it. "?" in every allowed cell says that theta is unknown.

    Parameters
    ----------
    path
        The file, in UTF-8; fields are separated by commas, semicolons or tabs. The first column names the workers, the
        header the tasks.
    maximize
        True for rewards, False for costs.
    noise_std, cost, prior_mean, prior_std
        As for `Problem`: one number for all pairs.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "crew.csv"
    ...     _ = path.write_text("worker,dig,plant\nann,3,2\nbob,4,\n")
    ...     read_table(path).best
    {'ann': 'plant', 'bob': 'dig'}
    """
    file = read_csv(path)
    first, *tasks = file.header
    if is_unnamed_column(first) and [row[0].strip() for _, row in file.rows] in _counted(len(file.rows)):
        file.refuse(
            "the first column has no name and counts the rows; write the table without it (index=False)", file.first
        )
    workers = _distinct(file, [(line, row[0]) for line, row in file.rows], first or "first column")
    cells = [
        (worker, task, cell.strip(), line)
        for worker, (line, row) in zip(workers, file.rows, strict=True)
        for task, cell in zip(tasks, row[1:], strict=True)
    ]
    edges = [(worker, task) for worker, task, cell, _ in cells if cell]
    theta = None
    if not all(cell in ("", "?") for _, _, cell, _ in cells):
        theta = file.numbers([(line, task, cell) for _, task, cell, line in cells if cell])
    oracle = MatchingOracle(workers, tasks, None if len(edges) == len(cells) else edges, maximize)
    said = {"noise_std": noise_std, "cost": cost, "prior_mean": prior_mean, "prior_std": prior_std}

    def column(name: str) -> list[float]:
        file.refuse(f"a table of pairs has no such column: give one number for {name!r}", file.first, name)

    return instance_from_file(file.path, oracle, theta, in_file(said, column))


def _counted(rows: int) -> list[list[str]]:
    """The row numbers of pandas and those of R."""
    return [[str(i + start) for i in range(rows)] for start in (0, 1)]


def _distinct(file: CsvFile, names: list[tuple[int, str]], field: str) -> list[str]:
    seen: dict[str, int] = {}
    for line, text in names:
        name = text.strip()
        if not name or name in seen:
            file.refuse(f"{name!r} stands in line {seen[name]} already" if name else "is empty", line, field)
        seen[name] = line
    return list(seen)
