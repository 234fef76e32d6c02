"""Exit codes, parsers of option values, options that several commands share, and the command `list` of their names.

Heavy packages are imported inside functions only, so that `--help` is fast.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from combopeps.cli.output import print_result

UNKNOWN = "unknown"  # value of --noise: the size of the noise is estimated
OK, ERROR, USAGE_ERROR, NOT_CERTAIN, NOT_SHOWN, INTERRUPTED = 0, 1, 2, 3, 4, 130  # exit codes


def registered(kind: str) -> dict[str, Any]:
    """Return the policies, rules, samplers or noises by name."""
    if kind == "policies":
        from combopeps.policies.registry import POLICIES

        return {name: policy for name, policy in POLICIES.items() if policy.by_name}
    if kind == "rules":
        from combopeps.stopping.registry import RULES

        return {name: rule.make for name, rule in RULES.items()}
    if kind == "noises":
        from combopeps.session.simulated_environment import NOISES

        return dict(NOISES)
    from combopeps.alternatives.registry import SAMPLERS

    return dict(SAMPLERS)


def run_list(args: argparse.Namespace) -> int:
    """Print all stored instances with size and title, or all names of a kind with the first line of their docs."""
    if args.what == "instances":
        from combopeps.io.bundled import read_index

        rows = [entry._asdict() for entry in read_index()]
        lines = ["{name:<16} d = {d:<5} |Z| = {size:<20} {title}".format(**row) for row in rows]
        lines.append("\nmade to order, e.g.: grid:n=20,seed=1  topk:d=500,k=10  matching:n=40,degree=5")
    else:
        names = registered(args.what)
        rows = [{"name": name, "about": (names[name].__doc__ or "").strip().partition("\n")[0]} for name in names]
        lines = ["{name:<16} {about}".format(**row) for row in rows]
    print_result(args.json, {args.what: rows}, lines)
    return OK


def registered_name(kind: str, text: str) -> str:
    """Return a name if it is registered; unlike with `choices` of argparse, registries are imported only for this."""
    names = registered(kind)
    if text not in names:
        raise argparse.ArgumentTypeError(f"there is no {text!r}; there are {', '.join(names)}")
    return text


def noise_kind(text: str) -> str:
    """Return a kind of noise, such as "normal" or "relative:0.3", if it is valid."""
    from combopeps.errors import ParameterError
    from combopeps.session.simulated_environment import as_noise

    try:
        as_noise(text)
    except ParameterError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def number(text: str) -> float:
    """Parse a number in plain notation; Python would also accept 1_000, and digits of other scripts."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return float(text)


def number_or_name(text: str) -> float | str:
    """Parse a number, or return the name of a column or attribute; names do not begin like a number."""
    return number(text) if text[:1] in set("+-.0123456789") or text.lower() in ("nan", "inf", "infinity") else text


def result(text: str) -> float | tuple[str, float]:
    """Parse a result VALUE, or the result LABEL=VALUE of a part of an action."""
    label, equals, value = text.rpartition("=")
    return (label, number(value)) if equals else number(value)


def integer(text: str) -> int:
    """Parse an integer in plain notation."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return int(text)


def quota(text: str) -> int | dict[str, int]:
    """Parse an integer, or GROUP=INTEGER,GROUP=INTEGER,..."""
    if "=" not in text:
        return integer(text)
    pairs = [part.rpartition("=") for part in text.split(",")]
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise argparse.ArgumentTypeError("names a group twice")
    return {name.strip(): integer(count) for name, _, count in pairs}


def add_problem(command: argparse.ArgumentParser) -> None:
    """Add the problem to solve: the name of an instance, or a file and the options to read it."""
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "problem",
        metavar="INSTANCE_OR_FILE",
        nargs="?",
        help="a name from `combopeps list`, a generator such as grid:n=20,seed=1, or a file: .json (an instance, or "
        "networkx node-link), .graphml, .gml, .tntp, .gr, .csv, .mps, .lp",
    )
    add_oracle(which, "instead: a function without arguments that returns an oracle, a Problem or an Instance")
    group = command.add_argument_group("reading your own file")
    group.add_argument(
        "--source", metavar="NODE", help="network: first node of the route, by id, label or name (label:7 if ambiguous)"
    )
    group.add_argument("--target", metavar="NODE", help="network: last node of the route")
    group.add_argument("--tree", action="store_true", help="network: the best spanning tree instead of a route")
    group.add_argument("--attribute", metavar="NAME", help="network: edge attribute with the true values")
    group.add_argument(
        "--nodes", metavar="FILE", help=".tntp: coordinates for pictures (the default for x_net.tntp is x_node.tntp)"
    )
    group.add_argument(
        "--objective",
        choices=("min", "max"),
        help="shortest or longest route, lightest or heaviest tree; cheapest or best assignment",
    )
    group.add_argument("--k", type=integer, help="items CSV (columns item, mean): number of items to choose")
    group.add_argument("--knapsack", action="store_true", help="items CSV: choose items that fit into --capacity")
    group.add_argument("--capacity", type=number, help="items CSV: maximal total weight of the chosen items")
    group.add_argument("--weight-column", metavar="COLUMN", help="items CSV: column of the weights (weight)")
    group.add_argument(
        "--quota", metavar="N", type=quota, help="items CSV: number to choose of each group, or group=N,group=N,..."
    )
    group.add_argument("--group-column", metavar="COLUMN", help="items CSV: column of the groups (group)")
    group.add_argument("--item", metavar="COLUMN", default="item", help="items CSV: column of the names (item)")
    group.add_argument("--mean", metavar="COLUMN", default="mean", help="items CSV: column of the true values (mean)")
    for option, metavar, help in (
        ("--noise", "STD", "standard deviation of one measurement: a number, a column or edge attribute, or unknown"),
        ("--cost", "NUMBER", "cost of one measurement: a number, a column or attribute; of an action, a number"),
        ("--part-cost", "NUMBER", "with --actions: additional cost of every part: a number, a column or attribute"),
        ("--prior", "STD", "prior standard deviation of the unknown values: a number, a column or attribute"),
        ("--prior-mean", "NUMBER", "prior mean of the unknown values: a number, a column or attribute (0)"),
    ):
        group.add_argument(option, metavar=metavar, type=number_or_name, help=help)
    command.add_argument(
        "--actions",
        choices=("answers",),
        help="measure whole answers, such as routes that are driven, and read every part of them; by default, measure "
        "single parts, or what the file specifies",
    )


def add_oracle(command: Any, help: str) -> None:
    """Add the option for a custom oracle; its module may be in the current folder. Files cannot name a module."""
    command.add_argument("--oracle", metavar="PACKAGE.MODULE:FACTORY", help=help)


def add_name(command: argparse.ArgumentParser, option: str, kind: str, default: str, help: str) -> None:
    """Add an option that takes a registered name."""
    help = f"{help} ({default}); `combopeps list {kind}` shows all"
    command.add_argument(option, metavar="NAME", type=partial(registered_name, kind), default=default, help=help)


def add_noise_kind(command: argparse.ArgumentParser) -> None:
    """Add the option for the noise of simulated measurements."""
    help = (
        "noise of the simulated measurements, whatever --noise states: normal, bernoulli (0 or 1), poisson "
        "(counts), relative:0.3 (30 %% of the mean) or student (outliers); by default as in the file, or normal"
    )
    command.add_argument("--nature", metavar="KIND", type=noise_kind, help=help)


def add_workers(command: argparse.ArgumentParser, jobs: int = 1) -> None:
    """Add the options for the processes that run simulations."""
    command.add_argument("--jobs", metavar="N", type=integer, default=jobs, help=f"number of processes ({jobs})")
    where = "run on the workers of this Dask scheduler, such as tcp://host:8786 (needs combopeps[dask])"
    command.add_argument("--scheduler", metavar="ADDRESS", help=where)


def add_strategy(command: argparse.ArgumentParser) -> None:
    """Add the options for policy, stopping rule and seed."""
    add_name(command, "--policy", "policies", "greedy", "what to measure next")
    add_name(command, "--stopping", "rules", "posterior", "when to stop")
    command.add_argument("--delta", type=number, default=0.05, help="allowed probability of a wrong answer (0.05)")
    command.add_argument(
        "--epsilon", type=number, default=0.0, help="accept answers that are worse than the best by at most this (0)"
    )
    command.add_argument("--seed", type=integer, default=0, help="seed of all random numbers (0)")
    command.add_argument("--initial-design", metavar="N", type=integer, help="first measure every arm N times")


def add_state(command: argparse.ArgumentParser, *, timeout: bool = True, oracle: bool = True) -> None:
    """Add the options for the state of a campaign, its oracle, and the time to wait for a lock.

    Commands that only read accept `--timeout`, too, so that scripts can pass the same options to all commands.
    """
    where = (
        "the campaign's state file, or its URL in a database: sqlite:///FILE#NAME, postgresql://USER@HOST/DATABASE#NAME"
    )
    command.add_argument("--state", metavar="FILE", required=True, help=where)
    if oracle:
        add_oracle(command, "the oracle, if the campaign was created with a custom one")
    if timeout:
        wait = "maximal time to wait while another process writes (10)"
        command.add_argument("--timeout", metavar="SECONDS", type=float, default=10.0, help=wait)
