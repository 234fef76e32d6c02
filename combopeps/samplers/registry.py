"""Samplers by name."""

from __future__ import annotations

from collections.abc import Callable

from combopeps.samplers.auto import AutoSampler
from combopeps.samplers.base import AlternativeSampler
from combopeps.samplers.halfspace import HalfSpaceSampler
from combopeps.samplers.hit_and_run import GibbsSampler, HitAndRunSampler
from combopeps.samplers.rejection import RejectionSampler

SAMPLERS: dict[str, Callable[[], AlternativeSampler]] = {
    "auto": AutoSampler,
    "rejection": RejectionSampler,
    "half-space": HalfSpaceSampler,
    "hit-and-run": HitAndRunSampler,
    "gibbs": GibbsSampler,
}

AlternativeSampler.usual = AutoSampler
