"""Gaussian posteriors over theta, the arms they are updated with, and parameter spaces."""

from combopeps.posterior.arms import Arms, check_reach
from combopeps.posterior.gaussian import DenseBelief, DiagonalBelief, GaussianBelief
from combopeps.posterior.hierarchical import HierarchicalPrior, PriorEstimate
from combopeps.posterior.least_squares import Measurements, flat_belief
from combopeps.posterior.noise_level import NoiseEstimate, NoiseLevel, RefreshTimes
from combopeps.posterior.normal import Normal
from combopeps.posterior.parameter_space import Box, ParameterSpace, RealSpace

__all__ = [
    "Arms",
    "Box",
    "DenseBelief",
    "DiagonalBelief",
    "GaussianBelief",
    "HierarchicalPrior",
    "Measurements",
    "NoiseEstimate",
    "NoiseLevel",
    "Normal",
    "ParameterSpace",
    "PriorEstimate",
    "RealSpace",
    "RefreshTimes",
    "check_reach",
    "flat_belief",
]
