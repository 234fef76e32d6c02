"""The cone of the current answer: every theta under which it is best."""

from combopeps.cone.cone import Cone, Limits
from combopeps.cone.cones import Cones, ListedCones

__all__ = ["Cone", "Cones", "Limits", "ListedCones"]
