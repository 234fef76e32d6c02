"""`solve`: simulated measurements around a known truth, until the answer is certain."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from combopeps.cli.options import INTERRUPTED, OK, UNCERTAIN, Commands, add_name, add_problem, add_strategy, whole
from combopeps.cli.output import dumped, show_json, shown

if TYPE_CHECKING:
    from combopeps.instances import Instance
    from combopeps.run.result import Result


def register(commands: Commands) -> None:
    """Add the command."""
    solve = commands.add(
        "solve",
        run,
        "find the best answer from simulated measurements",
        "combopeps solve town --delta 0.1 --seed 1\ncombopeps solve cyclic-matching --policy peps --json\n"
        "combopeps solve nsfnet --stopping certified --plot nsfnet.png",
        "Each measurement is the true number\nplus normal noise. To use your own measurements: `combopeps init`.",
    )
    add_problem(solve)
    add_strategy(solve)
    add_name(solve, "--sampler", "samplers", "auto", "where alternatives come from")
    solve.add_argument("--budget", type=whole, help="stop after so many samples")
    solve.add_argument("--batch", type=whole, default=1, help="samples asked for at once (1)")
    solve.add_argument("--save", metavar="JSON", help="write the result to a file, as --json prints it")
    solve.add_argument(
        "--plot", metavar="PNG", help="draw the answer (needs matplotlib: pip install 'combopeps[plot]')"
    )
    solve.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, help="live progress; by default on a terminal"
    )


def run(args: argparse.Namespace) -> int:
    """Identify, and say what was found."""
    from combopeps import files
    from combopeps.cli.source import load, seed, truth
    from combopeps.errors import ParameterError
    from combopeps.run.identify import identify

    instance = load(args)
    theta = truth(instance)
    if args.plot is not None:
        from combopeps.plotting.canvas import check_picture, new_axes

        axes = new_axes()  # before the work: matplotlib may be missing
        check_picture(args.plot)
    if args.save is not None:
        files.check_target(args.save)
        if args.plot is not None and os.path.realpath(args.save) == os.path.realpath(args.plot):
            raise ParameterError("--save and --plot name the same file; give each one of its own")
    result = identify(
        instance.problem,
        _measurement(instance, theta, seed(args), many=args.batch > 1),
        delta=args.delta,
        budget=args.budget,
        policy=_policy(instance, args),
        stopping=args.stopping,
        batch_size=args.batch,
        progress=(sys.stderr.isatty() and not args.json) if args.progress is None else args.progress,
    )
    if args.plot is not None:
        from combopeps.plotting import plot_result, save

        save(plot_result(result, ax=axes), args.plot)
    document = _document(instance, theta, result, args)
    if args.save is not None:
        files.replace(args.save, dumped(document, indent=1).encode())
    if args.json:
        show_json(document)
    else:
        _say(result, document, args)
    if result.stop_reason == "interrupted":
        return INTERRUPTED
    return OK if result.evidence.stop else UNCERTAIN


def _policy(instance: Instance, args: argparse.Namespace) -> Any:
    from combopeps.policies.registry import POLICIES
    from combopeps.samplers.registry import SAMPLERS

    sampler = None if args.sampler == "auto" else SAMPLERS[args.sampler]()
    return POLICIES[args.policy](instance.problem, args.seed, sampler=sampler)


def _measurement(instance: Instance, theta: Any, seed: int, *, many: bool) -> Any:
    """The arm's true mean plus normal noise, from a stream of its own."""
    import numpy as np

    from combopeps.streams import named

    means = dict(zip(instance.arms.labels, instance.arms.dot(theta[None])[0], strict=True))
    rng = np.random.default_rng(named(seed, "measurements"))

    def one(label: Any) -> float:
        return float(means[label] + instance.noise_std * rng.standard_normal())

    return (lambda labels: [one(label) for label in labels]) if many else one


def _document(instance: Instance, theta: Any, result: Result, args: argparse.Namespace) -> dict[str, Any]:
    from combopeps.cli.text import answer_json, pulls_json
    from combopeps.oracles.base import as_good

    return {
        "problem": instance.name,
        "answer": answer_json(result.answer),
        "runner_up": answer_json(result.alternative),
        "error_probability": result.error_probability,
        "samples": result.samples,
        "stop_reason": result.stop_reason,
        "certain": bool(result.evidence.stop),
        "claim": result.claim,
        "correct": as_good(result.z, instance.oracle.argmax(theta), theta),
        "policy": args.policy,
        "delta": args.delta,
        "seed": args.seed,
        "tied": [answer_json(answer) for answer in result.tied],
        "pulls": pulls_json(result.pulls),
        "plot": args.plot,
    }


def _say(result: Result, document: dict[str, Any], args: argparse.Namespace) -> None:
    from combopeps.cli.text import answer_text, bars, probability_text

    print(f"answer      {answer_text(result.answer)}")
    print(f"runner-up   {answer_text(result.alternative)}")
    print(f"samples     {result.samples}, ended by: {result.stop_reason}")
    print(f"claim       {result.claim}")
    print(f"estimate    wrong with posterior probability {probability_text(result.error_probability)}")
    print(f"truth       the answer is {'right' if document['correct'] else 'WRONG'}")
    for answer in result.tied:
        print(f"tied with   {answer_text(answer)}")
    print("where the samples went")
    for line in bars(result.pulls):
        print(f"  {line}")
    for path, what in ((args.save, "result"), (args.plot, "picture")):
        if path is not None:
            print(f"{what:<11} {shown(path)}")
