"""Rejection sampler: draw from the posterior until the argmax differs; the sampler of the paper."""

from __future__ import annotations

from math import ceil, log, nan
from typing import NamedTuple

import numpy as np

from combopeps.alternatives.base import Alternatives, AlternativeSampler, SamplingStats, SamplingTask, draw_thetas
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import ArgmaxOracle, Array, strictly_better
from combopeps.posterior.parameter_space import RealSpace
from combopeps.utils.validation import check_count, check_flag

_FIRST_BATCH, _FIRST_COORDINATES = 16, 1 << 13  # draws in the first batch, and their coordinates, at most
_MAX_COORDINATES = 1 << 18  # of a batch, which then stays in the processor's cache
_MIN_COORDINATES = 1 << 9  # of a batch; fewer save no time
_SMOOTHING = 0.2  # weight of the last call in the running mean of draws per alternative
_TOLERATED_MISSES = 0.25  # mean misses per alternative for which the first batch is not enlarged


class Search(NamedTuple):
    """Alternatives found by rejection with their best answers, and counts.

    `draws` in total, `inside` Theta and `hits` in Alt, and `calls` of the oracle.
    """

    thetas: Array
    answers: Array
    draws: int
    inside: int
    hits: int
    calls: int


class RejectionSampler(AlternativeSampler):
    """Exact, at a cost of 1 / P(Alt) draws per alternative: suitable while P(Alt) is above about 1 %.

    Parameters
    ----------
    cap
        Draws after which `SamplerCapError` is raised.
    clip
        Move draws outside Theta to its nearest point, instead of drawing from the posterior restricted to Theta. Cheaper
        when the posterior is not diagonal, and only an approximation: points accumulate on the boundary.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> from combopeps.posterior import Arms, GaussianPosterior
    >>> oracle = TopKOracle(4, k=2)
    >>> posterior = GaussianPosterior.start(Arms.of(oracle))
    >>> found = RejectionSampler().sample(posterior, oracle, oracle.argmax(posterior.theta_hat[0]), n=3, rng=0)
    >>> found.thetas.shape, bool((found.answers[:, :2].sum(axis=1) < 2).all())
    ((3, 4), True)
    """

    def __init__(self, *, cap: int = 1_000_000, clip: bool = False) -> None:
        check_count("cap", cap)
        check_flag("clip", clip)
        self.cap, self.clip = cap, clip
        self._draws_per_hit = float(_FIRST_BATCH)  # running mean

    def _sample(self, question: SamplingTask, n: int, rng: np.random.Generator) -> Alternatives:
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
        return Alternatives(thetas, answers, SamplingStats(draws, calls, log_probability=log_p))

    def search(self, question: SamplingTask, n: int, rng: np.random.Generator, cap: int) -> Search:
        """Return up to n alternatives from at most `cap` draws."""
        posterior, oracle, z_hat, space, eta = question
        found: list[Array] = []
        answers: list[Array] = []
        draws = inside = hits = calls = 0
        # Where nearly every draw is an alternative, most of a full batch would be discarded.
        wanted = max(_MIN_COORDINATES // posterior.dim, ceil(n * (self._draws_per_hit - _TOLERATED_MISSES)))
        batch = max(n, min(_FIRST_BATCH, _FIRST_COORDINATES // posterior.dim, wanted))
        while hits < n and draws < cap:
            batch = max(1, min(batch, cap - draws, _MAX_COORDINATES // posterior.dim))
            thetas, exact = draw_thetas(posterior, RealSpace() if self.clip else space, batch, rng, eta)
            draws += batch
            batch *= 2
            if self.clip:
                thetas = space.project(thetas)
            elif not exact.all():
                thetas = thetas[exact]
            inside += len(thetas)
            thetas, best, new_calls = split_alternatives(oracle, z_hat, thetas, most=n - hits)
            calls += new_calls
            hits += len(thetas)
            found.append(thetas)
            answers.append(best)
        self._draws_per_hit += _SMOOTHING * (draws / max(hits, 1) - self._draws_per_hit)
        thetas, best = (found[0], answers[0]) if len(found) == 1 else (np.concatenate(found), np.concatenate(answers))
        return Search(thetas[:n], best[:n], draws, inside, hits, calls)


def split_alternatives(oracle: ArgmaxOracle, z_hat: Array, thetas: Array, most: int) -> tuple[Array, Array, int]:
    """Return the thetas under which z_hat is not best, the best answers of the first `most`, and the oracle calls."""
    if type(oracle)._membership_batch is ArgmaxOracle._membership_batch:  # no faster test than the argmax
        best = oracle.argmax_unchecked(thetas)
        is_beaten = strictly_better(best, z_hat, thetas)
        return thetas[is_beaten], best[is_beaten], len(thetas)
    lost_thetas = thetas[~oracle._membership_batch(z_hat, thetas)]
    best = oracle.argmax_unchecked(lost_thetas[:most])
    return lost_thetas, best, len(thetas) + len(best)
