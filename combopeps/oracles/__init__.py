"""Oracles that maximise a linear function over a combinatorial set Z."""

from typing import TYPE_CHECKING

from combopeps.oracles.base import ArgmaxOracle, Confusions, LogCardinality
from combopeps.utils import import_on_first_use

if TYPE_CHECKING:
    from combopeps.oracles.check import check_oracle
    from combopeps.oracles.cpsat import CpSatOracle
    from combopeps.oracles.explicit import ExplicitOracle
    from combopeps.oracles.knapsack import KnapsackOracle
    from combopeps.oracles.matching import MatchingOracle
    from combopeps.oracles.matroid import MatroidOracle
    from combopeps.oracles.milp import MilpOracle
    from combopeps.oracles.partition import PartitionOracle
    from combopeps.oracles.path import MultiPath, ShortestPathOracle
    from combopeps.oracles.product import ProductOracle
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
    "ProductOracle",
    "ShortestPathOracle",
    "SpanningTreeOracle",
    "TopKOracle",
    "check_oracle",
]

# Most processes use one family of oracles.
if not TYPE_CHECKING:
    __getattr__ = import_on_first_use(
        __name__,
        {
            "check": "check_oracle",
            "cpsat": "CpSatOracle",
            "explicit": "ExplicitOracle",
            "knapsack": "KnapsackOracle",
            "matching": "MatchingOracle",
            "matroid": "MatroidOracle",
            "milp": "MilpOracle",
            "partition": "PartitionOracle",
            "path": "MultiPath ShortestPathOracle",
            "product": "ProductOracle",
            "runtime_checks": "CheckedOracle",
            "topk": "TopKOracle",
            "tree": "SpanningTreeOracle",
        },
    )
