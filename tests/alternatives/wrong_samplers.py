"""Samplers with one fault each, which every statistical test must detect."""

import numpy as np

from combopeps import AlternativeSampler
from combopeps.alternatives import Alternatives, HalfSpaceSampler, RejectionSampler, SamplingStats
from combopeps.alternatives.base import SamplingTask
from combopeps.alternatives.cone import ray_exits
from combopeps.posterior import RealSpace


class NearestBoundary(AlternativeSampler):
    """Random directions, but always the point just beyond the boundary."""

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, space, eta = question
        base, found = space.project(posterior.theta_hat[0]), []
        while len(found) < n:
            far = 8.0 * posterior.noise(rng.standard_normal((1, 64, posterior.dim)))[0] / np.sqrt(eta)
            rays = space.project(base + far) - base
            start = np.full(64, np.inf if isinstance(space, RealSpace) else 1.0)
            exits = ray_exits(oracle, z_hat, base, rays, start)
            if not exits.found.any():
                return RejectionSampler(cap=100)._sample(SamplingTask(posterior, oracle, z_hat, space, eta), n, rng)
            beyond = base + (exits.s * (1.0 + 1e-6))[exits.found, None] * rays[exits.found]
            found += list(beyond[~oracle.membership(z_hat, beyond)])
        thetas = np.array(found[:n])
        return Alternatives(thetas, oracle.argmax(thetas), SamplingStats(n, n))


class AThirdMissing(HalfSpaceSampler):
    """Uses two facets of three, the most probable one not among them."""

    def __init__(self):
        super().__init__(closed_form=False, missing=0.002)
        self._cut = None

    def prepare(self, question, rng):
        cone = super().prepare(question, rng)
        if self._cut is not cone and cone.size > 2:
            order = np.argsort(-cone.log_w[: cone.size])
            cone.keep(np.sort(np.delete(order, np.arange(0, len(order), 3))))
            cone.sync(question.posterior, question.eta)
            self._cut = cone
        return cone


class IgnoresTheBox(AlternativeSampler):
    """Exact on R^d, but ignores Theta."""

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, _space, eta = question
        return RejectionSampler()._sample(SamplingTask(posterior, oracle, z_hat, RealSpace(), eta), n, rng)


class TooWide(AlternativeSampler):
    """Has a variance larger than that of the posterior by a fifth."""

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, space, eta = question
        return RejectionSampler()._sample(SamplingTask(posterior, oracle, z_hat, space, eta / 1.2), n, rng)


class NotAlternatives(AlternativeSampler):
    """Draws under which the current answer is best."""

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, space, eta = question
        found = []
        while len(found) < n:
            thetas = posterior.theta_hat[0] + posterior.noise(rng.standard_normal((1, 64, posterior.dim)))[0] / np.sqrt(
                eta
            )
            found += list(thetas[oracle.membership(z_hat, thetas) & space.contains(thetas)])
        thetas = np.array(found[:n])
        return Alternatives(thetas, oracle.argmax(thetas), SamplingStats(n, n))


class OneAnswerTooRare(AlternativeSampler):
    """Exact draws, but every other one with the most frequent answer is dropped."""

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, space, eta = question
        pool = RejectionSampler()._sample(SamplingTask(posterior, oracle, z_hat, space, eta), 2 * n, rng)
        _, which, counts = np.unique(pool.answers, axis=0, return_inverse=True, return_counts=True)
        common = which.ravel() == counts.argmax()
        kept = np.flatnonzero(~common | (rng.random(2 * n) < 0.5))[:n]
        return Alternatives(pool.thetas[kept], pool.answers[kept], SamplingStats(2 * n, 2 * n))


class StaleAnswers(AlternativeSampler):
    """Right thetas, but each answer belongs to the theta before."""

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, space, eta = question
        found = RejectionSampler()._sample(SamplingTask(posterior, oracle, z_hat, space, eta), n + 1, rng)
        return Alternatives(found.thetas[1:], found.answers[:-1], found.account)


class OwnGenerator(AlternativeSampler):
    """Ignores the given generator."""

    hidden = np.random.default_rng(123)

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, space, eta = question
        return RejectionSampler()._sample(SamplingTask(posterior, oracle, z_hat, space, eta), n, self.hidden)


class WrongShape(AlternativeSampler):
    """Always returns one theta."""

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, space, eta = question
        return RejectionSampler()._sample(SamplingTask(posterior, oracle, z_hat, space, eta), 1, rng)


class ImpossibleAccount(AlternativeSampler):
    """Reports 0 draws."""

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, space, eta = question
        found = RejectionSampler()._sample(SamplingTask(posterior, oracle, z_hat, space, eta), n, rng)
        return Alternatives(found.thetas, found.answers, SamplingStats(0, -1))


class AnythingGoes(AlternativeSampler):
    """Returns plain draws when no alternative exists."""

    def _sample(self, question, n, rng):
        posterior, oracle, z_hat, space, eta = question
        if oracle.facet_count == 0:
            return Alternatives(np.zeros((n, posterior.dim)), np.repeat(z_hat[None], n, axis=0), SamplingStats(n, n))
        return RejectionSampler()._sample(SamplingTask(posterior, oracle, z_hat, space, eta), n, rng)
