"""`AlternativeSampler`: theta from the belief, restricted to the parameters under which z_hat is not best.

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

from combopeps.alternatives._box_kernels import draw_boxes
from combopeps.alternatives.budgeted_cone import SparingCone, cone_of
from combopeps.alternatives.cone import Cone
from combopeps.alternatives.truncated_normal import replace_misses
from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.input_checks import as_vector
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace, space_for
from combopeps.random import stream_from
from combopeps.utils.validation import MOST_DRAWS, as_generator, check_count, check_kind, check_positive


@dataclass(frozen=True)
class Account:
    """What a call has cost, and what it learnt about P(Alt) on the way.

    Attributes
    ----------
    draws
        Parameter vectors drawn, kept or not.
    oracle_calls
        Thetas passed to the oracle.
    facets
        Facets of the cone known by now.
    log_probability
        Estimate of ln P(Alt) under the belief; NaN when the call tells nothing about it.
    """

    draws: int
    oracle_calls: int
    facets: int = 0
    log_probability: float = float("nan")


@dataclass(frozen=True)
class Alternatives:
    """Thetas (n, d), a best answer of each (n, d), and the account."""

    thetas: Array
    answers: Array
    account: Account


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
        P(union) = exp(log_mass) P(accepted), and how many of the proposals were: see `upper_bound`.
    log_space, inside, tries
        For a full covariance in a box that is P(union and Theta), and P(Theta) = exp(log_space) P(inside), with so many
        of `tries`; else all are 0.
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
        """An upper bound of the probability of the union that fails with probability at most nu: exact binomial."""
        if not self.tries:
            return min(1.0, exp(self.log_mass) * clopper_pearson(self.accepted, self.proposals, nu))
        share = 1.0 - clopper_pearson(self.tries - self.inside, self.tries, nu / 2.0)
        if share <= 0.0:
            return 1.0
        mass = min(
            0.0, self.log_mass - self.log_space + log(clopper_pearson(self.accepted, self.proposals, nu / 2.0) / share)
        )
        return exp(mass)


class Question(NamedTuple):
    """What a sampler is asked about: one replication's belief, Z, an answer, Theta, and eta."""

    belief: GaussianBelief
    oracle: ArgmaxOracle
    z_hat: Array
    space: ParameterSpace
    eta: float = 1.0


class AlternativeSampler(ABC):
    """Draws alternatives for one replication.

    A subclass writes `_sample`. It gets checked arguments, and raises `NoAlternativeError` or `SamplerCapError`
    rather than looping for ever.

    Attributes
    ----------
    cone
        The cone that it was last asked about. A run hands its own over before it asks, so that facets are searched once
        whoever draws.
    """

    usual: ClassVar[Callable[[], AlternativeSampler]]
    """Makes the sampler for those who name none; `samplers.registry` says which."""

    cone: Cone | None = None

    def sample(
        self,
        belief: GaussianBelief,
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
        belief
            One replication (`belief.row(r)` of several).
        oracle, z_hat
            Z, and the current answer: `current_answer(belief, oracle, space)`.
        n
            How many.
        rng
            Seed or generator.
        space
            Theta; by default all that the oracle can maximise over.
        eta
            The belief's covariance is divided by it.
        """
        z_hat = check_question(belief, oracle, z_hat, n, eta)
        question = Question(belief, oracle, z_hat, space_for(oracle, space), float(eta))
        return self._sample(question, int(n), as_generator(rng))

    @abstractmethod
    def _sample(self, question: Question, n: int, rng: np.random.Generator) -> Alternatives:
        """n alternatives, with their best answers and the account."""

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
        z_hat = check_question(belief, oracle, z_hat, draws, eta)
        question = Question(belief, oracle, z_hat, space_for(oracle, space), float(eta))
        return self._probability(question, int(draws), as_generator(rng))

    def _probability(self, question: Question, draws: int, rng: np.random.Generator) -> AltProbability:
        """As the usual sampler has it, unless a subclass knows better."""
        return self._usual(question)._probability(question, draws, rng)

    def survey(self, question: Question, draws: int, rng: np.random.Generator) -> tuple[Array, AltProbability]:
        """Alternatives among so many proposals, (n, d), and P(Alt) as these say it: as the usual sampler has them."""
        return self._usual(question).survey(question, draws, rng)

    def _usual(self, question: Question) -> AlternativeSampler:
        """The usual sampler, at the same cone."""
        usual = AlternativeSampler.usual()
        usual.cone = self.cone_of(question)
        return usual

    def fresh(self) -> AlternativeSampler:
        """A copy that has seen no cone."""
        return copy.deepcopy(self, {id(self.cone): None} if self.cone is not None else None)

    def cone_of(self, question: Question) -> Cone:
        """The cone of the question's answer: the one at hand, or a new one."""
        _, oracle, z_hat, space, _ = question
        if self.cone is None or not self.cone.belongs_to(oracle, z_hat, space):
            memory = self.cone.memory if isinstance(self.cone, SparingCone) and self.cone.oracle is oracle else None
            self.cone = cone_of(oracle, z_hat, space, memory)
        return self.cone


def check_question(belief: GaussianBelief, oracle: ArgmaxOracle, z_hat: Array, n: int, eta: float) -> Array:
    """Refuse what no sampler can answer; z_hat as an array."""
    check_kind("belief", belief, GaussianBelief)
    check_kind("oracle", oracle, ArgmaxOracle)
    check_count("n", n, MOST_DRAWS)
    check_positive("eta", eta)
    if belief.replications != 1:
        raise ParameterError("a sampler serves one replication; pass belief.row(r)")
    if belief.dim != oracle.dim:
        raise ParameterError(f"belief and oracle must share d; got {belief.dim} and {oracle.dim}")
    return as_vector(z_hat, oracle.dim)


def past_rounding(
    oracle: ArgmaxOracle, z_hat: Array, theta_hat: Array, space: ParameterSpace, thetas: Array, answers: Array
) -> None:
    """Where rounding has left theta on the boundary of the cone, with z_hat as its answer, move both just beyond it.

    Billions of standard deviations away, theta + 1/b standard deviations is theta itself.
    """
    stuck = (answers == z_hat).all(axis=1).nonzero()[0]
    step = 2.0**-48
    while len(stuck) and step < 1.0:
        further = space.project(theta_hat + (1.0 + step) * (thetas[stuck] - theta_hat))
        best = oracle.argmax(further)
        out = (best != z_hat).any(axis=1)
        thetas[stuck[out]], answers[stuck[out]] = further[out], best[out]
        stuck = stuck[~out]
        step *= 16.0


def clopper_pearson(hits: int, draws: int, nu: float) -> float:
    """Upper bound of a binomial probability that fails with probability at most nu."""
    from scipy.stats import beta

    return 1.0 if hits >= draws else float(beta.isf(nu, hits + 1, draws - hits))


def current_answer(belief: GaussianBelief, oracle: ArgmaxOracle, space: ParameterSpace | None = None) -> Array:
    """argmax_z z @ theta_hat; at the projection of theta_hat when it lies outside Theta."""
    check_kind("belief", belief, GaussianBelief)
    check_kind("oracle", oracle, ArgmaxOracle)
    return oracle.argmax(space_for(oracle, space).project(belief.theta_hat[0]))


def sample_belief(
    belief: GaussianBelief, space: ParameterSpace, n: int, rng: np.random.Generator, eta: float = 1.0
) -> tuple[Array, NDArray[np.bool_]]:
    """n draws from the belief, and which of them are exact draws from its restriction to Theta.

    All of them are on R^d and for a diagonal belief in a box, and as a rule for others: see `samplers.minimax`. Where
    the box is too small or d too large for that, those are that fall into Theta. Noise that was estimated counts as
    known: see `sample_posterior`.
    """
    check_kind("belief", belief, GaussianBelief)
    check_kind("space", space, ParameterSpace)
    check_count("n", n, MOST_DRAWS)
    check_kind("rng", rng, np.random.Generator)
    check_positive("eta", eta)
    return _draw(belief, space, int(n), rng, np.array([eta], dtype=np.float64))


def sample_posterior(
    belief: GaussianBelief, space: ParameterSpace, n: int, rng: np.random.Generator
) -> tuple[Array, NDArray[np.bool_]]:
    """As `sample_belief`; where the noise was estimated, each draw with a size of the noise drawn for it alone."""
    dof = belief.dof.item(0)
    return _draw(belief, space, n, rng, np.ones(1) if dof == np.inf else rng.chisquare(dof, n) / dof)


def _draw(
    belief: GaussianBelief, space: ParameterSpace, n: int, rng: np.random.Generator, eta: Array
) -> tuple[Array, NDArray[np.bool_]]:
    """With one eta for all, (1,), or one for each draw, (n,)."""
    if belief.is_diagonal and not isinstance(space, RealSpace):
        stream, (low, high), thetas = stream_from(rng), space.bounds(belief.dim), np.empty((n, belief.dim))
        parts = [thetas] if len(eta) == 1 else np.split(thetas, len(eta))
        for part, by in zip(parts, eta, strict=True):
            draw_boxes(stream, belief.theta_hat[0], np.sqrt(belief.spread[0] / by), low, high, part)
        return thetas, np.ones(n, dtype=bool)
    noise = belief.noise(rng.standard_normal((1, n, belief.dim)))[0]
    thetas = belief.theta_hat[0] + noise / np.sqrt(eta)[:, None]
    if isinstance(space, RealSpace):
        return thetas, np.ones(n, dtype=bool)
    return thetas, replace_misses(belief, space, eta, rng, thetas)
