"""Storages by the scheme of a URL; what has none is the path of a journal."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial

from combopeps.campaign.journal import Journal
from combopeps.campaign.storage import Storage
from combopeps.errors import DependencyError, ParameterError


def _database(scheme: str, rest: str) -> Storage:
    try:
        from combopeps.campaign.sql import SQLStorage
    except ModuleNotFoundError as cause:
        raise DependencyError(
            f"campaigns in databases need {cause.name}; install it: pip install 'combopeps[sql]'"
        ) from None
    return SQLStorage(f"{scheme}://{rest}")


# Each gets what stands behind "scheme://".
STORAGES: dict[str, Callable[[str], Storage]] = {
    "file": Journal,
    "sqlite": partial(_database, "sqlite"),
    "postgresql": partial(_database, "postgresql"),
}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def storage_at(place: str | os.PathLike[str] | Storage) -> Storage:
    """The storage of a path or URL; one of somebody's own as it is.

    Examples
    --------
    >>> storage_at("beans.jsonl")
    Journal('beans.jsonl')
    """
    if isinstance(place, Storage):
        return place
    url = _URL.fullmatch(place) if isinstance(place, str) else None
    if url is None:
        return Journal(place)
    if url[1].lower() not in STORAGES:
        known = ", ".join(f"{scheme}://" for scheme in STORAGES)
        raise ParameterError(
            f"no storage of campaigns is called {url[1]!r:.40}; there are {known}; a plain path names a file, and a "
            "Storage of your own can be given itself"
        )
    return STORAGES[url[1].lower()](url[2])
