"""Oracle of the bases (or independent sets) of a partition matroid: quotas of components from disjoint groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import AnswerError, LabelError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, Confusions, LogCardinality, Sparse
from combopeps.oracles.exchanges import log_choices, neighbour_count, swap_confusions
from combopeps.oracles.input_checks import as_labels, as_vector
from combopeps.utils.formatting import count_text, short_repr
from combopeps.utils.validation import check_choice

Quotas = int | Mapping[Hashable, int] | Sequence[int]


class PartitionOracle(ArgmaxOracle):
    """Oracle that chooses the best k_g components of every group g; on ties the earlier component wins.

        Z = {z in {0, 1}^d : sum of z over group g = k_g for every g}      (`exactly=False`: <= k_g)

    With `exactly=False`, only components of positive value are chosen.

    Parameters
    ----------
    groups
        The components of every group: a dict {group: components}, or a list of lists (groups are then labelled 0, 1,
        ...). Groups are disjoint. `components` lists them group by group.
    quotas
        Numbers k_g: one for all groups, a dict {group: number}, or a list in the order of the groups; from 0 to the
        size of the group, and not all 0.
    exactly
        Whether exactly or at most k_g components of a group are chosen.
    objective
        "max" for values; "min" for costs: z is then minus the indicator, so that z @ theta is minus the total cost.

    Examples
    --------
    >>> team = PartitionOracle({"cook": ["ann", "bob", "cleo"], "driver": ["dan", "eve"]}, {"cook": 2, "driver": 1})
    >>> z = team.argmax([0.3, 0.9, 0.5, 0.1, 0.2])
    >>> z
    array([0., 1., 1., 0., 1.])
    >>> {role: sorted(people) for role, people in team.decode(z).items()}
    {'cook': ['bob', 'cleo'], 'driver': ['eve']}
    """

    binary = quick = True

    def __init__(
        self,
        groups: Mapping[Hashable, Iterable[Hashable]] | Iterable[Iterable[Hashable]],
        quotas: Quotas,
        *,
        exactly: bool = True,
        objective: Literal["max", "min"] = "max",
    ) -> None:
        check_choice("objective", objective, ("min", "max"))
        if not isinstance(exactly, bool):
            raise ParameterError(f"exactly must be True or False (at most), got {exactly!r}")
        self.groups = _as_groups(groups)
        super().__init__(label for members in self.groups.values() for label in members)
        self.quotas = _as_quotas(quotas, self.groups)
        self.exactly = exactly
        self.antichain = self.exchanges = exactly
        self.unit = 1.0 if objective == "max" else -1.0
        self._sizes = np.array([len(members) for members in self.groups.values()])
        self._quota = np.array(list(self.quotas.values()))
        self._ptr = np.concatenate([[0], np.cumsum(self._sizes)])
        kinds, times = np.unique(np.stack([self._sizes, self._quota]), axis=1, return_counts=True)
        logs = [log_choices(n, k, exactly=exactly) for n, k in kinds.T.tolist()]
        self._log_size = float(times @ np.array(logs))

    def __repr__(self) -> str:
        some = "exactly" if self.exactly else "at most"
        return f"PartitionOracle({some} {self._quota.sum()} of {self.dim} in {len(self.groups)} groups)"

    def _summary(self) -> Mapping[str, Any]:
        return {**super()._summary(), "groups": len(self.groups), "answers": count_text(self._log_size)}

    def _argmax_batch(self, thetas: Array) -> Array:
        from combopeps.oracles._set_kernels import best_of_groups

        best = np.empty(thetas.shape)
        best_of_groups(thetas, self.unit, self._ptr, self._quota, self.exactly, best)
        return best

    def _membership_batch(self, z: Array, thetas: Array) -> NDArray[np.bool_]:
        from combopeps.oracles._set_kernels import groups_membership

        is_best: NDArray[np.bool_]
        is_best, is_answer = groups_membership(thetas, self.unit, z, self._ptr, self._quota, self.exactly)
        if not is_answer:
            self.decode(z)  # raises the specific error
        return is_best

    def decode(self, z: ArrayLike) -> dict[Hashable, set[Hashable]]:
        """Return a dict {group: chosen components}."""
        chosen = super().decode(z)
        answer = {group: chosen.intersection(members) for group, members in self.groups.items()}
        for group, quota in self.quotas.items():
            size = len(answer[group])
            if size > quota or (self.exactly and size < quota):
                some = "exactly" if self.exactly else "at most"
                raise AnswerError(f"an answer holds {some} {quota} components of group {group!r}, got {size}")
        return answer

    def encode(self, answer: Any) -> Array:
        """Return the vector of a dict {group: chosen components}; missing groups have none."""
        if not isinstance(answer, Mapping):
            raise AnswerError(f"an answer is a dict {{group: components}}, got {short_repr(answer)}")
        labels: list[Hashable] = []
        for group, chosen in answer.items():
            if group not in self.groups:
                raise AnswerError(f"{group!r} is not a group of this PartitionOracle")
            if isinstance(chosen, str) or not isinstance(chosen, Iterable):
                raise AnswerError(f"of group {group!r} a collection of components is chosen, got {chosen!r}")
            members = set(self.groups[group])
            for label in chosen:
                if self._components[self.index(label)] not in members:
                    raise AnswerError(f"{label!r} is not in group {group!r}")
                labels.append(label)
        z = super().encode(labels)
        self.decode(z)
        return z

    def facets(self, z: ArrayLike) -> Sparse:
        """Return all swaps within a group: complete and irredundant.

        With `exactly=False`: removals; swaps in groups at their quota; additions in groups below it, where a swap is a
        removal and an addition.
        """
        from scipy.sparse import csr_array

        from combopeps.oracles._set_kernels import write_neighbours

        vector, bound = as_vector(z, self.dim), self.facet_count
        self._membership_batch(vector, np.empty((0, self.dim)))  # raises if z is no answer
        indptr, indices, data = np.empty(bound + 1, np.int32), np.empty(2 * bound, np.int32), np.empty(2 * bound)
        rows, entries = write_neighbours(self.unit, vector, self._ptr, self._quota, self.exactly, indptr, indices, data)
        return csr_array((data[:entries], indices[:entries], indptr[: rows + 1]), shape=(rows, self.dim))

    @property
    def facet_count(self) -> int:
        """k (n - k) per group of n components and quota k; with `exactly=False` an upper bound, k (n - k + 1)."""
        return neighbour_count(self._sizes, self._quota, exactly=self.exactly)

    @property
    def log_cardinality(self) -> LogCardinality:
        """The sum over groups of ln C(n, k), or of ln sum_{i <= k} C(n, i) with `exactly=False`."""
        return LogCardinality(self._log_size, exact=True)

    def confusions(self, *, whole: bool = False) -> Confusions:
        """Count the neighbours of the best answer: pairs of a group and, with `exactly=False`, single components.

        If the best choice of a group meets the quota, a wrong component a replaces some missing b, swapping them gives
        an answer on either side, and theta_b >= theta_a. If it is below the quota, theta_a <= 0, and removing a is no
        loss. If no component is wrong but b is missing, theta_b >= 0 and b can be added.
        """
        return swap_confusions(self._sizes, self._quota, self.dim, self._log_size, exactly=self.exactly, whole=whole)

    def equalities(self) -> Sparse | None:
        """Return the group sums with `exactly=True`; and every component of groups with a quota of none or all."""
        from scipy.sparse import csr_array

        fixed = (self._quota == 0) | (self.exactly & (self._quota == self._sizes))
        is_constant = np.repeat(fixed, self._sizes)
        if not self.exactly and not is_constant.any():
            return None
        # One row per constant component, one per other group: numbers from len(fixed) on stand for components.
        known = is_constant | self.exactly
        group = np.repeat(np.arange(len(fixed)), self._sizes)
        _, row = np.unique(np.where(is_constant, len(fixed) + np.arange(self.dim), group)[known], return_inverse=True)
        return csr_array((np.ones(len(row)), (row, np.flatnonzero(known))), shape=(row.max() + 1, self.dim))


def _as_groups(groups: Any) -> dict[Hashable, tuple[Hashable, ...]]:
    """Return the members of every group; `LabelError` for empty or overlapping groups."""
    if isinstance(groups, str) or not isinstance(groups, Iterable):
        raise LabelError(f"groups must be a dict {{group: components}} or a list of lists, got {groups!r}")
    named = groups.items() if hasattr(groups, "items") else enumerate(groups)
    result = {group: as_labels(members, f"group {group!r}") for group, members in named}
    if not result:
        raise LabelError("groups is empty; give at least one group")
    group_of: dict[Hashable, Hashable] = {}
    for group, members in result.items():
        for label in members:
            if label in group_of:
                raise LabelError(
                    f"{label!r} is in group {group_of[label]!r} and in group {group!r}; groups must not overlap"
                )
            group_of[label] = group
    return result


def _as_quotas(quotas: Any, groups: dict[Hashable, tuple[Hashable, ...]]) -> dict[Hashable, int]:
    """Return the quota of every group; `ParameterError` unless it is an integer from 0 to the size of the group."""
    if hasattr(quotas, "items"):
        given = dict(quotas.items())
        for group in given:
            if group not in groups:
                raise ParameterError(
                    f"quotas names {group!r}, which is no group; the groups are {short_repr(list(groups))}"
                )
        for group in groups:
            if group not in given:
                raise ParameterError(f"quotas has no number for group {group!r}; give one for every group")
    elif isinstance(quotas, Iterable) and not isinstance(quotas, str) and getattr(quotas, "ndim", 1) > 0:
        numbers = list(quotas)
        if len(numbers) != len(groups):
            raise ParameterError(
                f"quotas has {len(numbers)} numbers for {len(groups)} groups; give one for every group"
            )
        given = dict(zip(groups, numbers, strict=True))
    else:
        given = dict.fromkeys(groups, quotas)
    for group, members in groups.items():
        quota = given[group]
        if isinstance(quota, (bool, np.bool_)) or not isinstance(quota, (int, np.integer)):
            raise ParameterError(f"the quota of group {group!r} must be a whole number, got {quota!r}")
        if not 0 <= quota <= len(members):
            raise ParameterError(
                f"the quota of group {group!r} must be in 0..{len(members)} (its components), got {quota}"
            )
    if not any(given.values()):
        raise ParameterError("all quotas are 0: there is nothing to choose; set at least one of them to 1 or more")
    return {group: int(given[group]) for group in groups}
