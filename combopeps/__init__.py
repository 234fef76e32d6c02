"""Find the best answer of a huge combinatorial set with the fewest noisy measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public names are loaded on first use (PEP 562), so that `import combopeps` costs next to nothing.
_HOME = {
    "ArgmaxOracle": "combopeps.oracles",
    "CheckedOracle": "combopeps.oracles",
    "Confusions": "combopeps.oracles",
    "ExplicitOracle": "combopeps.oracles",
    "LogCardinality": "combopeps.oracles",
    "MatchingOracle": "combopeps.oracles",
    "MultiPath": "combopeps.oracles",
    "ShortestPathOracle": "combopeps.oracles",
    "TopKOracle": "combopeps.oracles",
    "check_oracle": "combopeps.oracles",
    "Arms": "combopeps.belief",
    "DenseBelief": "combopeps.belief",
    "DiagonalBelief": "combopeps.belief",
    "GaussianBelief": "combopeps.belief",
    "check_reach": "combopeps.belief",
    "Box": "combopeps.space",
    "ParameterSpace": "combopeps.space",
    "RealSpace": "combopeps.space",
    "Account": "combopeps.samplers",
    "AltProbability": "combopeps.samplers",
    "AlternativeSampler": "combopeps.samplers",
    "Alternatives": "combopeps.samplers",
    "AutoSampler": "combopeps.samplers",
    "GibbsSampler": "combopeps.samplers",
    "HalfSpaceSampler": "combopeps.samplers",
    "HitAndRunSampler": "combopeps.samplers",
    "check_sampler": "combopeps.samplers",
    "Question": "combopeps.samplers",
    "RejectionSampler": "combopeps.samplers",
    "current_answer": "combopeps.samplers",
    "sample_belief": "combopeps.samplers",
    "Campaign": "combopeps.campaign",
    "Status": "combopeps.campaign",
    "Result": "combopeps.run.result",
    "identify": "combopeps.run.identify",
    "simulate": "combopeps.run.simulate",
    "Crossing": "combopeps.run.trace",
    "Trace": "combopeps.run.trace",
    "LowerBound": "combopeps.bound",
    "lower_bound": "combopeps.bound",
    "Problem": "combopeps.problem",
    "Instance": "combopeps.instances",
    "list_instances": "combopeps.instances",
    "load_instance": "combopeps.instances",
    "read_items": "combopeps.instances",
    "read_network": "combopeps.instances",
    "read_table": "combopeps.instances",
    "save_instance": "combopeps.instances",
    "AdaHedge": "combopeps.policies",
    "CLUCB": "combopeps.policies",
    "DoublingPEPS": "combopeps.policies",
    "EpochConstants": "combopeps.policies",
    "FixedAllocation": "combopeps.policies",
    "Hedge": "combopeps.policies",
    "LinGame": "combopeps.policies",
    "LinGapE": "combopeps.policies",
    "PEPS": "combopeps.policies",
    "Policy": "combopeps.policies",
    "Query": "combopeps.policies",
    "Recommendation": "combopeps.policies",
    "ThompsonSampling": "combopeps.policies",
    "TopTwo": "combopeps.policies",
    "Uniform": "combopeps.policies",
    "check_policy": "combopeps.policies",
    "epoch_constants": "combopeps.policies",
    "g_optimal": "combopeps.policies",
    "BudgetRule": "combopeps.stopping",
    "CertifiedRule": "combopeps.stopping",
    "ClucbRule": "combopeps.stopping",
    "HeuristicRule": "combopeps.stopping",
    "PosteriorRule": "combopeps.stopping",
    "Situation": "combopeps.stopping",
    "StoppingRule": "combopeps.stopping",
    "Verdict": "combopeps.stopping",
    "VerifiedRule": "combopeps.stopping",
    "any_of": "combopeps.stopping",
    "ContractError": "combopeps.contract",
    "ContractReport": "combopeps.contract",
    "AnswerError": "combopeps.errors",
    "ComboPepsError": "combopeps.errors",
    "ConcurrentUseError": "combopeps.errors",
    "DependencyError": "combopeps.errors",
    "DomainError": "combopeps.errors",
    "FileFormatError": "combopeps.errors",
    "GraphError": "combopeps.errors",
    "InstanceError": "combopeps.errors",
    "LabelError": "combopeps.errors",
    "LockError": "combopeps.errors",
    "MatchingError": "combopeps.errors",
    "NoAlternativeError": "combopeps.errors",
    "NoiseWarning": "combopeps.errors",
    "OracleError": "combopeps.errors",
    "ParameterError": "combopeps.errors",
    "PriorWarning": "combopeps.errors",
    "QueryError": "combopeps.errors",
    "ReachError": "combopeps.errors",
    "RewardError": "combopeps.errors",
    "SamplerCapError": "combopeps.errors",
    "SpaceError": "combopeps.errors",
    "StateFileError": "combopeps.errors",
    "ThetaError": "combopeps.errors",
    "TieError": "combopeps.errors",
}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:
    from combopeps.belief import *  # noqa: F403
    from combopeps.bound import *  # noqa: F403
    from combopeps.campaign import Campaign, Status  # noqa: F401
    from combopeps.contract import *  # noqa: F403
    from combopeps.errors import *  # noqa: F403
    from combopeps.instances import *  # noqa: F403
    from combopeps.oracles import *  # noqa: F403
    from combopeps.policies import *  # noqa: F403
    from combopeps.problem import Problem  # noqa: F401
    from combopeps.run.identify import identify  # noqa: F401
    from combopeps.run.result import Result  # noqa: F401
    from combopeps.run.simulate import simulate  # noqa: F401
    from combopeps.run.trace import Crossing, Trace  # noqa: F401
    from combopeps.samplers import *  # noqa: F403
    from combopeps.space import *  # noqa: F403
    from combopeps.stopping import *  # noqa: F403


if not TYPE_CHECKING:  # a type checker sees the real names above, and reports a misspelt one

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'combopeps' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
