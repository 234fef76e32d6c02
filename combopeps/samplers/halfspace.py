"""The half-space sampler: its cost does not depend on P(Alt).

Alt(z_hat) is a union of half-spaces, one per facet of the cone of z_hat. Facets depend on z_hat alone, so they are
found once and kept while the answer stays; behind known facets, draws are exact and need no oracle.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, hypot, inf, log, nan, sqrt
from typing import TYPE_CHECKING

import numpy as np

from combopeps.belief.base import GaussianBelief
from combopeps.belief.diagonal import DiagonalBelief
from combopeps.cone.cone import FacetCache
from combopeps.cone.discovery import Discovery
from combopeps.errors import NoAlternativeError, ParameterError, SamplerCapError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.samplers._kernels import rows_equal_to
from combopeps.samplers.base import (
    Account,
    Alternatives,
    AlternativeSampler,
    Question,
    check_question,
    past_rounding,
    sample_belief,
)
from combopeps.samplers.boxes import TiltedWeights
from combopeps.samplers.draws import Draws, draw_behind
from combopeps.space import ParameterSpace, RealSpace, space_for

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_RAYS = 4  # of each kind, per search after the first
_SHORTEST_PAUSE, _LONGEST_PAUSE = 2, 256  # calls between two such searches
_PATIENT_PAUSE = 32  # ... while they find something, time after time: a search takes the time of some 15 rounds
_FEW = 1024  # facets listed by an oracle that has no closed form for them
_MOST_DISCOVERED = 4096  # facets kept of those found by rays


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


class HalfSpaceSampler(AlternativeSampler):
    """Ray exits find the facets, Karp and Luby's method draws behind them.

    Exact where the oracle lists its facets (top-k, explicit; routes and matchings where they are at most 1,024), and
    elsewhere exact on the union of the half-spaces found so far. Each call sends out a few more rays, fewer once
    nothing new turns up.

    Parameters
    ----------
    missing
        The first search for a new answer ends when the estimated share of unknown facets is below this ...
    max_rays
        ... or after this many rays.
    max_facets
        Beyond it the least probable half of the facets is forgotten. Closed-form lists longer than this are not used.
    closed_form
        Whether to use the oracle's own lists of facets.
    cap
        Proposals per call after which `SamplerCapError` is raised.

    Examples
    --------
    >>> from combopeps import Arms, GaussianBelief, TopKOracle
    >>> oracle = TopKOracle(4, k=2)
    >>> belief = GaussianBelief.start(Arms.of(oracle))
    >>> for arm in [0, 1, 2, 3] * 50:
    ...     belief.update(arm, float(arm < 2))
    >>> sampler = HalfSpaceSampler()
    >>> z_hat = oracle.argmax(belief.theta_hat[0])
    >>> sampler.sample(belief, oracle, z_hat, rng=0).thetas.shape
    (1, 4)
    >>> round(sampler.probability(belief, oracle, z_hat, rng=0).log_probability, 1)
    -13.4
    """

    def __init__(
        self,
        *,
        missing: float = 0.01,
        max_rays: int = 2048,
        max_facets: int = 500_000,
        closed_form: bool = True,
        cap: int = 1_000_000,
    ) -> None:
        if not 0 < missing < 1 or max_rays < 2 or max_facets < 2 or cap < 1:
            raise ParameterError("missing must lie in (0, 1), max_rays and max_facets be at least 2, cap at least 1")
        self.missing, self.max_rays, self.max_facets = missing, max_rays, max_facets
        self.closed_form, self.cap = closed_form, cap
        self._discovery: Discovery | None = None
        self._calls = self._next_search = 0
        self._pause = _SHORTEST_PAUSE

    def knows(self, oracle: ArgmaxOracle, z_hat: Array, space: ParameterSpace) -> bool:
        """Are the facets at hand those of this answer?"""
        known = self._discovery
        return (
            known is not None
            and known.oracle is oracle
            and known.space == space
            and np.array_equal(known.cache.z_hat, z_hat)
        )

    def _sample(self, question: Question, n: int, rng: np.random.Generator) -> Alternatives:
        return self.draw(question.belief, n, rng, question.eta, self.prepare(question, rng))

    def draw_on(self, belief: GaussianBelief, n: int, rng: np.random.Generator, eta: float) -> Alternatives:
        """As `sample`, for the answer that `mass` has just been asked about: its facets are known and in step."""
        assert self._discovery is not None
        return self.draw(belief, n, rng, eta, self._extend(self._discovery, belief, eta, rng))

    def draw(
        self, belief: GaussianBelief, n: int, rng: np.random.Generator, eta: float, discovery: Discovery
    ) -> Alternatives:
        """n draws behind the facets at hand."""
        draws = self._draw(belief, eta, rng, n)
        calls, discovery.oracle_calls = discovery.oracle_calls, 0
        if draws.log_mass == -inf:
            raise NoAlternativeError("no alternative exists in Theta behind any of the known facets")
        if len(draws.thetas) < n:
            raise SamplerCapError(
                f"{len(draws.thetas)} of {n} alternatives in {draws.proposals} proposals; a large P(Alt), or a box "
                "that hardly any proposal falls into: use RejectionSampler there, or raise cap",
                draws.proposals,
            )
        # With a full covariance in a box the proposals tell P(Alt and Theta), not P(Alt | Theta).
        log_p = draws.log_probability if self._normalised(belief) else nan
        account = Account(draws.proposals, calls + n, discovery.cache.size, log_p)
        thetas, answers = draws.thetas, discovery.oracle.argmax(draws.thetas)
        z_hat = discovery.cache.z_hat
        if rows_equal_to(z_hat, answers):
            past_rounding(discovery.oracle, z_hat, belief.theta_hat[0], discovery.space, thetas, answers)
        return Alternatives(thetas, answers, account)

    def probability(
        self,
        belief: GaussianBelief,
        oracle: ArgmaxOracle,
        z_hat: Array,
        rng: int | np.random.Generator | None = None,
        *,
        draws: int = 2000,
        space: ParameterSpace | None = None,
        eta: float = 1.0,
    ) -> AltProbability:
        """P(Alt) under the belief (given Theta), with its standard error; never underflows."""
        check_question(belief, oracle, z_hat, draws, eta)
        generator = np.random.default_rng(rng)
        known = self.prepare(Question(belief, oracle, z_hat, space_for(oracle, space), eta), generator)
        found = self._draw(belief, eta, generator, draws, cap=draws)
        log_p, error = found.log_probability, found.relative_error
        if not self._normalised(belief):
            share = float(sample_belief(belief, known.space, draws, generator, eta)[1].mean())
            log_p, error = (
                log_p - log(share) if share else nan,
                hypot(error, sqrt((1 - share) / draws / max(share, 1e-9))),
            )
        accepted, proposals = len(found.thetas), found.proposals
        return AltProbability(log_p, error, known.missing, known.cache.complete, found.log_mass, accepted, proposals)

    def _normalised(self, belief: GaussianBelief) -> bool:
        return self._tilted is None or isinstance(belief, DiagonalBelief)

    def mass(self, question: Question) -> tuple[float, float] | None:
        """ln sum_f Phi(-b_f) over the facets known of this answer, and the entries of those that matter."""
        belief, oracle, z_hat, space, eta = question
        if self._discovery is None or not self.knows(oracle, z_hat, space):
            return None
        self._discovery.cache.sync(belief, eta)
        return self._discovery.cache.log_mass, self._discovery.cache.active_entries

    def prepare(self, question: Question, rng: np.random.Generator, alternatives: Array | None = None) -> Discovery:
        """Facets for this answer, in step with the belief: found anew when the answer has changed.

        `alternatives` are thetas known to be alternatives: the facets on the way to them are added.
        """
        belief, oracle, z_hat, space, eta = question
        if self._discovery is None or not self.knows(oracle, z_hat, space):
            self._start(question, rng)
        discovery = self._discovery
        assert discovery is not None
        if alternatives is not None and len(alternatives) and not discovery.cache.complete:
            discovery.follow(belief, alternatives)
        discovery.cache.sync(belief, eta)
        return self._extend(discovery, belief, eta, rng)

    def _extend(self, discovery: Discovery, belief: GaussianBelief, eta: float, rng: np.random.Generator) -> Discovery:
        """Look for more facets now and then, and forget the least probable ones when there are too many."""
        if discovery.cache.complete:
            return discovery
        self._search_on(discovery, belief, eta, rng)
        most = min(self.max_facets, _MOST_DISCOVERED)
        if discovery.cache.size > most:
            weight = discovery.cache.log_w[: discovery.cache.size]
            discovery.forget(np.argsort(-weight)[: most // 2])
            discovery.cache.sync(belief, eta)
            self._pause = _LONGEST_PAUSE  # more facets than can be kept: what is found only takes the place of others
            self._next_search = self._calls + self._pause
        return discovery

    def _search_on(self, discovery: Discovery, belief: GaussianBelief, eta: float, rng: np.random.Generator) -> None:
        """A few more rays: often while they begin to add probability, ever more rarely while they do not."""
        self._calls += 1
        if self._calls < self._next_search:
            return
        cache = discovery.cache
        before, size = cache.log_mass, cache.size
        discovery.search(belief, eta, rng, hot=_RAYS, uniform=_RAYS)
        if cache.size > size:
            cache.sync(belief, eta)
        gained = cache.log_mass - before > self.missing
        if gained:
            self._pause = min(self._pause + _SHORTEST_PAUSE, _PATIENT_PAUSE)
        else:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._next_search = self._calls + self._pause

    def _start(self, question: Question, rng: np.random.Generator) -> None:
        belief, oracle, z_hat, space, eta = question
        rows = self._list(oracle, z_hat) if self.closed_form else None
        if rows is not None and rows.shape[0] == 0:
            raise NoAlternativeError("no alternative exists: Z has one answer only")
        if rows is not None:
            discovery = Discovery(FacetCache.listed(rows, z_hat), oracle, space)
        else:
            discovery = Discovery(FacetCache(z_hat), oracle, space)
            discovery.first_search(belief, eta, rng, self.missing, self.max_rays)
        self._discovery = discovery
        self._next_search, self._pause = self._calls + _SHORTEST_PAUSE, _SHORTEST_PAUSE
        self._tilted = None if isinstance(space, RealSpace) else TiltedWeights(discovery.cache, space)

    def _list(self, oracle: ArgmaxOracle, z_hat: Array) -> csr_array | None:
        """All facets, where the oracle has them in closed form or finds that they are few."""
        count = oracle.facet_count
        if count is None:
            return oracle.few_facets(z_hat, min(self.max_facets, _FEW))
        return oracle.facets(z_hat) if count <= self.max_facets else None

    def _draw(
        self, belief: GaussianBelief, eta: float, rng: np.random.Generator, n: int, cap: int | None = None
    ) -> Draws:
        assert self._discovery is not None
        cap = self.cap if cap is None else cap
        if self._tilted is not None and isinstance(belief, DiagonalBelief):
            return self._tilted.draw(belief, eta, rng, n, cap=cap)
        return draw_behind(self._discovery.cache, belief, eta, rng, n, cap=cap, space=self._discovery.space)
