"""Render the report page as HTML: a whole document, the part of it that changes, or a file.

Templates escape all labels, titles and names of clients.
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
from combopeps.utils.formatting import mean_std_text, probability_text
from combopeps.viz.build_view_model import report_data
from combopeps.viz.svg import number_text
from combopeps.viz.view_model import ReportData

if TYPE_CHECKING:
    from jinja2 import Environment

_NONCE = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_MAX_TIMESTAMP = 253_402_300_799.0  # the last second of the year 9999, the end of the calendar of `datetime`


@dataclass(frozen=True)
class Live:
    """Options of a page that updates itself.

    Attributes
    ----------
    etag
        ETag of the fragment as in the HTTP header, quotes included.
    can_tell
        Whether the page has forms to enter results and to request queries.
    poll_seconds
        Seconds between two requests for the fragment.
    """

    etag: str
    can_tell: bool = True
    poll_seconds: float = 3.0


def render(facts: ReportData, live: Live | None = None, *, nonce: str = "", when: datetime | None = None) -> str:
    """Return the report page as a self-contained HTML document.

    Parameters
    ----------
    facts
        Contents of the page.
    live
        Options of a page that is served and updates itself; None for a static file. A live page gets `./fragment`,
        `./me` (role and name of the client) and `./open` (the parts of a large action), posts to `./tell`, `./ask`,
        `./abandon`, `./correct` and `./retract`, and links `./measurements.csv`.
    nonce
        Nonce of the Content-Security-Policy, base64, for the style sheet and the script.
    when
        Time of writing, shown in the footer.
    """
    if not _NONCE.fullmatch(nonce):
        raise ParameterError("nonce must be base64 text")
    moment = None if when is None else when.astimezone(UTC)
    return _templates().get_template("page.html").render(facts=facts, live=live, nonce=nonce, when=moment)


def fragment(facts: ReportData, live: Live | None = None) -> str:
    """Return the content of <main>, which a live page updates."""
    return _templates().get_template("fragment.html").render(facts=facts, live=live)


@lru_cache(maxsize=1)
def _templates() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise DependencyError("pages need jinja2; install it: pip install 'combopeps[serve]'") from None
    environment = Environment(
        loader=PackageLoader("combopeps.viz"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": partial(probability_text, percent=True), "number": number_text, "cut": _cut,
        "iso_time": _iso_time, "exact": _exact, "ranges": _ranges,
    }  # fmt: skip
    environment.globals |= {"estimate": mean_std_text}
    return environment


def _cut(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def _iso_time(timestamp: float) -> str:
    """Return a Unix time in the format of the HTML attribute `datetime`, clipped to the years 1970 to 9999."""
    return datetime.fromtimestamp(min(_MAX_TIMESTAMP, max(0.0, timestamp)), UTC).strftime("%Y-%m-%dT%H:%MZ")


def _ranges(numbers: Iterable[int]) -> str:
    """Return ascending integers with runs of consecutive ones as ranges: "3-7 9"."""
    runs = list[list[int]]()
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return " ".join("-".join(map(str, run)) for run in runs)


def _exact(value: Any) -> str:
    """Return a number with all its digits; empty if it is not finite."""
    return repr(float(value)) if isfinite(value) else ""


def report(found: Campaign | Result, path: str | os.PathLike[str], *, title: str = "") -> None:
    """Write the report page to a self-contained HTML file, replacing an existing one.

    Parameters
    ----------
    found
        The campaign, or the result of `identify`.
    path
        Path of the file.
    title
        Title of the page; by default the name of the problem.

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
    page = render(report_data(found, title=title), when=datetime.now(UTC))
    files.write_atomically(path, page.encode("utf-8", "backslashreplace"))
