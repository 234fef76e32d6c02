"""Alternatives for R replications at once, whatever the sampler: what policies call."""

from __future__ import annotations

import copy

import numpy as np

from combopeps.belief.base import GaussianBelief
from combopeps.cone import Cones, ListedCones
from combopeps.cone.sparing import SparingCone, cone_of
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.watch import Watch
from combopeps.samplers.base import AlternativeSampler, Question, past_rounding
from combopeps.space import ParameterSpace
from combopeps.streams import Streams


class ReplicatedSampler:
    """One sampler and one cone per replication, or one compiled call for all where the oracle lists few facets."""

    def __init__(
        self,
        oracle: ArgmaxOracle,
        space: ParameterSpace,
        streams: Streams,
        sampler: AlternativeSampler | None,
        watch: Watch,
    ) -> None:
        self.oracle, self.space, self.streams, self._watch = oracle, space, streams, watch
        self._lists = sampler is None and ListedCones.are_short(oracle, space)
        self._unused = AlternativeSampler.usual() if sampler is None else sampler.fresh()
        self.forget()
        if sampler is not None:
            self._samplers[0] = sampler
        self.draws = self.oracle_calls = 0  # of the last call, summed over replications
        self.log_probability = np.full(len(streams), np.nan)  # estimates of ln P(Alt) made on the way

    def forget(self) -> None:
        """Drop what is known of the cones: what is drawn next depends on the belief and the streams alone."""
        R = len(self.streams)
        self.cones = Cones(self.oracle, self.space, R, self._watch.known)
        self._listed = ListedCones(self.oracle, R) if self._lists else None
        self._samplers = [copy.deepcopy(self._unused) for _ in range(R)]
        self.spare = copy.deepcopy(self._unused)  # with a cone of its own, for looks that must not change the run

    def at(self, z_hat: Array, r: int = 0) -> AlternativeSampler:
        """The sampler of one replication, with its cone of this answer."""
        sampler = self._samplers[r]
        sampler.cone = self.cones.at(r, z_hat)
        return sampler

    def sample(
        self, belief: GaussianBelief, z_hat: Array, n: int, eta: float = 1.0, *, answers: bool = False
    ) -> tuple[Array, Array]:
        """Thetas (R, n, d) under which z_hat (R, d) is not best, and, if asked for, their best answers (R, n, d)."""
        for memory, answer in zip(self.cones.memories, z_hat, strict=False):
            memory.choose_by(answer)
        if self._listed is not None:
            self._listed.move_to(z_hat)
            thetas, proposals, self.log_probability = self._listed.draw(belief, n, self.streams.states, eta)
            self.draws, self.oracle_calls = int(proposals.sum()), thetas.shape[0] * n * answers
            return thetas, self._best(belief, z_hat, thetas) if answers else thetas[:, :0]
        thetas, best = np.empty((2, len(z_hat), n, self.oracle.dim))
        self.draws = self.oracle_calls = 0
        for r in range(len(z_hat)):
            sampler, cone = self._samplers[r], self.cones.at(r, z_hat[r])
            sampler.cone, spent = cone, cone.memory.chosen if isinstance(cone, SparingCone) else 0
            question = Question(belief.row(r), self.oracle, cone.z_hat, self.space, eta)
            found = sampler._sample(question, n, self.streams.generator(r))
            thetas[r], best[r] = found.thetas, found.answers
            if isinstance(cone, SparingCone) and cone.memory.chosen == spent:  # it asks the oracle itself
                cone.memory.chosen += found.account.oracle_calls
                cone.memory.note(found.answers)
            self.draws += found.account.draws
            self.oracle_calls += found.account.oracle_calls
            self.log_probability[r] = found.account.log_probability
            self._watch.see(found.thetas, found.answers)
        return thetas, best

    def answers(self, thetas: Array) -> Array:
        """Best answers under one theta per replication, (R, d); one that is not quick is not asked twice in a row."""
        memories = self.cones.memories
        return memories[0].answer(thetas[0])[None] if len(memories) == 1 else self.oracle.argmax(thetas)

    def aside(self, z_hat: Array) -> AlternativeSampler:
        """A sampler for looks that must not change the run; it knows what answers the run has seen."""
        if self.cones.memories:
            self.spare.cone = cone_of(self.oracle, z_hat, self.space, self.cones.memories[0].copy())
        return self.spare

    def _best(self, belief: GaussianBelief, z_hat: Array, thetas: Array) -> Array:
        flat = thetas.reshape(-1, self.oracle.dim)
        found = self.oracle.argmax(flat)
        self._watch.see(flat, found)
        best = found.reshape(thetas.shape)
        for r in np.flatnonzero((best == z_hat[:, None]).all(axis=2).any(axis=1)):
            past_rounding(self.oracle, z_hat[r], belief.theta_hat[r], self.space, thetas[r], best[r])
        return best
