"""Command `plan`: forecast the number of measurements, their cost and the error rate by simulation."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from combopeps.cli.formatting import origin_of
from combopeps.cli.options import OK
from combopeps.cli.output import print_json, printable
from combopeps.cli.problem_source import check_noise, load, seed
from combopeps.errors import ParameterError
from combopeps.io.instance import Instance
from combopeps.session.measurement_table import read_rows
from combopeps.session.plan import Plan, plan
from combopeps.utils import files
from combopeps.utils.label_index import LabelIndex
from combopeps.viz.canvas import axes_for, save


def run_plan(args: argparse.Namespace) -> int:
    """Make a plan, and print it."""
    instance = load(args)
    axes_for(args.plot)  # raises if the picture could not be saved
    if args.csv is not None:
        files.check_target(args.csv)
    theta, theta_std, source = _theta(instance, args)
    check_noise(instance, args)
    is_noise_unknown = instance.problem.noise_std is None
    result = plan(
        instance.problem,
        delta=args.delta,
        stopping=_rule_names(args.stopping),
        theta=theta,
        theta_std=theta_std,
        budget=args.budget,
        runs=args.runs,
        policy=args.policy,
        epsilon=args.epsilon,
        initial_design=args.initial_design,
        noise=args.nature or instance.nature,
        true_noise_std=1.0 if is_noise_unknown else None,  # the unit of the ratios that the problem states
        seconds=args.seconds,
        rng=seed(args),
        n_jobs=args.jobs,
        scheduler=args.scheduler,
        progress=sys.stderr.isatty() and not args.json,
    )
    if args.plot is not None:
        save(result.plot()[0], args.plot)
    if args.csv is not None:
        files.write_atomically(args.csv, result.to_csv().encode())
    if args.json:
        print_json({"problem": instance.name, **origin_of(instance), "theta": source, **_document(result, args)})
    else:
        _print_text(instance, result, source, args)
    return OK


def _rule_names(stopping: list[str] | None) -> list[str]:
    names = [name.strip() for words in stopping or ["posterior"] for name in words.split(",")]
    if not all(names):
        raise ParameterError("--stopping takes names separated by commas, such as posterior,verified")
    return names


def _theta(instance: Instance, args: argparse.Namespace) -> tuple[Any, Any, str]:
    """Return theta and its standard deviation (None to draw from the prior), and their source as text."""
    if args.from_prior:
        for option in ("theta", "theta_std"):
            if getattr(args, option) is not None:
                raise ParameterError(f"--from-prior draws theta: leave --{option.replace('_', '-')} out")
        return None, None, "from the prior"
    if args.theta is None:
        if instance.theta is None:
            return None, args.theta_std, "from the prior"
        return instance.theta, args.theta_std, f"the true numbers of {instance.name}"
    table = read_rows(args.theta)
    table.faults.check()
    book, theta, std = LabelIndex(instance.labels, instance.oracle), dict[Any, float](), dict[Any, float]()
    for words, value, sem, _ in table.rows:
        label = book.by_words([word.strip() for word in (words if isinstance(words, tuple) else (words,))])
        if label in theta:
            raise ParameterError(f"{args.theta}: {label!r:.60} stands there twice")
        theta[label], std[label] = value, 0.0 if sem is None else sem
    if args.theta_std is not None and any(std.values()):
        raise ParameterError(f"{args.theta} has a column sem: leave --theta-std out, or that column")
    return theta, std if any(std.values()) else args.theta_std, str(args.theta)


def _document(result: Plan, args: argparse.Namespace) -> dict[str, Any]:
    """Return the plan as JSON data, with the shares of right answers in place of the answers of single runs."""
    document = result.to_dict()
    for forecast in document["forecasts"]:
        share = [sum(column) / forecast["runs"] for column in zip(*forecast.pop("right_at"), strict=True)]
        forecast["curve"] = [{"samples": t, "right": p} for t, p in zip(forecast.pop("times"), share, strict=True)]
    return document | {"plot": args.plot, "csv": args.csv}


def _print_text(instance: Instance, result: Plan, source: str, args: argparse.Namespace) -> None:
    theta = printable(source) if source == "from the prior" else f"is {printable(source)}"
    print(f"{printable(instance.name)}: theta {theta}")
    print(result)
    for path, what in ((args.csv, "table"), (args.plot, "picture")):
        if path is not None:
            print(f"{what}: {printable(path)}")
