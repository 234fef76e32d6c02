"""Rejection: draw from the belief until the argmax differs. The paper's own sampler."""

from __future__ import annotations

from math import ceil, log, nan
from typing import NamedTuple

import numpy as np

from combopeps.alternatives.base import Account, Alternatives, AlternativeSampler, Question, sample_belief
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import ArgmaxOracle, Array, strictly_better
from combopeps.posterior.parameter_space import RealSpace
from combopeps.utils.validation import check_count, check_flag

_FIRST_BATCH = 16  # where that is cheap: the first batch holds at most _FIRST_NUMBERS coordinates
_FIRST_NUMBERS = 1 << 13
_FORGET = 0.2  # weight of the last call in the price of an alternative
_LUCK = 0.25  # of a draw: where all but a few are alternatives, one will do
_ANYHOW = 1 << 9  # coordinates that take less time than to begin anew
_BATCH_NUMBERS = 1 << 18  # a batch holds at most this many coordinates: it stays in cache


class Search(NamedTuple):
    """Alternatives with their best answers; the draws made, those inside Theta, those in Alt, and oracle calls."""

    thetas: Array
    answers: Array
    draws: int
    inside: int
    hits: int
    calls: int


class RejectionSampler(AlternativeSampler):
    """Exact, and costs 1 / P(Alt) draws per alternative: good while P(Alt) is above about 1 %.

    Parameters
    ----------
    cap
        Draws after which `SamplerCapError` is raised.
    clip
        Move draws that fall outside Theta to its nearest point, instead of drawing from the belief restricted to
        Theta. Cheaper when the belief is not diagonal, and only an approximation: points pile up on the boundary.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> from combopeps.posterior import Arms, GaussianBelief
    >>> oracle = TopKOracle(4, k=2)
    >>> belief = GaussianBelief.start(Arms.of(oracle))
    >>> found = RejectionSampler().sample(belief, oracle, oracle.argmax(belief.theta_hat[0]), n=3, rng=0)
    >>> found.thetas.shape, bool((found.answers[:, :2].sum(axis=1) < 2).all())
    ((3, 4), True)
    """

    def __init__(self, *, cap: int = 1_000_000, clip: bool = False) -> None:
        check_count("cap", cap)
        check_flag("clip", clip)
        self.cap, self.clip = cap, clip
        self._price = float(_FIRST_BATCH)  # draws that an alternative has cost of late

    def _sample(self, question: Question, n: int, rng: np.random.Generator) -> Alternatives:
        thetas, answers, draws, inside, hits, calls = self.search(question, n, rng, self.cap)
        if len(thetas) < n:
            size = question.oracle.log_cardinality
            if size is not None and size.exact and size == 0.0:
                raise NoAlternativeError("no alternative exists: Z has one answer only")
            raise SamplerCapError(
                f"{len(thetas)} of {n} alternatives in {draws} draws, {inside} of them inside Theta; "
                "use HalfSpaceSampler, whose cost does not depend on P(Alt), or raise cap",
                draws,
            )
        log_p = log(hits / inside) if inside else nan
        return Alternatives(thetas, answers, Account(draws, calls, log_probability=log_p))

    def search(self, question: Question, n: int, rng: np.random.Generator, cap: int) -> Search:
        """Up to n alternatives in at most `cap` draws."""
        belief, oracle, z_hat, space, eta = question
        found: list[Array] = []
        answers: list[Array] = []
        draws = inside = hits = calls = 0
        # Where nearly every draw is an alternative, most of a full batch would be thrown away.
        wanted = max(_ANYHOW // belief.dim, ceil(n * (self._price - _LUCK)))
        batch = max(n, min(_FIRST_BATCH, _FIRST_NUMBERS // belief.dim, wanted))
        while hits < n and draws < cap:
            batch = max(1, min(batch, cap - draws, _BATCH_NUMBERS // belief.dim))
            thetas, kept = sample_belief(belief, RealSpace() if self.clip else space, batch, rng, eta)
            draws += batch
            batch *= 2
            if self.clip:
                thetas = space.project(thetas)
            elif not kept.all():
                thetas = thetas[kept]
            inside += len(thetas)
            thetas, best, asked = beaten(oracle, z_hat, thetas, most=n - hits)
            calls += asked
            hits += len(thetas)
            found.append(thetas)
            answers.append(best)
        self._price += _FORGET * (draws / max(hits, 1) - self._price)
        thetas, best = (found[0], answers[0]) if len(found) == 1 else (np.concatenate(found), np.concatenate(answers))
        return Search(thetas[:n], best[:n], draws, inside, hits, calls)


def beaten(oracle: ArgmaxOracle, z_hat: Array, thetas: Array, most: int) -> tuple[Array, Array, int]:
    """The thetas under which z_hat is not best, the best answers of the first `most` of them, and oracle calls."""
    if type(oracle)._membership_batch is ArgmaxOracle._membership_batch:  # it asks for the argmax anyhow
        best = oracle.best_answers(thetas)
        lost = strictly_better(best, z_hat, thetas)
        return thetas[lost], best[lost], len(thetas)
    rivals = thetas[~oracle._membership_batch(z_hat, thetas)]
    best = oracle.best_answers(rivals[:most])
    return rivals, best, len(thetas) + len(best)
