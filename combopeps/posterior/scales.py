"""Ranges of numbers in which squares, inverses and ratios stay finite, and their validation."""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.utils.validation import check_positive, check_real

SMALLEST, LARGEST = 1e-50, 1e50  # of standard deviations, arms, and signal to noise: fourth powers must be finite
LARGEST_REWARD = 1e100  # in standard deviations of the noise

_LARGEST_GENERAL = 1e14  # signal to noise of general arms, whose covariance has a square root of sixteen digits

_LOW, _HIGH = 0.999 * SMALLEST, 1.001 * LARGEST  # tolerates rounding at the ends
_RANGE = f"between {SMALLEST:g} and {LARGEST:g}"


def check_scale(name: str, value: float) -> None:
    """Validate a standard deviation: a positive number in the range in which arithmetic works."""
    check_positive(name, value)
    value = value.item() if isinstance(value, np.generic) else value  # the limits overflow in single precision
    if not _LOW <= value <= _HIGH:
        raise ParameterError(f"{name} must lie {_RANGE}, got {value!r:.40}; use other units")


def check_mean(name: str, value: Any) -> None:
    """Validate a mean: a number in the range in which arithmetic works."""
    check_real(name, value, -LARGEST, LARGEST, f"a number between -{LARGEST:g} and {LARGEST:g}")


def check_sizes(arms: Arms, noise: Array, prior_std: Array) -> None:
    """Validate the largest entries of the arms, alone and times prior_std / noise_std, and these ratios."""
    size = np.abs(arms.coefficient)  # the largest entry, of general arms too
    for prior in (float(prior_std.min()), float(prior_std.max())):
        ratio = prior / noise
        bad = np.flatnonzero(~((ratio >= _LOW) & (ratio <= _HIGH)))
        if len(bad):
            raise ParameterError(
                f"prior_std / noise_std must lie {_RANGE}, got {ratio[bad[0]]:g}: "
                "beyond that one measurement determines theta, or is uninformative"
            )
        for scaled in (size, size * ratio):
            bad = np.flatnonzero(~((scaled >= _LOW) & (scaled <= _HIGH)))
            if len(bad):
                raise ParameterError(
                    f"the largest entry of an arm, alone and times prior_std / noise_std, must lie {_RANGE}; "
                    f"arm {bad[0]} has {size[bad[0]]:g}, and prior_std / noise_std is {ratio[bad[0]]:g}"
                )
    largest = float((size * ratio).max())
    if not arms.are_units and largest > _LARGEST_GENERAL:
        raise ParameterError(
            "where arms measure several components at once, their largest entry times prior_std / noise_std must be at "
            f"most {_LARGEST_GENERAL:g}, got {largest:g}: state a smaller prior_std or a larger noise_std"
        )
