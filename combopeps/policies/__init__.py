"""Sampling policies: which arm to measure next."""

from combopeps.policies.allocation import AdaHedge, Hedge, g_optimal
from combopeps.policies.base import Policy
from combopeps.policies.check import check_policy
from combopeps.policies.doubling_peps import DoublingPEPS, EpochConstants, epoch_constants
from combopeps.policies.greedy import GreedyInformation
from combopeps.policies.peps import PEPS
from combopeps.policies.top_two import TopTwo

__all__ = [
    "PEPS",
    "AdaHedge",
    "DoublingPEPS",
    "EpochConstants",
    "GreedyInformation",
    "Hedge",
    "Policy",
    "TopTwo",
    "check_policy",
    "epoch_constants",
    "g_optimal",
]
