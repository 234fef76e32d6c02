"""Algorithms of the literature, and allocations that are fixed in advance."""

from combopeps.policies.baselines.clucb import CLUCB
from combopeps.policies.baselines.fixed import FixedAllocation, Uniform
from combopeps.policies.baselines.lingame import LinGame
from combopeps.policies.baselines.lingape import LinGapE
from combopeps.policies.baselines.thompson import ThompsonSampling

__all__ = ["CLUCB", "FixedAllocation", "LinGame", "LinGapE", "ThompsonSampling", "Uniform"]
