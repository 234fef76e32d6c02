"""The problem that a command line names: a stored instance, a recipe, or a file."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from combopeps import files
from combopeps.cli.options import UNKNOWN
from combopeps.errors import ParameterError
from combopeps.instances import Instance, load_instance, read_items, read_network, read_table
from combopeps.problem import Problem

_NETWORKS = (".graphml", ".tntp", ".gr")


def load(args: argparse.Namespace) -> Instance:
    """The instance, with the noise and the prior asked for."""
    name = args.problem
    suffix = Path(name).suffix.lower() if ":" not in name or os.path.exists(name) else ""
    if suffix == ".csv":
        instance = _csv(args)
    elif suffix in _NETWORKS or (suffix == ".json" and not _is_ours(Path(name))):
        instance = _network(args)
    else:
        _refuse(args, "this kind of problem", "source", "target", "attribute", "k", "objective")
        instance = load_instance(name)
    if args.noise is None and args.prior is None:
        return instance
    old = instance.problem
    noise = old.noise_std if args.noise is None else None if args.noise == UNKNOWN else args.noise
    prior = old.prior_std if args.prior is None else args.prior
    return replace(instance, problem=Problem(old.oracle, old.arms, noise, old.space, prior_std=prior))


def truth(instance: Instance) -> Any:
    """Theta, without which nothing can be simulated."""
    if instance.theta is None:
        raise ParameterError(
            f"{instance.name}: nothing can be simulated, because the true numbers are not in the file; "
            "make the measurements yourself: `combopeps init`, then ask, tell and status"
        )
    if instance.noise_std is None:
        raise ParameterError(f"{instance.name}: nothing can be simulated with noise of unknown size; add --noise STD")
    return instance.theta


def seed(args: argparse.Namespace) -> int:
    """The seed, refused when numpy would."""
    if args.seed < 0:
        raise ParameterError(f"--seed must not be negative, got {args.seed}")
    return int(args.seed)


def _csv(args: argparse.Namespace) -> Instance:
    _refuse(args, "a CSV file", "source", "target", "attribute")
    if args.k is None:
        return read_table(args.problem, maximize=args.objective != "min")
    _refuse(args, "a CSV file of items", "objective")
    return read_items(args.problem, args.k, item=args.item, mean=args.mean)


def _network(args: argparse.Namespace) -> Instance:
    _refuse(args, "a network", "k")
    if args.source is None or args.target is None:
        raise ParameterError(f"{args.problem}: a route needs two ends; add --source NODE --target NODE")
    objective: Literal["min", "max"] = args.objective or "min"
    return read_network(args.problem, args.source, args.target, attribute=args.attribute, objective=objective)


def _refuse(args: argparse.Namespace, kind: str, *options: str) -> None:
    for option in options:
        if getattr(args, option) is not None:
            raise ParameterError(f"--{option} has no meaning for {kind}; leave it out")


def _is_ours(path: Path) -> bool:
    """An instance file names its schema; one that is no JSON is left to the better error message."""
    data = files.read(path)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return True
    return not (isinstance(document, dict) and "schema" not in document and "nodes" in document)
