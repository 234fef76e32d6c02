"""Which arm to measure next."""

from combopeps.policies.base import Policy, Recommendation
from combopeps.policies.design import g_optimal
from combopeps.policies.doubling import DoublingPEPS, EpochConstants, epoch_constants
from combopeps.policies.learners import AdaHedge, Hedge
from combopeps.policies.ledger import Query
from combopeps.policies.peps import PEPS
from combopeps.policies.toptwo import TopTwo

__all__ = [
    "PEPS",
    "AdaHedge",
    "DoublingPEPS",
    "EpochConstants",
    "Hedge",
    "Policy",
    "Query",
    "Recommendation",
    "TopTwo",
    "epoch_constants",
    "g_optimal",
]
