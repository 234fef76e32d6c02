"""Stopping rules by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from combopeps.errors import ParameterError
from combopeps.stopping.base import StoppingRule


@dataclass(frozen=True)
class NamedRule:
    """A constructor of a rule, and the reason why campaigns cannot use it (empty if they can).

    The constructor may be given as "module.name", in `combopeps.stopping`; it is imported when it is used.
    """

    constructor: Callable[..., StoppingRule] | str
    unfit_for_campaigns: str = ""

    @property
    def make(self) -> Callable[..., StoppingRule]:
        """The constructor."""
        if not isinstance(self.constructor, str):
            return self.constructor
        module, _, name = self.constructor.rpartition(".")
        made: Callable[..., StoppingRule] = getattr(import_module(f"combopeps.stopping.{module}"), name)
        return made


def _budget_rule(delta: float, epsilon: float) -> StoppingRule:
    """Return a rule that stops at the budget only."""
    from combopeps.stopping.combine import BudgetRule

    return BudgetRule()


def _loss_rule(delta: float, epsilon: float) -> StoppingRule:
    """Return a rule for the expected loss, which has no delta."""
    from combopeps.stopping.loss import LossRule

    return LossRule(epsilon)


RULES: dict[str, NamedRule] = {
    "posterior": NamedRule("posterior.PosteriorRule"),
    "loss": NamedRule(_loss_rule),
    "certified": NamedRule("certified.CertifiedRule"),
    "verified": NamedRule("verified.VerifiedRule"),
    "guaranteed": NamedRule("guaranteed.GuaranteedRule"),
    "heuristic": NamedRule("certified.HeuristicRule"),
    "clucb": NamedRule("clucb.ClucbRule"),
    "budget": NamedRule(
        _budget_rule,
        'only ends at a budget, and a campaign has none; use "posterior"',
    ),
}


def level_text(rule: str, delta: float, epsilon: float) -> str:
    """Return the parameters of a rule, as text; "loss" has no delta."""
    level = [] if rule == "loss" else [f"delta = {delta:g}"]
    return ", ".join([*level, *([f"epsilon = {epsilon:g}"] if epsilon else [])])


def stopping_rule(rule: str | StoppingRule, delta: float, epsilon: float = 0.0) -> StoppingRule:
    """Return a rule by name, or as given; "budget" stops at the budget only."""
    if isinstance(rule, StoppingRule):
        return rule
    if not isinstance(rule, str) or rule not in RULES:
        raise ParameterError(f"unknown stopping rule {rule!r}; there are {', '.join(RULES)}, or pass a StoppingRule")
    return RULES[rule].make(delta, epsilon=epsilon)
