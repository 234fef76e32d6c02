"""Samplers by name, and the default sampler."""

from __future__ import annotations

from collections.abc import Callable

from combopeps.alternatives.auto import AutoSampler
from combopeps.alternatives.base import AlternativeSampler
from combopeps.alternatives.half_space import HalfSpaceSampler
from combopeps.alternatives.hit_and_run import GibbsSampler, HitAndRunSampler
from combopeps.alternatives.rejection import RejectionSampler

SAMPLERS: dict[str, Callable[[], AlternativeSampler]] = {
    "auto": AutoSampler,
    "rejection": RejectionSampler,
    "half-space": HalfSpaceSampler,
    "hit-and-run": HitAndRunSampler,
    "gibbs": GibbsSampler,
}

AlternativeSampler.make_default = AutoSampler
