"""Commands on a campaign: `init`, `ask`, `tell`, `observe`, `correct`, `status`, `check`, `export` and others.

What `tell` is told: a number, the parts of an action as LABEL=VALUE or in their order, or a CSV file of either.

Campaigns in databases, and on the way there: `copy` and `campaigns`.

`report`: a campaign as one page in a file.

`serve`: a campaign over HTTP, until it is told to stop.
"""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any

from combopeps.campaign import Campaign, campaigns, check, copy, export
from combopeps.cli import text
from combopeps.cli.options import OK, UNCERTAIN, WRONG
from combopeps.cli.output import dumped, masked, quoted, show, show_json, shown
from combopeps.cli.problem_source import load, oracle_of
from combopeps.errors import ComboPepsError, LabelError, ParameterError
from combopeps.server.launch import serve
from combopeps.session.leases import is_name
from combopeps.session.measurement_table import Observed, read_action_results, read_results
from combopeps.session.result import Status
from combopeps.utils.formatting import plain
from combopeps.utils.label_format import label_text
from combopeps.utils.label_index import LabelBook
from combopeps.viz.html import report


def results_for(campaign: Campaign, args: argparse.Namespace) -> list[tuple[Any, ...]]:
    """Return results as `Campaign.tell_many` takes them."""
    if args.csv is not None:
        single = campaign.problem.actions is None
        return list(read_results(args.csv) if single else read_action_results(args.csv, _book(campaign)))
    return [(args.id, value_for(campaign, args), args.sem)]


def value_for(campaign: Campaign, args: argparse.Namespace) -> Any:
    """Return one result as `Campaign.tell` takes it: a number, or those of the parts of an action."""
    pairs = [value for value in args.value if isinstance(value, tuple)]
    if campaign.problem.actions is None:
        if pairs or len(args.value) != 1:
            raise ParameterError("this campaign measures one thing at a time: give one number, VALUE")
        return args.value[0]
    if args.sem is not None:
        raise ParameterError(
            "--sem is for single measurements; of the parts of an action, it is a column of a --csv file"
        )
    if not pairs:
        return args.value
    if len(pairs) < len(args.value):
        raise ParameterError("give LABEL=VALUE for every part that was read, or all values in the order of `ask`")
    return _by_label(pairs, _book(campaign))


def _by_label(pairs: list[tuple[str, float]], book: LabelBook) -> dict[Hashable, float]:
    told: dict[Hashable, float] = {}
    for words, value in pairs:
        label = book.by_words([words.strip()])
        if label in told:
            raise LabelError(f"{label_text(label):.60} stands there twice")
        told[label] = value
    return told


def _book(campaign: Campaign) -> LabelBook:
    return LabelBook(campaign.problem.arms.labels, campaign.problem.oracle)


def run_init(args: argparse.Namespace) -> int:
    """A new state file."""
    instance = load(args)
    size = text.size_text(instance.oracle)
    options = {"policy": args.policy, "delta": args.delta, "epsilon": args.epsilon, "stopping": args.stopping}
    Campaign.create(args.state, instance, rng=args.seed, sweep=args.sweep, **options)
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
    queries = campaign.ask(args.n, client=args.client, lease=args.lease)
    if campaign.policy.learns_from_choices:
        campaign.save_checkpoint()
    oracle = text.action_oracle(campaign.problem)
    lines = (text.query_text(query, oracle) for query in queries)
    show(args.json, {"queries": [text.query_json(query) for query in queries]}, lines)
    return OK


def run_tell(args: argparse.Namespace) -> int:
    """One result, or all of a file with one wait for the disk."""
    if (args.csv is None) == (args.id is None or not args.value):
        raise ParameterError("give either ID VALUE or --csv FILE")
    if args.csv is not None and args.sem is not None:
        raise ParameterError("--sem is a column of a --csv file; leave it out")
    return _record(args, lambda campaign: campaign.tell_many(results_for(campaign, args), confirm=args.yes))


def run_observe(args: argparse.Namespace) -> int:
    """A measurement by label, or all of a file with one wait for the disk."""
    if (args.csv is None) == (args.value is None):
        raise ParameterError("give either LABEL VALUE or --csv FILE")
    if args.csv is not None and (args.sem is not None or args.count != 1):
        raise ParameterError("--sem and --count are columns of a --csv file; leave them out")
    if args.csv is not None:
        return _record(args, lambda campaign: campaign.observe_table(args.csv, confirm=args.yes))
    said = args.value, args.sem, args.count
    return _record(args, lambda campaign: campaign.observe(_label(campaign, args.label), *said, confirm=args.yes))


def run_correct(args: argparse.Namespace) -> int:
    """Replace a result."""
    return _record(
        args, lambda campaign: campaign.correct(args.event, value_for(campaign, args), args.sem, confirm=args.yes)
    )


def run_retract(args: argparse.Namespace) -> int:
    """Withdraw a result."""
    return _record(args, lambda campaign: campaign.retract(args.event))


def run_abandon(args: argparse.Namespace) -> int:
    """Close a query."""
    return _record(args, lambda campaign: campaign.abandon(args.id))


def run_status(args: argparse.Namespace) -> int:
    """Look, and change nothing."""
    campaign = _opened(args)
    status = campaign.status()
    if args.plot is not None:
        from combopeps.viz.answers import plot_measured
        from combopeps.viz.canvas import save

        save(plot_measured(campaign.problem, status, campaign.belief), args.plot)
    if args.json:
        show_json(
            {
                "answer": plain(status.answer),
                "runner_up": plain(status.runner_up),
                "error_probability": plain(status.error_probability),
                "error_interval": [*status.error_interval],
                "top_answers": plain(status.top_answers),
                "delta": status.delta,
                "epsilon": status.epsilon,
                "stop": status.stop,
                "claim": status.claim,
                "samples": status.samples,
                "actions": status.actions,
                "open": [text.query_json(query, status.leases.get(query.id)) for query in status.open_queries],
                "corrections": status.corrections,
                "pulls": text.pulls_json(status.pulls),
                "warning": status.warning,
                **({} if status.noise_estimate is None else {"noise_estimate": vars(status.noise_estimate)}),
            }
        )
    else:
        _say(status, campaign, args)
    return OK if status.stop else UNCERTAIN


def _say(status: Status, campaign: Campaign, args: argparse.Namespace) -> None:
    asked = text.action_oracle(campaign.problem)
    print(f"answer so far  {text.answer_text(status.answer, campaign.problem.oracle)}")
    print(f"runner-up      {text.answer_text(status.runner_up, campaign.problem.oracle)}")
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
    if status.corrections:
        print(f"corrections    {status.corrections}")
    print("where the samples went")
    for line in text.bars(status.pulls):
        print(f"  {line}")
    if status.open_queries:
        print(f"waiting for {len(status.open_queries)} results")
        for query in status.open_queries[:10]:
            print("  " + text.query_text(query, asked, status.leases.get(query.id)).replace("\n", "\n  "))
    if not status.stop:
        print(f"next           {_command('ask', args)}")
    if args.plot is not None:
        print(f"picture        {shown(args.plot)}")


def run_check(args: argparse.Namespace) -> int:
    """Verify every event."""
    found = check(args.state, oracle=oracle_of(args.oracle))
    if args.json:
        faults = [{"event": number, "fault": fault} for number, fault in found.faults]
        show_json(
            {"sound": not faults, "faults": faults, "events": found.events, "asked": found.asked, "told": found.told}
        )
    else:
        for number, fault in found.faults:
            print(f"event {number}: {shown(fault)}")
        print(f"{shown(masked(args.state))}: {'damaged' if found.faults else 'sound'}; {found.events} valid events, "
              f"{found.asked} queries, {found.told} measurements")  # fmt: skip
    return WRONG if found.faults else OK


def run_export(args: argparse.Namespace) -> int:
    """Write the events to a file."""
    lines, faults = export(args.state, args.output)
    if args.json:
        left_out = [{"event": number, "fault": fault} for number, fault in faults]
        show_json({"output": args.output, "lines": lines, "faults": left_out})
    else:
        for number, fault in faults:
            print(f"event {number}: {shown(fault)}")
        print(f"{lines} lines in {shown(args.output)}")
    return WRONG if faults else OK


def _command(name: str, args: argparse.Namespace) -> str:
    """Another command on the same campaign, to be copied."""
    own = "" if args.oracle is None else f" --oracle {quoted(args.oracle)}"
    return f"combopeps {name} --state {quoted(masked(args.state))}{own}"


def _opened(args: argparse.Namespace) -> Campaign:
    return Campaign.open(args.state, oracle=oracle_of(args.oracle), timeout=args.timeout, author=_user())


def _user() -> str | None:
    """Who runs the command, as far as the system knows."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        return None
    return user if is_name(user) else None


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


def run_report(args: argparse.Namespace) -> int:
    """Look, and write what is seen."""
    campaign = Campaign.open(args.state, oracle=oracle_of(args.oracle), timeout=args.timeout)
    report(campaign, args.output, title=args.title)
    show(args.json, {"report": args.output, "samples": campaign.samples}, [f"the page is in {shown(args.output)}"])
    return OK


def run_serve(args: argparse.Namespace) -> int:
    """Serve; the addresses are said on stdout at once, not at the end."""

    def ready(addresses: list[str]) -> None:
        where = " or ".join(addresses) + (f", for a proxy that shows it at {args.root_path}" if args.root_path else "")
        said = f"{shown(args.state)} at {where}; Ctrl-C stops it\n"
        document = {"address": addresses[0], "addresses": addresses, "root_path": args.root_path, "pid": os.getpid()}
        text = dumped(document) if args.json else said
        with suppress(OSError):  # whoever does not read it knows the address, and is served
            os.write(1, text.encode("utf-8", "backslashreplace"))

    serve(
        args.state, host=args.host, port=args.port, tokens=args.token_file, ready=ready,
        opened=partial(opened, args.state, args.oracle, args.timeout), lease=args.lease, pause=args.pause,
        rate=args.rate, burst=max(10_000.0, 5 * args.rate), root_path=args.root_path,
        proxies=args.proxy,
    )  # fmt: skip
    return OK


def opened(state: str, oracle: str | None, timeout: float) -> Campaign:
    """The campaign, in whatever process."""
    return Campaign.open(state, oracle=oracle_of(oracle), timeout=timeout)
