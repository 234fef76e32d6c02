"""Find the best answer of a huge combinatorial set with the fewest noisy measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public names are loaded on first use (PEP 562), so that `import combopeps` costs next to nothing.
_HOMES = {
    "combopeps.oracles": (
        "ArgmaxOracle CheckedOracle Confusions CpSatOracle ExplicitOracle KnapsackOracle LogCardinality MatchingOracle "
        "MatroidOracle MilpOracle MultiPath PartitionOracle ShortestPathOracle SpanningTreeOracle TopKOracle "
        "check_oracle"
    ),
    "combopeps.belief": "Arms DenseBelief DiagonalBelief GaussianBelief NoiseEstimate check_reach",
    "combopeps.space": "Box ParameterSpace RealSpace",
    "combopeps.samplers": (
        "Account AltProbability AlternativeSampler Alternatives AutoSampler GibbsSampler HalfSpaceSampler "
        "HitAndRunSampler check_sampler Question RejectionSampler current_answer sample_belief"
    ),
    "combopeps.campaign": "Campaign",
    "combopeps.server.client": "RemoteCampaign",
    "combopeps.session.environment": "Noise",
    "combopeps.session.result": "Recommendation Result Status TopAnswer",
    "combopeps.session.events": "Lease",
    "combopeps.session.queries": "Query",
    "combopeps.session.session": "Measurement Session identify",
    "combopeps.session.simulate": "simulate",
    "combopeps.session.trace": "Crossing Trace",
    "combopeps.planning": "Forecast Plan Reach plan",
    "combopeps.bound": "LowerBound least_expected_cost lower_bound",
    "combopeps.actions": "Actions",
    "combopeps.problem": "Problem",
    "combopeps.instances": (
        "Instance list_instances load_instance read_groups read_items read_knapsack read_network read_program "
        "read_table read_tree save_instance"
    ),
    "combopeps.policies": (
        "AdaHedge CLUCB DoublingPEPS EpochConstants FixedAllocation GreedyInformation Hedge LinGame LinGapE PEPS "
        "Policy ThompsonSampling TopTwo Uniform check_policy epoch_constants g_optimal"
    ),
    "combopeps.stopping": (
        "BudgetRule CertifiedRule ClucbRule GuaranteedRule HeuristicRule PosteriorRule StoppingRule Verdict View "
        "VerifiedRule any_of"
    ),
    "combopeps.tables": "Observed",
    "combopeps.contract": "ContractError ContractReport",
    "combopeps.errors": (
        "AccessError ActionError AnswerError ComboPepsError ConcurrentUseError ConnectionLostError DependencyError "
        "DomainError FileFormatError FitWarning GraphError ImplausibleValueError InstanceError LabelError "
        "LimitError LockError MatchingError "
        "NoAlternativeError NoiseWarning OracleError OtherOracleError ParameterError PriorWarning ProgramError "
        "QueryError ReachError RemoteError RewardError SamplerCapError ServerError SolverError SpaceError "
        "StateFileError ThetaError TieError"
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [*_HOME, "__version__"]

if TYPE_CHECKING:
    from combopeps.actions import Actions  # noqa: F401
    from combopeps.belief import *  # noqa: F403
    from combopeps.bound import *  # noqa: F403
    from combopeps.campaign import Campaign  # noqa: F401
    from combopeps.contract import *  # noqa: F403
    from combopeps.errors import *  # noqa: F403
    from combopeps.instances import *  # noqa: F403
    from combopeps.oracles import *  # noqa: F403
    from combopeps.planning import Forecast, Plan, Reach, plan  # noqa: F401
    from combopeps.policies import *  # noqa: F403
    from combopeps.problem import Problem  # noqa: F401
    from combopeps.samplers import *  # noqa: F403
    from combopeps.server.client import RemoteCampaign  # noqa: F401
    from combopeps.session.environment import Noise  # noqa: F401
    from combopeps.session.events import Lease  # noqa: F401
    from combopeps.session.queries import Query  # noqa: F401
    from combopeps.session.result import Recommendation, Result, Status, TopAnswer  # noqa: F401
    from combopeps.session.session import Measurement, Session, identify  # noqa: F401
    from combopeps.session.simulate import simulate  # noqa: F401
    from combopeps.session.trace import Crossing, Trace  # noqa: F401
    from combopeps.space import *  # noqa: F403
    from combopeps.stopping import *  # noqa: F403
    from combopeps.tables import *  # noqa: F403


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
