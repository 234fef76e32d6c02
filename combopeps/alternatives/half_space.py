"""Half-space sampler: exact draws from the union of the known half-spaces, at a cost that does not depend on P(Alt).

Alt(z_hat) is a union of half-spaces, one per facet of the cone of z_hat. Facets depend on z_hat alone, so they are
found once and kept while the answer stays; draws from the union of known half-spaces are exact and need no oracle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import hypot, inf, log, nan, sqrt
from typing import Any

import numpy as np

from combopeps.alternatives.base import (
    Alternatives,
    AlternativeSampler,
    AltProbability,
    SamplingStats,
    SamplingTask,
    draw_thetas,
    move_off_boundary,
)
from combopeps.alternatives.cone import Cone, Limits
from combopeps.alternatives.facets import Draws, draw_from_union
from combopeps.alternatives.truncated_normal import ADVICE, MAX_DIM, MinimaxWeights, TiltedWeights, tilted_box
from combopeps.errors import NoAlternativeError, SamplerCapError
from combopeps.oracles.base import Array
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.parameter_space import RealSpace
from combopeps.utils.validation import check_count, check_flag, check_fraction, check_integer

# A survey under a full covariance in a box, where few proposals are accepted, makes more of them.
_EXTRA_PROPOSALS, _MAX_EXTRA_PROPOSALS = 4, 20_000  # per requested draw, and at most


class HalfSpaceSampler(AlternativeSampler):
    """Find the facets by rays; draw from the union of their half-spaces by the method of Karp and Luby.

    Exact where the oracle lists its facets (top-k, explicit; routes and matchings where they are at most 1,024), and
    elsewhere exact on the union of the half-spaces found so far. Each call sends a few more rays, fewer once nothing
    new is found.

    On R^d a proposal is a normal draw; in a box it is tilted (`combopeps.alternatives.truncated_normal`). General arms
    in a box take about d^3 operations per posterior and facet of non-negligible weight. Beyond 400 components proposals
    outside the box are rejected instead, which is seldom feasible.

    Parameters
    ----------
    missing
        The first search for a new answer ends when the estimated share of unknown facets is below this ...
    max_rays
        ... or after this many rays.
    max_facets
        Beyond it the half of the facets of smaller weight is removed. Closed-form lists longer than this are not used.
    closed_form
        Whether to use the oracle's own lists of facets.
    cap
        Proposals per call after which `SamplerCapError` is raised.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> from combopeps.posterior import Arms, GaussianPosterior
    >>> oracle = TopKOracle(4, k=2)
    >>> posterior = GaussianPosterior.start(Arms.of(oracle))
    >>> for arm in [0, 1, 2, 3] * 50:
    ...     posterior.update(arm, float(arm < 2))
    >>> sampler = HalfSpaceSampler()
    >>> z_hat = oracle.argmax(posterior.theta_hat[0])
    >>> sampler.sample(posterior, oracle, z_hat, rng=0).thetas.shape
    (1, 4)
    >>> round(sampler.probability(posterior, oracle, z_hat, rng=0).log_probability, 1)
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
        check_fraction("missing", missing)
        check_integer("max_rays", max_rays, 2)
        check_integer("max_facets", max_facets, 2)
        check_count("cap", cap)
        check_flag("closed_form", closed_form)
        self.limits, self.cap = Limits(missing, max_rays, max_facets, closed_form), cap
        self._tilted: TiltedWeights | MinimaxWeights | None = None

    def _summary(self) -> Mapping[str, Any]:
        return self.limits._asdict() | {"cap": self.cap}

    def _sample(self, question: SamplingTask, n: int, rng: np.random.Generator) -> Alternatives:
        return self.draw(question.posterior, n, rng, question.eta, self.prepare(question, rng))

    def prepare(self, question: SamplingTask, rng: np.random.Generator) -> Cone:
        """Return the cone of the question's answer, its facets in sync with the posterior."""
        cone = self.cone_of(question)
        cone.prepare(question.posterior, question.eta, rng, self.limits)
        return cone

    def draw(
        self, posterior: GaussianPosterior, n: int, rng: np.random.Generator, eta: float, cone: Cone
    ) -> Alternatives:
        """Draw n alternatives from the known half-spaces of a cone that is in sync with the posterior."""
        draws = self._draw(cone, posterior, eta, rng, n, self.cap)
        calls, cone.oracle_calls = cone.oracle_calls, 0
        if draws.log_mass == -inf:
            raise NoAlternativeError("no alternative exists in Theta: no known facet has a half-space that meets it")
        if len(draws.thetas) < n:
            advice = "P(Alt) is large, or hardly any proposal is in the box: use RejectionSampler, or raise cap"
            if not _is_normalised(cone, posterior):
                advice = f"{ADVICE} (d = {posterior.dim})"
            raise SamplerCapError(
                f"{len(draws.thetas)} of {n} alternatives in {draws.proposals} proposals; {advice}", draws.proposals
            )
        # With a full covariance in a box the proposals estimate P(Alt and Theta), not P(Alt | Theta).
        log_p = draws.log_probability if _is_normalised(cone, posterior) else nan
        thetas, answers = draws.thetas, cone.argmax_unchecked(draws.thetas)
        move_off_boundary(cone.oracle, cone.z_hat, posterior.theta_hat[0], cone.space, thetas, answers)
        return Alternatives(thetas, answers, SamplingStats(draws.proposals, calls + n, cone.size, log_p))

    def _probability(self, question: SamplingTask, draws: int, rng: np.random.Generator) -> AltProbability:
        return self.survey(question, draws, rng)[1]

    def survey(self, question: SamplingTask, draws: int, rng: np.random.Generator) -> tuple[Array, AltProbability]:
        """Draw from the known half-spaces, and estimate P(Alt) by the proposals."""
        posterior, eta, cone = question.posterior, question.eta, self.prepare(question, rng)
        if not _is_normalised(cone, posterior):
            draws = min(_EXTRA_PROPOSALS * draws, max(draws, _MAX_EXTRA_PROPOSALS))
        found = self._draw(cone, posterior, eta, rng, draws, draws)
        accepted, proposals = len(found.thetas), found.proposals
        estimate = AltProbability(
            found.log_probability,
            found.relative_error,
            cone.missing,
            cone.complete,
            found.log_mass,
            accepted,
            proposals,
        )
        if not _is_normalised(cone, posterior):
            estimate = _given_space(estimate, question, draws, rng)
        return found.thetas, estimate

    def _draw(
        self, cone: Cone, posterior: GaussianPosterior, eta: float, rng: np.random.Generator, n: int, cap: int
    ) -> Draws:
        if isinstance(cone.space, RealSpace) or (not posterior.is_diagonal and posterior.dim > MAX_DIM):
            return draw_from_union(cone, posterior, eta, rng, n, cap=cap, space=cone.space)
        kind = TiltedWeights if posterior.is_diagonal else MinimaxWeights
        if self._tilted is None or self._tilted.facets is not cone or type(self._tilted) is not kind:
            self._tilted = kind(cone, cone.space)
        return self._tilted.draw(posterior, eta, rng, n, cap=cap)


def _is_normalised(cone: Cone, posterior: GaussianPosterior) -> bool:
    """Return whether the proposals are drawn conditioned on Theta.

    If so they estimate P(Alt | Theta), otherwise P(Alt and Theta).
    """
    return isinstance(cone.space, RealSpace) or posterior.is_diagonal


def _given_space(joint: AltProbability, question: SamplingTask, tries: int, rng: np.random.Generator) -> AltProbability:
    """Return P(Alt | Theta) from P(Alt and Theta), with P(Theta) estimated by as many proposals."""
    posterior, _, _, space, eta = question
    if posterior.dim > MAX_DIM:
        inside, log_space = int(draw_thetas(posterior, space, tries, rng, eta)[1].sum()), 0.0
    else:
        box = tilted_box(posterior, space, eta)
        inside, log_space = len(box.draw(rng, tries, tries)[0]), box.log_m
    if not inside or (not joint.accepted and joint.log_mass > -inf):  # too few proposals for an estimate
        return replace(joint, log_probability=nan, log_space=log_space, inside=inside, tries=tries)
    share = inside / tries
    return replace(
        joint,
        log_probability=min(0.0, joint.log_probability - log_space - log(share)),
        relative_error=hypot(joint.relative_error, sqrt((1.0 - share) / share / tries)),
        log_space=log_space,
        inside=inside,
        tries=tries,
    )
