"""`status` and `doctor`: where a campaign stands and whether it may stop; what is wrong with its file."""

from __future__ import annotations

import argparse

from combopeps.campaign import Campaign, Status, examine, salvage
from combopeps.campaign.records import plain
from combopeps.cli import text
from combopeps.cli.options import OK, UNCERTAIN, WRONG
from combopeps.cli.output import quoted, show_json, shown
from combopeps.plotting import save
from combopeps.plotting.answers import plot_measured


def run_status(args: argparse.Namespace) -> int:
    """Look, and change nothing."""
    campaign = Campaign.open(args.state, timeout=args.timeout)
    status = campaign.status()
    if args.plot is not None:
        save(plot_measured(campaign.problem, status, campaign.belief), args.plot)
    if args.json:
        show_json(
            {
                "answer": text.answer_json(status.answer),
                "runner_up": text.answer_json(status.alternative),
                "error_probability": status.error_probability,
                "delta": status.delta,
                "stop": status.stop,
                "claim": status.claim,
                "samples": status.samples,
                "open": [text.query_json(query) for query in status.open_queries],
                "next": plain(status.next),
                "pulls": text.pulls_json(status.pulls),
                "recovered": len(status.recovered),
                "warning": status.warning,
            }
        )
    else:
        _say(status, campaign.stopping, args)
    return OK if status.stop else UNCERTAIN


def _say(status: Status, stopping: str, args: argparse.Namespace) -> None:
    if status.recovered:
        print("the last line of the file is unfinished (cut off by a crash, or just being written) and does not count")
    print(f"answer so far  {text.answer_text(status.answer)}")
    print(f"runner-up      {text.answer_text(status.alternative)}")
    print(f"samples        {status.samples}")
    print(f"estimate       wrong with posterior probability {text.probability_text(status.error_probability)}")
    if status.stop:
        print(f"stop           yes: {status.claim}")
    else:
        print(f"stop           not yet: the rule {stopping!r} at delta = {status.delta:g} is not satisfied")
    if status.warning:
        print(f"warning        {status.warning}: no claim holds then")
    print("where the samples went")
    for line in text.bars(status.pulls):
        print(f"  {line}")
    if status.open_queries:
        print(f"waiting for {len(status.open_queries)} results")
        for query in status.open_queries[:10]:
            print(f"  {text.query_text(query)}")
    if not status.stop:
        print(f"next           combopeps ask --state {quoted(args.state)}   (would be: {text.label_text(status.next)})")
    if args.plot is not None:
        print(f"picture        {shown(args.plot)}")


def run_doctor(args: argparse.Namespace) -> int:
    """Examine, and salvage if asked to."""
    found = salvage(args.state, args.salvage) if args.salvage is not None else examine(args.state)
    if args.json:
        faults = [{"line": line, "fault": fault} for line, fault in found.faults]
        counts = {"kept": found.kept, "asked": found.asked, "told": found.told}
        show_json({"sound": not faults, "faults": faults, **counts, "salvaged": args.salvage})
    else:
        for line, fault in found.faults:
            print(f"line {line}: {shown(fault)}")
        print(f"{shown(args.state)}: {'damaged' if found.faults else 'sound'}; {found.kept} lines are good, "
              f"{found.asked} queries, {found.told} measurements")  # fmt: skip
        if args.salvage:
            print(f"the good lines are in {shown(args.salvage)}")
        elif found.faults:
            print(f"to repair: combopeps doctor --state {quoted(args.state)} --salvage NEW_FILE")
    return OK if args.salvage or not found.faults else WRONG
