"""Base class of linear-maximisation oracles, and parallel evaluation of expensive ones.

    z(theta) = argmax_{z in Z} z @ theta

Z is never enumerated. The rest of the package reaches it through `ArgmaxOracle.argmax` only, for one theta or a batch.

The rows of a batch of an expensive oracle are solved in parallel. Each row is an independent call of `_argmax_batch`:
answers depend neither on the number of workers nor on the other rows of the batch, and the measured time of the first
rows decides only whether workers are used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from math import expm1, inf, log
from pickle import PicklingError
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, OracleError
from combopeps.oracles.input_checks import as_labels, as_thetas, as_vector
from combopeps.utils.formatting import ShortRepr, brief_tuple, html_of_tuple

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[np.float64]
Sparse: TypeAlias = "csr_array"  # a string: annotations need not import scipy
Domain = Literal["real", "nonnegative"]

_ROUNDING = 1e-13  # rounding error of a difference of values, relative to the sum of |terms|
_TIMED_ROWS = 2  # rows after which the time of the remaining ones is estimated
_MIN_PARALLEL_SECONDS = {"threads": 0.02, "processes": 2.0}  # less work does not pay for starting workers
_BLOCKS_PER_WORKER = 4  # for load balancing: some rows take far longer than others


class LogCardinality(ShortRepr, float):
    """ln |Z|, a float with an attribute `exact`: True if it is exact, False if it is an upper bound."""

    exact: bool

    def __new__(cls, value: float, exact: bool) -> LogCardinality:
        self = super().__new__(cls, value)
        self.exact = exact
        return self

    def __reduce__(self) -> tuple[type[LogCardinality], tuple[float, bool]]:
        return LogCardinality, (float(self), self.exact)

    def __repr__(self) -> str:
        return f"{float(self):.6g} ({'exact' if self.exact else 'upper bound'})"

    def _summary(self) -> Mapping[str, Any]:
        return {"value": float(self), "exact": self.exact}


class Confusions(NamedTuple):
    """Weighted count of the ways to mistake some z_hat for a fixed best answer z*, for a union bound.

        sum over mistakes of exp(-sum_{a in z_hat, not in z*} charge_a) <= exp(log_count)

    Attributes
    ----------
    log_count
        Logarithm of the weighted number of mistakes.
    charge
        Minus the log weight of each wrong component, (d,): a mistake has weight exp(-sum of its charges).
    """

    log_count: float
    charge: Array

    def __repr__(self) -> str:
        return brief_tuple(self)

    def _repr_html_(self) -> str:
        return html_of_tuple(self)

    @classmethod
    def of_all_others(cls, size: float, dim: int) -> Confusions:
        """Count every answer except z* with weight 1; `size` is ln |Z|."""
        return cls(size + log(-expm1(-size)) if size > 1e-9 else -inf, np.zeros(dim))


class Block(NamedTuple):
    """A part of an answer that can be exchanged independently: an answer of another oracle, times a weight.

    Attributes
    ----------
    oracle, z
        The oracle of the part, and its answer.
    columns
        Coordinates of the components of that oracle.
    weight
        Factor of its entries.
    """

    oracle: ArgmaxOracle
    columns: NDArray[np.intp] | slice
    z: Array
    weight: float = 1.0

    def embedded(self, answers: Array, dim: int) -> Array:
        """Return answers of the oracle in all coordinates, (..., d') -> (..., d)."""
        vectors = np.zeros((*answers.shape[:-1], dim))
        vectors[..., self.columns] = self.weight * answers
        return vectors


class ArgmaxOracle(ShortRepr, ABC):
    """Linear-maximisation oracle of a finite set Z of vectors.

        argmax(theta) = argmax_{z in Z} z @ theta

    Subclasses implement `_argmax_batch`; this class checks the shape, type and finiteness of theta. Objectives are
    always maximised: to minimise a cost, answers have entries `unit = -1`, so that `z @ theta` is minus the cost.

    Parameters
    ----------
    components
        Hashable, distinct labels of the coordinates.
    """

    domain: Domain = "real"
    """Where the argmax is valid: on R^d ("real"), or for theta >= 0 only ("nonnegative")."""
    unit: float = 1.0
    """Entry of z at a chosen component: 1, or -1 when the sum of theta is minimised."""
    binary: bool = False
    """Promise that all entries of answers are 0 or `unit`; certificates then need few oracle calls."""
    antichain: bool = False
    """Promise, with `binary`, that no answer contains all components of another; certificates then need fewer calls."""
    exchanges: bool = False
    """Promise, with `antichain`, about the rows that `facets` and `facets_up_to` return at an answer z: if another
    answer is better than z by some amount, some row is better by that amount divided by the number of components of
    z."""
    resolution: float = 1e-12
    """Tolerance of the argmax: by how much an answer may be worse than the best, relative to the sum of |theta|."""
    quick: bool = False
    """Promise that an argmax takes microseconds. Callers then pass hundreds of thetas at a time; otherwise they limit
    the number of calls and reuse earlier answers."""
    pruned: Sequence[Hashable] = ()
    """Labels of items that are in no answer and are therefore no components."""
    expensive: bool = False
    """Whether one argmax takes milliseconds or more; the rows of a batch are then solved in parallel."""
    parallel_backend: Literal["processes", "threads"] = "processes"
    """Workers that solve the rows of a batch of an expensive oracle: processes, or threads if `_argmax_batch` is
    thread-safe and its solver releases the global interpreter lock."""

    def __init__(self, components: Iterable[Hashable]) -> None:
        self._components = as_labels(components, "components")

    def _summary(self) -> Mapping[str, Any]:
        return {"components": len(self._components)}

    @property
    def dim(self) -> int:
        """Number of components d: the length of theta and of every answer."""
        return len(self._components)

    @property
    def components(self) -> tuple[Hashable, ...]:
        """Labels of the coordinates."""
        return self._components

    @property
    def objective(self) -> Literal["max", "min"]:
        """Whether the best answer has the largest sum of theta, or the smallest one: the sign of `unit`."""
        return "max" if self.unit > 0.0 else "min"

    def value(self, vector: ArrayLike, theta: ArrayLike) -> Array:
        """Return the value of answers in the units of the data, (..., d) -> (...): minus z @ theta if it is minimised.

        Examples
        --------
        >>> from combopeps import ShortestPathOracle
        >>> import networkx as nx
        >>> oracle = ShortestPathOracle(nx.DiGraph([("a", "b"), ("b", "c")]), "a", "c")
        >>> lengths = np.array([2.0, 3.0])
        >>> z = oracle.argmax(lengths)
        >>> float(z @ lengths), float(oracle.value(z, lengths))
        (-5.0, 5.0)
        """
        return np.asarray(np.sign(self.unit) * (np.asarray(vector) @ np.asarray(theta)) + 0.0)  # no -0.0

    def argmax(self, theta: ArrayLike) -> Array:
        """Return the best answer: `(d,) -> (d,)`, or `(B, d) -> (B, d)` with one answer per row."""
        thetas = as_thetas(theta, len(self._components), self.domain)
        if thetas.ndim == 2:
            return self._answers(thetas)
        best: Array = self._answers(thetas[None])[0]
        return best

    def argmax_unchecked(self, thetas: Array) -> Array:
        """Return `argmax(thetas)` without checking thetas: (B, d), contiguous, finite and in the domain."""
        if type(self).argmax is not ArgmaxOracle.argmax:
            return self.argmax(thetas)
        read_only = thetas.view()
        read_only.flags.writeable = False
        return self._answers(read_only)

    def _answers(self, thetas: Array) -> Array:
        """Call `_argmax_batch`, in parallel if the oracle is expensive."""
        if not self.expensive or len(thetas) < 2:
            answers = self._argmax_batch(thetas)
            if type(answers) is not np.ndarray:
                reject_masked(self, thetas, answers)
            return answers
        return _argmax_parallel(self, thetas)

    @abstractmethod
    def _argmax_batch(self, thetas: Array) -> Array:
        """Return one maximiser of z @ theta per row of `thetas` (B, d): finite float64, C-contiguous, read-only."""

    def membership(self, z: ArrayLike, theta: ArrayLike) -> NDArray[np.bool_]:
        """Test whether the answer z is a maximiser under theta: `(d,) -> ()`, `(B, d) -> (B,)`; True for ties."""
        thetas = as_thetas(theta, self.dim, self.domain)
        is_best = self._membership_batch(as_vector(z, self.dim), thetas.reshape(-1, self.dim))
        return is_best if thetas.ndim == 2 else is_best[0]

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        """Test z against every row of `thetas`; override where this is cheaper than an argmax."""
        return ~strictly_better(self._answers(thetas), z, thetas)

    def decode(self, z: ArrayLike) -> Any:
        """Return the readable form of an answer: by default the set of labels of the chosen components."""
        return {self._components[i] for i in self._chosen(as_vector(z, self.dim))}

    def _chosen(self, vector: Array) -> list[int]:
        """Return the indices of the chosen components; `AnswerError` if an entry is neither 0 nor `unit`."""
        chosen = np.flatnonzero(vector)
        if np.any(vector[chosen] != self.unit):
            raise AnswerError(
                f"an answer of {type(self).__name__} has entries 0 and {self.unit:g} only, "
                f"got {np.unique(vector[chosen])[:5]}; override decode and encode for other answers"
            )
        return chosen.tolist()

    def encode(self, answer: Any) -> Array:
        """Return the vector z of a decoded answer."""
        if isinstance(answer, str) or not isinstance(answer, Iterable):
            raise AnswerError(f"an answer of {type(self).__name__} is a collection of components, got {answer!r}")
        chosen = [self.index(label) for label in answer]
        if len(set(chosen)) != len(chosen):
            raise AnswerError(f"an answer holds no component twice, got {answer!r}")
        z = np.zeros(self.dim)
        z[chosen] = self.unit
        return z

    def decode_in_order(self, z: ArrayLike) -> tuple[Any, list[int]]:
        """Return the decoded answer and the indices of its components in display order (of a route: along it)."""
        return self.decode(z), np.flatnonzero(as_vector(z, self.dim)).tolist()

    def index(self, label: Hashable) -> int:
        """Return the coordinate of a component label (or of one of its aliases)."""
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
        """Return why a label of `pruned` is no component, as the beginning of a sentence for messages."""
        return f"{label!r} is in no answer"

    def aliases(self, label: Hashable) -> tuple[Hashable, ...]:
        """Return alternative labels of a component, such as (v, u) for an undirected edge (u, v)."""
        return ()

    def facets(self, z: ArrayLike) -> Sparse | None:
        """Return differences y = z' - z whose half-spaces {y @ theta > 0} cover exactly the alternatives of z.

        None if no complete list is known in closed form. Redundant rows are allowed.
        """
        return None

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """Return all facets at z if there are at most `most`, else None.

        For sets whose neighbours can be enumerated one by one. The rows must be complete on the oracle's domain, and
        the running time must be bounded in terms of `most`, not of the number of facets.
        """
        count = self.facet_count
        return self.facets(z) if count is not None and count <= most else None

    @property
    def facet_count(self) -> int | None:
        """Upper bound of the number of rows of `facets(z)` for any z; None if `facets` is None; 0 if |Z| = 1."""
        return None

    @property
    def log_cardinality(self) -> LogCardinality | None:
        """ln |Z|, exact or an upper bound; None if unknown."""
        return None

    def confusions(self, *, whole: bool = False) -> Confusions | None:
        """Return a weighted count of the possible mistakes about the best answer; None if |Z| is unknown.

        Two answers differ in one or more blocks that can be exchanged independently (a swap, a detour, an alternating
        cycle), and a wrong answer is wrong in each of its blocks. By default mistakes are single blocks; with `whole`
        they are all other answers.
        """
        size = self.log_cardinality
        return None if size is None else Confusions.of_all_others(size, self.dim)

    def blocks(self, z: ArrayLike) -> list[Block]:
        """Return the parts of an answer that can be exchanged independently: by default the answer itself."""
        return [Block(self, slice(None), as_vector(z, self.dim))]

    def through(self, thetas: Array) -> Array | None:
        """Return upper bounds of max {z @ theta : z_a != 0} for every component a, (B, d) -> (B, d).

        None where a bound takes an argmax per component. Such bounds rule components out on sets that take theta >= 0
        only, where the argmax cannot be constrained to include a component.
        """
        return None

    def equalities(self) -> Sparse | None:
        """Return rows r for which r @ z is the same for all answers; None if none are known."""
        return None


def strictly_better(challengers: Array, z: Array, thetas: Array) -> NDArray[np.bool_]:
    """Test row by row whether the challenger is worth more than z beyond rounding; equal values are not better."""
    parts = (challengers - z) * thetas
    better: NDArray[np.bool_] = parts.sum(axis=1) > _ROUNDING * np.abs(parts).sum(axis=1)
    return better


def has_equal_value(z: Array, best: Array, theta: Array) -> bool:
    """Test whether z @ theta = best @ theta up to rounding: of several best answers each is correct."""
    return not strictly_better(best[None], z[None], theta[None])[0]


def as_sparse(rows: Any) -> Sparse:
    """Return dense or sparse rows as a float64 CSR array, the form that compiled loops take."""
    from scipy.sparse import csr_array

    return csr_array(rows).astype(np.float64, copy=False)


def reject_masked(oracle: ArgmaxOracle, thetas: Array, answers: Any) -> None:
    """Raise `OracleError` for a masked array, whose masked entries have no value."""
    if isinstance(answers, np.ma.MaskedArray):
        raise OracleError(
            f"{type(oracle).__name__} returned a masked array; return a plain array: z.filled(0.0)", thetas.copy()
        )


def _argmax_parallel(oracle: ArgmaxOracle, thetas: Array) -> Array:
    """Solve each row on its own, (B, d), by joblib's workers if the remaining rows take long enough."""
    start, answers = perf_counter(), list[Array]()
    for row in range(len(thetas)):
        if row == _TIMED_ROWS:
            seconds = (perf_counter() - start) / _TIMED_ROWS * (len(thetas) - row)
            is_short = seconds < _MIN_PARALLEL_SECONDS[oracle.parallel_backend]
            remaining = None if is_short else _solve_by_workers(oracle, thetas[row:])
            if remaining is not None:
                return np.concatenate([*answers, *remaining])
        answers.append(oracle._argmax_batch(thetas[row : row + 1]))
    return np.concatenate(answers)


def _solve_by_workers(oracle: ArgmaxOracle, thetas: Array) -> list[Array] | None:
    """Solve blocks of rows by joblib; None with one CPU, inside a worker, or if the oracle cannot be pickled."""
    from joblib import Parallel, delayed, effective_n_jobs
    from joblib.parallel import get_active_backend

    workers = min(effective_n_jobs(-1), len(thetas))
    if workers < 2 or get_active_backend()[0].nesting_level:
        return None
    blocks = np.array_split(thetas, min(_BLOCKS_PER_WORKER * workers, len(thetas)))
    try:
        answers = Parallel(workers, prefer=oracle.parallel_backend)(
            delayed(_solve_rows)(oracle, block) for block in blocks
        )
    except PicklingError:
        return None
    return list(answers)


def _solve_rows(oracle: ArgmaxOracle, thetas: Array) -> Array:
    return np.concatenate([oracle._argmax_batch(thetas[row : row + 1]) for row in range(len(thetas))])
