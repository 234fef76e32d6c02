"""Before the first measurement: what measuring will take. Runs of `identify` on what theta may be, and lower bounds."""

from combopeps.planning.before import plan
from combopeps.planning.cut_off import Mean
from combopeps.planning.forecast import Forecast
from combopeps.planning.least import Least
from combopeps.planning.outcome import Plan
from combopeps.planning.reach import Reach

__all__ = ["Forecast", "Least", "Mean", "Plan", "Reach", "plan"]
