"""Oracles that maximise a linear function over a combinatorial set Z."""

from combopeps.oracles.base import ArgmaxOracle, Confusions, LogCardinality
from combopeps.oracles.check import check_oracle
from combopeps.oracles.cpsat import CpSatOracle
from combopeps.oracles.explicit import ExplicitOracle
from combopeps.oracles.knapsack import KnapsackOracle
from combopeps.oracles.matching import MatchingOracle
from combopeps.oracles.matroid import MatroidOracle
from combopeps.oracles.milp import MilpOracle
from combopeps.oracles.partition import PartitionOracle
from combopeps.oracles.path import MultiPath, ShortestPathOracle
from combopeps.oracles.runtime_checks import CheckedOracle
from combopeps.oracles.topk import TopKOracle
from combopeps.oracles.tree import SpanningTreeOracle

__all__ = [
    "ArgmaxOracle",
    "CheckedOracle",
    "Confusions",
    "CpSatOracle",
    "ExplicitOracle",
    "KnapsackOracle",
    "LogCardinality",
    "MatchingOracle",
    "MatroidOracle",
    "MilpOracle",
    "MultiPath",
    "PartitionOracle",
    "ShortestPathOracle",
    "SpanningTreeOracle",
    "TopKOracle",
    "check_oracle",
]
