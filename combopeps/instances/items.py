"""CSV files: items and their means (top-k), and tables of workers and tasks (matching)."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from combopeps.instances.model import Instance, in_file, instance_from_file
from combopeps.instances.parsing import parse_number, read_text, refuse
from combopeps.oracles import MatchingOracle, TopKOracle

Rows = list[tuple[int, list[str]]]


def read_items(
    path: str | os.PathLike[str],
    k: int,
    *,
    item: str = "item",
    mean: str = "mean",
    noise_std: float | str | None = 1.0,
    cost: float | str = 1.0,
    prior_mean: float | str = 0.0,
    prior_std: float | str | None = None,
) -> Instance:
    r"""The best k of the items in a CSV file: comma-separated, with a header.

    Parameters
    ----------
    path
        The file, in UTF-8.
    k
        How many items to choose.
    item, mean
        Names of the two columns to read. A file with the item column alone has an unknown theta.
    noise_std, cost, prior_mean, prior_std
        As for `Problem`; or the name of a column that has the numbers. By default prior_std is the root mean square of
        theta around prior_mean, or 1 when it is unknown.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "beers.csv"
    ...     _ = path.write_text("item,mean,spread\nale,0.2,1\nbock,0.9,2\ncider,0.4,1\n")
    ...     beers = read_items(path, k=1, noise_std="spread")
    >>> beers.best, beers.noise_std
    ({'bock'}, array([1., 2., 1.]))
    """
    path = Path(path)
    header, rows = read_csv(path)
    if item not in header:
        refuse(path, f"there is no such column; the header has {', '.join(header)} (separate names by commas)", 1, item)
    said = {"noise_std": noise_std, "cost": cost, "prior_mean": prior_mean, "prior_std": prior_std}
    named = {value for value in said.values() if isinstance(value, str)}
    if mean not in header and set(header) - named - {item}:
        refuse(path, f"there is no such column; the header has {', '.join(header)}", 1, mean)
    names = _distinct(path, [(line, row[header.index(item)]) for line, row in rows], item)

    def column(name: str) -> list[float]:
        if name not in header:
            refuse(path, f"there is no such column; the header has {', '.join(header)}", 1, name)
        return [parse_number(path, row[header.index(name)], line, name) for line, row in rows]

    theta = column(mean) if mean in header else None
    origin = f"column `{mean}`" if mean in header else f"there is no column `{mean}`"
    return instance_from_file(path, TopKOracle(names, k), theta, in_file(said, column), origin)


def read_table(
    path: str | os.PathLike[str],
    *,
    maximize: bool = True,
    noise_std: float | None = 1.0,
    cost: float = 1.0,
    prior_mean: float = 0.0,
    prior_std: float | None = None,
) -> Instance:
    r"""The best assignment in a CSV table: one row per worker, one column per task, comma-separated, with a header.

    A cell holds the worth of the pair; an empty cell forbids it. "?" in every allowed cell says that theta is unknown.

    Parameters
    ----------
    path
        The file, in UTF-8. The first column names the workers, the header the tasks.
    maximize
        True for rewards, False for costs.
    noise_std, cost, prior_mean, prior_std
        As for `Problem`: one number for all pairs. By default prior_std is the root mean square of theta around
        prior_mean, or 1 when it is unknown.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "crew.csv"
    ...     _ = path.write_text("worker,dig,plant\nann,3,2\nbob,4,\n")
    ...     read_table(path).best
    {'ann': 'plant', 'bob': 'dig'}
    """
    path = Path(path)
    header, rows = read_csv(path)
    workers = _distinct(path, [(line, row[0]) for line, row in rows], header[0])
    cells = [
        (worker, task, cell.strip(), line)
        for worker, (line, row) in zip(workers, rows, strict=True)
        for task, cell in zip(header[1:], row[1:], strict=True)
    ]
    edges = [(worker, task) for worker, task, cell, _ in cells if cell]
    theta = None
    if not all(cell in ("", "?") for _, _, cell, _ in cells):
        theta = [parse_number(path, cell, line, task) for _, task, cell, line in cells if cell]
    oracle = MatchingOracle(workers, header[1:], None if len(edges) == len(cells) else edges, maximize)
    said = {"noise_std": noise_std, "cost": cost, "prior_mean": prior_mean, "prior_std": prior_std}

    def column(name: str) -> list[float]:
        refuse(path, f"a table has no column of that kind for {name!r}; give one number, or a Problem with a dict", 1)

    return instance_from_file(path, oracle, theta, in_file(said, column))


def read_csv(path: Path) -> tuple[list[str], Rows]:
    """The header and the other lines, each with its number and as many fields as the header."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        lines = [(reader.line_num, row) for row in reader if row]
    except csv.Error as cause:
        refuse(path, f"this is not CSV: {cause}", reader.line_num)
    if len(lines) < 2:
        refuse(path, "a header and at least one row are needed")
    (first, header), *rows = lines
    header = _distinct(path, [(first, name) for name in header], "header")
    for line, row in rows:
        if len(row) != len(header):
            refuse(path, f"the header has {len(header)} fields, this line {len(row)}; separate them by commas", line)
    return header, rows


def _distinct(path: Path, names: list[tuple[int, str]], field: str) -> list[str]:
    seen: dict[str, int] = {}
    for line, text in names:
        name = text.strip()
        if not name or name in seen:
            refuse(path, f"{name!r} stands in line {seen[name]} already" if name else "is empty", line, field)
        seen[name] = line
    return list(seen)
