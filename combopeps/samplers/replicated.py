"""Alternatives for R replications at once, whatever the sampler: what policies call."""

from __future__ import annotations

import copy

import numpy as np

from combopeps.belief.gaussian import GaussianBelief
from combopeps.cone import Cone, Cones, ListedCones
from combopeps.cone.sparing import SparingCone, cone_of
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.watch import Watch
from combopeps.samplers.base import Alternatives, AlternativeSampler, Question, past_rounding
from combopeps.space import ParameterSpace
from combopeps.streams import Streams

_MOST = 256  # rivals that were not searched for, of which the less probable half is forgotten


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
        self._many = [False] * R  # facets of this run's answers are more than an oracle lists without a search
        self._samplers = [copy.deepcopy(self._unused) for _ in range(R)]

    def at(self, z_hat: Array, r: int = 0) -> AlternativeSampler:
        """The sampler of one replication, with its cone of this answer."""
        sampler = self._samplers[r]
        sampler.cone = self.cones.at(r, z_hat)
        return sampler

    def sample(
        self, belief: GaussianBelief, z_hat: Array, n: int, eta: float = 1.0, *, answers: bool = False
    ) -> tuple[Array, Array]:
        """Thetas (R, n, d) under which z_hat (R, d) is not best, and, if asked for, their best answers (R, n, d)."""
        self._choose_by(z_hat)
        if self._listed is not None:
            self._listed.move_to(z_hat)
            thetas, proposals, self.log_probability = self._listed.draw(belief, n, self.streams.states, eta)
            self.draws, self.oracle_calls = int(proposals.sum()), thetas.shape[0] * n * answers
            return thetas, self._best(belief, z_hat, thetas) if answers else thetas[:, :0]
        thetas, best = np.empty((2, len(z_hat), n, self.oracle.dim))
        self.draws = self.oracle_calls = 0
        for r in range(len(z_hat)):
            found = self._sample(belief.row(r), self.cones.at(r, z_hat[r]), r, n, eta)
            thetas[r], best[r] = found.thetas, found.answers
        return thetas, best

    def _choose_by(self, z_hat: Array) -> None:
        for memory, answer in zip(self.cones.memories, z_hat, strict=False):
            memory.choose_by(answer)

    def _sample(self, belief: GaussianBelief, cone: Cone, r: int, n: int, eta: float) -> Alternatives:
        """Of one replication."""
        sampler, spent = self._samplers[r], cone.memory.chosen if isinstance(cone, SparingCone) else 0
        sampler.cone = cone
        question = Question(belief, self.oracle, cone.z_hat, self.space, eta)
        found = sampler._sample(question, n, self.streams.generator(r))
        if isinstance(cone, SparingCone) and cone.memory.chosen == spent:  # it asks the oracle itself
            cone.memory.chosen += found.account.oracle_calls
            cone.memory.note(found.answers)
        self.draws += found.account.draws
        self.oracle_calls += found.account.oracle_calls
        self.log_probability[r] = found.account.log_probability
        self._watch.see(found.thetas, found.answers)
        return found

    def information(self, belief: GaussianBelief, z_hat: Array, *, challenge: bool = True) -> Array:
        """sum_f Phi(-b_f) y_f y_f' / |y_f|^2_{V^-1} over the known rivals of z_hat, up to a factor: (R, d, d).

        Its diagonal, (R, d), for a belief that is diagonal. Rivals are all facets, where the oracle lists them and they
        are few. Elsewhere they are those found so far and the best answer under an alternative drawn now: whatever may
        be best has its chance to be among them. Without `challenge`, none is drawn where a search has been made.
        """
        found = np.empty(belief.theta_hat.shape if belief.is_diagonal else belief.spread.shape)
        self.draws = self.oracle_calls = 0
        self._choose_by(z_hat)
        if self._listed is not None:
            self._listed.move_to(z_hat)
            self._listed.information(belief, found)
            return found
        for r in range(len(z_hat)):
            cone, row = self.cones.at(r, z_hat[r]), belief.row(r)
            known = cone.complete or (cone.explored and not challenge)
            if not known and (self._many[r] or not cone.list_if_few()):
                self._many[r] = True  # as it is with other answers, in all likelihood
                challenger = self._sample(row, cone, r, 1, 1.0).answers
                if not cone.complete:  # which the sampler may have made it
                    cone.add(challenger)
            if cone.explored:
                cone.sync(row, 1.0)
            else:
                cone.renew(row, 1.0)
                if cone.size > _MOST:
                    cone.keep(np.argsort(-cone.log_w[: cone.size])[: _MOST // 2])
                    cone.renew(row, 1.0)
            cone.information(self.streams.generator(r).random(), found[r])
        return found

    def answers(self, thetas: Array) -> Array:
        """Best answers under one theta per replication, (R, d); one that is not quick is not asked twice in a row."""
        memories = self.cones.memories
        return memories[0].answer(thetas[0])[None] if len(memories) == 1 else self.oracle.best_answers(thetas)

    def aside(self, z_hat: Array) -> AlternativeSampler:
        """A sampler for looks that must not change the run; it knows what answers the run has seen.

        Its cone is new every time: what it finds depends on the belief and on random numbers alone.
        """
        sampler = copy.deepcopy(self._unused)
        memory = self.cones.memories[0].copy() if self.cones.memories else None
        sampler.cone = cone_of(self.oracle, z_hat, self.space, memory)
        return sampler

    def _best(self, belief: GaussianBelief, z_hat: Array, thetas: Array) -> Array:
        flat = thetas.reshape(-1, self.oracle.dim)
        found = self.oracle.best_answers(flat)
        self._watch.see(flat, found)
        best = found.reshape(thetas.shape)
        for r in np.flatnonzero((best == z_hat[:, None]).all(axis=2).any(axis=1)):
            past_rounding(self.oracle, z_hat[r], belief.theta_hat[r], self.space, thetas[r], best[r])
        return best
