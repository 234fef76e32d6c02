"""Campaigns in databases, and on the way there: `copy` and `campaigns`."""

from __future__ import annotations

import argparse

from combopeps.campaign import campaigns, copy
from combopeps.cli.options import OK
from combopeps.cli.output import masked, quoted, show, shown


def run_copy(args: argparse.Namespace) -> int:
    """All lines of a campaign, to a new place."""
    count, source, target = copy(args.source, args.target), masked(args.source), masked(args.target)
    lines = [f"{count} events copied to {shown(target)}", f"next: combopeps status --state {quoted(target)}"]
    show(args.json, {"source": source, "target": target, "events": count}, lines)
    return OK


def run_campaigns(args: argparse.Namespace) -> int:
    """The names in a database."""
    names = campaigns(args.state)
    show(args.json, {"state": masked(args.state), "campaigns": names}, names or ["there are no campaigns"])
    return OK
