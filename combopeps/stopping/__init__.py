"""Stopping rules, their certificates, and lower bounds on the number of measurements."""

from combopeps.stopping.base import StoppingRule, Verdict, View
from combopeps.stopping.certified import CertifiedRule, HeuristicRule
from combopeps.stopping.clucb import ClucbRule
from combopeps.stopping.combine import BudgetRule, any_of
from combopeps.stopping.guaranteed import GuaranteedRule
from combopeps.stopping.lower_bound import LowerBound, least_expected_cost, lower_bound
from combopeps.stopping.posterior import PosteriorRule
from combopeps.stopping.registry import stopping_rule
from combopeps.stopping.verified import VerifiedRule

__all__ = [
    "BudgetRule",
    "CertifiedRule",
    "ClucbRule",
    "GuaranteedRule",
    "HeuristicRule",
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
