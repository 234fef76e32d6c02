"""The least expected cost of rules with a frequentist guarantee, by the lower bound."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import isfinite

import numpy as np

from combopeps.bound import least_expected_cost, lower_bound
from combopeps.errors import ComboPepsError
from combopeps.planning.guess import Guess
from combopeps.problem import Problem
from combopeps.streams import named

_AFFORDABLE = 100  # components up to which tau* is a matter of seconds
_DRAWS, _SECONDS = 5, 5.0  # where theta is drawn


@dataclass(frozen=True)
class Least:
    """kl(delta, 1 - delta) / tau*: the least expected cost of a rule that is wrong with probability delta at most.

    That is, at most delta at every theta: a rule with a Bayesian claim may need less (see `least_expected_cost`). Where
    theta is drawn, a median over some draws.

    Attributes
    ----------
    cost
        In units of cost, which are measurements where each costs 1; NaN where it is not known.
    draws
        How many thetas it rests on.
    why_not
        Why it is not known.
    """

    cost: float
    draws: int = 0
    why_not: str = ""


def least_cost(problem: Problem, guess: Guess, delta: float, epsilon: float, seed: np.random.SeedSequence) -> Least:
    """By `lower_bound`, where that is a matter of seconds."""
    nothing = float("nan")
    if epsilon > 0.0:
        return Least(nothing, why_not="with an epsilon there is no such bound")
    if problem.noise_std is None:
        return Least(nothing, why_not="the size of the noise is unknown")
    if problem.oracle.dim > _AFFORDABLE or not problem.oracle.quick:
        return Least(nothing, why_not=f"not computed beyond {_AFFORDABLE} components, or where an argmax takes time")
    if delta >= 0.5:
        return Least(nothing, why_not="a delta of 1/2 asks for nothing")
    found, begin, why = list[float](), time.perf_counter(), ""
    for i in range(1 if guess.exact else _DRAWS):
        if i and time.perf_counter() - begin > _SECONDS:
            break
        try:
            bound = lower_bound(problem, guess.draw(problem, named(seed, "least", i)), relative_gap=0.01, max_rounds=20)
        except ComboPepsError as cause:
            why = str(cause)
            continue
        tau = bound.tau_star if bound.certified else bound.upper  # which is no smaller, certified or not
        if isfinite(tau) and tau > 0.0:
            found.append(least_expected_cost(tau, delta))
    return Least(float(np.median(found)), len(found)) if found else Least(nothing, why_not=why or "nothing bounds tau*")
