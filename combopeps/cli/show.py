"""Command `show`: the facts about one instance."""

from __future__ import annotations

import argparse
from math import isinf
from typing import Any

from combopeps.cli.formatting import actions_text, answer_text, origin_of, scales_text, size_text, stated_json
from combopeps.cli.options import OK
from combopeps.cli.output import print_json, printable
from combopeps.cli.parser import MAX_DIM_OF_TAU_STAR
from combopeps.cli.problem_source import load
from combopeps.errors import ComboPepsError
from combopeps.io.instance import Instance
from combopeps.oracles.constrained_argmax import second_best
from combopeps.problem import Problem
from combopeps.stopping.lower_bound import least_expected_cost, lower_bound
from combopeps.utils.formatting import to_json_data

_DELTA = 0.05  # of the lower bound of the expected cost


def run_show(args: argparse.Namespace) -> int:
    """Print the facts about one instance: size, scales, best answer, gap and tau*."""
    instance = load(args)
    facts = _facts(instance)
    if args.plot is not None:
        from combopeps.viz.answers import plot_answer
        from combopeps.viz.canvas import save

        best = None if instance.theta is None else instance.oracle.argmax(instance.theta)
        save(plot_answer(instance.oracle, best, theta=instance.theta), args.plot)
    best, runner_up = facts.pop("best"), facts.pop("runner_up")
    if args.json:
        answers = {"best": to_json_data(best), "runner_up": to_json_data(runner_up)}
        print_json({**facts, **origin_of(instance), **answers, "plot": args.plot})
        return OK
    print(f"{printable(instance.name)}: {printable(instance.title or repr(instance.oracle))}")
    if instance.note:
        print(f"  {printable(instance.note)}")
    print(f"  unknown numbers d    {facts['d']}")
    kind = "" if instance.nature == "normal" else f", measurements {instance.nature}"
    print(f"  arms to measure      {facts['arms']}, {scales_text(instance.problem)}{kind}")
    if instance.problem.measures_actions:
        print(f"  measured at once     {actions_text(instance.problem)}, with a reading of every part")
    print(f"  answers |Z|          {facts['size']}")
    for what, where in origin_of(instance).items():
        if where is not None:
            print(f"  {what:<20} {printable(where)}")
    if instance.theta is None:
        why = f" ({instance.origin})" if instance.origin else ""
        print(f"  best answer          not known: the file has no true numbers{printable(why)}")
    else:
        print(f"  best answer          {answer_text(best, instance.oracle)}   (value {facts['value']:.6g})")
        if facts["gap"] is not None:
            print(f"  runner-up            {answer_text(runner_up, instance.oracle)}   (gap {facts['gap']:.4g})")
        print(f"  tau*                 {facts['tau_star_text']}")
    if args.plot is not None:
        print(f"  picture              {printable(args.plot)}")
    return OK


def _facts(instance: Instance) -> dict[str, Any]:
    oracle, theta = instance.oracle, instance.theta
    facts: dict[str, Any] = {
        "name": instance.name, "title": instance.title, "d": oracle.dim, "arms": len(instance.arms),
        "size": size_text(oracle), "noise_std": stated_json(instance.noise_std), "nature": instance.nature,
        "prior_mean": stated_json(instance.problem.prior_mean),
        "prior_std": stated_json(instance.problem.prior_std), "cost": stated_json(instance.problem.cost),
        "actions": actions_text(instance.problem) if instance.problem.measures_actions else None,
        "best": instance.best, "value": None, "runner_up": None, "gap": None,
    }  # fmt: skip
    if theta is None:
        return facts
    z_star = oracle.argmax(theta)
    facts["value"] = float(abs(z_star @ theta)) if oracle.unit < 0 else float(z_star @ theta)
    second = second_best(oracle, theta, z_star)
    if second is not None:
        facts["runner_up"], facts["gap"] = oracle.decode(second), float((z_star - second) @ theta)
    return facts | tau_star(instance)


def tau_star(instance: Instance) -> dict[str, Any]:
    """Return tau* with the lower bound that follows from it; None where it takes too long, or does not exist."""
    assert instance.theta is not None
    if instance.oracle.dim > MAX_DIM_OF_TAU_STAR:
        return {
            "tau_star": None,
            "tau_star_text": f"not computed beyond {MAX_DIM_OF_TAU_STAR} components: see lower_bound",
        }
    try:
        bound = lower_bound(instance.problem, instance.theta, relative_gap=0.01, max_rounds=20)
    except ComboPepsError as none:
        return {"tau_star": None, "tau_star_text": f"none: {none}"}
    # If alternatives were only found by a search, tau* is not certified, but its upper end is.
    value, prefix = (bound.tau_star, "") if bound.certified else (bound.upper, "at most ")
    if isinf(value):  # the best action is not known, so that tau* has no upper bound
        return {"tau_star": None, "tau_star_text": f"at least {bound.lower:.3g}; no upper bound is known"}
    if value == 0.0:  # the squares of all gaps underflow
        return {"tau_star": None, "tau_star_text": "too small for a number"}
    least = least_expected_cost(value, _DELTA)
    needed = f"a cost of {least:,.0f}" if _has_costs(instance.problem) else f"{least:,.0f} {_unit(instance.problem)}"
    text = (
        f"{prefix}{value:.3g}: a rule that is wrong with probability at most {_DELTA:g} for every theta needs at least "
        f"{needed} on average; a Bayesian rule may need less"
    )
    return {"tau_star": value, "certified": bound.certified, "least_cost": least, "tau_star_text": text}


def _unit(problem: Problem) -> str:
    return "actions" if problem.measures_actions else "samples"


def _has_costs(problem: Problem) -> bool:
    """Return whether costs differ between measurements, or actions have costs other than 1."""
    actions = problem.actions
    return problem.costs_differ or (actions is not None and (actions.cost != 1.0 or bool(actions.part_cost.any())))
