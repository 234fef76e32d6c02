"""Registry of policies by name."""

from __future__ import annotations

from combopeps.errors import ParameterError
from combopeps.policies.base import Policy
from combopeps.policies.baselines import CLUCB, FixedAllocation, LinGame, LinGapE, ThompsonSampling, Uniform
from combopeps.policies.doubling_peps import DoublingPEPS
from combopeps.policies.greedy import GreedyInformation
from combopeps.policies.peps import PEPS
from combopeps.policies.top_two import TopTwo
from combopeps.utils.validation import shown

POLICIES: dict[str, type[Policy]] = {
    "peps": PEPS,
    "doubling-peps": DoublingPEPS,
    "top-two": TopTwo,
    "greedy": GreedyInformation,
    "uniform": Uniform,
    "fixed": FixedAllocation,
    "thompson": ThompsonSampling,
    "lingame": LinGame,
    "lingape": LinGapE,
    "clucb": CLUCB,
}
DEFAULT_POLICY = "greedy"  # fewest samples on the problems of benchmarks/greedy.py


def policy_class(name: str) -> type[Policy]:
    """Return the class registered under this name; ParameterError if there is none."""
    if not isinstance(name, str) or name not in POLICIES:
        raise ParameterError(f"unknown policy {shown(name)}; there are {', '.join(POLICIES)}")
    return POLICIES[name]
