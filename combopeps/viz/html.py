"""Facts as HTML: a whole document, or the part of it that changes. Templates escape whatever people have named.

The page of a campaign or a result as one file, to be kept or sent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from combopeps.campaign import Campaign
from combopeps.errors import DependencyError, ParameterError
from combopeps.session.result import Result
from combopeps.utils import files
from combopeps.utils.formatting import probability_text
from combopeps.viz.build_view_model import facts_of
from combopeps.viz.svg import number_text
from combopeps.viz.view_model import Facts, estimate_text

if TYPE_CHECKING:
    from jinja2 import Environment

_NONCE = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


@dataclass(frozen=True)
class Live:
    """A page that updates itself.

    Attributes
    ----------
    etag
        Of the fragment, as the server's header has it, quotes included.
    can_tell
        Whether there is a form to enter results.
    poll_seconds
        How long the page waits before it asks for a new fragment.
    """

    etag: str
    can_tell: bool = True
    poll_seconds: float = 3.0


def render(facts: Facts, live: Live | None = None, *, nonce: str = "", when: datetime | None = None) -> str:
    """A whole HTML document, with nothing outside it.

    Parameters
    ----------
    facts
        What to show.
    live
        For a page that a server keeps up to date: it asks for `./fragment`, for `./me` (who is before it), and for
        `./open` (the parts of a large action); posts results to `./tell`, wishes for queries to `./ask`, and queries
        that are given back to `./abandon`; and links `./measurements.csv`. None for a file that stands for itself.
    nonce
        Of a Content-Security-Policy: the one style and the one script carry it.
    when
        The time to put below it.
    """
    if not _NONCE.fullmatch(nonce):
        raise ParameterError("a nonce is base64 text")
    moment = None if when is None else when.astimezone(UTC)
    return _templates().get_template("page.html").render(facts=facts, live=live, nonce=nonce, when=moment)


def fragment(facts: Facts, live: Live | None = None) -> str:
    """The part inside <main>, which a live page replaces."""
    return _templates().get_template("fragment.html").render(facts=facts, live=live)


@lru_cache(maxsize=1)
def _templates() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise DependencyError("pages need jinja2; install it: pip install 'combopeps[serve]'") from None
    made = Environment(
        loader=PackageLoader("combopeps.viz"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "chance": partial(probability_text, percent=True), "number": number_text, "cut": _cut, "moment": _moment,
        "exact": _exact, "ranges": _ranges,
    }  # fmt: skip
    made.globals |= {"estimate": estimate_text}
    return made


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _moment(until: float) -> str:
    """In words that browsers read; what lies beyond their calendar, as its last minute."""
    last = 253_402_300_799.0  # of the year 9999
    return datetime.fromtimestamp(min(last, max(0.0, until)), UTC).strftime("%Y-%m-%dT%H:%MZ")


def _ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers, runs of them as first and last: 3-7 9."""
    runs = list[list[int]]()
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return " ".join("-".join(map(str, run)) for run in runs)


def _exact(value: Any) -> str:
    return repr(float(value)) if isfinite(value) else ""


def report(found: Campaign | Result, path: str | os.PathLike[str], *, title: str = "") -> None:
    """Write a page that needs nothing but itself; an old file at the path is replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from combopeps import TopKOracle
    >>> folder = tempfile.mkdtemp()
    >>> campaign = Campaign.create(folder + "/beans.db", TopKOracle(["arabica", "robusta"], k=1))
    >>> report(campaign, folder + "/beans.html")
    >>> "arabica" in Path(folder, "beans.html").read_text(encoding="utf-8")
    True
    """
    files.check_target(path)
    page = render(facts_of(found, title=title), when=datetime.now(UTC))
    files.replace(path, page.encode("utf-8", "backslashreplace"))
