"""The Gaussian over theta, and the arms it learns from."""

from combopeps.belief.arms import Arms
from combopeps.belief.base import GaussianBelief
from combopeps.belief.dense import DenseBelief
from combopeps.belief.diagonal import DiagonalBelief
from combopeps.belief.measurements import Measurements
from combopeps.belief.reach import check_reach

__all__ = ["Arms", "DenseBelief", "DiagonalBelief", "GaussianBelief", "Measurements", "check_reach"]
