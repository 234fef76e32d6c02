"""Sessions (ask and tell), runs, simulations, plans, and their results."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from combopeps.session.events import Lease
    from combopeps.session.forecast import CensoredMean, Forecast, Power
    from combopeps.session.measurement_table import TableSummary
    from combopeps.session.plan import CostLowerBound, Plan, plan
    from combopeps.session.queries import Query
    from combopeps.session.result import Recommendation, Result, Status, TopAnswer
    from combopeps.session.session import Measurement, Session, identify
    from combopeps.session.simulate import simulate
    from combopeps.session.simulated_environment import Noise
    from combopeps.session.trace import Crossing, Trace

__all__ = [
    "CensoredMean",
    "CostLowerBound",
    "Crossing",
    "Forecast",
    "Lease",
    "Measurement",
    "Noise",
    "Plan",
    "Power",
    "Query",
    "Recommendation",
    "Result",
    "Session",
    "Status",
    "TableSummary",
    "TopAnswer",
    "Trace",
    "identify",
    "plan",
    "simulate",
]

# Imported on first use (PEP 562): sessions do not need plans or simulations.
_MODULES = {
    "session.simulated_environment": "Noise",
    "session.events": "Lease",
    "session.forecast": "CensoredMean Forecast Power",
    "session.measurement_table": "TableSummary",
    "session.plan": "CostLowerBound Plan plan",
    "session.queries": "Query",
    "session.result": "Recommendation Result Status TopAnswer",
    "session.session": "Measurement Session identify",
    "session.simulate": "simulate",
    "session.trace": "Crossing Trace",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"combopeps.{_MODULE_OF[name]}"), name)
