"""Answers that the measurements do not tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.policies.base import Policy

_DRAWS = 64
_APART = 2.0  # standard deviations
_KNOWN = 0.1  # of the prior's uncertainty: a comparison that is known less well was not tried hard enough


def tied_answers(policy: Policy) -> list[Any]:
    """Rivals whose gap to the current answer is within two standard deviations, although it is known well.

    Known well: to a tenth of what the prior allowed. Short runs have no ties, they are just short.
    """
    belief, oracle, z_hat = policy.belief, policy.problem.oracle, policy.z_hat()[0]
    try:
        sampler = policy.alternatives.at(z_hat)
        rivals = sampler.sample(belief, oracle, z_hat, _DRAWS, policy.samples, space=policy.problem.space)
    except (NoAlternativeError, SamplerCapError):
        return []
    tied = []
    for z in np.unique(rivals.answers, axis=0):
        y = z - z_hat
        width = float(y @ belief.covariance_dot(y[None])[0]) ** 0.5
        prior_width = float(np.linalg.norm(y)) * belief.prior_precision**-0.5
        if abs(float(y @ belief.theta_hat[0])) <= _APART * width and width <= _KNOWN * prior_width:
            tied.append(oracle.decode(z))
    return tied
