"""`status`: where a campaign stands, and whether it may stop."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from combopeps.cli.campaign import add_timeout
from combopeps.cli.options import OK, UNCERTAIN, Commands, add_state

if TYPE_CHECKING:
    from combopeps.campaign import Campaign, Status


def register(commands: Commands) -> None:
    """Add the command."""
    status = commands.add(
        "status",
        run,
        "the answer so far, its error probability, and what to do next",
        "combopeps init town --state run.jsonl\ncombopeps status --state run.jsonl || test $? = 3",
        "\nExit code 0 when the answer is certain enough, 3 when it is not.",
    )
    add_state(status)
    add_timeout(status)
    status.add_argument("--plot", metavar="PNG", help="draw the answer so far (needs matplotlib)")


def run(args: argparse.Namespace) -> int:
    """Look, and change nothing."""
    from combopeps.campaign import Campaign
    from combopeps.cli.text import show_json

    campaign = Campaign.open(args.state, timeout=args.timeout)
    status = campaign.status()
    if args.plot is not None:
        _draw(campaign, status, args.plot)
    if args.json:
        from combopeps.campaign.records import plain
        from combopeps.cli.campaign import query_json
        from combopeps.cli.text import answer_json, pulls_json

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


def _draw(campaign: Campaign, status: Status, path: str) -> None:
    from combopeps.plotting import component_samples, plot_answer, plot_pulls, save

    oracle, arms = campaign.problem.oracle, campaign.problem.arms
    if not arms.are_units:
        save(plot_pulls(status.pulls), path)
        return
    samples = component_samples(arms, status.pulls.values())
    rival = None if status.alternative is None else oracle.encode(status.alternative)
    save(plot_answer(oracle, status.z, rival=rival, samples=samples, belief=campaign.belief), path)


def _say(status: Status, stopping: str, args: argparse.Namespace) -> None:
    from combopeps.cli.campaign import query_text
    from combopeps.cli.output import quoted, shown
    from combopeps.cli.text import answer_text, bars, label_text, probability_text

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
