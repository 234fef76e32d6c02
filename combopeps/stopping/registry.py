"""Stopping rules by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from combopeps.errors import ParameterError
from combopeps.stopping.base import StoppingRule
from combopeps.stopping.certified import CertifiedRule, HeuristicRule
from combopeps.stopping.clucb import ClucbRule
from combopeps.stopping.combine import BudgetRule
from combopeps.stopping.guaranteed import GuaranteedRule
from combopeps.stopping.posterior import PosteriorRule
from combopeps.stopping.verified import VerifiedRule


@dataclass(frozen=True)
class NamedRule:
    """A constructor of a rule, and the reason why campaigns cannot use it (empty if they can)."""

    make: Callable[..., StoppingRule]
    unfit_for_campaigns: str = ""


def _budget_rule(delta: float, epsilon: float) -> StoppingRule:
    """Return a rule that stops at the budget only."""
    return BudgetRule()


RULES: dict[str, NamedRule] = {
    "posterior": NamedRule(PosteriorRule),
    "certified": NamedRule(CertifiedRule),
    "verified": NamedRule(VerifiedRule),
    "guaranteed": NamedRule(GuaranteedRule),
    "heuristic": NamedRule(HeuristicRule),
    "clucb": NamedRule(ClucbRule),
    "budget": NamedRule(
        _budget_rule,
        'only ends at a budget, and a campaign has none; use "posterior"',
    ),
}


def stopping_rule(rule: str | StoppingRule, delta: float, epsilon: float = 0.0) -> StoppingRule:
    """Return a rule by name, or as given; "budget" stops at the budget only."""
    if isinstance(rule, StoppingRule):
        return rule
    if not isinstance(rule, str) or rule not in RULES:
        raise ParameterError(f"unknown stopping rule {rule!r}; there are {', '.join(RULES)}, or pass a StoppingRule")
    return RULES[rule].make(delta, epsilon=epsilon)
