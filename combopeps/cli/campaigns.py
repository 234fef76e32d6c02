"""Commands on campaigns.

`init`, `ask`, `tell`, `observe`, `correct`, `retract`, `abandon` and `status` run a campaign, `check`, `export`, `copy`
and `campaigns` maintain its data, `report` and `serve` show it.
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
from combopeps.cli import formatting as text
from combopeps.cli.options import ERROR, NOT_CERTAIN, OK
from combopeps.cli.output import mask_passwords, print_json, print_result, printable, quoted_path, to_json
from combopeps.cli.problem_source import load, oracle_from_spec
from combopeps.errors import ComboPepsError, LabelError, ParameterError
from combopeps.server.launch import serve
from combopeps.session.events import is_valid_name
from combopeps.session.measurement_table import TableSummary, read_action_results, read_results
from combopeps.session.result import Status
from combopeps.stopping.registry import level_text
from combopeps.utils.formatting import to_json_data
from combopeps.utils.label_format import label_text
from combopeps.utils.label_index import LabelIndex


def _results(campaign: Campaign, args: argparse.Namespace) -> list[tuple[Any, ...]]:
    """Return the results of `tell` as arguments of `Campaign.tell_many`."""
    if args.csv is not None:
        is_single = not campaign.problem.measures_actions
        return list(read_results(args.csv) if is_single else read_action_results(args.csv, _label_book(campaign)))
    return [(args.id, _value(campaign, args), args.sem)]


def _value(campaign: Campaign, args: argparse.Namespace) -> Any:
    """Return one result: a number, or the results of the parts of an action, by label or in their order."""
    pairs = [value for value in args.value if isinstance(value, tuple)]
    if not campaign.problem.measures_actions:
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
    return _values_by_label(pairs, _label_book(campaign))


def _values_by_label(pairs: list[tuple[str, float]], book: LabelIndex) -> dict[Hashable, float]:
    values: dict[Hashable, float] = {}
    for label_word, value in pairs:
        label = book.by_words([label_word.strip()])
        if label in values:
            raise LabelError(f"{label_text(label):.60} stands there twice")
        values[label] = value
    return values


def _label_book(campaign: Campaign) -> LabelIndex:
    return LabelIndex(campaign.problem.arms.labels, campaign.problem.oracle)


def run_init(args: argparse.Namespace) -> int:
    """Create a campaign."""
    instance = load(args)
    size = text.size_text(instance.oracle)
    options = {"policy": args.policy, "delta": args.delta, "epsilon": args.epsilon, "stopping": args.stopping}
    Campaign.create(args.state, instance, rng=args.seed, initial_design=args.initial_design, **options)
    actions = f", by {text.actions_text(instance.problem)}" if instance.problem.measures_actions else ""
    lines = [
        f"{printable(mask_passwords(args.state))}: {len(instance.arms)} things to measure{actions}, {size} answers",
        f"{text.scales_text(instance.problem)}: in the units of your data (--noise, --prior)",
        f"next: {_command('ask', args)}",
    ]
    print_result(
        args.json, {"state": mask_passwords(args.state), "d": instance.oracle.dim, "arms": len(instance.arms)}, lines
    )
    return OK


def run_ask(args: argparse.Namespace) -> int:
    """Ask for queries; they are recorded before they are printed."""
    campaign = _open_campaign(args)
    queries = campaign.ask(args.n, client=args.client, lease=args.lease)
    if campaign.policy.learns_from_choices:
        campaign.save_checkpoint()
    oracle = text.action_oracle(campaign.problem)
    lines = (text.query_text(query, oracle) for query in queries)
    print_result(args.json, {"queries": [text.query_json(query) for query in queries]}, lines)
    return OK


def run_tell(args: argparse.Namespace) -> int:
    """Record the result of a query, or all results of a file."""
    if (args.csv is None) == (args.id is None or not args.value):
        raise ParameterError("give either ID VALUE or --csv FILE")
    if args.csv is not None and args.sem is not None:
        raise ParameterError("--sem is a column of a --csv file; leave it out")
    return _record(args, lambda campaign: campaign.tell_many(_results(campaign, args), confirm=args.yes))


def run_observe(args: argparse.Namespace) -> int:
    """Record a measurement that no query asked for, or all measurements of a file."""
    if (args.csv is None) == (args.value is None):
        raise ParameterError("give either LABEL VALUE or --csv FILE")
    if args.csv is not None and (args.sem is not None or args.count != 1):
        raise ParameterError("--sem and --count are columns of a --csv file; leave them out")
    if args.csv is not None:
        return _record(args, lambda campaign: campaign.observe_table(args.csv, confirm=args.yes))
    values = args.value, args.sem, args.count
    return _record(
        args,
        lambda campaign: campaign.observe(_label_book(campaign).by_words(args.label), *values, confirm=args.yes),
    )


def run_correct(args: argparse.Namespace) -> int:
    """Replace a result."""
    return _record(
        args, lambda campaign: campaign.correct(args.event, _value(campaign, args), args.sem, confirm=args.yes)
    )


def run_retract(args: argparse.Namespace) -> int:
    """Withdraw a result."""
    return _record(args, lambda campaign: campaign.retract(args.event))


def run_abandon(args: argparse.Namespace) -> int:
    """Close a query."""
    return _record(args, lambda campaign: campaign.abandon(args.id))


def run_status(args: argparse.Namespace) -> int:
    """Print the status of a campaign."""
    campaign = _open_campaign(args)
    status = campaign.status()
    if args.plot is not None:
        from combopeps.viz.answers import plot_measured
        from combopeps.viz.canvas import save

        save(plot_measured(campaign.problem, status, campaign.posterior), args.plot)
    if args.json:
        print_json(
            {
                **text.recommendation_json(status),
                "top_answers": to_json_data(status.top_answers),
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
        _print_text(status, campaign, args)
    return OK if status.stop else NOT_CERTAIN


def _print_text(status: Status, campaign: Campaign, args: argparse.Namespace) -> None:
    oracle = text.action_oracle(campaign.problem)
    for name, line in text.recommendation_lines(status, campaign.problem.oracle, status.epsilon):
        print(f"{'answer so far' if name == 'answer' else name:<14} {line}")
    print(f"samples        {text.samples_text(status.samples, status.actions)}")
    if status.stop:
        print(f"stop           yes: {status.claim}")
    else:
        level = level_text(campaign.stopping, status.delta, status.epsilon)
        print(f"stop           not yet: the rule {campaign.stopping!r} at {level} is not satisfied")
    if status.noise_estimate is not None:
        print(f"noise          {status.noise_estimate}")
    if status.warning:
        print(f"warning        {status.warning}")
    if status.corrections:
        print(f"corrections    {status.corrections}")
    print("where the samples went")
    for line in text.pulls_chart(status.pulls):
        print(f"  {line}")
    if status.open_queries:
        print(f"waiting for {len(status.open_queries)} results")
        for query in status.open_queries[:10]:
            print("  " + text.query_text(query, oracle, status.leases.get(query.id)).replace("\n", "\n  "))
    if not status.stop:
        print(f"next           {_command('ask', args)}")
    if args.plot is not None:
        print(f"picture        {printable(args.plot)}")


def run_check(args: argparse.Namespace) -> int:
    """Verify all events of a campaign."""
    found = check(args.state, oracle=oracle_from_spec(args.oracle))
    if args.json:
        faults = [{"event": number, "fault": fault} for number, fault in found.faults]
        print_json(
            {"sound": not faults, "faults": faults, "events": found.events, "asked": found.asked, "told": found.told}
        )
    else:
        for number, fault in found.faults:
            print(f"event {number}: {printable(fault)}")
        verdict = "damaged" if found.faults else "sound"
        counts = f"{found.events} valid events, {found.asked} queries, {found.told} measurements"
        print(f"{printable(mask_passwords(args.state))}: {verdict}; {counts}")
    return ERROR if found.faults else OK


def run_export(args: argparse.Namespace) -> int:
    """Write the events of a campaign to a file."""
    lines, faults = export(args.state, args.output)
    if args.json:
        left_out = [{"event": number, "fault": fault} for number, fault in faults]
        print_json({"output": args.output, "lines": lines, "faults": left_out})
    else:
        for number, fault in faults:
            print(f"event {number}: {printable(fault)}")
        print(f"{lines} lines in {printable(args.output)}")
    return ERROR if faults else OK


def _command(name: str, args: argparse.Namespace) -> str:
    """Return the command line of another command on the same campaign."""
    oracle = "" if args.oracle is None else f" --oracle {quoted_path(args.oracle)}"
    return f"combopeps {name} --state {quoted_path(mask_passwords(args.state))}{oracle}"


def _open_campaign(args: argparse.Namespace) -> Campaign:
    return Campaign.open(args.state, oracle=oracle_from_spec(args.oracle), timeout=args.timeout, author=_user())


def _user() -> str | None:
    """Return the name of the user who runs the command; None if it is unknown or not a valid name."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        return None
    return user if is_valid_name(user) else None


def _record(args: argparse.Namespace, change: Callable[[Campaign], TableSummary | None]) -> int:
    """Apply a change to the campaign, and print its numbers of measurements and open queries."""
    campaign = _open_campaign(args)
    observed = change(campaign)
    samples = n_open = actions = None
    with suppress(ComboPepsError):  # the change is recorded: a failure to read the campaign now must not deny it
        samples, actions, n_open = campaign.samples, campaign.actions, len(campaign.open_queries)
    made = f"{samples} measurements" if samples is None or actions is None else text.samples_text(samples, actions)
    summary = "recorded" if n_open is None else f"recorded; {made} so far, {n_open} queries open"
    document: dict[str, Any] = {"samples": samples, "open": n_open}
    document |= {} if actions is None else {"actions": actions}
    if observed is not None:
        left_out = [[to_json_data(label), rows] for label, rows in observed.left_out.items()]
        document |= {"rows": observed.rows, "taken": observed.taken, "left_out": left_out}
    print_result(args.json, document, [summary] if observed is None else [repr(observed), summary])
    return OK


def run_copy(args: argparse.Namespace) -> int:
    """Copy the events of a campaign to another database or file."""
    count, source, target = copy(args.source, args.target), mask_passwords(args.source), mask_passwords(args.target)
    lines = [f"{count} events copied to {printable(target)}", f"next: combopeps status --state {quoted_path(target)}"]
    print_result(args.json, {"source": source, "target": target, "events": count}, lines)
    return OK


def run_campaigns(args: argparse.Namespace) -> int:
    """Print the names of the campaigns in a database."""
    names = campaigns(args.state)
    print_result(
        args.json, {"state": mask_passwords(args.state), "campaigns": names}, names or ["there are no campaigns"]
    )
    return OK


def run_report(args: argparse.Namespace) -> int:
    """Write the report page of a campaign to a file."""
    from combopeps.viz.html import report  # not imported by the other commands, which should start fast

    campaign = Campaign.open(args.state, oracle=oracle_from_spec(args.oracle), timeout=args.timeout)
    report(campaign, args.output, title=args.title)
    print_result(
        args.json, {"report": args.output, "samples": campaign.samples}, [f"the page is in {printable(args.output)}"]
    )
    return OK


def run_serve(args: argparse.Namespace) -> int:
    """Serve a campaign over HTTP until interrupted; the addresses are printed as soon as the server listens."""

    def ready(addresses: list[str]) -> None:
        where = " or ".join(addresses) + (f", for a proxy that shows it at {args.root_path}" if args.root_path else "")
        line = f"{printable(args.state)} at {where}; Ctrl-C stops it\n"
        document = {"address": addresses[0], "addresses": addresses, "root_path": args.root_path, "pid": os.getpid()}
        output = to_json(document) if args.json else line
        with suppress(OSError):  # a closed stdout must not stop the server
            os.write(1, output.encode("utf-8", "backslashreplace"))  # `main` holds back what is printed until the end

    serve(
        args.state, host=args.host, port=args.port, tokens=args.token_file, ready=ready,
        opened=partial(_open, args.state, args.oracle, args.timeout), lease=args.lease, pause=args.pause,
        rate=args.rate, burst=max(10_000.0, 5 * args.rate), root_path=args.root_path,
        proxies=args.proxy,
    )  # fmt: skip
    return OK


def _open(state: str, oracle: str | None, timeout: float) -> Campaign:
    """Open the campaign; called by every process of the server, hence a function that can be pickled."""
    return Campaign.open(state, oracle=oracle_from_spec(oracle), timeout=timeout)
