"""A plan in sentences, and as a table."""

from __future__ import annotations

from math import isfinite, isnan
from typing import TYPE_CHECKING

from combopeps.session.forecast import Forecast, Mean, number
from combopeps.utils.formatting import Share

if TYPE_CHECKING:
    from combopeps.session.plan import Plan

_LEVELS = (0.8, 0.9, 0.95)
HEADER = ("rule", "runs", "mean [95 %]", "half end by", "90 % end by", "cost [95 %]", "right [95 %]", "ended")


def sentences(plan: Plan) -> list[str]:
    """What the plan says, the most important first."""
    said = [line for forecast in plan.forecasts if forecast.rule != "budget" for line in _of_rule(plan, forecast)]
    said += _of_budget(plan) + _of_time(plan, plan.forecasts[-1]) if plan.reach is not None else _of_curve(plan)
    least = plan.least
    if not isnan(least.cost):
        cost = f"{number(least.cost)} {plan.unit}" if not plan.priced else f"a cost of {number(least.cost)}"
        median = f" (median of {least.draws} thetas)" if least.draws > 1 else ""
        said.append(
            f"Every rule with a frequentist guarantee (wrong with probability at most {plan.delta:g} for every theta) "
            f"needs at least {cost} on average{median}; a Bayesian rule may need less."
        )
    elif least.why_not:
        said.append(f"There is no lower bound here: {least.why_not}.")
    return said


def rows(plan: Plan) -> list[tuple[str, ...]]:
    """The cells of a table, one row per rule; see `HEADER`."""
    return [
        (
            forecast.rule,
            str(forecast.runs),
            str(forecast.mean_samples),
            _by(forecast.quantile(0.5)),
            _by(forecast.quantile(0.9)),
            str(forecast.mean_cost),
            str(forecast.share_right),
            f"{100 * forecast.share_ended.value:.0f} %",
        )
        for forecast in plan.forecasts
    ]


def table(plan: Plan) -> str:
    """The same, for a terminal."""
    cells = [HEADER, *rows(plan)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _of_rule(plan: Plan, forecast: Forecast) -> list[str]:
    mean, cost = forecast.mean_samples, forecast.mean_cost
    paid = f", at a cost of {_average(cost)}" if plan.priced else ""
    middle, most = forecast.quantile(0.5), forecast.quantile(0.9)
    by = f"; half of the runs end by {number(middle)}" if isfinite(middle) else ""
    by += f", nine of ten by {number(most)}" if isfinite(most) else ""
    if plan.budget is None:
        said = [f"The {forecast.rule} rule ends after {_average(mean)} {plan.unit} on average{paid}{by}."]
    else:
        least = "at least, and " if forecast.timed_out.any() else ""  # these may have ended, or not
        said = [f"The {forecast.rule} rule ends within {_times(plan, plan.budget)} in {least}"
                f"{_of_100(forecast.share_ended)}{by}."]  # fmt: skip
    said += [f"Its answer is right in {_of_100(forecast.share_right)}."]
    return said + _of_time(plan, forecast)


def _of_time(plan: Plan, forecast: Forecast) -> list[str]:
    """What the time has left undone."""
    said = list[str]()
    if forecast.timed_out.any() or (plan.budget is None and not forecast.ended.all()):
        cut, late = int((~forecast.ended).sum()), int(forecast.timed_out.sum())
        why = f"{late} of them because the time was over" if late else f"after {number(plan.most)} {plan.unit}"
        said.append(f"{cut} of {forecast.runs} runs were cut off, {why}: of their end it is known that it comes later.")
    if forecast.runs < plan.runs:
        said.append(f"{forecast.runs} of {plan.runs} runs fitted into the time.")
    return said


def _of_curve(plan: Plan) -> list[str]:
    """Where the share of right answers passes some levels."""
    forecast = plan.forecasts[0]
    budgets = dict.fromkeys(forecast.budget_for(level) for level in _LEVELS)
    return [
        f"With {_times(plan, budget)} you will be right in {_of_100(forecast.right_within(int(budget)))}."
        for budget in budgets
        if isfinite(budget)
    ]


def _of_budget(plan: Plan) -> list[str]:
    reach = plan.reach
    assert reach is not None
    if not reach.right.runs:
        return [f"What {_times(plan, reach.budget)} reach is not known: {reach.why_not}; allow more seconds."]
    said = [f"With {_times(plan, reach.budget)} you will be right in {_of_100(reach.right)}."]
    said.append(
        f"In nine of ten runs the posterior probability of being wrong is then at most {reach.delta:.2g}: "
        "the delta that this budget reaches."
    )
    sure = f"{100 * (1 - reach.level):g} of 100 cases"
    if reach.epsilon > 0.0:
        said.append(f"In {sure} the answer is worse than the best by at most {reach.epsilon:.3g}.")
    if not isnan(reach.scale):
        gap = "" if isnan(reach.gap) else f", a gap of {reach.gap:.3g} between the best and the second best"
        said.append(f"To be right in {sure}, gaps must be {reach.scale:.2g} times those of the guess{gap}.")
    elif plan.guessed and reach.why_not:
        said.append(f"For which gaps the budget is enough was not found: {reach.why_not}.")
    return said


def _times(plan: Plan, count: float) -> str:
    """So many measurements, or actions."""
    return f"{number(count)} {plan.unit if count != 1 else plan.unit[:-1]}"


def _average(mean: Mean) -> str:
    if mean.at_least:
        return f"at least {number(mean.value)}"
    return f"{number(mean.value)} (95 % interval {number(mean.low)} to {number(mean.high)})"


def _of_100(share: Share) -> str:
    return f"about {100 * share.value:.0f} of 100 cases (95 % interval {100 * share.low:.0f} to {100 * share.high:.0f})"


def _by(value: float) -> str:
    return number(value) if isfinite(value) else "later"
