"""Gaussian posteriors over theta, the arms they are updated with, and parameter spaces."""

from combopeps.posterior.arms import Arms, check_identifiability
from combopeps.posterior.gaussian import DensePosterior, DiagonalPosterior, GaussianPosterior, Normal
from combopeps.posterior.hierarchical import HierarchicalPrior, PriorEstimate
from combopeps.posterior.least_squares import Measurements, flat_posterior
from combopeps.posterior.noise_level import NoiseEstimate, NoiseLevel, RefreshTimes
from combopeps.posterior.parameter_space import Box, ParameterSpace, RealSpace

__all__ = [
    "Arms",
    "Box",
    "DensePosterior",
    "DiagonalPosterior",
    "GaussianPosterior",
    "HierarchicalPrior",
    "Measurements",
    "NoiseEstimate",
    "NoiseLevel",
    "Normal",
    "ParameterSpace",
    "PriorEstimate",
    "RealSpace",
    "RefreshTimes",
    "check_identifiability",
    "flat_posterior",
]
