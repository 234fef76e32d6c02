"""Theta from the belief, restricted to the alternatives of the current answer."""

from combopeps.samplers.base import Account, Alternatives, AlternativeSampler, current_answer, sample_belief
from combopeps.samplers.halfspace import AltProbability, HalfSpaceSampler
from combopeps.samplers.rejection import RejectionSampler

__all__ = [
    "Account",
    "AltProbability",
    "AlternativeSampler",
    "Alternatives",
    "HalfSpaceSampler",
    "RejectionSampler",
    "current_answer",
    "sample_belief",
]
