"""`status` and `doctor`: where a campaign stands and whether it may stop; what is wrong with its file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from combopeps.cli.measure import BEGIN
from combopeps.cli.options import OK, UNCERTAIN, WRONG, Commands, add_state
from combopeps.cli.output import quoted, show_json, shown

if TYPE_CHECKING:
    from combopeps.campaign import Status


def register(commands: Commands) -> None:
    """Add the commands."""
    status = commands.add(
        "status",
        run_status,
        "the answer so far, its error probability, and what to do next",
        "combopeps init town --state run.jsonl\ncombopeps status --state run.jsonl || test $? = 3",
        "\nExit code 0 when the answer is certain enough, 3 when it is not.",
    )
    add_state(status)
    status.add_argument("--plot", metavar="PNG", help="draw the answer so far (needs matplotlib)")
    doctor = commands.add(
        "doctor", run_doctor, "what is wrong with a state file, and a repaired copy",
        f"{BEGIN}\ncombopeps doctor --state run.jsonl --salvage repaired.jsonl",
    )  # fmt: skip
    add_state(doctor, timeout=False)
    doctor.add_argument("--salvage", metavar="OUT", help="write every line that can be trusted to this new file")


def run_status(args: argparse.Namespace) -> int:
    """Look, and change nothing."""
    from combopeps.campaign import Campaign

    campaign = Campaign.open(args.state, timeout=args.timeout)
    status = campaign.status()
    if args.plot is not None:
        from combopeps.plotting import save
        from combopeps.plotting.answers import plot_measured

        save(plot_measured(campaign.problem, status, campaign.belief), args.plot)
    if args.json:
        from combopeps.campaign.records import plain
        from combopeps.cli.text import answer_json, pulls_json, query_json

        show_json(
            {
                "answer": answer_json(status.answer),
                "runner_up": answer_json(status.alternative),
                "error_probability": status.error_probability,
                "delta": status.delta,
                "stop": status.stop,
                "claim": status.claim,
                "samples": status.samples,
                "open": [query_json(query) for query in status.open_queries],
                "next": plain(status.next),
                "pulls": pulls_json(status.pulls),
                "recovered": len(status.recovered),
                "warning": status.warning,
            }
        )
    else:
        _say(status, campaign.stopping, args)
    return OK if status.stop else UNCERTAIN


def _say(status: Status, stopping: str, args: argparse.Namespace) -> None:
    from combopeps.cli.text import answer_text, bars, label_text, probability_text, query_text

    if status.recovered:
        print("the last line of the file is unfinished (cut off by a crash, or just being written) and does not count")
    print(f"answer so far  {answer_text(status.answer)}")
    print(f"runner-up      {answer_text(status.alternative)}")
    print(f"samples        {status.samples}")
    print(f"estimate       wrong with posterior probability {probability_text(status.error_probability)}")
    if status.stop:
        print(f"stop           yes: {status.claim}")
    else:
        print(f"stop           not yet: the rule {stopping!r} at delta = {status.delta:g} is not satisfied")
    if status.warning:
        print(f"warning        {status.warning}: no claim holds then")
    print("where the samples went")
    for line in bars(status.pulls):
        print(f"  {line}")
    if status.open_queries:
        print(f"waiting for {len(status.open_queries)} results")
        for query in status.open_queries[:10]:
            print(f"  {query_text(query)}")
    if not status.stop:
        print(f"next           combopeps ask --state {quoted(args.state)}   (would be: {label_text(status.next)})")
    if args.plot is not None:
        print(f"picture        {shown(args.plot)}")


def run_doctor(args: argparse.Namespace) -> int:
    """Examine, and salvage if asked to."""
    from combopeps.campaign import examine, salvage

    found = salvage(args.state, args.salvage) if args.salvage is not None else examine(args.state)
    if args.json:
        faults = [{"line": line, "fault": text} for line, text in found.faults]
        counts = {"kept": found.kept, "asked": found.asked, "told": found.told}
        show_json({"sound": not faults, "faults": faults, **counts, "salvaged": args.salvage})
    else:
        for line, text in found.faults:
            print(f"line {line}: {shown(text)}")
        print(f"{shown(args.state)}: {'damaged' if found.faults else 'sound'}; {found.kept} lines are good, "
              f"{found.asked} queries, {found.told} measurements")  # fmt: skip
        if args.salvage:
            print(f"the good lines are in {shown(args.salvage)}")
        elif found.faults:
            print(f"to repair: combopeps doctor --state {quoted(args.state)} --salvage NEW_FILE")
    return OK if args.salvage or not found.faults else WRONG
