"""Validation of arguments: integers, real numbers, flags, choices, paths, seeds and objects.

Every check raises a `ParameterError` with the name of the parameter, its valid values, and the value given.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ComboPepsError, ParameterError
from combopeps.utils.formatting import short_repr

LARGEST_INTEGER = 2**53  # the largest with all smaller integers representable as floats
MAX_COMPONENTS = 10**8  # of an oracle: a vector takes 800 MB
MAX_RUNS = 10**6  # in parallel, or of a plan
MAX_ROUNDS = 10**9  # of a simulation
MAX_DRAWS = 10**7  # of a sampler, in one call
MAX_QUERIES = 100_000  # of one call of ask


def check_integer(name: str, value: Any, least: int = 0, most: int = LARGEST_INTEGER) -> None:
    """Raise unless value is an integer in [least, most]; True and False are not accepted."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        limit = f" and at most {most}" if isinstance(value, (int, np.integer)) and value > most else ""
        raise ParameterError(f"{name} must be an integer of at least {least}{limit}, got {shown(value)}")


def check_count(name: str, value: Any, most: int = LARGEST_INTEGER) -> None:
    """Raise unless value is an integer of at least 1."""
    check_integer(name, value, 1, most)


def as_float(value: Any) -> float | None:
    """Convert a real number to float, infinite if it is too large; None for bools and other types."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf  # type: ignore[operator]


def check_real(name: str, value: Any, low: float, high: float, what: str) -> None:
    """Raise unless value is a real number in [low, high]; `what` describes the range in the message."""
    number = as_float(value)
    if number is None or not low <= number <= high:
        raise ParameterError(f"{name} must be {what}, got {shown(value)}")


def check_positive(name: str, value: Any) -> None:
    """Raise unless value is a positive, finite number."""
    number = as_float(value)
    if number is None or not 0 < number < inf:
        raise ParameterError(f"{name} must be a positive number, got {shown(value)}")


def check_fraction(name: str, value: Any) -> None:
    """Raise unless value is a number in (0, 1)."""
    number = as_float(value)
    if number is None or not 0 < number < 1:
        raise ParameterError(f"{name} must lie in (0, 1), got {shown(value)}")


def check_flag(name: str, value: Any) -> None:
    """Raise unless value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name} must be True or False, got {shown(value)}")


def check_choice(name: str, value: Any, options: Sequence[str]) -> None:
    """Raise unless value is one of the options."""
    if not isinstance(value, str) or value not in options:
        words = [f'"{option}"' for option in options]
        raise ParameterError(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, got {shown(value)}")


def check_text(name: str, value: Any) -> None:
    """Raise unless value is a string."""
    if not isinstance(value, str):
        raise ParameterError(f"{name} must be a string, got {shown(value)}")


def check_kind(name: str, value: Any, kind: type | tuple[type, ...]) -> None:
    """Raise unless value is an instance of the class, or of one of the classes."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        hint = "; call the class to make one" if isinstance(value, type) and issubclass(value, kinds) else ""
        names = " or ".join(one.__name__ for one in kinds)
        raise ParameterError(f"{name} must be an instance of {names}, got {shown(value)}{hint}")


def check_callable(name: str, value: Any) -> None:
    """Raise unless value is callable."""
    if not callable(value):
        raise ParameterError(f"{name} must be a function, got {shown(value)}")


def as_path(value: Any, name: str = "path") -> Path:
    """Convert a string or path-like object to a `Path`."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise ParameterError(f"{name} must be a string or a pathlib.Path, got {shown(value)}")
    return Path(value)


def as_float_array(name: str, value: Any, error: type[ComboPepsError] = ParameterError) -> NDArray[np.float64]:
    """Convert real numbers to an array of floats; masked and complex arrays are refused."""
    if isinstance(value, np.ma.MaskedArray):
        raise error(f"{name} is a masked array; fill the masked entries first")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as cause:
        raise error(f"{name} is not a rectangular array of numbers: {cause}") from None
    if array.dtype.kind not in "biuf":
        raise error(f"{name} must hold real numbers, got dtype {array.dtype}; convert it with np.asarray(..., float)")
    return array.astype(np.float64, copy=False)


def as_generator(rng: Any) -> np.random.Generator:
    """Return `np.random.default_rng` of a seed, a generator or None."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise seed_error(rng) from None


def seed_error(rng: Any) -> ParameterError:
    """Return the error for an invalid seed."""
    return ParameterError(f"rng must be an integer of at least 0, a numpy Generator, or None, got {shown(rng)}")


def shown(value: Any) -> str:
    """Represent a value in at most 40 characters; by its type if it has no valid representation."""
    if isinstance(value, np.generic):
        value = value.item()
    try:
        return short_repr(value, 40)
    except Exception:  # an integer of thousands of digits, or a __repr__ that raises
        return f"<{type(value).__name__}>"
