"""Numbers that people state: one for all arms or components, or one for each by label or in order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from combopeps.errors import LabelError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array

Stated = float | Array
_SHOWN = 5


class Names:
    """What a person may call the components of an oracle: edges without direction either way, pruned ones too."""

    def __init__(self, oracle: ArgmaxOracle) -> None:
        self._either_way = not getattr(oracle, "directed", True)
        self._pruned = oracle.pruned

    def usual(self, label: Hashable, known: Set[Hashable]) -> Hashable | None:
        """The label that is meant; None for what is in no answer, itself for what nobody knows."""
        if label in known:
            return label
        turned = (label[1], label[0], *label[2:]) if self._either_way and isinstance(label, tuple) else label
        if turned in known:
            return turned
        return None if label in self._left_out or turned in self._left_out else label

    @cached_property
    def _left_out(self) -> Set[Hashable]:
        return frozenset(self._pruned)


def stated(
    name: str,
    value: Any,
    labels: Sequence[Hashable],
    check: Callable[[str, float], None],
    names: Names | None = None,
    *,
    default: float | None = None,
) -> Stated:
    """A float, or an array in the order of the labels; every number has passed `check`, which raises by name.

    Parameters
    ----------
    name
        What it is called in errors.
    value
        A number, {label: number}, or a sequence in the order of the labels.
    labels
        Of the arms or components.
    check
        Raises for a number that will not do.
    names
        What else a mapping may call them.
    default
        For labels that a mapping leaves out; None: none may be left out.
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        check(name, value)  # type: ignore[arg-type]
        return float(value)
    if isinstance(value, Mapping) or hasattr(value, "to_dict"):
        value = _in_order(name, _as_mapping(name, value), labels, default, names)
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


def each(value: Stated, count: int) -> Array:
    """As an array, whether it is one for all or not."""
    numbers = np.empty(count)
    numbers[:] = value
    return numbers


def _as_mapping(name: str, value: Any) -> Mapping[Any, Any]:
    """Of a mapping, or of what has labels of its own, such as a column of a table."""
    if isinstance(value, Mapping):
        return value
    mapping: Mapping[Any, Any] = value.to_dict()
    if len(mapping) != len(value):
        raise ParameterError(f"{name} has {len(value)} numbers for {len(mapping)} labels: some label comes twice")
    return mapping


def _in_order(
    name: str,
    value: Mapping[Any, Any],
    labels: Sequence[Hashable],
    default: float | None,
    names: Names | None,
) -> list[Any]:
    known = set(labels)
    if names is not None and not value.keys() <= known:
        meant = {label: names.usual(label, known) for label in value}
        value = {meant[label]: number for label, number in value.items() if meant[label] is not None}
    strange = [label for label in value if label not in known]
    if strange:
        raise LabelError(f"{name} names {strange[0]!r:.60}, which is not one of {list(labels)[:_SHOWN]}, ...")
    missing = [label for label in labels if label not in value]
    if missing and default is None:
        raise ParameterError(
            f"{name} says nothing about {len(missing)} of {len(labels)} labels, {missing[0]!r:.60} among them; "
            "give a number for every one"
        )
    return [value.get(label, default) for label in labels]
