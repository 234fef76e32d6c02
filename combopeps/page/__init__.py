"""A campaign as people see it: one page, live or as a file. Needs jinja2 (extra `serve`)."""

from combopeps.page.curve import Curve
from combopeps.page.facts import Facts
from combopeps.page.gather import facts_of
from combopeps.page.html import Live, fragment, render
from combopeps.page.reporting import report

__all__ = ["Curve", "Facts", "Live", "facts_of", "fragment", "render", "report"]
