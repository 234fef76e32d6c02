"""Sessions (ask and tell), runs, simulations, plans, and their results."""

from typing import TYPE_CHECKING

from combopeps.utils import import_on_first_use

if TYPE_CHECKING:
    from combopeps.session.events import Lease
    from combopeps.session.forecast import CensoredMean, Forecast, Power
    from combopeps.session.measurement_table import TableSummary
    from combopeps.session.plan import CostLowerBound, Plan, plan
    from combopeps.session.queries import Query
    from combopeps.session.reports import Measurement
    from combopeps.session.result import Recommendation, Result, Status, TopAnswer
    from combopeps.session.session import Session, identify
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
    "simulated_environment": "Noise",
    "events": "Lease",
    "forecast": "CensoredMean Forecast Power",
    "measurement_table": "TableSummary",
    "plan": "CostLowerBound Plan plan",
    "queries": "Query",
    "reports": "Measurement",
    "result": "Recommendation Result Status TopAnswer",
    "session": "Session identify",
    "simulate": "simulate",
    "trace": "Crossing Trace",
}
if not TYPE_CHECKING:
    __getattr__ = import_on_first_use(__name__, _MODULES)
