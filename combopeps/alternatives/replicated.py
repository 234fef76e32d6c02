"""The cones of R replications, and their alternatives at once, whatever the sampler: what policies call."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.alternatives._kernels import BLOCK, dot, information, pick, push, refresh, sum_up
from combopeps.alternatives.answer_cache import Memory
from combopeps.alternatives.base import Alternatives, AlternativeSampler, Question, past_rounding
from combopeps.alternatives.budgeted_cone import SparingCone, cone_of
from combopeps.alternatives.cone import Cone
from combopeps.errors import NoAlternativeError, OracleError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Sparse
from combopeps.oracles.validation import Watch
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.posterior.parameter_space import ParameterSpace, RealSpace
from combopeps.random import Streams, uniform
from combopeps.utils.jit import log, njit

Ints = NDArray[Any]

_MOST = 256  # rivals that were not searched for, of which the less probable half is forgotten
_KEPT = 2  # cones of each run, however many run side by side: its answer, and the one it came from
_SHORT, _NUMBERS = 256, 1 << 14  # facets, and facets times d, up to which recomputing everything is cheapest
_REMEMBERED = 1 << 20  # nonzeros of lists, about 12 MB; beyond that everything is dropped and listed anew


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


class Cones:
    """The cones of the current answers of R replications; `memories`, one for each, where the oracle is not quick."""

    def __init__(
        self, oracle: ArgmaxOracle, space: ParameterSpace, replications: int, known: Array | None = None
    ) -> None:
        self.oracle, self.space = oracle, space
        self._cones: list[list[Cone]] = [[] for _ in range(replications)]
        self.memories = [] if oracle.quick else [Memory(oracle, known) for _ in range(replications)]

    def at(self, r: int, z_hat: Array) -> Cone:
        """The cone of this answer of replication r, with all that is known of it."""
        cones = self._cones[r]
        for place, cone in enumerate(cones):
            if (cone.z_hat == z_hat).all():
                if place:
                    cones.insert(0, cones.pop(place))
                return cone
        cones.insert(0, cone_of(self.oracle, z_hat, self.space, self.memories[r] if self.memories else None))
        del cones[_KEPT:]
        return cones[0]


class ListedCones:
    """Closed-form facets of one answer per replication, stored sparsely; renewed where the answer changes.

    Where some answers have fewer facets than others, what is missing to `count` has an infinite gap: nobody picks it.
    """

    def __init__(self, oracle: ArgmaxOracle, replications: int) -> None:
        count = oracle.facet_count
        if count is None:
            raise ParameterError(
                f"{oracle!r} does not list the alternatives of an answer, which this policy goes through one by one; "
                "use TopTwo or PEPS, which need argmax only"
            )
        self.oracle, self.count = oracle, count
        self._answers = np.full((replications, oracle.dim), np.nan)
        self._sizes = np.zeros(replications, dtype=np.int64)
        self._indptr = np.zeros((replications, count + 1), dtype=np.int64)
        self._indices = np.zeros((replications, 0), dtype=np.int32)
        self._data = np.zeros((replications, 0))
        self._lists: dict[bytes, Sparse] = {}  # simulations come back to the same few answers again and again
        self._remembered = 0

    @staticmethod
    def are_short(oracle: ArgmaxOracle, space: ParameterSpace) -> bool:
        """Is there a list, so short that nothing has to be kept up to date?"""
        count = oracle.facet_count
        if count is None or not isinstance(space, RealSpace):
            return False
        return 0 < count <= _SHORT and count * oracle.dim <= _NUMBERS

    def move_to(self, z_hat: Array) -> None:
        """Hold the facets of these answers, (R, d)."""
        if self.count == 0:
            raise NoAlternativeError("there is one answer only: nothing to find out")
        for r in np.flatnonzero((z_hat != self._answers).any(axis=1)):
            rows = self._listed(z_hat[r])
            missing = rows.nnz - self._data.shape[1]
            if missing > 0:
                self._indices = np.pad(self._indices, ((0, 0), (0, missing)))
                self._data = np.pad(self._data, ((0, 0), (0, missing)))
            self._sizes[r] = size = rows.shape[0]
            self._indptr[r, : size + 1] = rows.indptr
            self._indices[r, : rows.nnz], self._data[r, : rows.nnz] = rows.indices, rows.data
            self._answers[r] = z_hat[r]

    def weigh(self, theta: Array, covariance: Array) -> tuple[Array, Array]:
        """gap = -y @ theta and width = y' C y, (R, F), for C of shape (R, d, d), or (R, d) when it is diagonal.

        The nearest alternative lies on a facet, at the squared distance gap^2 / width in the norm of C^-1.
        """
        gap, width = np.empty((2, len(theta), self.count))
        rows = self._sizes, self._indptr, self._indices, self._data
        _weigh_rows(*rows, theta, covariance, gap, width)
        return gap, width

    def pick(self, facet: NDArray[np.intp]) -> Array:
        """One y per replication, (R, d)."""
        y = np.zeros_like(self._answers)
        _spread_out(self._indptr, self._indices, self._data, facet, y)
        return y

    def draw(
        self, belief: GaussianBelief, n: int, states: NDArray[np.uint64], eta: float
    ) -> tuple[Array, NDArray[np.int64], Array]:
        """Thetas behind the facets (R, n, d), proposals made (R,), and estimates of ln P(Alt) (R,)."""
        R, d = self._answers.shape
        thetas, proposals, log_p = np.empty((R, n, d)), np.zeros(R, dtype=np.int64), np.empty(R)
        rows = self._sizes, self._indptr, self._indices, self._data
        _draw_rows(states, *rows, belief.theta_hat, belief.spread, eta, thetas, proposals, log_p)
        return thetas, proposals, log_p

    def information(self, belief: GaussianBelief, out: Array) -> None:
        """`Facets.information` of every replication."""
        rows = self._sizes, self._indptr, self._indices, self._data
        _information_rows(*rows, belief.theta_hat, belief.spread, out)

    def _listed(self, z: Array) -> Sparse:
        key = z.tobytes()
        if key not in self._lists:
            rows = self.oracle.facets(z)
            assert rows is not None
            if rows.shape[0] > self.count:
                raise OracleError(
                    f"{type(self.oracle).__name__}: facet_count says that there are at most {self.count} facets, "
                    f"facets lists {rows.shape[0]}"
                )
            rows = rows.sorted_indices()  # rows without zeros are read in the order of components
            if self._remembered + rows.nnz > _REMEMBERED:
                self._lists.clear()
                self._remembered = 0
            self._lists[key] = rows
            self._remembered += rows.nnz
        return self._lists[key]


# Compiled loops over the facets of R replications, sizes[r] of them; arrays as in `_kernels`, with a leading axis.


@njit(cache=True, nogil=True)
def _weigh_rows(
    sizes: Ints, indptr: Ints, indices: Ints, data: Array, theta: Array, covariance: Array, gap: Array, width: Array
) -> None:
    """gap = -y @ theta and width = y' C y of the facets of R replications; C is (R, d), or (R, d, d) and symmetric.

    Where there is no facet they are infinity and 1.
    """
    d = theta.shape[1]
    for r in range(len(theta)):
        bounds, index, value, mean, spread = indptr[r], indices[r], data[r], theta[r], covariance[r]
        gap[r, sizes[r] :], width[r, sizes[r] :] = np.inf, 1.0
        for f in range(sizes[r]):
            g, v = 0.0, 0.0
            start, stop = bounds[f], bounds[f + 1]
            if covariance.ndim == 2:
                for p in range(start, stop):
                    g -= value[p] * mean[index[p]]
                    v += value[p] * value[p] * spread[index[p]]
            elif stop - start == d:  # no zeros, so that the indices are 0 .. d-1: half the time
                y = value[start:stop]
                for i in range(d):
                    g -= y[i] * mean[i]
                    along = 0.5 * spread[i, i] * y[i]
                    for j in range(i):
                        along += spread[i, j] * y[j]
                    v += 2.0 * y[i] * along
            else:
                for p in range(start, stop):
                    k = index[p]
                    g -= value[p] * mean[k]
                    along = 0.5 * spread[k, k] * value[p]
                    for q in range(start, p):
                        along += spread[k, index[q]] * value[q]
                    v += 2.0 * value[p] * along
            gap[r, f], width[r, f] = g, v


@njit(cache=True, nogil=True)
def _spread_out(indptr: Ints, indices: Ints, data: Array, facet: Ints, y: Array) -> None:
    """y[r] = row facet[r] of replication r; y comes as zeros."""
    for r in range(len(facet)):
        for p in range(indptr[r, facet[r]], indptr[r, facet[r] + 1]):
            y[r, indices[r, p]] = data[r, p]


@njit(cache=True, nogil=True)
def _draw_rows(
    states: Any, sizes: Ints, indptr: Ints, indices: Ints, data: Array, theta_hat: Array, spread: Array, eta: float,
    thetas: Array, proposals: Ints, log_p: Array,
) -> None:  # fmt: skip
    """`karp_luby` on R^d for R replications with few facets each, everything computed anew."""
    R, most = len(indptr), indptr.shape[1] - 1
    gap, width, log_w, weight, blocks = (
        np.empty(most), np.empty(most), np.empty(most), np.empty(most), np.empty(most // BLOCK + 1)
    )  # fmt: skip
    for r in range(R):
        bounds, index, value, mean, scale, state = indptr[r], indices[r], data[r], theta_hat[r], spread[r], states[r]
        F = sizes[r]
        refresh(0, F, bounds, index, value, mean, scale, eta, gap, width, log_w)
        top, shares = log_w[:F].max(), 0.0
        total = sum_up(0, F, log_w, top, weight, blocks)
        for k in range(thetas.shape[1]):
            theta, kept = thetas[r, k], False
            while not kept:
                f = pick(state, F, weight, blocks, total)
                push(state, f, bounds, index, value, mean, scale, eta, gap, width, theta)
                behind = 0
                for g in range(F):
                    behind += dot(g, bounds, index, value, theta) > 0.0
                share = 1.0 / max(1, behind)
                shares += share
                proposals[r] += 1
                kept = uniform(state) < share
        log_p[r] = top + log(total) + log(shares / proposals[r])


@njit(cache=True, nogil=True)
def _information_rows(
    sizes: Ints, indptr: Ints, indices: Ints, data: Array, theta_hat: Array, spread: Array, out: Array
) -> None:
    """`information` of R replications with few facets each, everything computed anew; out is (R, d) or (R, d, d)."""
    most = indptr.shape[1] - 1
    gap, width, log_w, weight, blocks = (
        np.empty(most), np.empty(most), np.empty(most), np.empty(most), np.empty(most // BLOCK + 1)
    )  # fmt: skip
    for r in range(len(theta_hat)):
        F = sizes[r]
        refresh(0, F, indptr[r], indices[r], data[r], theta_hat[r], spread[r], 1.0, gap, width, log_w)
        sum_up(0, F, log_w, log_w[:F].max(), weight, blocks)
        information((F, indptr[r], indices[r], data[r]), weight, width, out[r])
