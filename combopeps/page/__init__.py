"""A campaign as people see it: one page, live or as a file. Needs jinja2 (extra `serve`)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from combopeps.page.curve import Curve
    from combopeps.page.facts import Facts, facts_of
    from combopeps.page.html import Live, fragment, render, report

__all__ = ["Curve", "Facts", "Live", "facts_of", "fragment", "render", "report"]

# Loaded on first use: a command that needs but the words of `page.words` starts without the rest.
_HOMES = {
    "Curve": "curve", "Facts": "facts", "facts_of": "facts", "Live": "html", "fragment": "html", "render": "html",
    "report": "html",
}  # fmt: skip

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'combopeps.page' has no attribute {name!r}")
        return getattr(import_module(f"combopeps.page.{_HOMES[name]}"), name)
