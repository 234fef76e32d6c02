"""Find the best answer of a huge combinatorial set with the fewest noisy measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from combopeps.alternatives import AlternativeSampler, check_sampler
    from combopeps.campaign import Campaign
    from combopeps.errors import ComboPepsError
    from combopeps.io import list_instances, load_instance, read_items, read_network, read_table, save_instance
    from combopeps.oracles import (
        ArgmaxOracle,
        CpSatOracle,
        ExplicitOracle,
        KnapsackOracle,
        MatchingOracle,
        MatroidOracle,
        MilpOracle,
        PartitionOracle,
        ShortestPathOracle,
        SpanningTreeOracle,
        TopKOracle,
        check_oracle,
    )
    from combopeps.policies import PEPS, DoublingPEPS, GreedyInformation, Policy, TopTwo, check_policy, g_optimal
    from combopeps.posterior.parameter_space import Box
    from combopeps.problem import Problem
    from combopeps.server.remote_campaign import RemoteCampaign
    from combopeps.session.plan import plan
    from combopeps.session.queries import Query
    from combopeps.session.result import Result
    from combopeps.session.session import Session, identify
    from combopeps.session.simulate import simulate
    from combopeps.stopping import BudgetRule, CertifiedRule, PosteriorRule, StoppingRule, VerifiedRule, any_of
    from combopeps.stopping.lower_bound import lower_bound

# Imported on first use (PEP 562), so that `import combopeps` stays light.
_MODULES = {
    "combopeps.oracles": (
        "ArgmaxOracle CpSatOracle ExplicitOracle KnapsackOracle MatchingOracle MatroidOracle  "
        "MilpOracle PartitionOracle ShortestPathOracle SpanningTreeOracle TopKOracle check_oracle "
    ),
    "combopeps.posterior.parameter_space": "Box",
    "combopeps.alternatives": "AlternativeSampler check_sampler",
    "combopeps.problem": "Problem",
    "combopeps.policies": "DoublingPEPS GreedyInformation PEPS Policy TopTwo check_policy g_optimal",
    "combopeps.stopping": "BudgetRule CertifiedRule PosteriorRule StoppingRule VerifiedRule any_of",
    "combopeps.stopping.lower_bound": "lower_bound",
    "combopeps.session.session": "Session identify",
    "combopeps.session.queries": "Query",
    "combopeps.session.result": "Result",
    "combopeps.session.simulate": "simulate",
    "combopeps.session.plan": "plan",
    "combopeps.campaign": "Campaign",
    "combopeps.server.remote_campaign": "RemoteCampaign",
    "combopeps.io": "list_instances load_instance read_items read_network read_table save_instance",
    "combopeps.errors": "ComboPepsError",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [*_MODULE_OF, "__version__"]

if not TYPE_CHECKING:  # a type checker sees the imports above, and reports a misspelt name

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'combopeps' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
