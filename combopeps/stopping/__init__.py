"""Stopping rules, their certificates, and lower bounds on the number of measurements."""

from typing import TYPE_CHECKING

from combopeps.stopping.base import StoppingRule, Verdict, View
from combopeps.stopping.lower_bound import LowerBound, least_expected_cost, lower_bound
from combopeps.stopping.registry import stopping_rule
from combopeps.utils import import_on_first_use

if TYPE_CHECKING:
    from combopeps.stopping.certified import CertifiedRule, HeuristicRule
    from combopeps.stopping.clucb import ClucbRule
    from combopeps.stopping.combine import BudgetRule, any_of
    from combopeps.stopping.guaranteed import GuaranteedRule
    from combopeps.stopping.loss import LossRule
    from combopeps.stopping.posterior import PosteriorRule
    from combopeps.stopping.verified import VerifiedRule

__all__ = [
    "BudgetRule",
    "CertifiedRule",
    "ClucbRule",
    "GuaranteedRule",
    "HeuristicRule",
    "LossRule",
    "LowerBound",
    "PosteriorRule",
    "StoppingRule",
    "Verdict",
    "VerifiedRule",
    "View",
    "any_of",
    "least_expected_cost",
    "lower_bound",
    "stopping_rule",
]

# Most processes use one rule.
if not TYPE_CHECKING:
    __getattr__ = import_on_first_use(
        __name__,
        {
            "certified": "CertifiedRule HeuristicRule",
            "clucb": "ClucbRule",
            "combine": "BudgetRule any_of",
            "guaranteed": "GuaranteedRule",
            "loss": "LossRule",
            "posterior": "PosteriorRule",
            "verified": "VerifiedRule",
        },
    )
