"""`ArgmaxOracle`: the one door to Z.

    z(theta) = argmax_{z in Z} z @ theta

Z is never listed. Everything else in the package asks questions of this form, one theta or a batch at a time.

Batches of an expensive oracle, solved side by side.

Every row is a question of its own, wherever it is solved: answers do not depend on the number of workers, nor on the
rows beside them. How long the first rows take only decides who solves the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from math import expm1, inf, log
from pickle import PicklingError
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, OracleError
from combopeps.oracles.input_checks import as_labels, as_thetas, as_vector

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]
Sparse: TypeAlias = "csr_array"  # a string: annotations need not import scipy
Domain = Literal["real", "nonnegative"]


class LogCardinality(float):
    """ln |Z|, a float that knows whether it is exact (`.exact`) or only an upper bound."""

    exact: bool

    def __new__(cls, value: float, exact: bool) -> LogCardinality:
        self = super().__new__(cls, value)
        self.exact = exact
        return self

    def __reduce__(self) -> tuple[type[LogCardinality], tuple[float, bool]]:
        return LogCardinality, (float(self), self.exact)

    def __repr__(self) -> str:
        return f"{float(self):.6g} ({'exact' if self.exact else 'upper bound'})"


class Confusions(NamedTuple):
    """A union bound over the ways to mistake some z_hat for a fixed best answer z*.

        sum over mistakes of exp(-sum_{a in z_hat, not in z*} charge_a) <= exp(log_count)

    Attributes
    ----------
    log_count
        Logarithm of the (weighted) number of mistakes.
    charge
        What a mistake pays for each wrong component, (d,).
    """

    log_count: float
    charge: Array

    @classmethod
    def of_all_others(cls, size: float, dim: int) -> Confusions:
        """Every answer but z* counts alike; `size` is ln |Z|."""
        return cls(size + log(-expm1(-size)) if size > 1e-9 else -inf, np.zeros(dim))


class ArgmaxOracle(ABC):
    """A set Z of vectors, reached through `argmax` only.

    Subclasses write `_argmax_batch`; shapes, types and finiteness of theta are dealt with here. The set is
    always maximised: minimisation is a sign in z (`unit = -1`), so that `z @ theta` is minus the cost.

    Parameters
    ----------
    components
        A hashable label for every coordinate, all different.
    """

    domain: Domain = "real"
    """Where the argmax is valid: all of R^d, or the non-negative orthant."""
    unit: float = 1.0
    """What a chosen component contributes to z: 1, or -1 when the sum of theta is minimised."""
    binary: bool = False
    """A promise that all entries of answers are 0 or `unit`: certificates then need few oracle calls."""
    antichain: bool = False
    """A promise, with `binary`, that no answer contains another one's components: certificates then need fewer."""
    exchanges: bool = False
    """A promise, with `antichain`, about the rows that `facets` and `facets_up_to` list at an answer: if another answer
    is better by some amount, some row is better by that amount divided by the number of components of the answer."""
    resolution: float = 1e-12
    """How much an answer may be worth less than the best, relative to the sum of |theta|."""
    quick: bool = False
    """A promise that an argmax takes microseconds: looks and searches then ask hundreds at a time; otherwise they count
    what they ask, and use answers that were seen before."""
    pruned: Sequence[Hashable] = ()
    """Labels that people may know, of what is no component because no answer has it."""
    expensive: bool = False
    """One argmax costs milliseconds or more: batches are solved side by side."""
    parallel_backend: Literal["processes", "threads"] = "processes"
    """Where an expensive oracle solves the rows of a batch: in processes, or in threads, if `_argmax_batch` may run in
    several at once and its solver lets go of the interpreter's lock."""

    def __init__(self, components: Iterable[Hashable]) -> None:
        self._components = as_labels(components, "components")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.dim})"

    @property
    def dim(self) -> int:
        """d, the length of theta and of every answer."""
        return len(self._components)

    @property
    def components(self) -> tuple[Hashable, ...]:
        """The label of every coordinate."""
        return self._components

    def argmax(self, theta: ArrayLike) -> Array:
        """Best answer: `(d,) -> (d,)`, or `(B, d) -> (B, d)` with one answer per row."""
        thetas = as_thetas(theta, len(self._components), self.domain)
        if thetas.ndim == 2:
            return self._answers(thetas)
        best: Array = self._answers(thetas[None])[0]
        return best

    def argmax_unchecked(self, thetas: Array) -> Array:
        """`argmax` for callers who made, or checked, their thetas: (B, d), contiguous, finite and in the domain."""
        if type(self).argmax is not ArgmaxOracle.argmax:
            return self.argmax(thetas)
        given = thetas.view()
        given.flags.writeable = False
        return self._answers(given)

    def _answers(self, thetas: Array) -> Array:
        """`_argmax_batch`, side by side where that is expensive."""
        if not self.expensive or len(thetas) < 2:
            answers = self._argmax_batch(thetas)
            if type(answers) is not np.ndarray:
                refuse_masked(self, thetas, answers)
            return answers
        pass

        return row_by_row(self, thetas)

    @abstractmethod
    def _argmax_batch(self, thetas: Array) -> Array:
        """One maximiser of z @ theta per row of `thetas` (B, d): finite float64, C-contiguous, read-only."""

    def membership(self, z: ArrayLike, theta: ArrayLike) -> NDArray[np.bool_]:
        """Is z, a member of Z, still a best answer? `(d,) -> ()`, `(B, d) -> (B,)`; a tie counts as yes."""
        thetas = as_thetas(theta, self.dim, self.domain)
        still = self._membership_batch(as_vector(z, self.dim), thetas.reshape(-1, self.dim))
        return still if thetas.ndim == 2 else still[0]

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        """Override where a test is cheaper than an argmax."""
        return ~strictly_better(self._answers(thetas), z, thetas)

    def decode(self, z: ArrayLike) -> Any:
        """The answer as a person reads it; here the set of chosen components."""
        return {self._components[i] for i in self._chosen(as_vector(z, self.dim))}

    def _chosen(self, vector: Array) -> list[int]:
        """The components of an answer with entries 0 and `unit`; `AnswerError` if it has others."""
        chosen = np.flatnonzero(vector)
        if np.any(vector[chosen] != self.unit):
            raise AnswerError(
                f"an answer of {type(self).__name__} has entries 0 and {self.unit:g} only, "
                f"got {np.unique(vector[chosen])[:5]}; override decode and encode for other answers"
            )
        return chosen.tolist()

    def encode(self, answer: Any) -> Array:
        """The vector z of a decoded answer."""
        if isinstance(answer, str) or not isinstance(answer, Iterable):
            raise AnswerError(f"an answer of {type(self).__name__} is a collection of components, got {answer!r}")
        chosen = [self.index(label) for label in answer]
        if len(set(chosen)) != len(chosen):
            raise AnswerError(f"an answer holds no component twice, got {answer!r}")
        z = np.zeros(self.dim)
        z[chosen] = self.unit
        return z

    def decode_in_order(self, z: ArrayLike) -> tuple[Any, list[int]]:
        """The answer as `decode` has it, and the numbers of its components in the order in which people meet them."""
        return self.decode(z), np.flatnonzero(as_vector(z, self.dim)).tolist()

    def index(self, label: Hashable) -> int:
        """The coordinate of a component label."""
        try:
            return self._index[label]
        except (KeyError, TypeError):
            raise AnswerError(f"{label!r} is not a component of this {type(self).__name__}") from None

    @cached_property
    def _index(self) -> dict[Hashable, int]:
        index = {label: i for i, label in enumerate(self._components)}
        if type(self).aliases is not ArgmaxOracle.aliases:
            for i, label in enumerate(self._components):
                for alias in self.aliases(label):
                    index.setdefault(alias, i)
        return index

    def why_pruned(self, label: Hashable) -> str:
        """Why there is no such component, as the beginning of a sentence."""
        return f"{label!r} is in no answer"

    def aliases(self, label: Hashable) -> tuple[Hashable, ...]:
        """Other names of what is called this, such as an edge without direction the other way round."""
        return ()

    def facets(self, z: ArrayLike) -> Sparse | None:
        """Differences y = z' - z whose half-spaces {y @ theta > 0} together are exactly the alternatives of z.

        None when no complete list is known in closed form. Redundant rows are allowed.
        """
        return None

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """All of `facets(z)` where they turn out to be at most `most`; None where they are more, or not known.

        For sets whose neighbours can be walked through one by one. The rows must be complete on the oracle's domain,
        and the time must not grow with the number of those that are not listed.
        """
        count = self.facet_count
        return self.facets(z) if count is not None and count <= most else None

    @property
    def facet_count(self) -> int | None:
        """An upper bound of the rows that `facets` has, whatever z; None when it is None. 0 means that |Z| = 1."""
        return None

    @property
    def log_cardinality(self) -> LogCardinality | None:
        """ln |Z|, exact or an upper bound (it says which); None when nothing is known."""
        return None

    def confusions(self, *, whole: bool = False) -> Confusions | None:
        """How many ways there are to be wrong; None when nothing is known about |Z|.

        Two answers differ in one or more blocks that can be exchanged one by one (a swap, a detour, an alternating
        cycle), and a wrong answer is wrong in every one of them: by default mistakes are single blocks. With `whole`
        they are all other answers.
        """
        size = self.log_cardinality
        return None if size is None else Confusions.of_all_others(size, self.dim)

    def through(self, thetas: Array) -> Array | None:
        """How good an answer with each component can be: upper bounds of max {z @ theta : z_a != 0}, (B, d) -> (B, d).

        None where that takes an argmax for every component. It is what rules components out on sets that take
        theta >= 0 only, where an answer cannot be forced to have one.
        """
        return None

    def equalities(self) -> Sparse | None:
        """Differences r for which r @ z is the same for all answers; None when none are known."""
        return None


def strictly_better(challengers: Array, z: Array, thetas: Array) -> NDArray[np.bool_]:
    """Row by row: does the challenger beat z by more than rounding can explain? Values, not identities."""
    parts = (challengers - z) * thetas
    better: NDArray[np.bool_] = parts.sum(axis=1) > 1e-13 * np.abs(parts).sum(axis=1)
    return better


def has_equal_value(z: Array, best: Array, theta: Array) -> bool:
    """z @ theta = best @ theta up to rounding: each of several best answers is right."""
    return not strictly_better(best[None], z[None], theta[None])[0]


def as_sparse(rows: Any) -> Sparse:
    """Full or sparse rows, in the form that compiled loops take."""
    from scipy.sparse import csr_array

    return csr_array(rows).astype(np.float64, copy=False)


def refuse_masked(oracle: ArgmaxOracle, thetas: Array, answers: Any) -> None:
    """Refuse a masked array, whose entries need not have a value."""
    if isinstance(answers, np.ma.MaskedArray):
        raise OracleError(
            f"{type(oracle).__name__} returned a masked array; return a plain array: z.filled(0.0)", thetas.copy()
        )


_FIRST = 2  # rows after which the time of the others is guessed
_WORTH = {
    "threads": 0.02,
    "processes": 2.0,
}  # seconds of work for which workers are called; processes take one to start
_BLOCKS = 4  # for each worker: some rows take far longer than others


def row_by_row(oracle: ArgmaxOracle, thetas: Array) -> Array:
    """The answers to all rows, (B, d), by joblib's workers where there is enough left for them to do."""
    start, answers = perf_counter(), list[Array]()
    for row in range(len(thetas)):
        if row == _FIRST:
            seconds = (perf_counter() - start) / _FIRST * (len(thetas) - row)
            others = None if seconds < _WORTH[oracle.parallel_backend] else _by_workers(oracle, thetas[row:])
            if others is not None:
                return np.concatenate([*answers, *others])
        answers.append(oracle._argmax_batch(thetas[row : row + 1]))
    return np.concatenate(answers)


def _by_workers(oracle: ArgmaxOracle, thetas: Array) -> list[Array] | None:
    """None where there is one worker only, inside a worker, and where processes cannot be sent the oracle."""
    from joblib import Parallel, delayed, effective_n_jobs
    from joblib.parallel import get_active_backend

    workers = min(effective_n_jobs(-1), len(thetas))
    if workers < 2 or get_active_backend()[0].nesting_level:
        return None
    blocks = np.array_split(thetas, min(_BLOCKS * workers, len(thetas)))
    try:
        done = Parallel(workers, prefer=oracle.parallel_backend)(delayed(_each)(oracle, block) for block in blocks)
    except PicklingError:
        return None
    return list(done)


def _each(oracle: ArgmaxOracle, thetas: Array) -> Array:
    return np.concatenate([oracle._argmax_batch(thetas[row : row + 1]) for row in range(len(thetas))])
