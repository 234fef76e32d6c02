"""What Z is: oracles that maximise a linear function over a combinatorial set."""

from combopeps.oracles.base import ArgmaxOracle, Confusions, LogCardinality
from combopeps.oracles.check import check_oracle
from combopeps.oracles.checked import CheckedOracle
from combopeps.oracles.explicit import ExplicitOracle
from combopeps.oracles.matching import MatchingOracle
from combopeps.oracles.path import MultiPath, ShortestPathOracle
from combopeps.oracles.topk import TopKOracle
from combopeps.oracles.tree import SpanningTreeOracle

__all__ = [
    "ArgmaxOracle",
    "CheckedOracle",
    "Confusions",
    "ExplicitOracle",
    "LogCardinality",
    "MatchingOracle",
    "MultiPath",
    "ShortestPathOracle",
    "SpanningTreeOracle",
    "TopKOracle",
    "check_oracle",
]
