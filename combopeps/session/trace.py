"""`Trace`: results of a simulation, with correctness, draws, time and cost at every checkpoint."""

from __future__ import annotations

import io
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array
from combopeps.utils import files
from combopeps.utils.formatting import ShortRepr, data_frame, html_table
from combopeps.utils.validation import MAX_DRAWS, check_count, check_fraction, check_kind, shown

if TYPE_CHECKING:
    from pandas import DataFrame

_MAX_HTML_ROWS = 8  # checkpoints in the table of a notebook
_MAX_COST_POINTS = 1000  # costs at which the identification rate is computed


@dataclass(frozen=True, repr=False)
class Crossing(ShortRepr):
    """The first checkpoint at which the identification rate exceeds a level, with a bootstrap interval.

    `samples` and the ends of the interval are infinite where the rate does not exceed it.
    """

    samples: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Trace(ShortRepr):
    """Results of `simulate`.

    Attributes
    ----------
    t
        Checkpoints: numbers of measurements, (T,).
    correct
        Whether the answer after t measurements is correct, (R, T).
    pulls
        Number of measurements of each arm, (R, K).
    draws
        Parameter vectors drawn per round and run, averaged between checkpoints, (T,).
    seconds
        Wall time per round and run, averaged between checkpoints, (T,).
    cost
        Total cost of each run at each checkpoint, (R, T): t, unless the problem has costs.
    seed
        Seed of the simulation; -1 if it was not an integer.
    """

    t: NDArray[np.int64]
    correct: NDArray[np.bool_]
    pulls: NDArray[np.int64]
    draws: Array
    seconds: Array
    seed: int
    cost: Array

    def __repr__(self) -> str:
        rate, error = self.identification_rate()
        return (
            f"Trace({len(self.correct)} runs, {len(self.t)} checkpoints up to t={self.t[-1]}, "
            f"right at the end: {rate[-1]:.3g} +- {error[-1]:.2g}, seed={self.seed})"
        )

    def _repr_html_(self) -> str:
        rate, error = self.identification_rate()
        shown = np.unique(np.linspace(0, len(self.t) - 1, _MAX_HTML_ROWS).round().astype(int))
        rows = [
            (f"{self.t[i]}", f"{rate[i]:.3f} ± {error[i]:.3f}", f"{self.draws[i]:.3g}", f"{1e6 * self.seconds[i]:.3g}")
            for i in shown
        ]
        title = f"Trace of {len(self.correct)} runs, {len(shown)} of {len(self.t)} checkpoints"
        return html_table(title, rows, ("t", "right", "draws per round", "µs per round"))

    def to_frame(self) -> DataFrame:
        """Return a pandas DataFrame with one row per checkpoint: t, rate, two_se, draws, seconds.

        These are the share of correct runs, twice its standard error, and draws and seconds per round since the
        previous checkpoint. Requires pandas (`pip install 'combopeps[pandas]'`).
        """
        rate, error = self.identification_rate()
        return data_frame({"t": self.t, "rate": rate, "two_se": error, "draws": self.draws, "seconds": self.seconds})

    def identification_rate(self) -> tuple[Array, Array]:
        """Return the share of correct runs at each checkpoint, and twice its standard error."""
        rate = self.correct.mean(axis=0)
        return rate, 2.0 * np.sqrt(rate * (1.0 - rate) / len(self.correct))

    def samples_to(self, level: float, *, confidence: float = 0.95, resamples: int = 1000) -> Crossing:
        """Return the measurements until the identification rate exceeds `level`, with a bootstrap interval."""
        return _crossing(self.t, self.correct, level, confidence, resamples)

    def cost_to(self, level: float, *, confidence: float = 0.95, resamples: int = 1000) -> Crossing:
        """Return the cost until the identification rate exceeds `level`, with a bootstrap interval.

        The answer of a run at cost c is that of its last checkpoint with a cost of at most c.
        """
        costs = np.unique(self.cost)
        costs = costs[costs <= self.cost[:, -1].min()]  # reached by every run
        if len(costs) > (count := max(_MAX_COST_POINTS, len(self.t))):
            costs = costs[np.linspace(0, len(costs) - 1, count).astype(np.intp)]
        before = np.stack([np.searchsorted(row, costs, side="right") for row in self.cost]) - 1
        correct = np.take_along_axis(self.correct, np.maximum(before, 0), axis=1) & (before >= 0)
        return _crossing(costs, correct, level, confidence, resamples)

    def save(self, path: str | Path) -> None:
        """Write the trace to an .npz file, atomically."""
        data = io.BytesIO()
        np.savez_compressed(data, **{field.name: getattr(self, field.name) for field in fields(self)})
        files.write_atomically(path, data.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read a file written by `save`."""
        content = files.read_regular(path)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as data:
                values: dict[str, Any] = {field.name: data[field.name] for field in fields(cls)}
            return cls(**{**values, "seed": int(values["seed"])})
        except Exception as cause:  # zipfile, zlib and numpy raise errors of many kinds
            files.raise_format_error(Path(path), f"this is not a file of Trace.save: {cause}")

    @classmethod
    def join(cls, traces: list[Trace]) -> Trace:
        """Concatenate the runs of several traces with the same checkpoints."""
        if not isinstance(traces, (list, tuple)) or not traces:
            raise ParameterError(f"traces must be a list of at least one Trace, got {shown(traces)}")
        for trace in traces:
            check_kind("each entry of traces", trace, Trace)
            if not np.array_equal(trace.t, traces[0].t):
                raise ParameterError("traces must have the same checkpoints")
        weights = np.array([[len(trace.correct)] for trace in traces])
        rounds = np.diff(traces[0].t, prepend=0)
        drawn = sum(np.rint(trace.draws * n * rounds) for trace, n in zip(traces, weights, strict=True))
        return cls(
            traces[0].t,
            np.concatenate([trace.correct for trace in traces]),
            np.concatenate([trace.pulls for trace in traces]),
            drawn / (rounds * weights.sum()),  # from integer counts: independent of the grouping of runs
            np.average([trace.seconds for trace in traces], axis=0, weights=weights[:, 0]),
            traces[0].seed,
            np.concatenate([trace.cost for trace in traces]),
        )


def _crossing(
    x: Array | NDArray[np.int64], correct: NDArray[np.bool_], level: float, confidence: float, n: int
) -> Crossing:
    """Return the first x at which the share of correct runs, (R, T), exceeds a level, with a bootstrap interval."""
    check_fraction("level", level)
    check_fraction("confidence", confidence)
    check_count("resamples", n, MAX_DRAWS)
    rng = np.random.default_rng(0)  # fixed: the same trace has the same interval
    runs = len(correct)
    counts = rng.multinomial(runs, np.full(runs, 1.0 / runs), size=n)
    rates = counts @ correct.astype(np.float64) / runs
    tail = 50.0 * (1.0 - confidence)
    crossings = np.sort([_first_above(x, rate, level) for rate in rates])
    low, high = crossings[[int(n * tail / 100), int(np.ceil(n * (1 - tail / 100))) - 1]]
    return Crossing(_first_above(x, correct.mean(axis=0), level), float(low), float(high))


def _first_above(x: Array | NDArray[np.int64], rate: Array, level: float) -> float:
    above = np.flatnonzero(rate > level)
    return float(x[above[0]]) if len(above) else float("inf")
