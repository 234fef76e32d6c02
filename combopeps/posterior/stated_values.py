"""Validation of numbers given once for all arms or components, by label, or in order.

Ranges of numbers in which squares, inverses and ratios stay finite, and their validation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from numbers import Real
from typing import Any

import numpy as np

from combopeps.errors import LabelError, ParameterError
from combopeps.oracles.base import Array
from combopeps.posterior.arms import Arms
from combopeps.utils.label_index import LabelIndex
from combopeps.utils.validation import check_positive, check_real

NumberOrArray = float | Array
_MAX_SHOWN = 5  # labels listed in an error message


def numbers_by_label(
    name: str,
    value: Any,
    labels: Sequence[Hashable],
    check: Callable[[str, float], None],
    book: LabelIndex | None = None,
    *,
    default: float | None = None,
) -> NumberOrArray:
    """Return a float, or an array in the order of the labels.

    Parameters
    ----------
    name
        Name in error messages.
    value
        A number, {label: number}, or a sequence in the order of the labels.
    labels
        Labels of the arms or components.
    check
        Called with a name and each number; raises for an invalid one.
    book
        Other names of the labels, and labels that a mapping may contain besides; None: there are none.
    default
        For labels that a mapping leaves out; None: none may be left out.
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        check(name, value)  # type: ignore[arg-type]
        return float(value)
    if isinstance(value, Mapping) or (hasattr(value, "to_dict") and getattr(value, "ndim", 1) == 1):
        value = _in_order(name, value, labels, default, book)
    elif isinstance(value, (str, bytes, Set)) or not hasattr(value, "__len__") or getattr(value, "ndim", 1) != 1:
        raise ParameterError(f"{name} must be a number, {{label: number}}, or one number for each, got {value!r:.40}")
    if len(value) != len(labels):
        raise ParameterError(f"{name} has {len(value)} numbers, and there are {len(labels)} labels; give one for each")
    numbers = np.empty(len(labels))
    for i, (label, number) in enumerate(zip(labels, value, strict=True)):
        if isinstance(number, bool):
            raise ParameterError(f"{name} of {label!r:.60} must be a number, got {number!r}")
        check(f"{name} of {label!r:.60}", number)
        numbers[i] = number
    first = float(numbers[0])
    return first if (numbers == first).all() else numbers


def as_array(value: NumberOrArray, count: int) -> Array:
    """Return a number for each as an array, of length `count`."""
    numbers = np.empty(count)
    numbers[:] = value
    return numbers


def _as_mapping(name: str, value: Any) -> Mapping[Any, Any]:
    """Return a mapping, or that of an object with an index of labels, such as a column of a table."""
    if isinstance(value, Mapping):
        return value
    mapping: Mapping[Any, Any] = value.to_dict()
    if len(mapping) != len(value):
        raise ParameterError(f"{name} has {len(value)} numbers for {len(mapping)} labels: a label occurs twice")
    return mapping


def _in_order(
    name: str,
    given: Any,
    labels: Sequence[Hashable],
    default: float | None,
    book: LabelIndex | None,
) -> list[Any]:
    """Return the numbers of a mapping in the order of the labels."""
    value, known = _as_mapping(name, given), set(labels)
    if book is not None and not value.keys() <= known:
        value = _by_label(name, value, labels, book)
    unknown = [label for label in value if label not in known]
    if unknown:
        expected = ", ".join(f"{label!r:.60}" for label in labels[:_MAX_SHOWN]) + (
            ", ..." if len(labels) > _MAX_SHOWN else ""
        )
        order = "" if isinstance(given, Mapping) else "; numbers in the order of the labels are given as a list"
        raise LabelError(f"{name} names {unknown[0]!r:.60}, which is not one of {expected}{order}")
    missing = [label for label in labels if label not in value]
    if missing and default is None:
        raise ParameterError(
            f"{name} says nothing about {len(missing)} of {len(labels)} labels, {missing[0]!r:.60} among them; "
            "give a number for every one"
        )
    return [value.get(label, default) for label in labels]


def _by_label(name: str, value: Mapping[Any, Any], labels: Sequence[Hashable], book: LabelIndex) -> dict[Any, Any]:
    """Return the mapping by the labels themselves, without removed ones; unknown keys are kept."""
    found: dict[Any, Any] = {}
    for key, number in value.items():
        index = book.number(key)
        if index is not None and index < 0:
            continue
        label = key if index is None else labels[index]
        if label in found:
            raise ParameterError(f"{name} names {label!r:.60} twice, by two of its names; give one number for it")
        found[label] = number
    return found


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
