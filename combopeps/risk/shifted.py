"""Draws under which an answer is worse than the best by over epsilon, however improbable that is.

    E = {theta : max_z (z - z_hat) @ theta > epsilon} = union over z != z_hat of {(z - z_hat) @ theta - epsilon > 0}

Its complement is a polyhedron around theta_hat, as the cone of z_hat is for epsilon = 0. With one more coordinate,
theta' = (theta, 1) and z' = (z, -epsilon), z_hat' = (z_hat, 0), it is that cone: E is the set of alternatives of z_hat'
in a set Z' with an argmax of its own. So rays find the half-spaces that matter and Karp and Luby's method draws behind
them. Facets of the cone of z_hat are not enough: an answer may be worse by over epsilon than one that differs from it
in several exchanges, each of which gains less.
"""

from __future__ import annotations

from math import exp

import numpy as np

from combopeps.belief import Arms, GaussianBelief
from combopeps.belief.gaussian import DenseBelief, DiagonalBelief
from combopeps.belief.normal import Normal
from combopeps.cone import Cone, Limits
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse, as_sparse
from combopeps.samplers.base import AlternativeSampler, AltProbability, Question

_RAYS, _FEW_RAYS = 1024, 32  # in search of half-spaces: by an oracle that is quick, and by others


class ShiftedOracle(ArgmaxOracle):
    """Z' of the module's docstring.

    Parameters
    ----------
    oracle
        Z, on all of R^d.
    z_hat
        The answer that may be worse by epsilon.
    epsilon
        Positive.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> oracle = ShiftedOracle(TopKOracle(3, k=1), np.array([1.0, 0.0, 0.0]), 0.5)
    >>> oracle.argmax([1.0, 1.4, 0.0, 1.0]), oracle.argmax([1.0, 1.6, 0.0, 1.0])
    (array([1., 0., 0., 0.]), array([ 0. ,  1. ,  0. , -0.5]))
    """

    quick = True

    def __init__(self, oracle: ArgmaxOracle, z_hat: Array, epsilon: float) -> None:
        super().__init__(range(oracle.dim + 1))
        self.oracle, self.z_hat, self.epsilon, self.unit = oracle, np.append(z_hat, 0.0), epsilon, oracle.unit

    def _argmax_batch(self, thetas: Array) -> Array:
        inner = np.ascontiguousarray(thetas[:, :-1])
        answers = self.lifted(self.oracle.best_answers(inner))
        gain = ((answers - self.z_hat)[:, :-1] * inner).sum(axis=1)
        answers[gain <= self.epsilon * np.maximum(thetas[:, -1], 0.0)] = self.z_hat
        return answers

    def lifted(self, answers: Array) -> Array:
        """The same answers in Z', (B, d) -> (B, d + 1)."""
        lifted = np.column_stack([answers, np.full(len(answers), -self.epsilon)])
        lifted[(answers == self.z_hat[:-1]).all(axis=1)] = self.z_hat
        return lifted

    def facets(self, z: object) -> Sparse | None:
        """Every other answer, where the oracle lists all of them as facets."""
        rows = None if self.facet_count is None else self.oracle.facets(self.z_hat[:-1])
        return (
            None if rows is None else as_sparse(np.pad(rows.toarray(), ((0, 0), (0, 1)), constant_values=-self.epsilon))
        )

    @property
    def facet_count(self) -> int | None:
        """|Z| - 1, if that is how many facets the oracle lists; neighbours alone are not enough."""
        size, count = self.oracle.log_cardinality, self.oracle.facet_count
        listed = count is not None and size is not None and size.exact and count + 1 == round(exp(min(size, 30.0)))
        return count if listed else None


class ShiftedHalfSpaces:
    """E of one question on R^d: half-spaces found once, then draws behind them, at any size of the noise.

    Parameters
    ----------
    question
        Belief, oracle, answer; Theta must be R^d.
    epsilon
        Positive.
    known
        Answers that are known already, (n, d): each has a half-space without a search.
    rng
        For the search, by up to 1,024 rays, and forced deviations from the answer; where the oracle is not quick, by 32
        rays alone.

    Attributes
    ----------
    oracle_calls
        Spent on the search.
    """

    def __init__(self, question: Question, epsilon: float, known: Array, rng: np.random.Generator) -> None:
        oracle = ShiftedOracle(question.oracle, question.z_hat, epsilon)
        self._sampler = AlternativeSampler.usual()
        belief = _lifted(question.belief, Arms.of(oracle))
        self._question = Question(belief, oracle, oracle.z_hat, question.space, question.eta)
        self._cone = Cone(oracle, oracle.z_hat, question.space)
        self._cone.add(oracle.lifted(known))
        self._sampler.cone = self._cone
        if question.oracle.quick:
            self._cone.prepare(belief, 1.0, rng, Limits(max_rays=_RAYS))
        else:
            self._cone.search(belief, rng, rays=_FEW_RAYS)

    @property
    def oracle_calls(self) -> int:
        return self._cone.oracle_calls

    def survey(self, draws: int, rng: np.random.Generator, eta: float = 1.0) -> tuple[Array, AltProbability]:
        """Draws from E among so many proposals, (n, d), and P(E) as these say it: of the half-spaces known so far."""
        thetas, found = self._sampler.survey(self._question._replace(eta=eta), draws, rng)
        return np.ascontiguousarray(thetas[:, :-1]), found


def _lifted(belief: GaussianBelief, arms: Arms) -> GaussianBelief:
    """N(theta_hat, V^-1) with one more coordinate that is 1."""
    theta, spread = np.append(belief.theta_hat[0], 1.0), belief.spread[0]
    if belief.is_diagonal:
        lifted: GaussianBelief = DiagonalBelief(arms)
        lifted.become(Normal(theta, np.append(spread, 0.0)))
    else:
        lifted = DenseBelief(arms)
        lifted.become(Normal(theta, np.pad(spread, ((0, 1), (0, 1)))))
    return lifted
