"""P(Alt): an estimate that does not underflow, and an upper bound of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp


@dataclass(frozen=True)
class AltProbability:
    """An estimate of P(Alt), in logarithms.

    Attributes
    ----------
    log_probability
        ln of the probability of the union of the known half-spaces: a lower bound of ln P(Alt) up to Monte Carlo
        error, and P(Alt) itself when the facets are complete.
    relative_error
        Standard error of the probability, relative to it.
    missing
        Good-Turing estimate of the share of hot rays that leave through unknown facets; 0 when complete.
    complete
        Whether all facets are known.
    log_mass, accepted, proposals
        P(union) = exp(log_mass) P(accepted), and how many of the proposals were: see `upper_bound`. (For a full
        covariance in a box it is P(union and Theta).)
    """

    log_probability: float
    relative_error: float
    missing: float
    complete: bool
    log_mass: float
    accepted: int
    proposals: int

    def upper_bound(self, nu: float) -> float:
        """An upper bound of the probability of the union that fails with probability at most nu: exact binomial."""
        if self.accepted >= self.proposals:
            return min(1.0, exp(self.log_mass))
        return min(1.0, exp(self.log_mass) * clopper_pearson(self.accepted, self.proposals, nu))


def clopper_pearson(hits: int, draws: int, nu: float) -> float:
    """Upper bound of a binomial probability that fails with probability at most nu."""
    from scipy.stats import beta

    return 1.0 if hits >= draws else float(beta.isf(nu, hits + 1, draws - hits))
