"""Campaigns, measured by hand or by scripts: `init`, `ask`, `tell`, `observe`, `abandon`, `status` and `doctor`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from combopeps.campaign import Campaign, Status, examine, salvage
from combopeps.cli import text
from combopeps.cli.options import OK, UNCERTAIN, WRONG
from combopeps.cli.output import masked, quoted, show, show_json, shown
from combopeps.cli.own import oracle_of
from combopeps.cli.results import results_for
from combopeps.cli.source import load
from combopeps.errors import ComboPepsError, ParameterError
from combopeps.forms import plain
from combopeps.tables import Observed
from combopeps.tables.book import LabelBook


def run_init(args: argparse.Namespace) -> int:
    """A new state file."""
    instance = load(args)
    size = text.size_text(instance.oracle)
    options = {"policy": args.policy, "delta": args.delta, "epsilon": args.epsilon, "stopping": args.stopping}
    Campaign.create(args.state, instance, seed=args.seed, sweep=args.sweep, **options)
    at_once = "" if instance.problem.actions is None else f", by {text.actions_text(instance.problem)}"
    lines = [
        f"{shown(masked(args.state))}: {len(instance.arms)} things to measure{at_once}, {size} answers",
        f"{text.scales_text(instance.problem)}: in the units of your data (--noise, --prior)",
        f"next: {_command('ask', args)}",
    ]
    show(args.json, {"state": masked(args.state), "d": instance.oracle.dim, "arms": len(instance.arms)}, lines)
    return OK


def run_ask(args: argparse.Namespace) -> int:
    """Queries, on the disk before they are shown."""
    campaign = _opened(args)
    queries = campaign.ask(args.n, client=args.client, patience=args.patience)
    oracle = text.asked_of(campaign.problem)
    lines = (text.query_text(query, oracle) for query in queries)
    show(args.json, {"queries": [text.query_json(query) for query in queries]}, lines)
    return OK


def run_tell(args: argparse.Namespace) -> int:
    """One result, or all of a file with one wait for the disk."""
    if (args.csv is None) == (args.id is None or not args.value):
        raise ParameterError("give either ID VALUE or --csv FILE")
    if args.csv is not None and args.sem is not None:
        raise ParameterError("--sem is a column of a --csv file; leave it out")
    return _record(args, lambda campaign: campaign.tell_many(results_for(campaign, args)))


def run_observe(args: argparse.Namespace) -> int:
    """A measurement by label, or all of a file with one wait for the disk."""
    if (args.csv is None) == (args.value is None):
        raise ParameterError("give either LABEL VALUE or --csv FILE")
    if args.csv is not None and (args.sem is not None or args.count != 1):
        raise ParameterError("--sem and --count are columns of a --csv file; leave them out")
    if args.csv is not None:
        return _record(args, lambda campaign: campaign.observe_table(args.csv))
    said = args.value, args.sem, args.count
    return _record(args, lambda campaign: campaign.observe(_label(campaign, args.label), *said))


def run_abandon(args: argparse.Namespace) -> int:
    """Close a query."""
    return _record(args, lambda campaign: campaign.abandon(args.id))


def run_status(args: argparse.Namespace) -> int:
    """Look, and change nothing."""
    campaign = _opened(args)
    status = campaign.status()
    if args.plot is not None:
        from combopeps.plotting import save
        from combopeps.plotting.answers import plot_measured

        save(plot_measured(campaign.problem, status, campaign.belief), args.plot)
    if args.json:
        show_json(
            {
                "answer": plain(status.answer),
                "runner_up": plain(status.alternative),
                "error_probability": plain(status.error_probability),
                "error_interval": [*status.error_interval],
                "leaders": plain(status.leaders),
                "delta": status.delta,
                "epsilon": status.epsilon,
                "stop": status.stop,
                "claim": status.claim,
                "samples": status.samples,
                "actions": status.actions,
                "open": [text.query_json(query, status.holders.get(query.id)) for query in status.open_queries],
                "next": plain(status.next),
                "pulls": text.pulls_json(status.pulls),
                "recovered": len(status.recovered),
                "warning": status.warning,
                **({} if status.noise_estimate is None else {"noise_estimate": vars(status.noise_estimate)}),
            }
        )
    else:
        _say(status, campaign, args)
    return OK if status.stop else UNCERTAIN


def _say(status: Status, campaign: Campaign, args: argparse.Namespace) -> None:
    asked = text.asked_of(campaign.problem)
    if status.recovered:
        print("the last line of the file is unfinished (cut off by a crash, or just being written) and does not count")
    print(f"answer so far  {text.answer_text(status.answer, campaign.problem.oracle)}")
    print(f"runner-up      {text.answer_text(status.alternative, campaign.problem.oracle)}")
    print(f"samples        {text.samples_text(status.samples, status.actions)}")
    print(f"estimate       {text.estimate_text(status, status.epsilon)}")
    if status.stop:
        print(f"stop           yes: {status.claim}")
    else:
        level = f"delta = {status.delta:g}" + (f", epsilon = {status.epsilon:g}" if status.epsilon else "")
        print(f"stop           not yet: the rule {campaign.stopping!r} at {level} is not satisfied")
    if status.noise_estimate is not None:
        print(f"noise          {status.noise_estimate}")
    if status.warning:
        print(f"warning        {status.warning}")
    print("where the samples went")
    for line in text.bars(status.pulls):
        print(f"  {line}")
    if status.open_queries:
        print(f"waiting for {len(status.open_queries)} results")
        for query in status.open_queries[:10]:
            print("  " + text.query_text(query, asked, status.holders.get(query.id)).replace("\n", "\n  "))
    if not status.stop:
        would_be = text.label_text(status.next) if asked is None else text.answer_text(status.next, asked)
        print(f"next           {_command('ask', args)}   (would be: {would_be})")
    if args.plot is not None:
        print(f"picture        {shown(args.plot)}")


def run_doctor(args: argparse.Namespace) -> int:
    """Examine, and salvage if asked to."""
    oracle = oracle_of(args.oracle)
    if args.salvage is None:
        found = examine(args.state, oracle=oracle)
    else:
        found = salvage(args.state, args.salvage, oracle=oracle)
    if args.json:
        faults = [{"line": line, "fault": fault} for line, fault in found.faults]
        counts = {"kept": found.kept, "asked": found.asked, "told": found.told}
        show_json({"sound": not faults, "faults": faults, **counts, "salvaged": args.salvage and masked(args.salvage)})
    else:
        for line, fault in found.faults:
            print(f"line {line}: {shown(fault)}")
        print(f"{shown(masked(args.state))}: {'damaged' if found.faults else 'sound'}; {found.kept} lines are good, "
              f"{found.asked} queries, {found.told} measurements")  # fmt: skip
        if args.salvage:
            print(f"the good lines are in {shown(masked(args.salvage))}")
        elif found.faults:
            print(f"to repair: {_command('doctor', args)} --salvage NEW_FILE")
    return OK if args.salvage or not found.faults else WRONG


def _command(name: str, args: argparse.Namespace) -> str:
    """Another command on the same campaign, to be copied."""
    own = "" if args.oracle is None else f" --oracle {quoted(args.oracle)}"
    return f"combopeps {name} --state {quoted(masked(args.state))}{own}"


def _opened(args: argparse.Namespace) -> Campaign:
    return Campaign.open(args.state, oracle=oracle_of(args.oracle), timeout=args.timeout)


def _record(args: argparse.Namespace, act: Callable[[Campaign], Observed | None]) -> int:
    """Do it, and say where the campaign stands then."""
    campaign = _opened(args)
    observed = act(campaign)
    samples = waiting = actions = None
    with suppress(ComboPepsError):  # the fact is on the disk: a lock that others hold by now must not deny it
        samples, actions, waiting = campaign.samples, campaign.actions, len(campaign.open_queries)
    made = f"{samples} measurements" if samples is None or actions is None else text.samples_text(samples, actions)
    said = "recorded" if waiting is None else f"recorded; {made} so far, {waiting} queries open"
    document: dict[str, Any] = {"samples": samples, "open": waiting}
    document |= {} if actions is None else {"actions": actions}
    if observed is not None:
        left_out = [[plain(label), rows] for label, rows in observed.left_out.items()]
        document |= {"rows": observed.rows, "taken": observed.taken, "left_out": left_out}
    show(args.json, document, [said] if observed is None else [repr(observed), said])
    return OK


def _label(campaign: Campaign, words: list[str]) -> Hashable:
    """The label that is written like these words, either way round where edges have no direction."""
    return LabelBook(campaign.problem.arms.labels, campaign.problem.oracle).by_words(words)
