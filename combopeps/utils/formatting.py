"""Format values as short text, JSON data, HTML tables and data frames; probabilities and proportions with intervals.

Public classes derive from `ShortRepr`: a `repr` of one line, at most about 200 characters long (results, which show all
fields: 2,000) for any number of components, and an HTML table for notebooks.
"""

from __future__ import annotations

import inspect
import json
import re
import reprlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from itertools import islice
from math import ceil, exp, floor, isfinite, log, log10, sqrt
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from combopeps.errors import DependencyError

if TYPE_CHECKING:
    from pandas import DataFrame

OMITTED_FROM_JSON = {"plain": False}
"""Metadata of a dataclass field that JSON omits."""
SORTED_BY_COUNT = {"sort_by_count": True}
"""Metadata of a dataclass field with counts by label: representations show the largest ones first."""

NO_BREAK = "\N{NO-BREAK SPACE}"

_MAX_REPR_LENGTH, _MAX_RESULT_LENGTH = 200, 1900  # characters
_ENTRY_COUNTS = (30, 12, 6, 3, 1)  # entries shown of a collection: the first number that fits

_MAX_LOG_COUNT = log(1e9)  # of counts that are shown in full

_MAX_DIGITS = 2  # significant digits of a probability p, or of 1 - p
_EXPONENTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_MAX_SHOWN_PROBABILITY = 0.9999  # larger ones are shown as "> 0.9999"
_ROUNDING = 1e-9  # relative rounding error of numbers rounded before


def probability(interval: str) -> dict[str, str]:
    """Return metadata of a field with an estimated probability; `interval` names the field of its 95 % interval."""
    return {"interval": interval}


def probability_text(
    p: float, interval: tuple[float, float] | None = None, *, digits: int = _MAX_DIGITS, percent: bool = False
) -> str:
    """Format a probability with no more digits than its 95 % interval supports.

    A digit is shown if its unit is at least half of the standard error (a quarter of the interval). At most `digits`
    significant digits are shown of p, or of 1 - p where that is smaller. If no digit remains, an end of the interval is
    shown as a bound. Without an interval the number is treated as exact.

    Parameters
    ----------
    p
        Probability or its estimate; NaN is shown as "unknown".
    interval
        Low and high end of a 95 % interval.
    digits
        Largest number of significant digits.
    percent
        Format in percent, and probabilities below 0.0001 as a power of ten.

    Examples
    --------
    >>> probability_text(0.3312, (0.317, 0.346)), probability_text(0.3312, (0.23, 0.45)), probability_text(3.14e-7)
    ('0.33', '0.3', '3.1e-07')
    >>> probability_text(0.0, (0.0, 0.0009)), probability_text(1.0, (0.94, 1.0)), probability_text(0.0)
    ('< 0.0009', '> 0.94', '0')
    """
    if p != p:
        return "unknown"
    if interval is None:
        unit = 0.0
    else:
        low, high = interval
        half = (high - low) / 8.0  # half of the standard error
        unit = 10.0 ** ceil(log10(half) - _ROUNDING) if half > 0.0 else 0.0
    small = min(p, 1.0 - p)
    if small > 0.0:
        unit = max(unit, 10.0 ** (floor(log10(small) + _ROUNDING) - digits + 1))
    shown = round(p / unit) * unit if unit > 0.0 else p
    if interval is not None and unit > 0.0 and not unit / 2.0 < shown < 1.0 - unit / 2.0:
        if shown <= unit / 2.0:
            return f"< {_number(_round_up(high), percent)}" if high < 1.0 else "unknown"
        return f"> {_number(1.0 - _round_up(1.0 - low), percent)}" if low > 0.0 else "unknown"
    if p == 1.0 or shown <= _MAX_SHOWN_PROBABILITY:
        return _number(shown, percent)
    return f"> {_number(_MAX_SHOWN_PROBABILITY, percent)}"


def mean_std_text(mean: float, std: float) -> str:
    """Return a mean and its standard deviation, rounded to the digits that are significant.

    Examples
    --------
    >>> mean_std_text(12.3456, 0.0321), mean_std_text(1234.5, 20.0), mean_std_text(2.0, float("nan"))
    ('12.346 ± 0.032', '1,234 ± 20', 'unknown')
    """
    if not (isfinite(mean) and isfinite(std)):
        return "unknown"
    largest = max(abs(mean), std)
    if largest >= 1e6 or 0.0 < largest < 1e-3:
        return f"{mean:.3g} ± {std:.2g}".replace("-", "−")
    digits = 2 if std <= 0.0 else int(np.clip(1 - np.floor(np.log10(std)), 0, 5))
    return f"{mean + 0.0:,.{digits}f} ± {std:,.{digits}f}".replace("-", "−")  # + 0.0 turns -0.0 into 0.0


def amount_text(amount: float, interval: tuple[float, float]) -> str:
    """Return a nonnegative amount with two digits, or the high end of its 95 % interval where it is not above 0.

    Examples
    --------
    >>> amount_text(0.1234, (0.11, 0.14)), amount_text(1234.5, (1200.0, 1270.0)), amount_text(1e-5, (0.0, 3.2e-5))
    ('0.12', '1,200', '< 4e-05')
    """
    low, high = interval
    if not isfinite(amount) or not isfinite(high):
        return "unknown"
    if low <= 0.0 < high:
        return f"< {_round_up(high):.2g}"
    if amount == 0.0:
        return "0"
    unit = 10.0 ** (floor(log10(amount) + _ROUNDING) - 1)
    rounded = round(amount / unit) * unit
    return f"{rounded:,.0f}" if unit >= 1.0 else f"{rounded:.2g}"


def _round_up(p: float) -> float:
    """Round up to one significant digit; to two where the first is 1."""
    if p <= 0.0:
        return 0.0
    unit = 10.0 ** floor(log10(p) + _ROUNDING)
    unit = unit / 10.0 if p < 2.0 * unit else unit
    return ceil(p / unit - _ROUNDING) * unit


def _number(p: float, percent: bool) -> str:
    """Format a rounded number."""
    if not percent:
        return f"{p:.10g}" if p >= 1e-4 or p == 0.0 else f"{p:.2g}"
    if p >= 1e-4 or p == 0.0:
        return f"{100.0 * p:.10g}{NO_BREAK}%"
    exponent = floor(log10(p) + _ROUNDING)
    factor = f"{p / 10.0**exponent:.2g}" if exponent > -300 else "1"
    power = f"10{superscript(exponent)}"
    return power if factor == "1" else f"{factor}{NO_BREAK}×{NO_BREAK}{power}"


def superscript(exponent: int) -> str:
    """Format an exponent in superscript digits."""
    return ("⁻" if exponent < 0 else "") + "".join(_EXPONENTS[int(digit)] for digit in str(abs(exponent)))


class _Unquoted(str):
    """Text whose `repr` has no quotes."""

    def __repr__(self) -> str:
        return str(self)


class _LimitedRepr(reprlib.Repr):
    """The `repr` of a value with at most n entries of each collection; dicts keep their order."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxtuple = self.maxlist = self.maxarray = self.maxdict = self.maxset = self.maxfrozenset = n
        self.maxdeque = n
        self.maxstring = self.maxlong = self.maxother = 40 * n

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        if x and level <= 0:
            return "{...}"
        pairs = [f"{self.repr1(k, level - 1)}: {self.repr1(v, level - 1)}" for k, v in islice(x.items(), self.maxdict)]
        return "{" + ", ".join(pairs + ["..."] * (len(x) > self.maxdict)) + "}"

    def repr_float(self, x: float, level: int) -> str:
        return f"{x:.6g}" if isfinite(x) and float(f"{x:.6g}") != x else repr(x)

    def repr_ndarray(self, x: Any, level: int) -> str:
        with np.printoptions(threshold=self.maxlist, edgeitems=min(3, self.maxlist), linewidth=10**6):
            return _one_line(repr(x))

    def repr_instance(self, x: Any, level: int) -> str:
        return _one_line(super().repr_instance(x, level))


def short_repr(value: object, most: int = 400) -> str:
    """Return the `repr` of a value in at most `most` characters; entries of collections are omitted first.

    Examples
    --------
    >>> short_repr(["a", "b"]), short_repr(list(range(10_000)), most=20)
    ("['a', 'b']", '[0, 1, 2, ...]')
    """
    text = ""
    for n in _ENTRY_COUNTS:
        text = _LimitedRepr(n).repr(value)
        if len(text) <= most:
            return text
    return shorten(text, most)


class ShortRepr:
    """Mixin: a `repr` of one line and an HTML table for notebooks, both from the names and values of `_summary`.

    Both are cheap and never raise: they show stored values only, shortened where they are long, and the name of the
    class alone where an object is incomplete. Use it with `@dataclass(repr=False)`.

    Examples
    --------
    >>> class Sampler(ShortRepr):
    ...     def __init__(self, cap=100, clip=False):
    ...         self.cap, self.clip = cap, clip
    >>> Sampler(cap=5)
    Sampler(cap=5, clip=False)
    """

    __slots__ = ()
    _max_repr_length: ClassVar[int] = _MAX_REPR_LENGTH

    def _summary(self) -> Mapping[str, Any]:
        """Return names and values to show: by default fields, or arguments of the constructor that are attributes."""
        return dict(_shown_fields(self)) if is_dataclass(self) else stored_options(self)

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            return brief_call(name, self._summary(), self._max_repr_length)
        except Exception:
            return f"<{name}>"

    def _repr_html_(self) -> str:
        try:
            rows = [(k.replace("_", " "), _cell_text(v)) for k, v in self._summary().items() if v is not None]
        except Exception:
            rows = []
        return html_table(type(self).__name__, rows)


def brief_call(name: str, values: Mapping[str, Any], most: int = _MAX_REPR_LENGTH) -> str:
    """Return `name(key=value, ...)` in at most `most` characters; entries of collections are omitted first."""
    text = ""
    for n in _ENTRY_COUNTS:
        short = _LimitedRepr(n)
        text = f"{name}({', '.join(f'{key}={short.repr(value)}' for key, value in values.items())})"
        if len(text) <= most:
            return text
    return shorten(text, most)


def stored_options(made: object) -> dict[str, Any]:
    """Return the arguments of the constructor that an object keeps as attributes of the same names."""
    stored = getattr(made, "__dict__", {})  # not getattr: a property may be expensive
    return {name: stored[name] for name in inspect.signature(type(made)).parameters if name in stored}


def brief_tuple(made: Any) -> str:
    """Return the `repr` of a named tuple, which cannot have a mixin: see `ShortRepr`."""
    return brief_call(type(made).__name__, made._asdict())


def html_of_tuple(made: Any) -> str:
    """Return the HTML table of a named tuple."""
    return html_table(type(made).__name__, [(k.replace("_", " "), _cell_text(v)) for k, v in made._asdict().items()])


class Readable(ShortRepr):
    """Mixin for dataclasses of results: a `repr` of all fields, JSON data, and an HTML table in notebooks."""

    _max_repr_length = _MAX_RESULT_LENGTH

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON data: dicts by name, lists, strings, numbers, booleans and None.

        Tuples, sets (sorted) and arrays become lists. Dicts by label become lists of [label, value] pairs, as labels
        need not be strings. NaN and infinities become None, and a label that JSON cannot represent becomes its `repr`.
        """
        document: dict[str, Any] = to_json_data(self)
        return document

    def to_json(self, **options: Any) -> str:
        """Return `to_dict` as JSON text; options are passed to `json.dumps`."""
        return json.dumps(self.to_dict(), **{"allow_nan": False, **options})

    def _repr_html_(self) -> str:
        shown = [(k, v) for k, v in _shown_fields(self) if not isinstance(v, np.ndarray) and not is_dataclass(v)]
        rows = [(k.replace("_", " "), _cell_text(v)) for k, v in shown if isinstance(v, (bool, Real)) or v]
        return html_table(type(self).__name__, rows)


def to_json_data(value: Any) -> Any:
    """Convert a value to JSON data without NaN and infinities; see `Readable.to_dict`.

    Examples
    --------
    >>> to_json_data({("a", "b"): np.int64(3), ("b", "c"): float("nan")})
    [[['a', 'b'], 3], [['b', 'c'], None]]
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return to_json_data(value.tolist())
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_json_data(entry) for name, entry in _data_fields(value)}
    return _plain_collection(value)


def _plain_collection(value: Any) -> Any:
    """Convert a collection, or a value of another type, to JSON data."""
    if hasattr(value, "_asdict"):  # a named tuple
        return {name: to_json_data(entry) for name, entry in value._asdict().items()}
    if isinstance(value, Mapping):
        return [[to_json_data(key), to_json_data(entry)] for key, entry in value.items()]
    if isinstance(value, (set, frozenset)):
        return [to_json_data(entry) for entry in sort_mixed(value)]
    if isinstance(value, (list, tuple)):
        return [to_json_data(entry) for entry in value]
    return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def sort_mixed(items: Iterable[Any]) -> list[Any]:
    """Sort numbers by size, then strings, then other items by their `repr`: a reproducible order for sets.

    Examples
    --------
    >>> sort_mixed({"b", 2, ("c", "d"), 1.5, "a"})
    [1.5, 2, 'a', 'b', ('c', 'd')]
    """

    def rank(item: Any) -> tuple[int, Any, str]:
        if isinstance(item, Real):
            return 0, item, ""
        return (1, 0, item) if isinstance(item, str) else (2, 0, repr(item))

    return sorted(items, key=rank)


def sort_by_count(counts: Mapping[Hashable, float]) -> dict[Hashable, float]:
    """Sort counts in descending order; equal ones keep their order."""
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def html_table(title: str, rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Return an HTML table; the first cell of a row is its heading. All text is escaped.

    Examples
    --------
    >>> "&lt;script&gt;" in html_table("Names", [("a", "<script>")])
    True
    """
    style = ' style="text-align:left"'
    lines = [f"<tr>{''.join(f'<th{style}>{escape(cell)}</th>' for cell in header)}</tr>"] if header else []
    for name, *cells in rows:
        others = "".join(f"<td{style}>{escape(cell)}</td>" for cell in cells)
        lines.append(f"<tr><th{style}>{escape(name)}</th>{others}</tr>")
    return f"<table><caption{style}><b>{escape(title)}</b></caption>{''.join(lines)}</table>"


def data_frame(columns: Mapping[str, Any]) -> DataFrame:
    """Return a pandas DataFrame of the columns; raise a DependencyError without pandas."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise DependencyError("tables need pandas; install it: pip install 'combopeps[pandas]'") from None
    return DataFrame(dict(columns))


def _shown_fields(record: Any) -> list[tuple[str, Any]]:
    """Return names and values of the fields of a representation."""
    visible = list[tuple[str, Any]]()
    for field in fields(record):
        value = getattr(record, field.name)
        if "interval" in field.metadata:
            value = _Unquoted(probability_text(value, getattr(record, field.metadata["interval"])))
        elif field.metadata.get("sort_by_count"):
            value = sort_by_count(value)
        if field.repr:
            visible.append((field.name, value))
    return visible


def _data_fields(record: Any) -> list[tuple[str, Any]]:
    """Return names and values of the fields of JSON data."""
    kept = [field.name for field in fields(record) if field.metadata.get("plain", True) and field.name[0] != "_"]
    return [(name, getattr(record, name)) for name in kept]


def _cell_text(value: Any) -> str:
    """Format a value for a table: strings without quotes, floats with four digits."""
    if isinstance(value, str):
        return shorten(value, 800)
    return f"{value:.4g}" if isinstance(value, float) else short_repr(value)


def count_text(log_count: float) -> str:
    """Format a number that is known by its logarithm.

    Examples
    --------
    >>> count_text(log(120)), count_text(1000.0)
    ('120', '10⁴³⁴')
    """
    return (
        f"{round(exp(log_count)):,}" if log_count < _MAX_LOG_COUNT else f"10{superscript(round(log_count / log(10.0)))}"
    )


def _one_line(text: str) -> str:
    """Join the lines of a text."""
    return re.sub(r"\s*\n\s*", " ", text) if "\n" in text else text


def shorten(text: str, most: int) -> str:
    """Omit the middle of a text that is longer than `most`."""
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[:half]}...{text[len(text) - half :]}"


_Z_95 = 1.959963984540054  # quantile of the normal distribution for 95 % intervals


@dataclass(frozen=True)
class Proportion(ShortRepr):
    """A proportion of runs with Wilson's 95 % confidence interval.

    Examples
    --------
    >>> Proportion.of(80, 100)
    Share(value=0.8, low=0.711, high=0.867, runs=100)
    >>> print(Proportion.of(0, 0))
    unknown
    """

    value: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, hits: float, runs: int) -> Proportion:
        """Return the proportion of `hits` in `runs`; NaN with interval [0, 1] for no runs."""
        if runs == 0:
            return cls(float("nan"), 0.0, 1.0, 0)
        p, z2 = hits / runs, _Z_95 * _Z_95
        middle = (p + z2 / (2 * runs)) / (1 + z2 / runs)
        half = _Z_95 * sqrt(p * (1 - p) / runs + z2 / (4 * runs * runs)) / (1 + z2 / runs)
        return cls(p, max(0.0, middle - half) if hits else 0.0, min(1.0, middle + half) if hits < runs else 1.0, runs)

    def __repr__(self) -> str:
        return f"Share(value={self.value:.3g}, low={self.low:.3g}, high={self.high:.3g}, runs={self.runs})"

    def __str__(self) -> str:
        if not self.runs:
            return "unknown"
        return f"{100 * self.value:.1f} % [{100 * self.low:.1f}, {100 * self.high:.1f}]"
