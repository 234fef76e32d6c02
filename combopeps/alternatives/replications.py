"""Cones and samplers of R replications: what policies call.

`Cones` holds the cone of each run; `ListedCones` the facets of all runs as arrays with a leading replication axis,
where the oracle lists few of them; `ReplicatedSampler` draws alternatives by either.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives import _kernels as kernels
from combopeps.alternatives._kernels import BLOCK, compute_weights, sum_weights
from combopeps.alternatives.answer_cache import AnswerCache
from combopeps.alternatives.base import Alternatives, AlternativeSampler, SamplingTask, move_off_boundary
from combopeps.alternatives.budgeted_cone import BudgetedCone, cone_of
from combopeps.alternatives.cone import Cone
from combopeps.alternatives.facets import information
from combopeps.errors import NoAlternativeError, OracleError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse
from combopeps.oracles.runtime_checks import ConsistencyCheck
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace
from combopeps.random import Streams
from combopeps.utils.jit import njit

_CONES_PER_RUN = 2  # those of the current and of the last answer
_MAX_SHORT_FACETS, _MAX_SHORT_ENTRIES = 256, 1 << 14  # facets, and facets times d, up to which a list counts as short
_MAX_CACHED_ENTRIES = 1 << 20  # nonzeros of cached lists, about 12 MB; beyond, all of them are dropped
_MAX_UNSEARCHED_FACETS = 256  # facets from alternatives alone; beyond, the half of less weight is removed


@njit  # in this file: it is called once per round
def _information_batch(sizes: Any, indptr: Any, indices: Any, data: Any, theta_hat: Any, spread: Any, out: Any) -> None:
    """Compute `information` of R replications with few facets each; out is (R, d) or (R, d, d)."""
    capacity = indptr.shape[1] - 1
    gap, width, log_w, weight, blocks = (
        np.empty(capacity), np.empty(capacity), np.empty(capacity), np.empty(capacity), np.empty(capacity // BLOCK + 1)
    )  # fmt: skip
    for r in range(len(theta_hat)):
        F = sizes[r]
        compute_weights(0, F, indptr[r], indices[r], data[r], theta_hat[r], spread[r], 1.0, gap, width, log_w)
        sum_weights(0, F, log_w, log_w[:F].max(), weight, blocks)
        information((F, indptr[r], indices[r], data[r]), weight, width, out[r])


class Cones:
    """The cones of the current answers of R replications.

    Attributes
    ----------
    memories
        The answer cache of each replication, if the oracle is not quick; else empty.
    """

    def __init__(
        self, oracle: ArgmaxOracle, space: ParameterSpace, replications: int, known: Array | None = None
    ) -> None:
        self.oracle, self.space = oracle, space
        self._cones: list[list[Cone]] = [[] for _ in range(replications)]
        self.caches = [] if oracle.quick else [AnswerCache(oracle, known) for _ in range(replications)]

    def at(self, r: int, z_hat: Array) -> Cone:
        """Return the cone of this answer of replication r; the last few are kept."""
        cones = self._cones[r]
        for position, cone in enumerate(cones):
            if (cone.z_hat == z_hat).all():
                if position:
                    cones.insert(0, cones.pop(position))
                return cone
        cones.insert(0, cone_of(self.oracle, z_hat, self.space, self.caches[r] if self.caches else None))
        del cones[_CONES_PER_RUN:]
        return cones[0]


class ListedCones:
    """Closed-form facets of one answer per replication, stored sparsely; updated when the answer changes.

    Where an answer has fewer than `count` facets, the remaining ones have an infinite gap.
    """

    def __init__(self, oracle: ArgmaxOracle, replications: int) -> None:
        count = oracle.facet_count
        if count is None:
            raise ParameterError(
                f"{oracle!r} does not list the facets of an answer, which this policy needs; "
                "use TopTwo or PEPS, which need argmax only"
            )
        self.oracle, self.count = oracle, count
        self._answers = np.full((replications, oracle.dim), np.nan)
        self._sizes = np.zeros(replications, dtype=np.int64)
        self._indptr = np.zeros((replications, count + 1), dtype=np.int64)
        self._indices = np.zeros((replications, 0), dtype=np.int32)
        self._data = np.zeros((replications, 0))
        self._lists: dict[bytes, Sparse] = {}  # simulations return to the same few answers
        self._cached_entries = 0

    @staticmethod
    def are_short(oracle: ArgmaxOracle, space: ParameterSpace) -> bool:
        """Return whether the oracle lists facets, and so few that computing everything from scratch is cheapest."""
        count = oracle.facet_count
        if count is None or not isinstance(space, RealSpace):
            return False
        return 0 < count <= _MAX_SHORT_FACETS and count * oracle.dim <= _MAX_SHORT_ENTRIES

    def set_answers(self, z_hat: Array) -> None:
        """Set the answers, (R, d)."""
        if self.count == 0:
            raise NoAlternativeError("Z has one answer only: there is nothing to identify")
        for r in np.flatnonzero((z_hat != self._answers).any(axis=1)):
            rows = self._listed(z_hat[r])
            extra = rows.nnz - self._data.shape[1]
            if extra > 0:
                self._indices = np.pad(self._indices, ((0, 0), (0, extra)))
                self._data = np.pad(self._data, ((0, 0), (0, extra)))
            self._sizes[r] = size = rows.shape[0]
            self._indptr[r, : size + 1] = rows.indptr
            self._indices[r, : rows.nnz], self._data[r, : rows.nnz] = rows.indices, rows.data
            self._answers[r] = z_hat[r]

    def weigh(self, theta: Array, covariance: Array) -> tuple[Array, Array]:
        """Return gap = -y @ theta and width = y' C y, (R, F), for C of shape (R, d, d), or (R, d) if it is diagonal.

        The nearest alternative lies on a facet, at the squared distance gap^2 / width in the norm of C^-1.
        """
        gap, width = np.empty((2, len(theta), self.count))
        rows = self._sizes, self._indptr, self._indices, self._data
        kernels.gaps_and_widths_batch(*rows, theta, covariance, gap, width)
        return gap, width

    def pick(self, facet: NDArray[np.intp]) -> Array:
        """Return the row y of one facet per replication, (R, d)."""
        y = np.zeros_like(self._answers)
        kernels.gather_rows_batch(self._indptr, self._indices, self._data, facet, y)
        return y

    def draw(
        self, posterior: GaussianPosterior, n: int, states: NDArray[np.uint64], eta: float
    ) -> tuple[Array, NDArray[np.int64], Array]:
        """Return thetas in the half-spaces (R, n, d), proposals made (R,), and estimates of ln P(Alt) (R,)."""
        R, d = self._answers.shape
        thetas, proposals, log_p = np.empty((R, n, d)), np.zeros(R, dtype=np.int64), np.empty(R)
        rows = self._sizes, self._indptr, self._indices, self._data
        kernels.karp_luby_batch(states, *rows, posterior.theta_hat, posterior.spread, eta, thetas, proposals, log_p)
        return thetas, proposals, log_p

    def information(self, posterior: GaussianPosterior, out: Array) -> None:
        """Compute `Facets.information` of every replication into `out`."""
        rows = self._sizes, self._indptr, self._indices, self._data
        _information_batch(*rows, posterior.theta_hat, posterior.spread, out)

    def _listed(self, z: Array) -> Sparse:
        key = z.tobytes()
        if key not in self._lists:
            rows = self.oracle.facets(z)
            assert rows is not None
            if rows.shape[0] > self.count:
                raise OracleError(
                    f"{type(self.oracle).__name__}: facet_count is {self.count}, but facets lists {rows.shape[0]}"
                )
            rows = rows.sorted_indices()  # rows without zeros are read in the order of components
            if self._cached_entries + rows.nnz > _MAX_CACHED_ENTRIES:
                self._lists.clear()
                self._cached_entries = 0
            self._lists[key] = rows
            self._cached_entries += rows.nnz
        return self._lists[key]


class ReplicatedSampler:
    """One sampler and one cone per replication, or one compiled call for all where the oracle lists few facets.

    Attributes
    ----------
    draws, oracle_calls
        Of the last call, summed over replications.
    log_probability
        Estimates of ln P(Alt) by the last draws, (R,).
    """

    def __init__(
        self,
        oracle: ArgmaxOracle,
        space: ParameterSpace,
        streams: Streams,
        sampler: AlternativeSampler | None,
        watch: ConsistencyCheck,
    ) -> None:
        self.oracle, self.space, self.streams, self._watch = oracle, space, streams, watch
        self._lists = sampler is None and ListedCones.are_short(oracle, space)
        self._prototype = AlternativeSampler.make_default() if sampler is None else sampler.fresh()
        self.forget()
        if sampler is not None:
            self._samplers[0] = sampler
        self.draws = self.oracle_calls = 0  # of the last call, summed over replications
        self.log_probability = np.full(len(streams), np.nan)  # estimates of ln P(Alt) made on the way

    def forget(self) -> None:
        """Drop all cones: the next draws depend on the posterior and the random streams alone."""
        R = len(self.streams)
        self.cones = Cones(self.oracle, self.space, R, self._watch.known)
        self._listed = ListedCones(self.oracle, R) if self._lists else None
        self._has_many_facets = [False] * R  # the oracle does not list few facets of this run's answers
        self._samplers = [copy.deepcopy(self._prototype) for _ in range(R)]

    def at(self, z_hat: Array, r: int = 0) -> AlternativeSampler:
        """Return the sampler of one replication, with its cone of this answer."""
        sampler = self._samplers[r]
        sampler.cone = self.cones.at(r, z_hat)
        return sampler

    def sample(
        self, posterior: GaussianPosterior, z_hat: Array, n: int, eta: float = 1.0, *, answers: bool = False
    ) -> tuple[Array, Array]:
        """Return alternatives of z_hat (R, d), (R, n, d); with `answers` their best answers too, (R, n, d)."""
        self._count_choices(z_hat)
        if self._listed is not None:
            self._listed.set_answers(z_hat)
            thetas, proposals, self.log_probability = self._listed.draw(posterior, n, self.streams.states, eta)
            self.draws, self.oracle_calls = int(proposals.sum()), thetas.shape[0] * n * answers
            return thetas, self._best_answers(posterior, z_hat, thetas) if answers else thetas[:, :0]
        thetas, best = np.empty((2, len(z_hat), n, self.oracle.dim))
        self.draws = self.oracle_calls = 0
        for r in range(len(z_hat)):
            found = self._sample(posterior.row(r), self.cones.at(r, z_hat[r]), r, n, eta)
            thetas[r], best[r] = found.thetas, found.answers
        return thetas, best

    def _count_choices(self, z_hat: Array) -> None:
        """Count the rows that choose, where they are counted."""
        for memory, answer in zip(self.cones.caches, z_hat, strict=False):
            memory.choose_by(answer)

    def _sample(self, posterior: GaussianPosterior, cone: Cone, r: int, n: int, eta: float) -> Alternatives:
        """Draw for one replication."""
        sampler, calls_before = self._samplers[r], cone.memory.chosen if isinstance(cone, BudgetedCone) else 0
        sampler.cone = cone
        question = SamplingTask(posterior, self.oracle, cone.z_hat, self.space, eta)
        found = sampler._sample(question, n, self.streams.generator(r))
        if (
            isinstance(cone, BudgetedCone) and cone.memory.chosen == calls_before
        ):  # a sampler that calls the oracle itself
            cone.memory.chosen += found.account.oracle_calls
            cone.memory.note(found.answers)
        self.draws += found.account.draws
        self.oracle_calls += found.account.oracle_calls
        self.log_probability[r] = found.account.log_probability
        self._watch.see(found.thetas, found.answers)
        return found

    def information(self, posterior: GaussianPosterior, z_hat: Array, *, challenge: bool = True) -> Array:
        """Return sum_f Phi(-b_f) y_f y_f' / |y_f|^2_{V^-1} over the known facets of z_hat, up to a factor: (R, d, d).

        Its diagonal, (R, d), for a diagonal posterior. All facets are known where the oracle lists them and they are
        few. Elsewhere they are those found so far, and one towards the best answer under an alternative drawn in this
        call, so that every answer that may be best enters sooner or later. With `challenge=False` none is drawn once a
        search has been made.
        """
        found = np.empty(posterior.theta_hat.shape if posterior.is_diagonal else posterior.spread.shape)
        self.draws = self.oracle_calls = 0
        self._count_choices(z_hat)
        if self._listed is not None:
            self._listed.set_answers(z_hat)
            self._listed.information(posterior, found)
            return found
        for r in range(len(z_hat)):
            cone, row = self.cones.at(r, z_hat[r]), posterior.row(r)
            known = cone.complete or (cone.explored and not challenge)
            if not known and (self._has_many_facets[r] or not cone.list_if_few()):
                self._has_many_facets[r] = True  # most likely of later answers too
                answer = self._sample(row, cone, r, 1, 1.0).answers
                if not cone.complete:  # the sampler may have listed the facets
                    cone.add(answer)
            if cone.explored:
                cone.sync(row, 1.0)
            else:
                cone.recompute(row, 1.0)
                if cone.size > _MAX_UNSEARCHED_FACETS:
                    cone.keep(np.argsort(-cone.log_w[: cone.size])[: _MAX_UNSEARCHED_FACETS // 2])
                    cone.recompute(row, 1.0)
            cone.information(self.streams.generator(r).random(), found[r])
        return found

    def answers(self, thetas: Array) -> Array:
        """Return the best answers under one theta per replication, (R, d); cached for slow oracles."""
        memories = self.cones.caches
        return memories[0].answer(thetas[0])[None] if len(memories) == 1 else self.oracle.argmax_unchecked(thetas)

    def aside(self, z_hat: Array) -> AlternativeSampler:
        """Return a sampler that shares the answers seen by the run, but does not change it.

        Its cone is new every time: its draws depend on the posterior and on random numbers alone.
        """
        sampler = copy.deepcopy(self._prototype)
        memory = self.cones.caches[0].copy() if self.cones.caches else None
        sampler.cone = cone_of(self.oracle, z_hat, self.space, memory)
        return sampler

    def _best_answers(self, posterior: GaussianPosterior, z_hat: Array, thetas: Array) -> Array:
        """Return the best answers under alternatives (R, n, d), which are moved off the boundary if necessary."""
        flat = thetas.reshape(-1, self.oracle.dim)
        found = self.oracle.argmax_unchecked(flat)
        self._watch.see(flat, found)
        best = found.reshape(thetas.shape)
        for r in np.flatnonzero((best == z_hat[:, None]).all(axis=2).any(axis=1)):
            move_off_boundary(self.oracle, z_hat[r], posterior.theta_hat[r], self.space, thetas[r], best[r])
        return best
