"""Which arm to measure next."""

from combopeps.policies.base import Policy, Recommendation
from combopeps.policies.design import g_optimal
from combopeps.policies.learners import AdaHedge, Hedge
from combopeps.policies.ledger import Query
from combopeps.policies.peps import PEPS
from combopeps.policies.toptwo import TopTwo

__all__ = ["PEPS", "AdaHedge", "Hedge", "Policy", "Query", "Recommendation", "TopTwo", "g_optimal"]
