"""Base class of samplers of alternatives: draws from the posterior, restricted to where z_hat is not best.

theta ~ N(theta_hat, V^-1 / eta)   conditioned on   theta in Theta,   max_z z @ theta > z_hat @ theta
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives._box_kernels import draw_truncated_normals
from combopeps.alternatives.budgeted_cone import BudgetedCone, cone_of
from combopeps.alternatives.cone import Cone
from combopeps.alternatives.truncated_normal import replace_misses
from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.input_checks import as_vector
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace, space_for
from combopeps.random import stream_from
from combopeps.utils.formatting import ShortRepr, brief_tuple, html_of_tuple
from combopeps.utils.validation import MAX_DRAWS, as_generator, check_count, check_kind, check_positive


@dataclass(frozen=True, repr=False)
class SamplingStats(ShortRepr):
    """Cost of a call of a sampler, and its estimate of P(Alt).

    Attributes
    ----------
    draws
        Parameter vectors drawn, accepted or not.
    oracle_calls
        Thetas passed to the oracle.
    facets
        Known facets of the cone.
    log_probability
        Estimate of ln P(Alt) under the posterior; NaN if the call gives none.
    """

    draws: int
    oracle_calls: int
    facets: int = 0
    log_probability: float = float("nan")


@dataclass(frozen=True, repr=False)
class Alternatives(ShortRepr):
    """Thetas (n, d), a best answer of each (n, d), and the account of the call."""

    thetas: Array
    answers: Array
    account: SamplingStats


@dataclass(frozen=True, repr=False)
class AltProbability(ShortRepr):
    """An estimate of P(Alt), in logarithms.

    Attributes
    ----------
    log_probability
        ln of the probability of the union of the known half-spaces: a lower bound of ln P(Alt) up to Monte Carlo
        error, and ln P(Alt) itself if all facets are known.
    relative_error
        Standard error of the probability, relative to it.
    missing
        Good-Turing estimate of the share of hot rays that leave the cone through unknown facets; 0 if all are known.
    complete
        Whether all facets are known.
    log_mass, accepted, proposals
        P(union) = exp(log_mass) P(accepted), with the number of accepted proposals: see `upper_bound`.
    log_space, inside, tries
        Under a full covariance in a box, P(union) stands for P(union and Theta), and P(Theta) =
        exp(log_space) inside / tries; otherwise all three are 0.
    """

    log_probability: float
    relative_error: float
    missing: float
    complete: bool
    log_mass: float
    accepted: int
    proposals: int
    log_space: float = 0.0
    inside: int = 0
    tries: int = 0

    def upper_bound(self, nu: float) -> float:
        """Return an upper bound of the probability of the union that fails with probability at most nu.

        The bounds of the binomial proportions are those of Clopper and Pearson.
        """
        if not self.tries:
            return min(1.0, exp(self.log_mass) * clopper_pearson(self.accepted, self.proposals, nu))
        inside_bound = 1.0 - clopper_pearson(self.tries - self.inside, self.tries, nu / 2.0)
        if inside_bound <= 0.0:
            return 1.0
        accepted_bound = clopper_pearson(self.accepted, self.proposals, nu / 2.0)
        return exp(min(0.0, self.log_mass - self.log_space + log(accepted_bound / inside_bound)))


class SamplingTask(NamedTuple):
    """Arguments of a sampler: the posterior of one replication, Z, an answer, Theta, and eta."""

    posterior: GaussianPosterior
    oracle: ArgmaxOracle
    z_hat: Array
    space: ParameterSpace
    eta: float = 1.0

    def __repr__(self) -> str:
        return brief_tuple(self)

    def _repr_html_(self) -> str:
        return html_of_tuple(self)


class AlternativeSampler(ShortRepr, ABC):
    """Draws alternatives for one replication.

    A subclass implements `_sample`. It gets validated arguments, and raises `NoAlternativeError` or `SamplerCapError`
    instead of looping forever.

    Attributes
    ----------
    cone
        The cone of the last call. A run assigns the cone that it shares among policy and stopping rule before each
        call, so that facets are searched once.
    """

    make_default: ClassVar[Callable[[], AlternativeSampler]]
    """Makes the default sampler; set by `combopeps.alternatives.registry`."""

    cone: Cone | None = None

    def sample(
        self,
        posterior: GaussianPosterior,
        oracle: ArgmaxOracle,
        z_hat: Array,
        n: int = 1,
        rng: int | np.random.Generator | None = None,
        *,
        space: ParameterSpace | None = None,
        eta: float = 1.0,
    ) -> Alternatives:
        """Draw n alternatives of `z_hat`.

        Parameters
        ----------
        posterior
            One replication (`posterior.row(r)` of several).
        oracle, z_hat
            Z, and the current answer: `current_answer(posterior, oracle, space)`.
        n
            Number of alternatives.
        rng
            Seed or generator.
        space
            Theta; by default the whole domain of the oracle.
        eta
            Divides the covariance of the posterior.

        Raises
        ------
        NoAlternativeError
            If z_hat is best under every parameter of Theta.
        SamplerCapError
            If too many draws are needed.
        """
        z_hat = check_arguments(posterior, oracle, z_hat, n, eta)
        question = SamplingTask(posterior, oracle, z_hat, space_for(oracle, space), float(eta))
        return self._sample(question, int(n), as_generator(rng))

    @abstractmethod
    def _sample(self, question: SamplingTask, n: int, rng: np.random.Generator) -> Alternatives:
        """Draw n alternatives, with their best answers and the account."""

    def probability(
        self,
        posterior: GaussianPosterior,
        oracle: ArgmaxOracle,
        z_hat: Array,
        rng: int | np.random.Generator | None = None,
        *,
        draws: int = 2000,
        space: ParameterSpace | None = None,
        eta: float = 1.0,
    ) -> AltProbability:
        """Estimate P(Alt) under the posterior (given Theta), with its standard error; never underflows."""
        z_hat = check_arguments(posterior, oracle, z_hat, draws, eta)
        question = SamplingTask(posterior, oracle, z_hat, space_for(oracle, space), float(eta))
        return self._probability(question, int(draws), as_generator(rng))

    def _probability(self, question: SamplingTask, draws: int, rng: np.random.Generator) -> AltProbability:
        """Estimate P(Alt) by the default sampler."""
        return self._default_sampler(question)._probability(question, draws, rng)

    def survey(self, question: SamplingTask, draws: int, rng: np.random.Generator) -> tuple[Array, AltProbability]:
        """Return alternatives among `draws` proposals, (n, d), and the estimate of P(Alt) by these proposals.

        By the default sampler, unless a subclass overrides it.
        """
        return self._default_sampler(question).survey(question, draws, rng)

    def _default_sampler(self, question: SamplingTask) -> AlternativeSampler:
        """Return the default sampler, with the same cone."""
        sampler = AlternativeSampler.make_default()
        sampler.cone = self.cone_of(question)
        return sampler

    def fresh(self) -> AlternativeSampler:
        """Return a copy without a cone."""
        return copy.deepcopy(self, {id(self.cone): None} if self.cone is not None else None)

    def cone_of(self, question: SamplingTask) -> Cone:
        """Return the cone of the question's answer: the current one if it matches, else a new one."""
        _, oracle, z_hat, space, _ = question
        if self.cone is None or not self.cone.belongs_to(oracle, z_hat, space):
            memory = self.cone.memory if isinstance(self.cone, BudgetedCone) and self.cone.oracle is oracle else None
            self.cone = cone_of(oracle, z_hat, space, memory)
        return self.cone


def check_arguments(posterior: GaussianPosterior, oracle: ArgmaxOracle, z_hat: Array, n: int, eta: float) -> Array:
    """Validate the arguments of a sampler; return z_hat as an array."""
    check_kind("posterior", posterior, GaussianPosterior)
    check_kind("oracle", oracle, ArgmaxOracle)
    check_count("n", n, MAX_DRAWS)
    check_positive("eta", eta)
    if posterior.replications != 1:
        raise ParameterError("a sampler serves one replication; pass posterior.row(r)")
    if posterior.dim != oracle.dim:
        raise ParameterError(f"posterior and oracle must share d; got {posterior.dim} and {oracle.dim}")
    return as_vector(z_hat, oracle.dim)


def move_off_boundary(
    oracle: ArgmaxOracle, z_hat: Array, theta_hat: Array, space: ParameterSpace, thetas: Array, answers: Array
) -> None:
    """Move thetas that rounding has left on the boundary of the cone just beyond it; change `thetas` and `answers`.

    Far from theta_hat, theta + 1/b standard deviations can round to theta itself.
    """
    left = (answers == z_hat).all(axis=1).nonzero()[0]
    step = 2.0**-48
    while len(left) and step < 1.0:
        further = space.project(theta_hat + (1.0 + step) * (thetas[left] - theta_hat))
        best = oracle.argmax(further)
        is_outside = (best != z_hat).any(axis=1)
        thetas[left[is_outside]], answers[left[is_outside]] = further[is_outside], best[is_outside]
        left = left[~is_outside]
        step *= 16.0


def clopper_pearson(hits: int, draws: int, nu: float) -> float:
    """Return an upper bound of a binomial probability that fails with probability at most nu."""
    from scipy.special import betainccinv  # many times faster to import than `scipy.stats.beta`

    return 1.0 if hits >= draws else float(betainccinv(hits + 1, draws - hits, nu))


def current_answer(posterior: GaussianPosterior, oracle: ArgmaxOracle, space: ParameterSpace | None = None) -> Array:
    """Return argmax_z z @ theta_hat; at the projection of theta_hat if it lies outside Theta."""
    check_kind("posterior", posterior, GaussianPosterior)
    check_kind("oracle", oracle, ArgmaxOracle)
    return oracle.argmax(space_for(oracle, space).project(posterior.theta_hat[0]))


def draw_thetas(
    posterior: GaussianPosterior, space: ParameterSpace, n: int, rng: np.random.Generator, eta: float = 1.0
) -> tuple[Array, NDArray[np.bool_]]:
    """Draw n times from the posterior; also return which draws are exact draws from its restriction to Theta.

    All of them are on R^d, for a diagonal posterior in a box, and mostly for other posteriors
    (`combopeps.alternatives.truncated_normal`). Where the box is too small or d too large for the latter, the draws
    inside Theta are. Noise that was estimated counts as known: see `draw_thetas_and_noise`.
    """
    check_kind("posterior", posterior, GaussianPosterior)
    check_kind("space", space, ParameterSpace)
    check_count("n", n, MAX_DRAWS)
    check_kind("rng", rng, np.random.Generator)
    check_positive("eta", eta)
    return _draw_restricted(posterior, space, int(n), rng, np.array([eta], dtype=np.float64))


def draw_thetas_and_noise(
    posterior: GaussianPosterior, space: ParameterSpace, n: int, rng: np.random.Generator
) -> tuple[Array, NDArray[np.bool_]]:
    """Draw as `draw_thetas`; if the noise is estimated, its level is drawn anew for every theta."""
    dof = posterior.dof.item(0)
    eta = np.ones(1) if dof == np.inf else rng.chisquare(dof, n) / dof
    return _draw_restricted(posterior, space, n, rng, eta)


def _draw_restricted(
    posterior: GaussianPosterior, space: ParameterSpace, n: int, rng: np.random.Generator, eta: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """Draw with one eta for all draws, (1,), or one for each, (n,)."""
    if posterior.is_diagonal and not isinstance(space, RealSpace):
        stream, (low, high), thetas = stream_from(rng), space.bounds(posterior.dim), np.empty((n, posterior.dim))
        blocks = [thetas] if len(eta) == 1 else np.split(thetas, len(eta))
        for block, factor in zip(blocks, eta, strict=True):
            draw_truncated_normals(
                stream, posterior.theta_hat[0], np.sqrt(posterior.spread[0] / factor), low, high, block
            )
        return thetas, np.ones(n, dtype=bool)
    thetas = posterior.noise(rng.standard_normal((1, n, posterior.dim)))[0]
    thetas /= np.sqrt(eta)[:, None]  # in place: new memory takes longer than the arithmetic
    thetas += posterior.theta_hat[0]
    if isinstance(space, RealSpace):
        return thetas, np.ones(n, dtype=bool)
    return thetas, replace_misses(posterior, space, eta, rng, thetas)
