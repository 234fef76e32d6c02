"""Problem-independent utilities: validation, files, labels, formatting, locks, compiled numerics."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def import_on_first_use(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` (PEP 562) of a package, for names of its modules that few processes need.

    Parameters
    ----------
    package
        Its full name.
    modules
        Names, separated by spaces, by the module in the package that defines them.

    Examples
    --------
    >>> import_on_first_use("combopeps", {"errors": "ComboPepsError"})("ComboPepsError").__name__
    'ComboPepsError'
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return get
