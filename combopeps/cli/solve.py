"""Command `solve`: identify the best answer from measurements that are simulated around the true values."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from combopeps.alternatives.registry import SAMPLERS
from combopeps.cli.formatting import (
    difference_text,
    origin_of,
    pulls_chart,
    pulls_json,
    recommendation_json,
    recommendation_lines,
    samples_text,
)
from combopeps.cli.options import INTERRUPTED, NOT_CERTAIN, OK
from combopeps.cli.output import print_json, printable, to_json
from combopeps.cli.problem_source import load, seed, true_theta
from combopeps.errors import ParameterError
from combopeps.io.instance import Instance
from combopeps.oracles.base import has_equal_value
from combopeps.policies.registry import POLICIES
from combopeps.random import named_seed
from combopeps.session.result import Result
from combopeps.session.session import identify
from combopeps.session.simulated_environment import Environment, SingleRunDraws
from combopeps.utils import files
from combopeps.utils.formatting import to_json_data
from combopeps.viz.answers import plot_result
from combopeps.viz.canvas import axes_for, save

_MAX_TIED = 5


def run_solve(args: argparse.Namespace) -> int:
    """Identify the best answer, and print the result."""
    instance = load(args)
    theta, nature = true_theta(instance, args), args.nature or instance.nature
    axes = axes_for(args.plot)
    if args.save is not None:
        files.check_target(args.save)
        if args.plot is not None and os.path.realpath(args.save) == os.path.realpath(args.plot):
            raise ParameterError("--save and --plot name the same file; give each one of its own")
    sampler = None if args.sampler == "auto" else SAMPLERS[args.sampler]()
    result = identify(
        instance.problem,
        _simulated_measurement(instance, theta, nature, seed(args), is_batch=args.batch > 1),
        delta=args.delta,
        budget=args.budget,
        budget_cost=args.budget_cost,
        policy=POLICIES[args.policy](instance.problem, args.seed, sampler=sampler),
        stopping=args.stopping,
        epsilon=args.epsilon,
        batch_size=args.batch,
        initial_design=args.initial_design,
        progress=(sys.stderr.isatty() and not args.json) if args.progress is None else args.progress,
    )
    if args.plot is not None:
        save(plot_result(result, ax=axes), args.plot)
    document = _document(instance, theta, result, args)
    if args.save is not None:
        files.write_atomically(args.save, to_json(document, indent=1).encode())
    if args.json:
        print_json(document)
    else:
        _print_text(instance, result, document, args)
    if result.stop_reason == "interrupted":
        return INTERRUPTED
    return OK if result.evidence.stop else NOT_CERTAIN


def _simulated_measurement(
    instance: Instance, theta: Any, noise: str, seed: int, *, is_batch: bool
) -> Callable[[Any], Any]:
    """Return a function that measures a label, or a list of labels: true means plus noise from a stream of its own."""
    draws = SingleRunDraws(np.random.default_rng(named_seed(seed, "measurements")))
    nature = Environment(instance.problem, instance.arms.dot(theta[None])[0], draws, noise)
    return (lambda labels: [nature.measure_label(label) for label in labels]) if is_batch else nature.measure_label


def _document(instance: Instance, theta: Any, result: Result, args: argparse.Namespace) -> dict[str, Any]:
    best = instance.oracle.argmax(theta)
    return {
        "problem": instance.name,
        **origin_of(instance),
        **recommendation_json(result),
        "top_answers": to_json_data(result.top_answers),
        "samples": result.samples,
        "actions": result.actions,
        "cost": result.cost,
        "stop_reason": result.stop_reason,
        "certain": bool(result.evidence.stop),
        "claim": result.claim,
        "warning": result.warning,
        "correct": has_equal_value(result.z, best, theta),
        "loss": max(0.0, float((best - result.z) @ theta)),
        "policy": args.policy,
        "delta": args.delta,
        "epsilon": result.epsilon,
        "seed": args.seed,
        "nature": args.nature or instance.nature,
        "tied": to_json_data(result.tied),
        "pulls": pulls_json(result.pulls),
        "plot": args.plot,
    }


def _print_text(instance: Instance, result: Result, document: dict[str, Any], args: argparse.Namespace) -> None:
    for name, line in recommendation_lines(result, instance.oracle, result.epsilon):
        print(f"{name:<11} {line}")
    spent = f" at a cost of {result.cost:g}" if instance.problem.costs_differ or result.actions is not None else ""
    print(f"samples     {samples_text(result.samples, result.actions)}{spent}, ended by: {result.stop_reason}")
    print(f"claim       {result.claim}")
    if result.warning:
        print(f"warning     {result.warning}")
    verdict = "right" if document["correct"] else "WRONG"
    if not document["correct"] and document["loss"] <= result.epsilon:
        verdict = f"worse than the best by {document['loss']:.4g}, which epsilon allows"
    print(f"truth       the answer is {verdict}")
    for what, where in origin_of(instance).items():
        if where is not None:
            print(f"{what:<11} {printable(where)}")
    for answer in result.tied[:_MAX_TIED]:
        print(f"tied with   {difference_text(result.answer, answer, instance.oracle)}")
    if len(result.tied) > _MAX_TIED:
        print(f"            ... and {len(result.tied) - _MAX_TIED} more")
    print("where the samples went")
    for line in pulls_chart(result.pulls):
        print(f"  {line}")
    for path, what in ((args.save, "result"), (args.plot, "picture")):
        if path is not None:
            print(f"{what:<11} {printable(path)}")
