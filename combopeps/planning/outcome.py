"""`Plan`: what measuring will take, said before the first measurement."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from io import StringIO
from math import isfinite
from typing import TYPE_CHECKING, Any

from combopeps.errors import ParameterError
from combopeps.forms import data_frame, html_table
from combopeps.planning import in_words
from combopeps.planning.forecast import Forecast
from combopeps.planning.least import Least
from combopeps.planning.reach import Reach

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class Plan:
    """How many measurements, at what cost, and with what chance of being right.

    Printed, it is a table and some sentences; `plan["verified"]` is what one rule does.

    Attributes
    ----------
    forecasts
        One for each stopping rule.
    delta, epsilon, policy, seed
        As given; the seed is None where it was no integer.
    assumes
        Where the thetas of runs come from, in words.
    guessed
        Whether there was a guess at theta.
    runs
        How many were asked for; a forecast has fewer where the time was over.
    most
        Measurements after which runs were cut off: the budget, if there is one.
    budget, reach
        The budget, and what can be found out with it; None without one.
    least
        What the lower bound says.
    unit, priced
        What is counted ("measurements" or "actions"), and whether their costs differ from 1.
    seconds
        What it took to make the plan.
    """

    forecasts: tuple[Forecast, ...]
    delta: float
    epsilon: float
    policy: str
    seed: int | None
    assumes: str
    guessed: bool
    runs: int
    most: int
    budget: int | None
    reach: Reach | None
    least: Least
    unit: str
    priced: bool
    seconds: float = field(compare=False)

    def __getitem__(self, rule: str) -> Forecast:
        for forecast in self.forecasts:
            if forecast.rule == rule:
                return forecast
        there = ", ".join(forecast.rule for forecast in self.forecasts)
        raise ParameterError(f"the plan has no rule {rule!r:.40}; it has {there}")

    @property
    def words(self) -> list[str]:
        """What it says, in sentences."""
        return in_words.sentences(self)

    def __repr__(self) -> str:
        rules = ", ".join(f"{f.rule}: {f.mean_samples}" for f in self.forecasts)
        return f"Plan({rules}; delta={self.delta:g}, {self.assumes})"

    def __str__(self) -> str:
        head = f"{self.unit.capitalize()} until the rule is content: delta = {self.delta:g}, policy {self.policy}"
        return "\n".join([f"{head}, {self.assumes}", in_words.table(self), *self.words])

    def _repr_html_(self) -> str:
        return html_table(f"Plan: delta = {self.delta:g}, {self.assumes}", in_words.rows(self), in_words.HEADER)

    def to_dict(self) -> dict[str, Any]:
        """All data as JSON knows them; see `Readable.to_dict`."""
        from combopeps.forms import plain

        facts: dict[str, Any] = plain(self)
        for forecast, said in zip(self.forecasts, facts["forecasts"], strict=True):
            said |= {"runs": forecast.runs} | {key: plain(value) for key, value in _summary(forecast).items()}
        return facts | {"words": self.words}

    def to_frame(self) -> DataFrame:
        """A pandas DataFrame with one row per rule: means, quantiles and shares, each with the ends of its interval.

        Needs pandas (`pip install 'combopeps[pandas]'`).
        """
        rows = [{"rule": forecast.rule, "runs": forecast.runs} | _summary(forecast) for forecast in self.forecasts]
        return data_frame({name: [row[name] for row in rows] for name in rows[0]})

    def to_csv(self) -> str:
        """The same as text, without pandas."""
        rows = [{"rule": forecast.rule, "runs": forecast.runs} | _summary(forecast) for forecast in self.forecasts]
        text = StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def plot(self, *, ax: tuple[Axes, Axes] | None = None) -> tuple[Axes, Axes]:
        """When runs end, and the share that is right against the budget; `plotting.save(ax[0], path)` keeps both.

        Needs matplotlib (`pip install 'combopeps[plot]'`).
        """
        from combopeps.plotting import plot_ends, plot_right
        from combopeps.plotting.canvas import two_axes

        ends = {f"{f.rule} ({f.runs} runs)": f.ends for f in self.forecasts if f.rule != "budget"}
        right = {f.rule: (f.times, f.right_at) for f in self.forecasts}
        left, beside = two_axes() if ax is None else ax
        options: dict[str, Any] = {"unit": self.unit, "budget": self.budget}
        return plot_ends(ends, ax=left, **options), plot_right(right, ax=beside, **options)


def _summary(forecast: Forecast) -> dict[str, Any]:
    """Numbers with names."""
    samples, cost, right, ended = (
        forecast.mean_samples, forecast.mean_cost, forecast.share_right, forecast.share_ended,
    )  # fmt: skip
    ends = {"median_samples": forecast.quantile(0.5), "most_samples": forecast.quantile(0.9)}
    finite = {name: end if isfinite(end) else None for name, end in ends.items()}
    return {
        "mean_samples": samples.value, "mean_samples_low": samples.low, "mean_samples_high": samples.high,
        "at_least": samples.at_least, **finite,
        "mean_cost": cost.value, "mean_cost_low": cost.low, "mean_cost_high": cost.high,
        "share_right": right.value, "share_right_low": right.low, "share_right_high": right.high,
        "share_ended": ended.value,
    }  # fmt: skip
