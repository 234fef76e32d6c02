"""The cone of the current answer: every theta under which it is best."""

from combopeps.cone.cone import Cone, Limits

__all__ = ["Cone", "Limits"]
