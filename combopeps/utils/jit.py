"""`njit` of numba, for kernels; in a process that only looks, such as `combopeps status`, nothing is compiled.

Importing numba takes .2 s, loading a dozen kernels from its cache another .2 s, and compiling one takes seconds. A look
at a small problem takes Python .03 s. Hence `never_compile`, to be called before any kernels are imported: Python runs
them as long as that is quick; after that they are loaded from the cache, as far as it has them.

The cache is where numba puts it: NUMBA_CACHE_DIR, `__pycache__` beside the module, or the user's cache directory. Where
none of these can be written, as for a container user without a home, it is a private directory below the system's
temporary one; without that, each process compiles the kernels it calls. A NUMBA_CACHE_DIR that holds kernels and cannot
be written, as in a container image, numba would ignore: its kernels are copied into the private directory.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, update_wrapper
from glob import escape, glob
from hashlib import sha256
from math import erfc, exp, expm1, inf, log, log1p, nan, sqrt
from typing import Any

__all__ = ["can_be_written", "erfc", "exp", "expm1", "log", "log1p", "never_compile", "njit", "sqrt"]

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
        return _Spared(function, options) if _spared else _dispatcher(function, options)

    return kernel


def _dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The kernel of numba, with a cache in the first place that can be written, or with none."""
    import numba

    if not options.get("cache"):
        return numba.njit(**options)(function)
    config: Any = numba.config
    usual = config.CACHE_DIR
    copy = _copied_cache(usual)
    places = [usual, _temporary_cache()] if copy is None else [copy, usual]
    if not usual and _has_no_home():
        places.remove(usual)
    for directory in places:
        if directory is None:
            continue
        config.CACHE_DIR = directory
        try:
            return numba.njit(**options)(function)
        except RuntimeError:  # numba: "no locator available", none of its directories can be written
            pass
        finally:
            config.CACHE_DIR = usual  # other packages keep their own setting
    return numba.njit(**{**options, "cache": False})(function)


@lru_cache(maxsize=1)
def _temporary_cache() -> str | None:
    """A temporary directory that only this user can write: numba unpickles what it finds in a cache."""
    user = os.getuid() if hasattr(os, "getuid") else ""
    try:
        directory = os.path.join(tempfile.gettempdir(), f"combopeps-numba-{user}")
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        found = os.lstat(directory)
    except OSError:
        return None
    private = user == "" or (found.st_uid == user and not found.st_mode & 0o077)
    return directory if stat.S_ISDIR(found.st_mode) and private else None


@lru_cache(maxsize=1)
def _copied_cache(directory: str) -> str | None:
    """A private copy of a cache that holds kernels and cannot be written; None where none is needed, or possible.

    Its name depends on the kernels: data of one cache are never read through an index of another one.
    """
    kernels = sorted(glob(os.path.join(escape(directory), "*", "*.nb[ci]"))) if directory else []
    if not kernels or can_be_written(directory) or (private := _temporary_cache()) is None:
        return None
    try:
        contents = [(path, found.st_size, found.st_mtime_ns) for path in kernels for found in [os.stat(path)]]
        copy = os.path.join(private, sha256(repr(contents).encode()).hexdigest()[:16])
        if not os.path.isdir(copy):
            draft = tempfile.mkdtemp(dir=private)
            for path in kernels:
                target = os.path.join(draft, os.path.relpath(path, directory))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copyfile(path, target)
            try:
                os.rename(draft, copy)
            except OSError:  # another process was first
                shutil.rmtree(draft, ignore_errors=True)
    except OSError:  # such as a full disk
        return None
    return copy if os.path.isdir(copy) else None


def _has_no_home() -> bool:
    """Neither a variable nor the system names one: numba would make a cache in a folder `~` of the current one."""
    return "XDG_CACHE_HOME" not in os.environ and os.path.expanduser("~").startswith("~")


def can_be_written(directory: str) -> bool:
    """Whether files can be made in a directory; numba finds out in the same way."""
    try:
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


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
            self._loaded = _dispatcher(self.function, self._options)
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
