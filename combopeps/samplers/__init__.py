"""Theta from the belief, restricted to the alternatives of the current answer."""

from combopeps.samplers.auto import AutoSampler
from combopeps.samplers.base import (
    Account,
    Alternatives,
    AlternativeSampler,
    AltProbability,
    Question,
    current_answer,
    sample_belief,
    sample_posterior,
)
from combopeps.samplers.check import check_sampler
from combopeps.samplers.halfspace import HalfSpaceSampler
from combopeps.samplers.hit_and_run import GibbsSampler, HitAndRunSampler
from combopeps.samplers.registry import SAMPLERS
from combopeps.samplers.rejection import RejectionSampler

__all__ = [
    "SAMPLERS",
    "Account",
    "AltProbability",
    "AlternativeSampler",
    "Alternatives",
    "AutoSampler",
    "GibbsSampler",
    "HalfSpaceSampler",
    "HitAndRunSampler",
    "Question",
    "RejectionSampler",
    "check_sampler",
    "current_answer",
    "sample_belief",
    "sample_posterior",
]
