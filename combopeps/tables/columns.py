"""Which column of a table holds what: by name, whatever the case, and under a few other names that are as clear."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from combopeps.tables.csv_files import is_index
from combopeps.tables.written import shown

# The first name of each is the one that counts where there are several.
NAMES = {
    "label": ("label", "item"),
    "source": ("source", "from"),
    "target": ("target", "to"),
    "key": ("key",),
    "left": ("left",),
    "right": ("right",),
    "value": ("value", "y", "mean"),
    "sem": ("sem", "se", "stderr", "std_error", "standard_error"),
    "count": ("count", "n"),
    "id": ("id", "query"),
}
_SPREADS = ("std", "sd", "stdev", "std_dev", "var", "variance")  # of single measurements, or of their mean?
_LABELS = (("label",), ("source", "target"), ("left", "right"))
_LABEL_CURE = "name it label; or source and target (and key) for edges, left and right for pairs"


class ColumnError(ValueError):
    """A column is missing, or there are two of a kind; `column` says which."""

    def __init__(self, message: str, column: str) -> None:
        super().__init__(message)
        self.column = column


@dataclass(frozen=True)
class Columns:
    """Where things stand in a row: the parts of the label, the value, and what else is known about it."""

    label: tuple[int, ...]
    value: int
    sem: int | None = None
    count: int | None = None


def measurement_columns(names: Sequence[Hashable]) -> Columns:
    """The columns of a table of measurements; `ColumnError` where they cannot be told.

    Examples
    --------
    >>> measurement_columns(["Unnamed: 0", "Source", "target", "day", "Value"])
    Columns(label=(1, 2), value=4, sem=None, count=None)
    """
    at = _found(names)
    ways = [way for way in _LABELS if all(part in at for part in way)]
    if len(ways) > 1:
        both = " and ".join(", ".join(way) for way in ways)
        raise ColumnError(f"there are {both}, and each may say what was measured; leave one of them out", "label")
    if not ways:
        raise ColumnError(f"no column says what was measured; {_LABEL_CURE}; {_there(names)}", "label")
    if "value" not in at:
        raise ColumnError(f"no column holds the results; name it value; {_there(names)}", "value")
    parts = (*ways[0], "key") if ways[0][0] == "source" and "key" in at else ways[0]
    return Columns(tuple(at[part] for part in parts), at["value"], at.get("sem"), at.get("count"))


def result_columns(names: Sequence[Hashable]) -> Columns:
    """The columns of a table of results, in which a query stands by its number, `id`."""
    at = _found(names)
    for role, what in (("id", "the numbers of the queries"), ("value", "the results")):
        if role not in at:
            raise ColumnError(f"no column holds {what}; name it {role}; {_there(names)}", role)
    return Columns((at["id"],), at["value"], at.get("sem"))


def part_columns(names: Sequence[Hashable]) -> Columns:
    """The columns of a table of results of actions: the number of the query first, then the parts of the label.

    Examples
    --------
    >>> part_columns(["id", "source", "target", "value"])
    Columns(label=(0, 1, 2), value=3, sem=None, count=None)
    """
    query, part = result_columns(names), measurement_columns(names)
    return Columns(query.label + part.label, part.value, part.sem)


def _found(names: Sequence[Hashable]) -> dict[str, int]:
    """From roles to positions."""
    written: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        if isinstance(name, str):
            written.setdefault(_plain(name), []).append(position)
    at = {}
    for role, known in NAMES.items():
        there = [position for name in known for position in written.get(name, [])]
        if len(written.get(role, [])) != 1 and len(there) > 1:
            both = " and ".join(repr(names[position]) for position in there[:2])
            raise ColumnError(f"{both} may both be the {role}; leave one of them out, or rename it", role)
        if there:
            at[role] = there[0]
    spread = next((name for name in _SPREADS if name in written), None)
    if spread is not None and "sem" not in at:
        raise ColumnError(
            "a spread is not taken: if it is the standard error of the value, name it sem; if it is the standard "
            "deviation of single measurements, leave it out and give it to Problem(noise_std=)",
            str(names[written[spread][0]]),
        )
    return at


def _plain(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_")


def _there(names: Sequence[Hashable]) -> str:
    named = [shown(name) for name in names if not (isinstance(name, str) and is_index(name))]
    return f"there are {', '.join(named[:8])}{', ...' if len(named) > 8 else ''}" if named else "there are none"
