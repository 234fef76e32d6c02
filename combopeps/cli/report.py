"""`report`: a campaign as one page in a file."""

from __future__ import annotations

import argparse

from combopeps.campaign import Campaign
from combopeps.cli.options import OK
from combopeps.cli.output import show, shown
from combopeps.cli.own import oracle_of
from combopeps.page import report


def run_report(args: argparse.Namespace) -> int:
    """Look, and write what is seen."""
    campaign = Campaign.open(args.state, oracle=oracle_of(args.oracle), timeout=args.timeout)
    report(campaign, args.output, title=args.title)
    show(args.json, {"report": args.output, "samples": campaign.samples}, [f"the page is in {shown(args.output)}"])
    return OK
