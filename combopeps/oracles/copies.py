"""An oracle as another process would get it."""

from __future__ import annotations

import pickle
import sys
from typing import Any

from combopeps.oracles.base import ArgmaxOracle
from combopeps.oracles.matroid import MatroidOracle


def pickled_copy(oracle: ArgmaxOracle) -> ArgmaxOracle:
    """A pickled copy; what was defined in a function or a doctest is shared, as it cannot be found by name.

    Process pools (joblib) send such classes, and a matroid's test of independence, by value.
    """
    cls, shared = type(oracle), dict[str, Any]()
    if isinstance(oracle, MatroidOracle) and not _has_a_name(oracle.independent):
        shared = {"independent": oracle.independent}
    if _has_a_name(cls) and not shared:
        copy: ArgmaxOracle = pickle.loads(pickle.dumps(oracle))
        return copy
    copy = cls.__new__(cls)
    own = {name: value for name, value in vars(oracle).items() if name not in shared}
    copy.__dict__.update(pickle.loads(pickle.dumps(own)), **shared)
    return copy


def _has_a_name(value: Any) -> bool:
    """Can it be found by name? Objects other than functions and classes need not: they hold their data."""
    name = getattr(value, "__qualname__", None)
    return name is None or getattr(sys.modules.get(value.__module__), name, None) is value
