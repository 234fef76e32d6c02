"""`njit` of numba with a cache that is found in any environment, and kernels that are never compiled.

Importing numba takes .2 s, loading a dozen kernels from its cache another .2 s, and compiling one takes seconds. In
short processes such as `combopeps status`, Python runs the kernels on a small problem in .03 s. `disable_compilation`, called
before any kernels are imported, makes Python run them for a limited time; after that they are loaded from the cache if
it contains them.

The cache is in numba's default place: NUMBA_CACHE_DIR, `__pycache__` beside the module, or the user's cache directory.
If none of these is writable, as for a container user without a home directory, it is a private directory below the
system's temporary one; without that, each process compiles the kernels it calls. Numba ignores a NUMBA_CACHE_DIR that
is not writable, as in a container image: its kernels are copied into the private directory.
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

__all__ = ["disable_compilation", "erfc", "exp", "expm1", "is_writable", "log", "log1p", "njit", "sqrt"]

MAX_PYTHON_SECONDS = 0.2  # CPU time of kernels in Python before they are loaded: about the time of loading them
_MAX_PYTHON_ENTRIES = 200_000  # entries of array arguments, scratch space included, beyond which Python is too slow

_compilation_disabled = False


def disable_compilation() -> None:
    """Do not compile the kernels that are imported after this call."""
    global _compilation_disabled, exp, expm1, log, log1p, sqrt
    _compilation_disabled = True
    exp, expm1 = _with_limit(exp, inf), _with_limit(expm1, inf)
    log, log1p, sqrt = _with_limit(log, -inf), _with_limit(log1p, -inf), _with_limit(sqrt, nan)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes a function a kernel, with the options of `numba.njit`."""

    def kernel(function: Callable[..., Any]) -> Any:
        return _UncompiledKernel(function, options) if _compilation_disabled else _create_dispatcher(function, options)

    return kernel


def _create_dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return the dispatcher of numba, with a cache in the first writable directory, or without a cache."""
    import numba

    if not options.get("cache"):
        return numba.njit(**options)(function)
    config: Any = numba.config
    usual = config.CACHE_DIR
    copy = _copied_cache(usual)
    candidates = [usual, _temporary_cache()] if copy is None else [copy, usual]
    if not usual and _lacks_home_directory():
        candidates.remove(usual)
    for directory in candidates:
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
    """Return a temporary directory that only this user can write, as numba unpickles the files of a cache."""
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
    """Return a private copy of a cache directory that is not writable; None if it is not needed or not possible.

    Its name depends on the kernels, so that data of one cache are never read through the index of another one.
    """
    kernels = sorted(glob(os.path.join(escape(directory), "*", "*.nb[ci]"))) if directory else []
    if not kernels or is_writable(directory) or (private := _temporary_cache()) is None:
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


def _lacks_home_directory() -> bool:
    """Return whether there is no home directory: numba would make a cache in a folder `~` of the current directory."""
    return "XDG_CACHE_HOME" not in os.environ and os.path.expanduser("~").startswith("~")


def is_writable(directory: str) -> bool:
    """Return whether files can be created in a directory, tested in the same way as by numba."""
    try:
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


class _NotCachedError(Exception):
    """The cache does not contain a kernel."""


class _UncompiledKernel:
    """A kernel that is run by Python or loaded from the cache, but never compiled."""

    python_seconds = 0.0  # CPU time of all kernels in Python
    is_running = False  # whether Python is running a kernel; kernels called by it are run by Python too

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self._options = options
        self._loaded: Any = None
        self._missing = False  # whether the cache has no such kernel

    def __call__(self, *args: Any) -> Any:
        if _UncompiledKernel.is_running:
            return self.function(*args)
        is_slow = _UncompiledKernel.python_seconds > MAX_PYTHON_SECONDS or _count_entries(args) > _MAX_PYTHON_ENTRIES
        if is_slow and not self._missing:
            try:
                return self._load()(*args)
            except _NotCachedError:
                self._missing = True
        _UncompiledKernel.is_running, start = True, time.process_time()
        try:
            return self.function(*args)
        finally:
            _UncompiledKernel.is_running = False
            _UncompiledKernel.python_seconds += time.process_time() - start

    def _load(self) -> Any:
        if self._loaded is None:
            self._loaded = _create_dispatcher(self.function, self._options)
            self._loaded._compiler.compile = _raise_not_cached  # called if the kernel is not cached
        return self._loaded


def _count_entries(args: tuple[Any, ...]) -> int:
    """Return the number of entries of all arguments."""
    return sum(getattr(value, "size", 1) for value in args)


def _raise_not_cached(*_: Any) -> Any:
    raise _NotCachedError


def _with_limit(function: Any, limit: float) -> Any:
    """Return a function of `math` with a limit value where it raises an error and compiled code does not."""

    def limited(x: float) -> float:
        try:
            return float(function(x))
        except (ValueError, OverflowError):
            return limit

    return limited
