"""A campaign from one storage to another, byte for byte in its lines."""

from __future__ import annotations

import os

from combopeps.campaign.salvage import sealed_at
from combopeps.campaign.storage import Storage


def copy(source: str | os.PathLike[str] | Storage, target: str | os.PathLike[str] | Storage) -> int:
    """Copy a campaign to a place where there is none, and return how many lines it has.

    All lines arrive, or none do. A damaged source is refused (`salvage` makes a sound one of it), and so is a target
    that exists. Others may go on with the source meanwhile: the copy is the campaign at one moment.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import Campaign, TopKOracle
    >>> folder = tempfile.mkdtemp()
    >>> _ = Campaign.create(f"{folder}/beans.jsonl", TopKOracle(3, k=1)).ask(2)
    >>> copy(f"{folder}/beans.jsonl", f"sqlite:///{folder}/runs.db#beans")
    2
    >>> len(Campaign.open(f"sqlite:///{folder}/runs.db#beans").open_queries)
    2
    """
    there, here = sealed_at(target), sealed_at(source)
    lines = here.lines()
    there.begin(lines)
    return len(lines)
