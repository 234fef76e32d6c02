"""Alternatives for R replications at once, whatever the sampler: what policies call."""

from __future__ import annotations

import copy

import numpy as np

from combopeps.belief.base import GaussianBelief
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.watch import Watch
from combopeps.samplers.auto import AutoSampler
from combopeps.samplers.base import AlternativeSampler, past_rounding
from combopeps.samplers.stacked import StackedHalfSpaces
from combopeps.space import ParameterSpace, RealSpace
from combopeps.streams import Streams


class AlternativeRows:
    """One sampler per replication, or one compiled call for all where the oracle lists few facets.

    Attributes
    ----------
    draws, oracle_calls
        What the last call has cost, summed over replications.
    log_probability
        Estimates of ln P(Alt) made on the way, (R,); NaN where there is none.
    """

    def __init__(
        self,
        oracle: ArgmaxOracle,
        space: ParameterSpace,
        streams: Streams,
        sampler: AlternativeSampler | None,
        watch: Watch,
    ) -> None:
        self.oracle, self.space, self.streams, self._watch = oracle, space, streams, watch
        self._stacks = sampler is None and isinstance(space, RealSpace) and StackedHalfSpaces.suits(oracle)
        self._unused = copy.deepcopy(sampler) or AutoSampler()
        self.forget()
        if sampler is not None:
            self._samplers[0] = sampler
        self.draws = self.oracle_calls = 0
        self.log_probability = np.full(len(streams), np.nan)

    def forget(self) -> None:
        """Drop what the samplers have learnt: what they draw next depends on the belief and the streams alone."""
        self._stacked = StackedHalfSpaces(self.oracle, len(self.streams)) if self._stacks else None
        self._samplers = [copy.deepcopy(self._unused) for _ in range(len(self.streams))]

    def sample(
        self, belief: GaussianBelief, z_hat: Array, n: int, eta: float = 1.0, *, answers: bool = False
    ) -> tuple[Array, Array]:
        """Thetas (R, n, d) under which z_hat (R, d) is not best, and, if asked for, their best answers (R, n, d)."""
        if self._stacked is not None:
            thetas, proposals, self.log_probability = self._stacked.sample(belief, z_hat, n, self.streams.states, eta)
            self.draws, self.oracle_calls = int(proposals.sum()), thetas.shape[0] * n * answers
            return thetas, self._best(belief, z_hat, thetas) if answers else thetas[:, :0]
        thetas, best = np.empty((2, len(z_hat), n, self.oracle.dim))
        self.draws = self.oracle_calls = 0
        for r, sampler in enumerate(self._samplers):
            found = sampler.sample(
                belief.row(r), self.oracle, z_hat[r], n, self.streams.generator(r), space=self.space, eta=eta
            )
            thetas[r], best[r] = found.thetas, found.answers
            self.draws += found.account.draws
            self.oracle_calls += found.account.oracle_calls
            self.log_probability[r] = found.account.log_probability
            self._watch.see(found.thetas, found.answers)
        return thetas, best

    def _best(self, belief: GaussianBelief, z_hat: Array, thetas: Array) -> Array:
        flat = thetas.reshape(-1, self.oracle.dim)
        found = self.oracle.argmax(flat)
        self._watch.see(flat, found)
        best = found.reshape(thetas.shape)
        for r in np.flatnonzero((best == z_hat[:, None]).all(axis=2).any(axis=1)):
            past_rounding(self.oracle, z_hat[r], belief.theta_hat[r], self.space, thetas[r], best[r])
        return best
