"""The cone of the current answer: every theta under which it is best."""

from combopeps.cone.cone import Cone, Limits
from combopeps.cone.cones import Cones, ListedCones
from combopeps.cone.differences import Differences

__all__ = ["Cone", "Cones", "Differences", "Limits", "ListedCones"]
