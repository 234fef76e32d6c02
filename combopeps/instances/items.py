"""CSV files: items and their means (top-k), and tables of workers and tasks (matching)."""

from __future__ import annotations

import os

from combopeps.instances.model import Instance, in_file, instance_from_file
from combopeps.oracles import MatchingOracle, TopKOracle
from combopeps.tables.csv_files import CsvFile, is_index, read_csv


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
        As for `Problem`; or the name of a column that has the numbers. By default prior_std is the root mean square of
        theta around prior_mean, or 1 when it is unknown.

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
    file = read_csv(path)
    header = file.header
    named = [name for name in header if not is_index(name)]
    if item not in header:
        file.refuse(f"there is no such column; the header has {', '.join(named)}", file.first, item)
    said = {"noise_std": noise_std, "cost": cost, "prior_mean": prior_mean, "prior_std": prior_std}
    if mean not in header and set(named) - set(said.values()) - {item}:
        file.refuse(f"there is no such column; the header has {', '.join(named)}", file.first, mean)
    names = _distinct(file, [(line, row[header.index(item)]) for line, row in file.rows], item)

    def column(name: str) -> list[float]:
        if name not in header:
            file.refuse(f"there is no such column; the header has {', '.join(named)}", file.first, name)
        return file.numbers([(line, name, row[header.index(name)]) for line, row in file.rows])

    theta = column(mean) if mean in header else None
    origin = f"column `{mean}`" if mean in header else f"there is no column `{mean}`"
    return instance_from_file(file.path, TopKOracle(names, k), theta, in_file(said, column), origin)


def read_table(
    path: str | os.PathLike[str],
    *,
    maximize: bool = True,
    noise_std: float | None = 1.0,
    cost: float = 1.0,
    prior_mean: float = 0.0,
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
        As for `Problem`: one number for all pairs. By default prior_std is the root mean square of theta around
        prior_mean, or 1 when it is unknown.

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
    if is_index(first) and [row[0].strip() for _, row in file.rows] in _counted(len(file.rows)):
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
