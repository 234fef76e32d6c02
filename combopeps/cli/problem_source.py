"""The problem that a command line names: a stored instance, a recipe, or a file.

`--oracle package.module:factory`: an oracle of one's own, named by the person, never by a file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from combopeps.cli.options import UNKNOWN
from combopeps.errors import ComboPepsError, ParameterError
from combopeps.io.instance import Instance
from combopeps.io.items import read_groups, read_items, read_knapsack, read_table
from combopeps.io.library import load_instance
from combopeps.io.networks import read_network, read_tree
from combopeps.io.programs import read_program
from combopeps.oracles.base import ArgmaxOracle
from combopeps.problem import Problem
from combopeps.utils import files


def made_by(spec: str) -> ArgmaxOracle | Problem | Instance:
    """What the factory returns, called without arguments; modules in the current folder are found first."""
    module, colon, name = spec.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ParameterError(f"--oracle takes package.module:factory, got {spec!r:.80}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    with redirect_stdout(sys.stderr):  # what it prints must not mix with results
        factory: Any = _imported(module, spec)
        for part in name.split("."):
            if not hasattr(factory, part):
                raise ParameterError(f"--oracle {spec}: there is no {part!r} in {module!r}")
            factory = getattr(factory, part)
        if not callable(factory):
            kind = type(factory).__name__
            raise ParameterError(f"--oracle {spec}: is a {kind}, not a function; write one that returns the oracle")
        with _typed(spec, "raised"):
            made = factory()
    if not isinstance(made, (ArgmaxOracle, Problem, Instance)):
        kind = type(made).__name__
        raise ParameterError(f"--oracle {spec}: returned a {kind}; return an ArgmaxOracle, a Problem or an Instance")
    return made


def oracle_of(spec: str | None) -> ArgmaxOracle | None:
    """The oracle for a campaign that was begun with one of somebody's own; None where none is named."""
    if spec is None:
        return None
    made = made_by(spec)
    return made if isinstance(made, ArgmaxOracle) else made.oracle


def instance_of(spec: str) -> Instance:
    """As an instance; without a truth, unless the factory returns one with it."""
    made = made_by(spec)
    if isinstance(made, Instance):
        return made
    problem = made if isinstance(made, Problem) else Problem(made)
    return Instance(spec, problem, origin="the factory returned no Instance with a theta")


def _imported(module: str, spec: str) -> Any:
    try:
        with _typed(spec, f"importing {module!r} raised"):
            return import_module(module)
    except ModuleNotFoundError as cause:
        if cause.name is not None and f"{module}.".startswith(f"{cause.name}."):
            found = f"there is no module {cause.name!r} here or among installed packages"
        else:
            found = f"{module!r} needs {cause.name!r}, which is not installed"
        raise ParameterError(f"--oracle {spec}: {found}") from cause


@contextmanager
def _typed(spec: str, what: str) -> Iterator[None]:
    try:
        yield
    except (ComboPepsError, ModuleNotFoundError):
        raise
    except (Exception, SystemExit) as cause:  # a module that ends the process must not look like success
        raise ParameterError(f"--oracle {spec}: {what} {type(cause).__name__}: {cause}; --debug shows where") from cause


_NETWORKS = (".graphml", ".gml", ".tntp", ".gr")
_PROGRAMS = (".mps", ".lp")
_OF_NETWORKS = ("source", "target", "attribute", "nodes", "tree")
_OF_ITEMS = ("k", "knapsack", "capacity", "weight_column", "quota", "group_column")
_STATED = {"noise_std": "noise", "cost": "cost", "prior_mean": "prior_mean", "prior_std": "prior"}


def load(args: argparse.Namespace) -> Instance:
    """The instance, with the noise, the prior and the actions asked for."""
    if args.actions is None:
        _refuse(args, "single measurements (add --actions)", "part_cost")
        return _loaded(args)
    if isinstance(args.cost, str):
        raise ParameterError(
            f"--cost {args.cost!r:.40}: an action has one cost, a number; --part-cost is for its parts"
        )
    instance = _loaded(argparse.Namespace(**(vars(args) | {"cost": args.part_cost})))
    problem = instance.problem
    if problem.measures_actions:
        raise ParameterError(f"{instance.name} says itself what is measured at once; leave --actions out")
    if args.part_cost is None and (problem.cost != 1.0).any():
        raise ParameterError(f"{instance.name} has costs of single measurements; say --cost and --part-cost of actions")
    cost = {"cost": 1.0 if args.cost is None else args.cost}
    cost |= {} if args.part_cost is None else {"part_cost": problem.cost}
    return replace(instance, problem=problem.restated(actions=args.actions, **cost))


def _loaded(args: argparse.Namespace) -> Instance:
    if args.oracle is not None:
        return _restated(instance_of(args.oracle), args)
    name = args.problem
    suffix = Path(name).suffix.lower() if ":" not in name or os.path.exists(name) else ""
    if suffix == ".csv":
        return _csv(args)
    if suffix in _PROGRAMS:
        return _program(args)
    if suffix in _NETWORKS or (suffix == ".json" and not _is_ours(Path(name))):
        return _network(args)
    return _restated(load_instance(name), args)


def _restated(instance: Instance, args: argparse.Namespace) -> Instance:
    """With other noise, cost or prior, where these are said; nothing else can be said of what is no file."""
    _refuse(args, "this kind of problem", *_OF_NETWORKS, *_OF_ITEMS, "objective")
    said = _said(args)
    for key, value in said.items():
        if isinstance(value, str):
            option = _STATED[key].replace("_", "-")
            raise ParameterError(f"--{option} {value!r:.40}: files of one's own have columns; give a number here")
    return replace(instance, problem=instance.problem.restated(**said)) if said else instance


def truth(instance: Instance, args: argparse.Namespace) -> Any:
    """Theta, without which nothing can be simulated; noise that is said to be unknown has the size it had before."""
    if instance.theta is None:
        why = f" ({instance.origin})" if instance.origin else ""
        raise ParameterError(
            f"{instance.name}: nothing can be simulated, because the true numbers are not in the file{why}; "
            "make the measurements yourself: `combopeps init`, then ask, tell and status"
        )
    check_noise(instance, args)
    return instance.theta


def check_noise(instance: Instance, args: argparse.Namespace) -> None:
    """Refuse to simulate measurements whose noise was never stated."""
    if instance.noise_std is None and args.noise != UNKNOWN:
        raise ParameterError(f"{instance.name}: nothing can be simulated with noise of unknown size; add --noise STD")


def seed(args: argparse.Namespace) -> int:
    """The seed, refused when numpy would."""
    if args.seed < 0:
        raise ParameterError(f"--seed must not be negative, got {args.seed}")
    return int(args.seed)


def _csv(args: argparse.Namespace) -> Instance:
    if args.source is not None or args.target is not None:
        raise ParameterError(
            f"{args.problem}: a CSV file holds items (--k) or a table of workers and tasks, and no network; read the "
            f"edges with networkx (from_pandas_edgelist), and write them as {_NETWORKS[0]} or {_NETWORKS[1]}"
        )
    _refuse(args, "a CSV file", *_OF_NETWORKS)
    bag = args.knapsack or args.capacity is not None
    ways = [
        way for way, said in (("--k", args.k), ("--quota", args.quota), ("--capacity", bag or None)) if said is not None
    ]
    if len(ways) > 1:
        raise ParameterError(f"{' and '.join(ways)} ask for different sets of items; give one of them")
    if not bag:
        _refuse(args, "items without --capacity", "weight_column")
    if args.quota is None:
        _refuse(args, "items without --quota", "group_column")
    if not ways:
        return read_table(args.problem, maximize=args.objective != "min", **_said(args))
    _refuse(args, "a CSV file of items", "objective")
    how: dict[str, Any] = {"item": args.item, "mean": args.mean, **_said(args)}
    if args.quota is not None:
        return read_groups(args.problem, args.quota, group=args.group_column or "group", **how)
    if not bag:
        return read_items(args.problem, args.k, **how)
    if args.capacity is None:
        raise ParameterError(f"{args.problem}: a knapsack needs to know how much fits; add --capacity NUMBER")
    return read_knapsack(args.problem, args.capacity, weight=args.weight_column or "weight", **how)


def _program(args: argparse.Namespace) -> Instance:
    _refuse(args, "an integer program", *_OF_NETWORKS, *_OF_ITEMS, "objective")
    return read_program(args.problem, **_said(args))


def _network(args: argparse.Namespace) -> Instance:
    _refuse(args, "a network", *_OF_ITEMS)
    if Path(args.problem).suffix.lower() != ".tntp":
        _refuse(args, "a network that is no .tntp file", "nodes")
    how: dict[str, Any] = {"attribute": args.attribute, "nodes": args.nodes, "objective": args.objective or "min"}
    if args.tree:
        _refuse(args, "a tree", "source", "target")
        return read_tree(args.problem, **how, **_said(args))
    if args.source is None or args.target is None:
        raise ParameterError(f"{args.problem}: a route needs two ends; add --source NODE --target NODE, or --tree")
    return read_network(args.problem, args.source, args.target, **how, **_said(args))


def _said(args: argparse.Namespace) -> dict[str, Any]:
    """What is said of noise, cost and prior, as readers take it."""
    said = {key: getattr(args, option) for key, option in _STATED.items() if getattr(args, option) is not None}
    if said.get("noise_std") == UNKNOWN:
        said["noise_std"] = None
    return said


def _refuse(args: argparse.Namespace, kind: str, *options: str) -> None:
    for option in options:
        if getattr(args, option) not in (None, False):
            raise ParameterError(f"--{option.replace('_', '-')} has no meaning for {kind}; leave it out")


def _is_ours(path: Path) -> bool:
    """An instance file names its schema; one that is no JSON is left to the better error message."""
    data = files.read(path)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return True
    return not (isinstance(document, dict) and "schema" not in document and "nodes" in document)
