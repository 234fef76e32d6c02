"""A plan as sentences and as a table."""

from __future__ import annotations

from math import isfinite, isnan
from typing import TYPE_CHECKING

from combopeps.session.forecast import CensoredMean, Forecast, number_text
from combopeps.utils.formatting import Proportion

if TYPE_CHECKING:
    from combopeps.session.plan import Plan

_SHARES_RIGHT = (0.8, 0.9, 0.95)  # for which the necessary budgets are stated
HEADER = ("rule", "runs", "mean [95 %]", "half end by", "90 % end by", "cost [95 %]", "right [95 %]", "ended")


def sentences(plan: Plan) -> list[str]:
    """Return the plan as sentences, the most important ones first."""
    text = [line for forecast in plan.forecasts if forecast.rule != "budget" for line in _on_rule(plan, forecast)]
    text += _on_budget(plan) + _on_cut_off(plan, plan.forecasts[-1]) if plan.reach is not None else _on_shares(plan)
    least = plan.least
    if not isnan(least.cost):
        cost = f"{number_text(least.cost)} {plan.unit}" if not plan.priced else f"a cost of {number_text(least.cost)}"
        median = f" (median of {least.draws} thetas)" if least.draws > 1 else ""
        text.append(
            f"Every rule with a frequentist guarantee (wrong with probability at most {plan.delta:g} for every theta) "
            f"needs at least {cost} on average{median}; a Bayesian rule may need less."
        )
    elif least.why_not:
        text.append(f"There is no lower bound here: {least.why_not}.")
    return text


def rows(plan: Plan) -> list[tuple[str, ...]]:
    """Return the cells of the table, one row per rule; the columns are those of `HEADER`."""
    return [
        (
            forecast.rule,
            str(forecast.runs),
            str(forecast.mean_samples),
            _quantile_text(forecast.quantile(0.5)),
            _quantile_text(forecast.quantile(0.9)),
            str(forecast.mean_cost),
            str(forecast.share_right),
            f"{100 * forecast.share_ended.value:.0f} %",
        )
        for forecast in plan.forecasts
    ]


def table(plan: Plan) -> str:
    """Return the table as text with aligned columns."""
    cells = [HEADER, *rows(plan)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def _on_rule(plan: Plan, forecast: Forecast) -> list[str]:
    """Return sentences on the number of measurements of a rule, and on its answers."""
    mean, cost = forecast.mean_samples, forecast.mean_cost
    paid = f", at a cost of {_mean_text(cost)}" if plan.priced else ""
    median, most = forecast.quantile(0.5), forecast.quantile(0.9)
    quantiles = f"; half of the runs end by {number_text(median)}" if isfinite(median) else ""
    quantiles += f", nine of ten by {number_text(most)}" if isfinite(most) else ""
    if plan.budget is None:
        text = [f"The {forecast.rule} rule ends after {_mean_text(mean)} {plan.unit} on average{paid}{quantiles}."]
    else:
        at_least = "at least, and " if forecast.timed_out.any() else ""  # runs that timed out might have ended
        text = [f"The {forecast.rule} rule ends within {_count_text(plan, plan.budget)} in {at_least}"
                f"{_share_text(forecast.share_ended)}{quantiles}."]  # fmt: skip
    loss = forecast.mean_loss
    lost = "" if loss.value == 0.0 else f"; it is worse than the best by {loss.value:.3g} on average"
    text += [f"Its answer is right in {_share_text(forecast.share_right)}{lost}."]
    return text + _on_cut_off(plan, forecast)


def _on_cut_off(plan: Plan, forecast: Forecast) -> list[str]:
    """Return sentences on runs that were cut off, and on runs that were not made."""
    text = list[str]()
    if forecast.timed_out.any() or (plan.budget is None and not forecast.ended.all()):
        cut_off, timed_out = int((~forecast.ended).sum()), int(forecast.timed_out.sum())
        why = f"{timed_out} of them because the time was over"
        if not timed_out:
            why = f"after {number_text(plan.most)} {plan.unit}"
        text.append(f"{cut_off} of {forecast.runs} runs were cut off, {why}: they are known to take longer.")
    if forecast.runs < plan.runs:
        text.append(f"{forecast.runs} of {plan.runs} runs fitted into the time.")
    return text


def _on_shares(plan: Plan) -> list[str]:
    """Return sentences on the budgets from which on the share of right answers exceeds some levels."""
    forecast = plan.forecasts[0]
    budgets = dict.fromkeys(forecast.budget_for(share) for share in _SHARES_RIGHT)
    return [
        f"With {_count_text(plan, budget)} you will be right in {_share_text(forecast.right_within(int(budget)))}."
        for budget in budgets
        if isfinite(budget)
    ]


def _on_budget(plan: Plan) -> list[str]:
    """Return sentences on what the budget achieves."""
    reach = plan.reach
    assert reach is not None
    if not reach.right.runs:
        return [f"What {_count_text(plan, reach.budget)} reach is not known: {reach.why_not}; allow more seconds."]
    text = [f"With {_count_text(plan, reach.budget)} you will be right in {_share_text(reach.right)}."]
    text.append(
        f"In nine of ten runs the posterior probability of being wrong is then at most {reach.delta:.2g}: "
        "the delta that this budget reaches."
    )
    cases = f"{100 * (1 - reach.level):g} of 100 cases"
    if reach.epsilon > 0.0:
        text.append(f"In {cases} the answer is worse than the best by at most {reach.epsilon:.3g}.")
    if not isnan(reach.scale):
        gap = "" if isnan(reach.gap) else f", a gap of {reach.gap:.3g} between the best and the second best"
        text.append(f"To be right in {cases}, gaps must be {reach.scale:.2g} times those of the guess{gap}.")
    elif plan.guessed and reach.why_not:
        text.append(f"The gaps for which the budget is enough are not known: {reach.why_not}.")
    return text


def _count_text(plan: Plan, count: float) -> str:
    """Return a number of measurements or actions, with its unit."""
    return f"{number_text(count)} {plan.unit if count != 1 else plan.unit[:-1]}"


def _mean_text(mean: CensoredMean) -> str:
    if mean.at_least:
        return f"at least {number_text(mean.value)}"
    return f"{number_text(mean.value)} (95 % interval {number_text(mean.low)} to {number_text(mean.high)})"


def _share_text(share: Proportion) -> str:
    return f"about {100 * share.value:.0f} of 100 cases (95 % interval {100 * share.low:.0f} to {100 * share.high:.0f})"


def _quantile_text(value: float) -> str:
    return number_text(value) if isfinite(value) else "later"
