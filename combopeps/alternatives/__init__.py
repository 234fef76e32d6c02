"""Alternatives of an answer: its cone, samplers of parameters outside of it, and error probabilities."""

from typing import TYPE_CHECKING

from combopeps.alternatives.answer_probabilities import Ranked, Ranking, rank_answers
from combopeps.alternatives.auto import AutoSampler
from combopeps.alternatives.base import (
    Alternatives,
    AlternativeSampler,
    AltProbability,
    SamplingStats,
    SamplingTask,
    current_answer,
    draw_thetas,
    draw_thetas_and_noise,
)
from combopeps.alternatives.cone import Cone, Limits
from combopeps.alternatives.error_probability import (
    HALVINGS,
    check_epsilon,
    count_worse,
    over_noise,
    rough_error_probability,
)
from combopeps.alternatives.half_space import HalfSpaceSampler
from combopeps.alternatives.hit_and_run import GibbsSampler, HitAndRunSampler
from combopeps.alternatives.registry import SAMPLERS
from combopeps.alternatives.rejection import RejectionSampler
from combopeps.alternatives.replications import Cones, ListedCones
from combopeps.utils import import_on_first_use

if TYPE_CHECKING:
    from combopeps.alternatives.check import check_sampler

__all__ = [
    "HALVINGS",
    "SAMPLERS",
    "AltProbability",
    "AlternativeSampler",
    "Alternatives",
    "AutoSampler",
    "Cone",
    "Cones",
    "GibbsSampler",
    "HalfSpaceSampler",
    "HitAndRunSampler",
    "Limits",
    "ListedCones",
    "Ranked",
    "Ranking",
    "RejectionSampler",
    "SamplingStats",
    "SamplingTask",
    "check_epsilon",
    "check_sampler",
    "count_worse",
    "current_answer",
    "draw_thetas",
    "draw_thetas_and_noise",
    "over_noise",
    "rank_answers",
    "rough_error_probability",
]

# Tests of samplers by other people are rarely needed.
if not TYPE_CHECKING:
    __getattr__ = import_on_first_use(
        __name__,
        {
            "check": "check_sampler",
        },
    )
