"""Which arm to measure next."""

from combopeps.policies.allocation import AdaHedge, Hedge, g_optimal
from combopeps.policies.base import Policy
from combopeps.policies.check import check_policy
from combopeps.policies.clucb import CLUCB
from combopeps.policies.doubling import DoublingPEPS, EpochConstants, epoch_constants
from combopeps.policies.fixed import FixedAllocation, Uniform
from combopeps.policies.greedy import GreedyInformation
from combopeps.policies.lingame import LinGame
from combopeps.policies.lingape import LinGapE
from combopeps.policies.peps import PEPS
from combopeps.policies.thompson import ThompsonSampling
from combopeps.policies.toptwo import TopTwo

__all__ = [
    "CLUCB",
    "PEPS",
    "AdaHedge",
    "DoublingPEPS",
    "EpochConstants",
    "FixedAllocation",
    "GreedyInformation",
    "Hedge",
    "LinGame",
    "LinGapE",
    "Policy",
    "ThompsonSampling",
    "TopTwo",
    "Uniform",
    "check_policy",
    "epoch_constants",
    "g_optimal",
]
