"""Is a campaign certain enough? A stopping rule, asked anew on what the lines add up to.

A campaign has no run over which a rule could keep notes: every look takes a fresh rule, with random numbers that
depend on the seed and the number of measurements alone. Rules that cannot be used so say it in their registry.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from combopeps.errors import ParameterError
from combopeps.policies.base import Policy
from combopeps.risk import Doubt
from combopeps.run.look import look_at
from combopeps.stopping import Verdict, stopping_rule
from combopeps.stopping.registry import RULES


def check_stopping(name: str) -> None:
    """Refuse what a campaign cannot decide."""
    fit = [known for known, rule in RULES.items() if not rule.unfit_for_campaigns]
    if name in RULES and name not in fit:
        raise ParameterError(f'stopping "{name}" {RULES[name].unfit_for_campaigns}')
    if name not in fit:
        raise ParameterError(f"stopping must be one of {', '.join(fit)}, got {name!r:.40}")


def look(policy: Policy, stopping: str, delta: float, seed: int) -> tuple[Doubt, Verdict]:
    """The doubt about the answer `verdict.z`, and what the rule makes of it."""
    policy.forget()
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2, policy.samples)))
    situation = look_at(policy, rng)
    verdict = stopping_rule(stopping, delta).check(situation)
    if not verdict.stop or verdict.z is None or np.array_equal(verdict.z, situation.z_hat):
        return situation.doubt(), replace(verdict, z=situation.z_hat)
    return policy.doubt(verdict.z, policy.samples), verdict  # what is certified need not be what the prior prefers
