"""Load the problem that a command line names: a stored instance, a generator, a file, or a custom oracle.

Custom oracles (`--oracle package.module:factory`) are named on the command line only: no file can cause an import.
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
from combopeps.io.instance_files import load_instance
from combopeps.io.items import read_groups, read_items, read_knapsack, read_table
from combopeps.io.networks import read_network, read_tree
from combopeps.io.programs import read_program
from combopeps.oracles.base import ArgmaxOracle
from combopeps.problem import Problem
from combopeps.utils import files

_NETWORK_SUFFIXES = (".graphml", ".gml", ".tntp", ".gr")
_PROGRAM_SUFFIXES = (".mps", ".lp")
_NETWORK_OPTIONS = ("source", "target", "attribute", "nodes", "tree")
_ITEM_OPTIONS = ("k", "knapsack", "capacity", "weight_column", "quota", "group_column")
_SCALE_OPTIONS = {"noise_std": "noise", "cost": "cost", "prior_mean": "prior_mean", "prior_std": "prior"}


def load(args: argparse.Namespace) -> Instance:
    """Return the instance that the arguments name, with the noise, prior, costs and actions that they state."""
    if args.actions is None:
        _reject_options(args, "single measurements (add --actions)", "part_cost")
        return _load_instance(args)
    if isinstance(args.cost, str):
        raise ParameterError(
            f"--cost {args.cost!r:.40}: an action has one cost, a number; --part-cost is for its parts"
        )
    instance = _load_instance(argparse.Namespace(**(vars(args) | {"cost": args.part_cost})))
    problem = instance.problem
    if problem.measures_actions:
        raise ParameterError(f"{instance.name} already has actions; leave --actions out")
    if args.part_cost is None and (problem.cost != 1.0).any():
        raise ParameterError(f"{instance.name} has costs of single measurements; add --cost and --part-cost of actions")
    cost = {"cost": 1.0 if args.cost is None else args.cost}
    cost |= {} if args.part_cost is None else {"part_cost": problem.cost}
    return replace(instance, problem=problem.copy_with(actions=args.actions, **cost))


def _load_instance(args: argparse.Namespace) -> Instance:
    if args.oracle is not None:
        return _with_stated_scales(instance_from_spec(args.oracle), args)
    name = args.problem
    suffix = Path(name).suffix.lower() if ":" not in name or os.path.exists(name) else ""
    if suffix == ".csv":
        return _load_csv(args)
    if suffix in _PROGRAM_SUFFIXES:
        return _load_program(args)
    if suffix in _NETWORK_SUFFIXES or (suffix == ".json" and not _is_instance_file(Path(name))):
        return _load_network(args)
    return _with_stated_scales(load_instance(name), args)


def _with_stated_scales(instance: Instance, args: argparse.Namespace) -> Instance:
    """Return an instance that was not read from a data file with the noise, cost and prior that the arguments state."""
    _reject_options(args, "this kind of problem", *_NETWORK_OPTIONS, *_ITEM_OPTIONS, "objective")
    scales = _stated_scales(args)
    for key, value in scales.items():
        if isinstance(value, str):
            option = _SCALE_OPTIONS[key].replace("_", "-")
            raise ParameterError(f"--{option} {value!r:.40}: only data files have columns; give a number here")
    return replace(instance, problem=instance.problem.copy_with(**scales)) if scales else instance


def true_theta(instance: Instance, args: argparse.Namespace) -> Any:
    """Return the true theta, or raise if nothing can be simulated: without theta, or with noise of unknown size."""
    if instance.theta is None:
        why = f" ({instance.origin})" if instance.origin else ""
        raise ParameterError(
            f"{instance.name}: nothing can be simulated, because the file has no true values{why}; "
            "to use your own measurements: `combopeps init`, then ask, tell and status"
        )
    check_noise(instance, args)
    return instance.theta


def check_noise(instance: Instance, args: argparse.Namespace) -> None:
    """Raise if the noise has no stated size; with --noise unknown, the size stated before is simulated."""
    if instance.noise_std is None and args.noise != UNKNOWN:
        raise ParameterError(f"{instance.name}: nothing can be simulated with noise of unknown size; add --noise STD")


def seed(args: argparse.Namespace) -> int:
    """Return the seed, or raise if it is negative."""
    if args.seed < 0:
        raise ParameterError(f"--seed must not be negative, got {args.seed}")
    return int(args.seed)


def _load_csv(args: argparse.Namespace) -> Instance:
    if args.source is not None or args.target is not None:
        raise ParameterError(
            f"{args.problem}: a CSV file holds items (--k) or a table of workers and tasks, and no network; read the "
            "edges with networkx (from_pandas_edgelist), and write them as .graphml or .gml"
        )
    _reject_options(args, "a CSV file", *_NETWORK_OPTIONS)
    is_knapsack = args.knapsack or args.capacity is not None
    is_given = {"--k": args.k is not None, "--quota": args.quota is not None, "--capacity": is_knapsack}
    constraints = [option for option, given in is_given.items() if given]
    if len(constraints) > 1:
        raise ParameterError(f"{' and '.join(constraints)} ask for different sets of items; give one of them")
    if not is_knapsack:
        _reject_options(args, "items without --capacity", "weight_column")
    if args.quota is None:
        _reject_options(args, "items without --quota", "group_column")
    if not constraints:
        return read_table(args.problem, maximize=args.objective != "min", **_stated_scales(args))
    _reject_options(args, "a CSV file of items", "objective")
    options: dict[str, Any] = {"item": args.item, "mean": args.mean, **_stated_scales(args)}
    if args.quota is not None:
        return read_groups(args.problem, args.quota, group=args.group_column or "group", **options)
    if not is_knapsack:
        return read_items(args.problem, args.k, **options)
    if args.capacity is None:
        raise ParameterError(f"{args.problem}: a knapsack needs a capacity; add --capacity NUMBER")
    return read_knapsack(args.problem, args.capacity, weight=args.weight_column or "weight", **options)


def _load_program(args: argparse.Namespace) -> Instance:
    _reject_options(args, "an integer program", *_NETWORK_OPTIONS, *_ITEM_OPTIONS, "objective")
    return read_program(args.problem, **_stated_scales(args))


def _load_network(args: argparse.Namespace) -> Instance:
    _reject_options(args, "a network", *_ITEM_OPTIONS)
    if Path(args.problem).suffix.lower() != ".tntp":
        _reject_options(args, "a network that is no .tntp file", "nodes")
    options: dict[str, Any] = {"attribute": args.attribute, "nodes": args.nodes, "objective": args.objective or "min"}
    if args.tree:
        _reject_options(args, "a tree", "source", "target")
        return read_tree(args.problem, **options, **_stated_scales(args))
    if args.source is None or args.target is None:
        raise ParameterError(f"{args.problem}: a route needs two ends; add --source NODE --target NODE, or --tree")
    return read_network(args.problem, args.source, args.target, **options, **_stated_scales(args))


def _stated_scales(args: argparse.Namespace) -> dict[str, Any]:
    """Return the noise, cost and prior that are given, as keyword arguments of readers of files."""
    given = {key: getattr(args, option) for key, option in _SCALE_OPTIONS.items() if getattr(args, option) is not None}
    if given.get("noise_std") == UNKNOWN:
        given["noise_std"] = None
    return given


def _reject_options(args: argparse.Namespace, kind: str, *options: str) -> None:
    """Raise if one of the options is given."""
    for option in options:
        if getattr(args, option) not in (None, False):
            raise ParameterError(f"--{option.replace('_', '-')} has no meaning for {kind}; leave it out")


def _is_instance_file(path: Path) -> bool:
    """Return whether a JSON file is an instance file, and not node-link data of networkx.

    Invalid JSON counts as an instance file, whose reader has the better error message.
    """
    data = files.read_regular(path)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return True
    return not (isinstance(document, dict) and "schema" not in document and "nodes" in document)


def call_factory(spec: str) -> ArgmaxOracle | Problem | Instance:
    """Call a factory "package.module:factory"; modules in the current folder take precedence."""
    module, colon, name = spec.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise ParameterError(f"--oracle takes package.module:factory, got {spec!r:.80}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    with redirect_stdout(sys.stderr):  # stdout is for the results of the command
        factory: Any = _import_module(module, spec)
        for part in name.split("."):
            if not hasattr(factory, part):
                raise ParameterError(f"--oracle {spec}: there is no {part!r} in {module!r}")
            factory = getattr(factory, part)
        if not callable(factory):
            kind = type(factory).__name__
            raise ParameterError(f"--oracle {spec}: is a {kind}, not a function; write one that returns the oracle")
        with _typed_errors(spec, "raised"):
            made = factory()
    if not isinstance(made, (ArgmaxOracle, Problem, Instance)):
        kind = type(made).__name__
        raise ParameterError(f"--oracle {spec}: returned a {kind}; return an ArgmaxOracle, a Problem or an Instance")
    return made


def oracle_from_spec(spec: str | None) -> ArgmaxOracle | None:
    """Return the custom oracle of a campaign; None if none is named."""
    if spec is None:
        return None
    made = call_factory(spec)
    return made if isinstance(made, ArgmaxOracle) else made.oracle


def instance_from_spec(spec: str) -> Instance:
    """Return what a factory returns as an instance; it has true values only if the factory returns an instance."""
    made = call_factory(spec)
    if isinstance(made, Instance):
        return made
    problem = made if isinstance(made, Problem) else Problem(made)
    return Instance(spec, problem, origin="the factory returned no Instance with a theta")


def _import_module(module: str, spec: str) -> Any:
    try:
        with _typed_errors(spec, f"importing {module!r} raised"):
            return import_module(module)
    except ModuleNotFoundError as cause:
        if cause.name is not None and f"{module}.".startswith(f"{cause.name}."):
            found = f"there is no module {cause.name!r} here or among installed packages"
        else:
            found = f"{module!r} needs {cause.name!r}, which is not installed"
        raise ParameterError(f"--oracle {spec}: {found}") from cause


@contextmanager
def _typed_errors(spec: str, what: str) -> Iterator[None]:
    """Turn errors of custom code into typed errors with a message about their source."""
    try:
        yield
    except (ComboPepsError, ModuleNotFoundError):
        raise
    except (Exception, SystemExit) as cause:  # SystemExit of the module must not become the exit code of the command
        raise ParameterError(f"--oracle {spec}: {what} {type(cause).__name__}: {cause}; --debug shows where") from cause
