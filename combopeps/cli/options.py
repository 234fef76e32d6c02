"""Exit codes, and options that several commands share. Nothing heavy is imported for help."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

UNKNOWN = "unknown"
OK, WRONG, MISUNDERSTOOD, UNCERTAIN, UNSHOWN, INTERRUPTED = 0, 1, 2, 3, 4, 130


def known(what: str) -> dict[str, Any]:
    """The policies, rules, samplers or noises that can be had by name. Their registries take long to import."""
    if what == "policies":
        from combopeps.policies.registry import POLICIES

        return {name: policy for name, policy in POLICIES.items() if policy.by_name}
    if what == "rules":
        from combopeps.stopping.registry import RULES

        return {name: rule.make for name, rule in RULES.items()}
    if what == "noises":
        from combopeps.session.environment import NOISES

        return dict(NOISES)
    from combopeps.alternatives.registry import SAMPLERS

    return dict(SAMPLERS)


def known_name(what: str, text: str) -> str:
    """A name that is known; unlike choices of argparse, looked up when it is given, not when help is."""
    names = known(what)
    if text not in names:
        raise argparse.ArgumentTypeError(f"there is no {text!r}; there are {', '.join(names)}")
    return text


def known_noise(text: str) -> str:
    """A kind of noise, perhaps with a number; looked up when it is given."""
    from combopeps.errors import ParameterError
    from combopeps.session.environment import noise_called

    try:
        noise_called(text)
    except ParameterError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def number(text: str) -> float:
    """Of the command line: plain notation only. Python would read 1_000, and digits of any script."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return float(text)


def number_or_name(text: str) -> float | str:
    """A number, or the name of what holds numbers; what begins like a number is one, or wrong."""
    return number(text) if text[:1] in set("+-.0123456789") or text.lower() in ("nan", "inf", "infinity") else text


def result(text: str) -> float | tuple[str, float]:
    """What was measured: a number; or of which part of an action, and the number."""
    label, equals, value = text.rpartition("=")
    return (label, number(value)) if equals else number(value)


def whole(text: str) -> int:
    """A whole number in plain notation."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return int(text)


def quota(text: str) -> int | dict[str, int]:
    """A whole number, or one for each of several names."""
    if "=" not in text:
        return whole(text)
    pairs = [part.rpartition("=") for part in text.split(",")]
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise argparse.ArgumentTypeError("names a group twice")
    return {name.strip(): whole(count) for name, _, count in pairs}


def add_problem(command: argparse.ArgumentParser) -> None:
    """What to solve: an instance's name, or a file and what it takes to read it."""
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "problem",
        metavar="INSTANCE_OR_FILE",
        nargs="?",
        help="a name out of `combopeps list`, a recipe such as grid:n=20,seed=1, or a file: .json (ours, or networkx "
        "node-link), .graphml, .gml, .tntp, .gr, .csv, .mps, .lp",
    )
    add_oracle(which, "instead: an oracle, a Problem or an Instance of your own, which this function returns")
    group = command.add_argument_group("reading your own file")
    group.add_argument(
        "--source", metavar="NODE", help="network: where the route begins, by id, label or name (label:7 says which)"
    )
    group.add_argument("--target", metavar="NODE", help="network: where it ends")
    group.add_argument("--tree", action="store_true", help="network: the best spanning tree instead of a route")
    group.add_argument("--attribute", metavar="NAME", help="network: the edge attribute that holds the truth")
    group.add_argument(
        "--nodes", metavar="FILE", help=".tntp: coordinates for pictures (the default for x_net.tntp is x_node.tntp)"
    )
    group.add_argument(
        "--objective",
        choices=("min", "max"),
        help="shortest or longest route, lightest or heaviest tree; cheapest or best assignment",
    )
    group.add_argument("--k", type=whole, help="items CSV (columns item, mean): how many to choose")
    group.add_argument("--knapsack", action="store_true", help="items CSV: those that fit into --capacity")
    group.add_argument("--capacity", type=number, help="items CSV: how much all that are chosen may weigh together")
    group.add_argument("--weight-column", metavar="COLUMN", help="items CSV: column of the weights (weight)")
    group.add_argument(
        "--quota", metavar="N", type=quota, help="items CSV: how many of each group, or group=N,group=N,..."
    )
    group.add_argument("--group-column", metavar="COLUMN", help="items CSV: column of the groups (group)")
    group.add_argument("--item", metavar="COLUMN", default="item", help="items CSV: column of the names")
    group.add_argument("--mean", metavar="COLUMN", default="mean", help="items CSV: column of the truth")
    for option, metavar, help in (
        ("--noise", "STD", "standard deviation of one measurement: a number, a column or edge attribute, or unknown"),
        ("--cost", "NUMBER", "of one measurement: a number, a column or attribute; of an action, a number"),
        ("--part-cost", "NUMBER", "with --actions: what every part adds to that: a number, a column or attribute"),
        ("--prior", "STD", "expected size of the unknown numbers: likewise"),
        ("--prior-mean", "NUMBER", "what they are expected to be: likewise (0)"),
    ):
        group.add_argument(option, metavar=metavar, type=number_or_name, help=help)
    command.add_argument(
        "--actions",
        choices=("answers",),
        help="measure whole answers, such as routes that are driven, and read every part of them; by default, or as "
        "the file says, single parts",
    )


def add_oracle(command: Any, help: str) -> None:
    """An oracle of one's own; modules of the current folder are found. It is never named by a file."""
    command.add_argument("--oracle", metavar="PACKAGE.MODULE:FACTORY", help=help)


def add_name(command: argparse.ArgumentParser, option: str, what: str, default: str, help: str) -> None:
    """An option that takes a name; `list` shows which there are."""
    help = f"{help} ({default}); `combopeps list {what}` shows all"
    command.add_argument(option, metavar="NAME", type=partial(known_name, what), default=default, help=help)


def add_nature(command: argparse.ArgumentParser) -> None:
    """What simulated measurements are really like."""
    help = (
        "what the measurements are really like, whatever --noise states: normal, bernoulli (0 or 1), poisson "
        "(counts), relative:0.3 (30 %% of the mean) or student (outliers); by default what the file says, or normal"
    )
    command.add_argument("--nature", metavar="KIND", type=known_noise, help=help)


def add_workers(command: argparse.ArgumentParser, jobs: int = 1) -> None:
    """Who runs the simulations."""
    command.add_argument("--jobs", metavar="N", type=whole, default=jobs, help=f"processes ({jobs})")
    where = "a Dask scheduler whose workers do it instead, such as tcp://host:8786 (needs combopeps[dask])"
    command.add_argument("--scheduler", metavar="ADDRESS", help=where)


def add_strategy(command: argparse.ArgumentParser) -> None:
    """How to look for the answer."""
    add_name(command, "--policy", "policies", "greedy", "what to measure next")
    add_name(command, "--stopping", "rules", "posterior", "when to stop")
    command.add_argument("--delta", type=number, default=0.05, help="allowed probability of a wrong answer (0.05)")
    command.add_argument(
        "--epsilon", type=number, default=0.0, help="accept an answer at most so much worse than the best (0)"
    )
    command.add_argument("--seed", type=whole, default=0, help="of all random numbers (0)")
    command.add_argument("--sweep", metavar="N", type=whole, help="first measure everything so many times")


def add_state(command: argparse.ArgumentParser, *, timeout: bool = True, oracle: bool = True) -> None:
    """Where a campaign lives, and how long to wait for others: who only looks has this for the sake of scripts."""
    where = (
        "the campaign's state file, or its URL in a database: sqlite:///FILE#NAME, postgresql://USER@HOST/DATABASE#NAME"
    )
    command.add_argument("--state", metavar="FILE", required=True, help=where)
    if oracle:
        add_oracle(command, "the oracle, if the campaign was begun with one of your own")
    if timeout:
        wait = "wait so long while another process writes (10)"
        command.add_argument("--timeout", metavar="SECONDS", type=float, default=10.0, help=wait)
