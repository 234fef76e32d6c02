"""The Gaussian over theta, and the arms it learns from."""

from combopeps.belief.arms import Arms, check_reach
from combopeps.belief.gaussian import DenseBelief, DiagonalBelief, GaussianBelief
from combopeps.belief.hierarchical import HierarchicalPrior, PriorEstimate
from combopeps.belief.level import NoiseEstimate, NoiseLevel, RefreshTimes
from combopeps.belief.measurements import Measurements, flat_belief
from combopeps.belief.normal import Normal

__all__ = [
    "Arms",
    "DenseBelief",
    "DiagonalBelief",
    "GaussianBelief",
    "HierarchicalPrior",
    "Measurements",
    "NoiseEstimate",
    "NoiseLevel",
    "Normal",
    "PriorEstimate",
    "RefreshTimes",
    "check_reach",
    "flat_belief",
]
