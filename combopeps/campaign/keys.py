"""Keys of observations: one that was recorded is known again, so that it can be said twice and counts once."""

from __future__ import annotations

import numpy as np

from combopeps.campaign.hands import is_name
from combopeps.policies.ledger import Reading
from combopeps.restore import Plain, array

Keys = dict[str, tuple[int, Reading]]
"""Arm and reading of every observation that has a key."""


def plain_keys(keys: Keys) -> Plain:
    """As plain data; a sem of 0 stands for none."""
    arms, readings = [arm for arm, _ in keys.values()], [reading for _, reading in keys.values()]
    return {
        "key": list(keys),
        "arm": np.array(arms, dtype=np.int64),
        "y": np.array([reading.y for reading in readings], dtype=np.float64),
        "sem": np.array([reading.sem or 0.0 for reading in readings], dtype=np.float64),
        "count": np.array([reading.count for reading in readings], dtype=np.int64),
    }


def restored_keys(data: Plain, arms: int) -> Keys:
    """From that, in a campaign with so many arms; ValueError if it does not fit."""
    names = data["key"]
    if not isinstance(names, list) or not all(is_name(name) for name in names) or len(set(names)) < len(names):
        raise ValueError("keys are short texts, each of them once")
    arm, count = (array(data[name], np.int64, len(names)) for name in ("arm", "count"))
    y, sem = (array(data[name], np.float64, len(names)) for name in ("y", "sem"))
    if len(names) and not (0 <= arm.min() <= arm.max() < arms and count.min() >= 1 and sem.min() >= 0.0):
        raise ValueError("an observation is of one of the arms, and the mean of some measurements")
    columns = zip(names, arm.tolist(), y.tolist(), sem.tolist(), count.tolist(), strict=True)
    return {name: (at, Reading(value, error or None, n)) for name, at, value, error, n in columns}
