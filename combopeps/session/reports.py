"""Contents of the reports of a session: recorded results, status, result, and what qualifies its claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from combopeps.posterior.arms import Arms
from combopeps.session.diagnostics import Conflict
from combopeps.session.prior_predictive import budget_claim
from combopeps.session.queries import ResultTable
from combopeps.session.result import Result, Status, recommendation_of
from combopeps.stopping.base import Verdict, View
from combopeps.stopping.combine import BudgetRule
from combopeps.utils.formatting import ShortRepr

if TYPE_CHECKING:
    from combopeps.session.session import Session

_MAX_TIED_ERROR = 0.02  # answers are "indistinguishable" above this error probability: two standard deviations
_ENDINGS = {"interrupted": "was interrupted", "open": "has not ended"}


@dataclass(frozen=True, repr=False)
class Measurement(ShortRepr):
    """A recorded result.

    Attributes
    ----------
    event
        Number of the event that recorded it, for `correct` and `retract`.
    query
        Id of its query; None for an observation.
    label, y, sem, count
        Label of the arm, the result, its own standard error if it has one, and the number of measurements in the mean.
    retracted
        Whether it was retracted.
    """

    event: int
    query: int | None
    label: Any
    y: float
    sem: float | None
    count: int
    retracted: bool


def list_measurements(results: ResultTable, arms: Arms) -> list[Measurement]:
    """Return all results, in the order of their events."""
    names = "event", "query", "arm", "y", "sem", "count", "active"
    rows = np.flatnonzero(results.count[: len(results)])
    columns = [getattr(results, name)[rows].tolist() for name in names]
    return [
        Measurement(event, None if query < 0 else query, arms.labels[arm], y, sem or None, count, not active)
        for event, query, arm, y, sem, count, active in zip(*columns, strict=True)
    ]


def status_of(session: Session, view: View, verdict: Verdict, conflict: Conflict) -> Status:
    """Return the status of a session, given the verdict on its current results."""
    ranking = view.rank(verdict.z if verdict.stop else None, session.epsilon)
    return Status(
        **vars(recommendation_of(view.oracle, view.posterior, ranking)),
        **_facts(session, conflict),
        stop=verdict.stop,
        rule=verdict.rule or session.rule.name,
        claim=verdict.claim if verdict.stop else "",
        open_queries=list(session._ledger.open.values()),
        leases=session._leases.copy(),
    )


def result_of(
    session: Session,
    reason: str,
    view: View,
    verdict: Verdict,
    conflict: Conflict,
    *,
    made: int | None = None,
    by_cost: bool = False,
) -> Result:
    """Return the result of a session.

    Parameters
    ----------
    reason
        What ended the run: a rule, "budget", "interrupted", or "open".
    verdict, conflict
        Verdict on the current results, and their conflicts with the assumptions.
    made, by_cost
        Number of measurements of the run, None for the result of a session, and whether its budget was one of cost.
    """
    rule, claim, tied = session.rule, verdict.claim, list[Any]()
    ranking = view.rank(verdict.z if verdict.stop else None, session.epsilon)
    found = recommendation_of(view.oracle, view.posterior, ranking)
    if not verdict.stop:
        claim = f"none: the run {_ENDINGS.get(reason, 'was ended by its budget')}"
        if missing := rule.explain_missing_proof(found.error_probability, session.epsilon):
            claim += f"; {missing}"
        if reason == "budget" and isinstance(rule, BudgetRule):
            runs_made = made if session._fresh and not by_cost else None
            why_not = "the budget is one of cost" if by_cost and session._fresh else "the policy had measured before"
            claim = budget_claim(session.policy, rule, found.error_text, session.epsilon, runs_made, why_not)
        elif reason == "budget" and found.error_probability > max(session.delta, _MAX_TIED_ERROR):
            tied = view.tied()
            reason = "indistinguishable" if tied else reason
        claim = qualified(session, claim, conflict)
    return Result(
        **vars(found),
        **_facts(session, conflict),
        stop_reason=reason,
        rule=rule.name,
        claim=claim,
        evidence=Verdict(verdict.stop, verdict.statistic, verdict.threshold, session.oracle_calls, claim),
        tied=tied,
        seed=session.seed,
        session=session,
        posterior=session.policy.posterior.copy(),
        looks=tuple(session.looks),
    )


def qualified(session: Session, claim: str, conflict: Conflict, *, uses_prior: bool = True) -> str:
    """Return a claim with conflicts of the results with its assumptions, and the number of corrections."""
    claim, corrections = conflict.qualify(claim, uses_prior), session._corrections
    if corrections:
        results = "1 result was" if corrections == 1 else f"{corrections} results were"
        claim += f"; {results} corrected or retracted: it holds if that was not done because of the values"
    return claim


def _facts(session: Session, conflict: Conflict) -> dict[str, Any]:
    """Return the common fields of `Status` and `Result`."""
    policy = session._policy
    return {
        "samples": policy.samples, "cost": float(policy.spent[0]), "actions": policy.actions_made,
        "pulls": dict(zip(session.problem.arms.labels, policy.pulls[0].tolist(), strict=True)),
        "delta": session.delta, "epsilon": session.epsilon, "corrections": session._corrections,
        "warning": str(conflict), "noise_estimate": policy.noise_estimate,
    }  # fmt: skip
