"""`init`, `ask`, `tell`, `observe` and `abandon`: measurements made by hand or by scripts."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from combopeps.campaign import Campaign
from combopeps.cli.options import OK
from combopeps.cli.output import quoted, show, shown
from combopeps.cli.source import load
from combopeps.cli.text import query_json, query_text, size_text
from combopeps.errors import ComboPepsError, LabelError, ParameterError
from combopeps.instances.items import read_csv
from combopeps.instances.parsing import is_digits, parse_number, refuse


def run_init(args: argparse.Namespace) -> int:
    """A new state file."""
    instance = load(args)
    size = size_text(instance.oracle)
    Campaign.create(args.state, instance, policy=args.policy, delta=args.delta, seed=args.seed, stopping=args.stopping)
    noise, prior = instance.problem.noise_std, instance.problem.prior_std
    lines = [
        f"{shown(args.state)}: {len(instance.arms)} things to measure, {size} answers",
        f"noise {noise:g}, prior {prior:g}: in the units of your data (--noise, --prior)",
        f"next: combopeps ask --state {quoted(args.state)}",
    ]
    show(args.json, {"state": args.state, "d": instance.oracle.dim, "arms": len(instance.arms)}, lines)
    return OK


def run_ask(args: argparse.Namespace) -> int:
    """Queries, on the disk before they are shown."""
    queries = Campaign.open(args.state, timeout=args.timeout).ask(args.n)
    show(args.json, {"queries": [query_json(query) for query in queries]}, map(query_text, queries))
    return OK


def run_tell(args: argparse.Namespace) -> int:
    """One result, or all of a file with one wait for the disk."""
    if (args.csv is None) == (args.id is None or args.value is None):
        raise ParameterError("give either ID VALUE or --csv FILE")
    results = [(args.id, args.value)] if args.csv is None else _results(args.csv)
    return _record(args, lambda campaign: campaign.tell_many(results))


def run_observe(args: argparse.Namespace) -> int:
    """A measurement by label."""
    return _record(args, lambda campaign: campaign.observe(_label(campaign, args.label), args.value))


def run_abandon(args: argparse.Namespace) -> int:
    """Close a query."""
    return _record(args, lambda campaign: campaign.abandon(args.id))


def _record(args: argparse.Namespace, act: Callable[[Campaign], None]) -> int:
    """Do it, and say where the campaign stands then."""
    campaign = Campaign.open(args.state, timeout=args.timeout)
    act(campaign)
    samples = waiting = None
    with suppress(ComboPepsError):  # the fact is on the disk: a lock that others hold by now must not deny it
        samples, waiting = campaign.samples, len(campaign.open_queries)
    said = "recorded" if waiting is None else f"recorded; {samples} measurements so far, {waiting} queries open"
    show(args.json, {"samples": samples, "open": waiting}, [said])
    return OK


def _results(name: str) -> list[tuple[int, float]]:
    path = Path(name)
    header, rows = read_csv(path)
    if sorted(header) != ["id", "value"]:
        refuse(path, "the header must be id,value", 1)
    at, pairs = header.index("id"), []
    for line, row in rows:
        text = row[at].strip()
        if not is_digits(text, most=15):
            refuse(path, f"must be the number of a query, got {text[:40]!r}", line, "id")
        pairs.append((int(text), parse_number(path, row[1 - at], line, "value")))
    return pairs


def _label(campaign: Campaign, words: list[str]) -> Any:
    """The arm whose label is written like these words, either way round where edges have no direction."""
    labels = campaign.problem.arms.labels
    ways = [words] if getattr(campaign.problem.oracle, "directed", True) else [words, [*words[1::-1], *words[2:]]]
    alike = [x for x in labels if [str(part) for part in (x if isinstance(x, tuple) else (x,))] in ways]
    if len(alike) != 1:
        known = ", ".join(" ".join(map(str, x)) if isinstance(x, tuple) else str(x) for x in labels[:5])
        raise LabelError(f"{' '.join(words)!r} is not the label of one thing to measure; there are {known}, ...")
    return alike[0]
