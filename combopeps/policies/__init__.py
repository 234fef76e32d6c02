"""Which arm to measure next."""

from combopeps.policies.base import Policy
from combopeps.policies.check import check_policy
from combopeps.policies.clucb import CLUCB
from combopeps.policies.design import g_optimal
from combopeps.policies.doubling import DoublingPEPS, EpochConstants, epoch_constants
from combopeps.policies.fixed import FixedAllocation, Uniform
from combopeps.policies.greedy import GreedyInformation
from combopeps.policies.lingame import LinGame
from combopeps.policies.lingape import LinGapE
from combopeps.policies.peps import PEPS
from combopeps.policies.shares import AdaHedge, Hedge
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
