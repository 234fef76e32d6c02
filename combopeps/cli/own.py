"""`--oracle package.module:factory`: an oracle of one's own, named by the person, never by a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from typing import Any

from combopeps.errors import ComboPepsError, ParameterError
from combopeps.instances import Instance
from combopeps.oracles.base import ArgmaxOracle
from combopeps.problem import Problem


def made_by(spec: str) -> ArgmaxOracle | Problem | Instance:
    """What the factory returns, called without arguments; modules in the current folder are found first."""
    module, colon, name = spec.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ParameterError(f"--oracle takes package.module:factory, got {spec!r:.80}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    with redirect_stdout(sys.stderr):  # what it prints must not mix with results
        factory: Any = _imported(module, spec)
        for part in name.split("."):
            if not hasattr(factory, part):
                raise ParameterError(f"--oracle {spec}: there is no {part!r} in {module!r}")
            factory = getattr(factory, part)
        if not callable(factory):
            kind = type(factory).__name__
            raise ParameterError(f"--oracle {spec}: is a {kind}, not a function; write one that returns the oracle")
        with _typed(spec, "raised"):
            made = factory()
    if not isinstance(made, (ArgmaxOracle, Problem, Instance)):
        kind = type(made).__name__
        raise ParameterError(f"--oracle {spec}: returned a {kind}; return an ArgmaxOracle, a Problem or an Instance")
    return made


def oracle_of(spec: str | None) -> ArgmaxOracle | None:
    """The oracle for a campaign that was begun with one of somebody's own; None where none is named."""
    if spec is None:
        return None
    made = made_by(spec)
    return made if isinstance(made, ArgmaxOracle) else made.oracle


def instance_of(spec: str) -> Instance:
    """As an instance; without a truth, unless the factory returns one with it."""
    made = made_by(spec)
    if isinstance(made, Instance):
        return made
    problem = made if isinstance(made, Problem) else Problem(made)
    return Instance(spec, problem, origin="the factory returned no Instance with a theta")


def _imported(module: str, spec: str) -> Any:
    try:
        with _typed(spec, f"importing {module!r} raised"):
            return import_module(module)
    except ModuleNotFoundError as cause:
        if cause.name is not None and f"{module}.".startswith(f"{cause.name}."):
            found = f"there is no module {cause.name!r} here or among installed packages"
        else:
            found = f"{module!r} needs {cause.name!r}, which is not installed"
        raise ParameterError(f"--oracle {spec}: {found}") from cause


@contextmanager
def _typed(spec: str, what: str) -> Iterator[None]:
    try:
        yield
    except (ComboPepsError, ModuleNotFoundError):
        raise
    except (Exception, SystemExit) as cause:  # a module that ends the process must not look like success
        raise ParameterError(f"--oracle {spec}: {what} {type(cause).__name__}: {cause}; --debug shows where") from cause
