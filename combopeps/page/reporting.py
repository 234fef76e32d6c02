"""The page of a campaign or a result as one file, to be kept or sent."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from combopeps import files
from combopeps.campaign import Campaign
from combopeps.page.gather import facts_of
from combopeps.page.html import render
from combopeps.session.result import Result


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
