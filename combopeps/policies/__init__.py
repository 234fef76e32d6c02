"""Sampling policies: which arm to measure next."""

from typing import TYPE_CHECKING

from combopeps.policies.allocation import AdaHedge, Hedge, g_optimal
from combopeps.policies.base import Policy
from combopeps.policies.doubling_peps import DoublingPEPS, EpochConstants, epoch_constants
from combopeps.policies.greedy import GreedyInformation
from combopeps.policies.peps import PEPS
from combopeps.policies.top_two import TopTwo
from combopeps.utils import import_on_first_use

if TYPE_CHECKING:
    from combopeps.policies.check import check_policy

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

# Tests of policies by other people are rarely needed.
if not TYPE_CHECKING:
    __getattr__ = import_on_first_use(
        __name__,
        {
            "check": "check_policy",
        },
    )
