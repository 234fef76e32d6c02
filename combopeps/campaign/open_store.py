"""Stores by the path or URL of a campaign, and the names of the campaigns in a database."""

from __future__ import annotations

import os
import re

from combopeps.campaign.sql_store import DEFAULT_NAME, SQLStore
from combopeps.campaign.sqlite import SQLiteStore
from combopeps.campaign.store import Store
from combopeps.errors import DependencyError, ParameterError

_MAX_NAME_LENGTH = 100  # characters
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def store_at(place: str | os.PathLike[str] | Store) -> Store:
    """Return the store of a path or URL, or the store that is given.

    Examples
    --------
    >>> store_at("beans.db")
    SQLiteStore('beans.db')
    >>> store_at("sqlite:///runs.db#beans")
    SQLiteStore('runs.db#beans')
    """
    if isinstance(place, Store):
        return place
    url = _URL.fullmatch(place) if isinstance(place, str) else None
    if url is None:
        return SQLiteStore(place)
    scheme, base, name = url[1].lower(), *_split_name(url[2])
    if scheme == "sqlite":
        if not base.startswith("/") or len(base) < 2 or "?" in base:
            raise ParameterError(
                "a SQLite URL is sqlite:///x.db (a file in this folder) or sqlite:////folder/x.db (an absolute path), "
                "without options"
            )
        return SQLiteStore(base[1:], name)
    if scheme == "postgresql":
        try:  # psycopg is an optional dependency
            from combopeps.campaign.postgresql import PostgreSQLStore
        except ModuleNotFoundError as cause:
            raise DependencyError(
                f"campaigns in PostgreSQL need {cause.name}; install it: pip install 'combopeps[sql]'"
            ) from None
        return PostgreSQLStore(f"postgresql://{base}", name)
    raise ParameterError(
        f"there is no store of campaigns with the URL scheme {url[1]!r:.40}; use sqlite:/// or postgresql://, or the "
        "path of a SQLite file"
    )


def campaigns(place: str | os.PathLike[str]) -> list[str]:
    """Return the names of all campaigns in a database.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import Campaign, TopKOracle
    >>> url = f"sqlite:///{tempfile.mkdtemp()}/runs.db"
    >>> for name in ("beans", "roads"):
    ...     _ = Campaign.create(f"{url}#{name}", TopKOracle(3, k=1))
    >>> campaigns(url)
    ['beans', 'roads']
    """
    return sql_store_at(place).names()


def sql_store_at(place: str | os.PathLike[str] | Store) -> SQLStore:
    """Return the store of a path or URL; raise `ParameterError` unless it is a SQL database."""
    store = store_at(place)
    if not isinstance(store, SQLStore):
        raise ParameterError(f"{store} is not a database of combopeps")
    return store


def _split_name(address: str) -> tuple[str, str]:
    """Return the part of a URL before the `#`, and the name of the campaign after it."""
    base, separator, name = address.partition("#")
    if separator and not (0 < len(name) <= _MAX_NAME_LENGTH and name.isprintable() and "#" not in name):
        raise ParameterError(
            f"the name of a campaign, after the '#' of the URL, has 1 to {_MAX_NAME_LENGTH} printable characters and "
            f"no '#', got {name!r:.40}"
        )
    return base, name or DEFAULT_NAME
