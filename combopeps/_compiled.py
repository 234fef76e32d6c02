"""`njit` of numba, for kernels; in a process that only looks, such as `combopeps status`, nothing is compiled.

Importing numba takes .2 s, loading a dozen kernels from its cache another .2 s, and compiling one takes seconds. A look
at a small problem takes Python .03 s. Hence `never_compile`, to be called before any kernels are imported: Python runs
them as long as that is quick; after that they are loaded from the cache, as far as it has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import update_wrapper
from math import erfc, exp, expm1, inf, log, log1p, nan, sqrt
from typing import Any

__all__ = ["erfc", "exp", "expm1", "log", "log1p", "never_compile", "njit", "sqrt"]

QUICK = 0.2  # seconds in Python before kernels are loaded: about what loading them takes
LARGE = 200_000  # entries of arrays, scratch space included, with which Python does not begin

_spared = False


def never_compile() -> None:
    """Of all kernels that are imported from now on."""
    global _spared, exp, expm1, log, log1p, sqrt
    _spared = True
    exp, expm1 = _limited(exp, inf), _limited(expm1, inf)
    log, log1p, sqrt = _limited(log, -inf), _limited(log1p, -inf), _limited(sqrt, nan)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A kernel, from a function."""

    def kernel(function: Callable[..., Any]) -> Any:
        if _spared:
            return _Spared(function, options)
        import numba

        return numba.njit(**options)(function)

    return kernel


class _NotCachedError(Exception):
    """A kernel would have to be compiled."""


class _Spared:
    """A kernel that is never compiled."""

    spent = 0.0  # seconds that Python has run kernels
    inside = False  # a kernel that Python runs: those it calls are run likewise

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self._options = options
        self._loaded: Any = None
        self._missing = False  # the cache has no such kernel

    def __call__(self, *args: Any) -> Any:
        if _Spared.inside:
            return self.function(*args)
        if not self._missing and (_Spared.spent > QUICK or _entries(args) > LARGE):
            try:
                return self._load()(*args)
            except _NotCachedError:
                self._missing = True
        _Spared.inside, start = True, time.process_time()
        try:
            return self.function(*args)
        finally:
            _Spared.inside = False
            _Spared.spent += time.process_time() - start

    def _load(self) -> Any:
        if self._loaded is None:
            import numba

            self._loaded = numba.njit(**self._options)(self.function)
            self._loaded._compiler.compile = _refuse  # it is called when the cache has nothing
        return self._loaded


def _entries(args: tuple[Any, ...]) -> int:
    return sum(getattr(value, "size", 1) for value in args)


def _refuse(*_: Any) -> Any:
    raise _NotCachedError


def _limited(function: Any, limit: float) -> Any:
    """Of the standard library, with a value where it raises and compiled code does not."""

    def limited(x: float) -> float:
        try:
            return float(function(x))
        except (ValueError, OverflowError):
            return limit

    return limited
