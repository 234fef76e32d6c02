"""Oracle of several questions about the same components: one answer of every set, which share the measurements."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, OracleError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Block, LogCardinality, Sparse, strictly_better
from combopeps.oracles.input_checks import as_vector
from combopeps.utils.formatting import short_repr
from combopeps.utils.validation import check_kind

_TAG = 2.0**-40  # weights are 1 + 2^i 2^-40: sums of subsets of them are exact in floating point, and all different
_MAX_QUESTIONS = 20  # for which the weights differ from 1 by less than 1e-6


class ProductOracle(ArgmaxOracle):
    """Oracle that answers several questions at once, each by an oracle of its own.

        Z = {sum_i w_i z_i : z_i in Z_i},   w_i = 1 + 2^(i - 40)

    A sum is best if and only if each of its terms is, so that one run with one claim identifies all answers, and a
    measurement of a component counts for every question that contains it. The weights are 1 up to 1e-6; the entries of
    a sum then tell which answers contain a component. Facets of a sum are facets of one of its terms.

    Parameters
    ----------
    oracles
        The oracles, with `binary` answers and the same `objective`: a dict by the name of the question, or a list.
        Equal labels, and aliases such as the two directions of an undirected edge, are the same component.

    Attributes
    ----------
    oracles, is_listed
        The oracles by the name of the question (0, 1, ... for a list), and whether they were given as a list.

    Examples
    --------
    >>> import networkx as nx
    >>> from combopeps import ShortestPathOracle
    >>> roads = nx.DiGraph([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("b", "d")])
    >>> routes = ProductOracle({end: ShortestPathOracle(roads, "a", end) for end in ("c", "d")})
    >>> routes.components
    (('a', 'b'), ('a', 'c'), ('b', 'c'), ('b', 'd'), ('c', 'd'))
    >>> routes.decode(routes.argmax([1.0, 3.0, 1.0, 4.0, 1.0]))
    {'c': ['a', 'b', 'c'], 'd': ['a', 'b', 'c', 'd']}
    """

    def __init__(self, oracles: Mapping[Hashable, ArgmaxOracle] | Iterable[ArgmaxOracle]) -> None:
        named = dict(oracles) if isinstance(oracles, Mapping) else dict(enumerate(_as_list(oracles)))
        if not 1 <= len(named) <= _MAX_QUESTIONS:
            raise ParameterError(f"a product has 1 to {_MAX_QUESTIONS} oracles, got {len(named)}")
        for name, oracle in named.items():
            check_kind(f"the oracle of {name!r:.60}", oracle, ArgmaxOracle)
            if not oracle.binary or oracle.unit not in (1.0, -1.0):
                raise ParameterError(
                    f"the oracle of {name!r:.60} must have binary answers, with entries 0 and 1 (or -1) only"
                )
        self.oracles: dict[Hashable, ArgmaxOracle] = named
        members = list(named.values())
        if len({oracle.objective for oracle in members}) > 1:
            raise ParameterError("oracles of a product either all maximise or all minimise: the values are added up")
        self.is_listed = not isinstance(oracles, Mapping)
        self.unit, self.resolution = members[0].unit, max(oracle.resolution for oracle in members)
        self.quick, self.expensive = all(one.quick for one in members), any(one.expensive for one in members)
        backends = {one.parallel_backend for one in members if one.expensive}
        self.parallel_backend = "threads" if backends == {"threads"} else "processes"
        self.domain = "nonnegative" if any(one.domain == "nonnegative" for one in members) else "real"
        labels, self._columns = _merge_labels(members)
        super().__init__(labels)
        known = set(labels)
        pruned = [(label, one.aliases(label)) for one in members for label in one.pruned]
        self.pruned = tuple(dict.fromkeys(label for label, names in pruned if known.isdisjoint([label, *names])))
        self._weights = [1.0 + 2.0**i * _TAG for i in range(len(members))]

    def _summary(self) -> Mapping[str, Any]:
        return {"oracles": self.oracles, "components": self.dim}

    def __repr__(self) -> str:
        return f"ProductOracle({short_repr(self.oracles, 150)}, {self.dim} components)"

    def _argmax_batch(self, thetas: Array) -> Array:
        best = np.zeros(thetas.shape)
        for oracle, columns, weight in zip(self.oracles.values(), self._columns, self._weights, strict=True):
            inner = np.ascontiguousarray(thetas[:, columns])
            best[:, columns] += weight * oracle.argmax_unchecked(inner)
        return best

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        return ~strictly_better(self._answers(thetas), z, thetas)

    def blocks(self, z: ArrayLike) -> list[Block]:
        """Return the answers of all questions, as blocks that can be exchanged independently."""
        vector = as_vector(z, self.dim)
        tags = np.rint((vector * self.unit - np.rint(vector * self.unit)) / _TAG).astype(np.int64)
        found = list[Block]()
        for i, (oracle, columns) in enumerate(zip(self.oracles.values(), self._columns, strict=True)):
            part = np.where(tags[columns] >> i & 1, oracle.unit, 0.0)
            found.append(Block(oracle, columns, part, self._weights[i]))
        if not np.array_equal(sum(block.embedded(block.z, self.dim) for block in found), vector):
            raise AnswerError(f"the vector is no answer of {self!r:.200}: it is not a sum of one answer of each oracle")
        return found

    def decode(self, z: ArrayLike) -> Any:
        """Return the answers of the oracles: a dict by question, or a list."""
        answers = [block.oracle.decode(block.z) for block in self.blocks(z)]
        return answers if self.is_listed else dict(zip(self.oracles, answers, strict=True))

    def encode(self, answer: Any) -> Array:
        """Return the vector of the answers of the oracles."""
        if isinstance(answer, Mapping):
            unknown, missing = answer.keys() - self.oracles.keys(), self.oracles.keys() - answer.keys()
            answers = [] if unknown or missing else [answer[name] for name in self.oracles]
        else:
            answers = list(answer) if isinstance(answer, (list, tuple)) else []
        if len(answers) != len(self.oracles):
            names = f"{len(self.oracles)} oracles" if self.is_listed else f"{list(self.oracles)!r:.100}"
            raise AnswerError(f"an answer has one entry for each of {names}, got {short_repr(answer, 100)}")
        z = np.zeros(self.dim)
        parts = zip(self.oracles.values(), self._columns, self._weights, answers, strict=True)
        for oracle, columns, weight, each in parts:
            z[columns] += weight * oracle.encode(each)
        return z

    def aliases(self, label: Hashable) -> tuple[Hashable, ...]:
        """Return alternative labels of a component, by any of the oracles."""
        return tuple(dict.fromkeys(alias for oracle in self.oracles.values() for alias in oracle.aliases(label)))

    def why_pruned(self, label: Hashable) -> str:
        """Return why a label is no component."""
        return f"{label!r} is in no answer of any of the oracles"

    @property
    def facet_count(self) -> int | None:
        """Sum of the numbers of facets of all oracles; None if one of them is unknown."""
        counts = [oracle.facet_count for oracle in self.oracles.values()]
        return None if None in counts else sum(count for count in counts if count is not None)

    def facets(self, z: ArrayLike) -> Sparse | None:
        """Return the facets of all answers; None if one of the oracles has no closed form."""
        blocks = self.blocks(z)
        return self._joined([block.oracle.facets(block.z) for block in blocks], blocks)

    def facets_up_to(self, z: ArrayLike, most: int) -> Sparse | None:
        """Return the facets of all answers if there are at most `most`."""
        rows, blocks = list[Sparse](), self.blocks(z)
        for block in blocks:
            found = block.oracle.facets_up_to(block.z, most)
            if found is None:
                return None
            rows.append(found)
            most -= found.shape[0]
        return self._joined(rows, blocks)

    def _joined(self, rows: Sequence[Sparse | None], blocks: Sequence[Block]) -> Sparse | None:
        """Return the rows of all blocks in the coordinates of this oracle."""
        from scipy.sparse import csr_array, vstack

        joined = []
        for found, block in zip(rows, blocks, strict=True):
            if found is None:
                return None
            coordinates = np.asarray(block.columns)[found.indices]
            shape = (found.shape[0], self.dim)
            joined.append(csr_array((block.weight * found.data, coordinates, found.indptr), shape=shape))
        return csr_array(vstack(joined))

    @property
    def log_cardinality(self) -> LogCardinality | None:
        """Sum of the logarithms of all sets; None if one of them is unknown."""
        sizes = [oracle.log_cardinality for oracle in self.oracles.values()]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        return LogCardinality(float(sum(known)), all(size.exact for size in known))


def _as_list(oracles: Any) -> list[ArgmaxOracle]:
    if isinstance(oracles, ArgmaxOracle) or not isinstance(oracles, Iterable):
        raise ParameterError(f"oracles must be a dict or a list of oracles, got {short_repr(oracles, 60)}")
    return list(oracles)


def _merge_labels(oracles: Sequence[ArgmaxOracle]) -> tuple[list[Hashable], list[NDArray[np.intp]]]:
    """Return the different labels of all oracles, and the coordinates of each oracle's components among them."""
    index, labels, columns = dict[Hashable, int](), list[Hashable](), list[NDArray[np.intp]]()
    for oracle in oracles:
        own = list[int]()
        for label in oracle.components:
            names = (label, *oracle.aliases(label))
            at = next((index[name] for name in names if name in index), None)
            if at is None:
                at = len(labels)
                labels.append(label)
            index |= dict.fromkeys(names, at)
            own.append(at)
        if len(set(own)) < len(own):
            raise OracleError("two components of an oracle are the same component of the product")
        columns.append(np.array(own, dtype=np.intp))
    return labels, columns
