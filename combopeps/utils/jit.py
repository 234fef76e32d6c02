"""Kernels: functions that Python runs while they have little to do, and that numba compiles once they have more.

Importing numba takes .4 s of CPU time, loading a kernel from its cache some .02 s, and compiling one .1 to 2 s. On a
small problem, Python runs most kernels in less time. A kernel with an estimate of the steps of a call is therefore run
by Python until `MAX_PYTHON_STEPS` are exceeded. Both versions compute the same bits, and the decision depends on counts
alone: results are a function of the seed. Kernels without an estimate are compiled, or loaded, at their first call.
Inner kernels are called by other kernels only: numba need not make them callable from Python, a quarter of its work.

Short processes such as `combopeps status` call `disable_compilation`: Python runs all kernels for a limited number of
steps, then they are loaded from the cache if it contains them, and not compiled if it does not.

The cache is in numba's default place: NUMBA_CACHE_DIR, `__pycache__` beside the module, or the user's cache directory.
If none of these is writable, as for a container user without a home directory, it is a private directory below the
system's temporary one; without that, each process compiles the kernels it calls. Numba ignores a NUMBA_CACHE_DIR that
is not writable, as in a container image: its kernels are copied into the private directory.

If compiling takes more than a second, a line on stderr says so, unless COMBOPEPS_QUIET is set.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache, update_wrapper
from glob import escape, glob
from hashlib import sha256
from math import erfc, exp, expm1, inf, log, log1p, nan, sqrt
from types import FunctionType
from typing import Any, overload

import numpy as np

__all__ = ["Kernel", "disable_compilation", "erfc", "exp", "expm1", "is_writable", "log", "log1p", "njit", "sqrt"]

MAX_PYTHON_STEPS = 20_000  # of each kernel, some 20 ms in Python: about the time of loading a kernel
MAX_UNCOMPILED_STEPS = 200_000  # of all kernels together, where compilation is disabled
_STEPS_PER_ENTRY = 4  # of the arrays passed to a kernel without an estimate
_MAX_SILENT_SECONDS = 1.0  # of compilation
_COMPILATION_MESSAGE = "combopeps: compiling kernels, once per machine (COMBOPEPS_QUIET=1 hides this line)"

_is_compilation_disabled = False
_uncompiled_steps = 0.0  # since compilation was disabled


def disable_compilation() -> None:
    """Compile no kernel from now on; those that are cached are still loaded."""
    global _is_compilation_disabled
    _is_compilation_disabled = True


@overload
def njit(function: Callable[..., Any]) -> Callable[..., Any]: ...
@overload
def njit(
    *, steps: Callable[..., float] | None = None, inner: bool = False, inline: str = "never"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def njit(
    function: Callable[..., Any] | None = None,
    *,
    steps: Callable[..., float] | None = None,
    inner: bool = False,
    inline: str = "never",
) -> Any:
    """Make a function a `Kernel`, which is cached and releases the GIL; usable with and without parentheses.

    Parameters
    ----------
    function
        The function; a decorator is returned if it is missing.
    steps
        Estimates from the arguments how many microseconds Python takes for a call. Give it only if Python and numba
        compute the same bits: no sums or exponentials of whole arrays, which numpy computes in another order.
    inner
        Whether only other kernels call it. If Python does so, it is not compiled.
    inline
        As for `numba.njit`.
    """
    if function is None:
        return lambda function: Kernel(function, steps, inner, inline)
    return Kernel(function, steps, inner, inline)


class Kernel:
    """A function that is run by Python, or by the dispatcher of numba, which compiles it or loads it from the cache.

    Attributes of the dispatcher are attributes of the kernel, so that numba compiles calls of kernels by kernels.
    """

    def __init__(
        self, function: Callable[..., Any], steps: Callable[..., float] | None, inner: bool, inline: str
    ) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._options = {"nogil": True, "cache": not inner, "inline": inline, "no_cfunc_wrapper": True}
        if inner:
            self._options["no_cpython_wrapper"] = True
        self._estimate = steps
        self._steps = 0.0  # in Python
        self._is_missing = False  # whether compilation is disabled and the cache has no such kernel
        self._dispatcher: Any = None
        self._limited: Callable[..., Any] | None = None
        self._run: Callable[..., Any] = self._run_python if inner else self._decide

    def __call__(self, *args: Any) -> Any:
        return self._run(*args)

    @property
    def has_estimate(self) -> bool:
        """Whether Python runs the kernel as long as there are few steps."""
        return self._estimate is not None

    def __reduce__(self) -> str:
        name: str = self.__qualname__
        return name  # pickled by name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_options" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._dispatch(), name)

    @property
    def _numba_type_(self) -> Any:  # asked for by numba where another kernel calls this one
        return self._dispatch()._numba_type_

    @property
    def targetoptions(self) -> dict[str, Any]:  # asked for by numba, which inlines kernels
        options: dict[str, Any] = self._dispatch().targetoptions
        return options

    def _decide(self, *args: Any) -> Any:
        """Run the kernel in one way or the other."""
        global _uncompiled_steps
        if _is_compilation_disabled:
            steps = _STEPS_PER_ENTRY * _count_entries(args) if self._estimate is None else self._estimate(*args)
            _uncompiled_steps += steps
            if _uncompiled_steps <= MAX_UNCOMPILED_STEPS or self._is_missing:
                return self._run_python(*args)
            try:
                return self._dispatch()(*args)
            except _NotCachedError:
                self._is_missing = True
                return self._run_python(*args)
        if self._estimate is not None:
            self._steps += self._estimate(*args)
            if self._steps <= MAX_PYTHON_STEPS:
                return self._run_python(*args)
        self._run = self._dispatch()
        return self._run(*args)

    def _run_python(self, *args: Any) -> Any:
        with np.errstate(all="ignore"):  # compiled arithmetic does not warn
            return self._function(*args)

    @property
    def _function(self) -> Callable[..., Any]:
        """The function, which calls other kernels in Python too.

        Functions of `math` return a limit where compiled ones do, instead of raising.
        """
        if self._limited is None:
            original: Any = self.py_func
            scope = {name: original.__globals__.get(name) for name in original.__code__.co_names}
            kernels = {name: called._function for name, called in scope.items() if isinstance(called, Kernel)}
            limits = {name: _LIMITED[name] for name in scope if name in _LIMITED}
            self._limited = FunctionType(original.__code__, original.__globals__ | limits | kernels, original.__name__)
        return self._limited

    def _dispatch(self) -> Any:
        if self._dispatcher is None:
            self._dispatcher = _create_dispatcher(self.py_func, self._options)
            if _is_compilation_disabled:
                self._dispatcher._compiler.compile = _raise_not_cached  # called if the kernel is not cached
        return self._dispatcher


class _NotCachedError(Exception):
    """The cache does not contain a kernel."""


def _raise_not_cached(*_: Any) -> Any:
    raise _NotCachedError


def _count_entries(args: tuple[Any, ...]) -> int:
    """Return the number of entries of all arguments."""
    return sum(getattr(value, "size", 1) for value in args)


def _with_limit(function: Any, limit: float) -> Any:
    """Return a function of `math` with a limit value where it raises an error and compiled code does not."""

    def limited(x: float) -> float:
        try:
            return float(function(x))
        except (ValueError, OverflowError):
            return limit

    return limited


_LIMITED = {
    "exp": _with_limit(exp, inf),
    "expm1": _with_limit(expm1, inf),
    "log": _with_limit(log, -inf),
    "log1p": _with_limit(log1p, -inf),
    "sqrt": _with_limit(sqrt, nan),
}


def _create_dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return the dispatcher of numba, with a cache in the first writable directory, or without a cache."""
    import numba

    _report_compilation()
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


@cache
def _report_compilation() -> None:
    """Let numba report compilations, and write a line to stderr once those of kernels have taken a second."""
    from numba.core import event

    class Listener(event.Listener):
        depth, start, seconds, is_reported = 0, 0.0, 0.0, bool(os.environ.get("COMBOPEPS_QUIET"))

        def on_start(self, event: Any) -> None:
            if self.depth or str(event.data["dispatcher"].py_func.__module__).startswith("combopeps."):
                if not self.depth:
                    self.start = time.perf_counter()
                self.depth += 1
                self.report(self.seconds + time.perf_counter() - self.start)

        def on_end(self, event: Any) -> None:
            if self.depth:
                self.depth -= 1
                if not self.depth:
                    self.seconds += time.perf_counter() - self.start
                    self.report(self.seconds)

        def report(self, seconds: float) -> None:
            if not self.is_reported and seconds > _MAX_SILENT_SECONDS:
                self.is_reported = True
                with suppress(AttributeError, OSError, ValueError):  # stderr is missing or closed
                    print(_COMPILATION_MESSAGE, file=sys.stderr, flush=True)

    register: Any = event.register
    register("numba:compile", Listener())


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
