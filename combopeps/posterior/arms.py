"""Arms: the K vectors x of R^d that can be measured, and a check that they identify the best answer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import IdentifiabilityError, LabelError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.input_checks import as_labels
from combopeps.oracles.runtime_checks import probe_oracle
from combopeps.utils.formatting import ShortRepr
from combopeps.utils.validation import as_float_array, as_generator, check_kind, shown

_MAX_RETURNED = 8  # answers returned by `check_identifiability`
_DIRECTION_DIGITS = 12  # to which the directions of two rows must agree to count as equal


class Span(NamedTuple):
    """Coordinates of the row space of the arms, X = rows @ frame, with orthogonal columns of `rows`.

    y @ theta = (y @ lift) @ (frame @ theta) for every y in the row space. Whatever the scales of the arms, information
    in these coordinates is as well conditioned as the counts; r measurements spread over all arms make its trace r.
    """

    rows: Array  # (K, r)
    frame: Array  # (r, d)
    lift: Array  # the pseudo-inverse of the frame, (d, r)

    def blind(self, y: Array) -> Array:
        """Return the part of each row y that is orthogonal to all arms."""
        return y - (y @ self.lift) @ self.frame


class Arms(ShortRepr):
    """K arms as rows of a K x d matrix; kept as (component, coefficient) if each has one nonzero entry.

    Use `Arms.of(oracle)` for one arm per component, or `Arms.of(oracle, arms)` with component labels, a K x d array, a
    scipy sparse matrix, or a dict label -> row.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> Arms.of(TopKOracle(["a", "b", "c"], k=1), ["a", "c"])
    Arms(2 unit arms in d=3)
    """

    def __init__(self, matrix: Array, labels: Iterable[Hashable] | None = None) -> None:
        matrix = as_float_array("arms", matrix)
        if matrix.ndim != 2 or not matrix.size:
            raise ParameterError(f"arms must be a matrix, one row per arm, got shape {matrix.shape}")
        if not np.isfinite(matrix).all():
            raise ParameterError("arms holds NaN or infinity; every entry must be finite")
        if not matrix.any(axis=1).all():
            first = int(np.flatnonzero(~matrix.any(axis=1))[0])
            raise ParameterError(f"arm {first} is the zero vector, which measures nothing; leave it out")
        self.dim: int = matrix.shape[1]
        self.labels = tuple(range(len(matrix))) if labels is None else as_labels(labels, "labels")
        if len(self.labels) != len(matrix):
            raise LabelError(f"labels must name each of the {len(matrix)} arms, got {len(self.labels)} labels")
        self.matrix: Array | None = None
        self.columns: Array | None = None
        self.component = np.abs(matrix).argmax(axis=1)
        self.coefficient = np.take_along_axis(matrix, self.component[:, None], axis=1)[:, 0]
        if np.count_nonzero(matrix) != len(matrix):
            self.matrix = np.array(matrix, order="C")
            self.columns = np.ascontiguousarray(matrix.T)

    @classmethod
    def units(cls, dim: int, component: NDArray[np.intp], labels: Iterable[Hashable]) -> Arms:
        """Return arms that measure one component each, without a K x d matrix."""
        arms = cls.__new__(cls)
        arms.dim, arms.labels, arms.matrix, arms.columns = dim, tuple(labels), None, None
        arms.component, arms.coefficient = component, np.ones(len(component))
        return arms

    @classmethod
    def of(cls, oracle: ArgmaxOracle, arms: Any = None) -> Arms:
        """Return arms from labels of components, rows, or a dict.

        Parameters
        ----------
        oracle
            Its components are the columns of the arms.
        arms
            Arms, labels of components, a K x d array or scipy sparse matrix, or a dict label -> row; None: one per
            component.
        """
        check_kind("oracle", oracle, ArgmaxOracle)
        if isinstance(arms, Arms):
            return arms
        if arms is None:
            return cls.units(oracle.dim, np.arange(oracle.dim), oracle.components)
        if isinstance(arms, Mapping):
            return cls(_as_matrix(list(arms.values()), oracle.dim), arms.keys())
        if hasattr(arms, "tocsr"):
            return cls._of_sparse(arms.tocsr(), oracle.dim)
        if isinstance(arms, np.ndarray) and arms.ndim == 2:
            return cls(_as_matrix(arms, oracle.dim))
        if isinstance(arms, str) or not isinstance(arms, Iterable) or getattr(arms, "ndim", 1) != 1:
            raise ParameterError(
                "arms must be labels of components, a matrix with one row per arm, or a dict label -> row, got "
                + shown(arms)
            )
        labels = list(arms)
        if not labels:
            raise ParameterError("arms is empty; list at least one component, or leave it out for all")
        index = dict(zip(oracle.components, range(oracle.dim), strict=True))
        try:
            component = np.array([index[label] for label in labels])
        except (KeyError, TypeError):
            raise LabelError("arms names something that is not a component; use oracle.components") from None
        return cls.units(oracle.dim, component, labels)

    @classmethod
    def _of_sparse(cls, rows: Any, dim: int) -> Arms:
        """Return arms from a sparse matrix, without a dense one if every row has one entry."""
        if rows.shape[1] == dim and (np.diff(rows.indptr) == 1).all() and rows.data.all() and rows.shape[0]:
            arms = cls.units(dim, rows.indices.astype(np.intp), range(rows.shape[0]))
            arms.coefficient = rows.data.astype(np.float64)
            if not np.isfinite(arms.coefficient).all():
                raise ParameterError("arms holds NaN or infinity; every entry must be finite")
            return arms
        return cls(_as_matrix(rows.toarray(), dim))

    def scaled(self, factor: Array) -> Arms:
        """Return the arms with row k multiplied by factor[k]; `self` if all factors are 1."""
        if (factor == 1.0).all():
            return self
        arms = Arms.units(self.dim, self.component, self.labels)
        arms.coefficient = self.coefficient * factor
        if self.matrix is not None:
            arms.matrix = self.matrix * factor[:, None]
            arms.columns = np.ascontiguousarray(arms.matrix.T)
        return arms

    def __len__(self) -> int:
        return len(self.component)

    def __repr__(self) -> str:
        return f"Arms({len(self)} {'unit' if self.are_units else 'general'} arms in d={self.dim})"

    def _summary(self) -> Mapping[str, Any]:
        return {"arms": len(self), "kind": "unit" if self.are_units else "general", "components": self.dim}

    @property
    def are_units(self) -> bool:
        """Whether every arm is a multiple of a unit vector, so that the posterior stays diagonal."""
        return self.matrix is None

    @cached_property
    def size(self) -> float:
        """The largest norm of an arm."""
        if self.matrix is None:
            return float(np.abs(self.coefficient).max())
        return float(np.linalg.norm(self.matrix, axis=1).max())

    @cached_property
    def strongest(self) -> tuple[Array, NDArray[np.intp]]:
        """For every component, the largest squared coefficient of a unit arm (0 if there is none), and that arm."""
        gain, arm_of = np.zeros(self.dim), np.zeros(self.dim, dtype=np.intp)
        order = np.lexsort((-np.arange(len(self)), self.coefficient**2))  # the last one stays: of equals, the first
        gain[self.component[order]], arm_of[self.component[order]] = self.coefficient[order] ** 2, order
        return gain, arm_of

    @cached_property
    def is_dominated(self) -> NDArray[np.bool_]:
        """Whether an arm is a multiple of a longer one, (K,)."""
        if self.matrix is None:
            square, longest = self.coefficient**2, self.strongest[0][self.component]
        else:
            lines = (self.matrix / self.coefficient[:, None]).round(_DIRECTION_DIGITS) + 0.0  # no -0
            line = np.unique(lines, axis=0, return_inverse=True)[1].reshape(-1)
            square, most = np.einsum("kd,kd->k", self.matrix, self.matrix), np.zeros(len(self))
            np.maximum.at(most, line, square)
            longest = most[line]
        return np.asarray(square < (1.0 - 1e-9) * longest)

    @cached_property
    def span(self) -> Span:
        """Coordinates by a singular value decomposition; singular values below rounding count as 0."""
        matrix = self.row(np.arange(len(self)))
        left, singular, right = np.linalg.svd(matrix, full_matrices=False)
        kept = singular > singular[0] * max(matrix.shape) * np.finfo(float).eps
        left, singular, right = left[:, kept], singular[kept], right[kept]
        scale = np.sqrt(len(matrix) / len(singular))
        return Span(left * scale, singular[:, None] * right / scale, right.T * (scale / singular))

    def per_component(self, counts: Mapping[Hashable, int]) -> Array:
        """Return counts by arm label as counts by component, (d,); NaN where no arm measures that component alone."""
        each, arm_of = np.zeros(len(self)), {label: arm for arm, label in enumerate(self.labels)}
        for label, count in counts.items():
            each[arm_of[label]] = count
        single = np.ones(len(self), dtype=bool) if self.matrix is None else np.count_nonzero(self.matrix, axis=1) == 1
        sums = np.full(self.dim, np.nan)
        sums[self.component[single]] = 0.0
        np.add.at(sums, self.component[single], each[single])
        return sums

    def blind(self, y: Array) -> Array:
        """Return the part of each row y that is orthogonal to all arms."""
        if not self.are_units:
            return self.span.blind(y)
        unseen = y.copy()
        unseen[:, self.component] = 0.0
        return unseen

    def row(self, arm: NDArray[np.intp] | int) -> Array:
        """Return the vector x of an arm, or the rows of several."""
        if self.matrix is not None:
            return np.asarray(self.matrix[arm])
        x = np.zeros((*np.shape(arm), self.dim))
        np.put_along_axis(x, np.asarray(self.component[arm])[..., None], self.coefficient[arm, ..., None], axis=-1)
        return x

    def dot(self, thetas: Array) -> Array:
        """Return x @ theta of every arm: (..., d) -> (..., K)."""
        return thetas[..., self.component] * self.coefficient if self.columns is None else thetas @ self.columns


def check_identifiability(arms: Arms, oracle: ArgmaxOracle, rng: int | np.random.Generator | None = 0) -> Array:
    """Check that the arms can order the answers.

    Differences z - z' of answers must lie in the row space of the arms: then, and only then, their order can be learnt.
    Answers are found by calling the oracle at random thetas; a direction in which only other answers differ is not
    detected.

    Parameters
    ----------
    arms, oracle
        The arms, and Z.
    rng
        Seed or generator of the random thetas.

    Returns
    -------
    Array
        Some answers, which later answers can be compared with; all that were found if the oracle is not quick.

    Raises
    ------
    IdentifiabilityError
        If two answers differ in a direction that no combination of the arms measures.
    """
    check_kind("arms", arms, Arms)
    check_kind("oracle", oracle, ArgmaxOracle)
    answers = probe_oracle(oracle, as_generator(rng))
    orthogonal = arms.blind(answers - answers[0])
    worst = orthogonal[np.abs(orthogonal).max(axis=1).argmax()]
    size = float(np.linalg.norm(worst))
    if size <= 1e-9 * float(np.abs(answers).max()):
        return answers[:_MAX_RETURNED].copy() if oracle.quick else np.unique(answers, axis=0)
    direction = worst / size
    largest = np.argsort(-np.abs(direction))[:4]
    named = ", ".join(f"{oracle.components[i]!r}: {direction[i]:+.3g}" for i in largest if abs(direction[i]) > 1e-9)
    raise IdentifiabilityError(
        f"answers differ in the direction {{{named}}}, which no combination of the arms measures; "
        "add an arm with a component along it",
        direction,
    )


def _as_matrix(rows: Any, dim: int) -> Array:
    matrix = as_float_array("arms", rows)
    if matrix.ndim != 2 or matrix.shape[1] != dim or len(matrix) == 0:
        raise ParameterError(f"arms must be K x {dim}, one row per arm, got shape {matrix.shape}")
    return matrix
