"""When to stop, and what may be claimed then."""

from combopeps.stopping.base import StoppingRule, Verdict, View
from combopeps.stopping.certified import CertifiedRule, HeuristicRule
from combopeps.stopping.combine import BudgetRule, any_of
from combopeps.stopping.confidence import ClucbRule
from combopeps.stopping.guaranteed import GuaranteedRule
from combopeps.stopping.posterior import PosteriorRule
from combopeps.stopping.registry import stopping_rule
from combopeps.stopping.verified import VerifiedRule

__all__ = [
    "BudgetRule",
    "CertifiedRule",
    "ClucbRule",
    "GuaranteedRule",
    "HeuristicRule",
    "PosteriorRule",
    "StoppingRule",
    "Verdict",
    "VerifiedRule",
    "View",
    "any_of",
    "stopping_rule",
]
