"""`Problem`: the answers, the arms with their noise and cost, and the prior."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from combopeps.actions import Actions, SingleArms
from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.runtime_checks import check_interface
from combopeps.posterior.arms import Arms, check_identifiability
from combopeps.posterior.parameter_space import ParameterSpace, space_for
from combopeps.posterior.stated_values import (
    NumberOrArray,
    as_array,
    check_mean,
    check_scale,
    check_sizes,
    numbers_by_label,
)
from combopeps.utils.formatting import ShortRepr, short_repr
from combopeps.utils.label_index import LabelIndex


class Problem(ShortRepr):
    """Find argmax_{z in Z} z @ theta by measuring arms: x @ theta + noise.

    Parameters
    ----------
    oracle
        Oracle of Z.
    arms
        Rows x of the arms: component labels, a K x d array, a scipy sparse matrix, or a dict label -> row. By default
        one arm per component.
    noise_std
        Standard deviation of the noise: a number, a dict {label: number}, or one number per arm. By default (None) it
        is estimated from the scatter of repeated results. noise_std, prior_std, their ratio and the largest entries of
        arms must lie between 1e-50 and 1e50, so that no square overflows.
    space
        Parameter space Theta; by default the domain of the oracle.
    cost
        Cost of a measurement: a number, or one per arm as for noise_std. Policies maximise information per cost.
    prior_mean, prior_std
        Prior of the entries of theta: theta_i ~ N(mean, std^2). Numbers, or one per component by label or in order;
        components missing in a dict get 0 and 1. By default (None) estimated from the measurements, with one mean and
        one standard deviation for all components (see `combopeps.posterior.hierarchical`). A stated std that is far too
        small makes wrong answers look certain.
    noise_ratio
        Relative noise of the arms if noise_std is None; by default all equal.
    actions
        Actions that are measured instead of single arms: "answers" for whole answers of the oracle, such as driven
        routes; another oracle whose components have the same labels; or rows of 0 and 1 (K x d, or a dict label ->
        row). A measurement of an action has a result for each of its components, each with its own noise (see
        docs/actions.md). `cost` is then the cost of an action, one number.
    part_cost
        Cost that each component adds to an action: a number, or one per component.

    Attributes
    ----------
    noise, cost
        One number per arm. If noise_std is None, `noise` contains the ratios.
    action_set
        What one measurement consists of: `actions`, or single arms.
    measures_actions
        Whether measurements are actions, which may have several results.
    prior_is_estimated
        Whether the mean or the standard deviation of the prior is estimated from the measurements.
    signal
        Arms in units of their noise, x / noise_x; their measurements have unit noise.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=0.5)
    Problem(TopKOracle(1 of 3), 3 arms, noise_std=0.5, prior estimated)
    >>> Problem(TopKOracle(["a", "b", "c"], k=1), noise_std={"a": 0.5, "b": 0.5, "c": 2}).noise
    array([0.5, 0.5, 2. ])
    """

    def __init__(
        self,
        oracle: ArgmaxOracle,
        arms: Any = None,
        noise_std: Any = None,
        space: ParameterSpace | None = None,
        *,
        cost: Any = 1.0,
        prior_mean: Any = None,
        prior_std: Any = None,
        noise_ratio: Any = None,
        actions: Any = None,
        part_cost: Any = None,
    ) -> None:
        if not isinstance(oracle, ArgmaxOracle):
            raise ParameterError(f"a problem needs an ArgmaxOracle, got {type(oracle).__name__}")
        check_interface(oracle)
        components = oracle.components
        book = LabelIndex(components, oracle)
        self.prior_mean: NumberOrArray | None = None
        self.prior_std: NumberOrArray | None = None
        if prior_mean is not None:
            self.prior_mean = numbers_by_label("prior_mean", prior_mean, components, check_mean, book, default=0.0)
        if prior_std is not None:
            self.prior_std = numbers_by_label("prior_std", prior_std, components, check_scale, book, default=1.0)
        self.oracle = oracle
        self.arms = Arms.of(oracle, arms)
        labels = self.arms.labels
        book = LabelIndex(labels, oracle)
        if noise_ratio is not None and noise_std is not None:
            raise ParameterError("noise_ratio is for noise_std=None: state the noise, or how its levels compare")
        self.noise_std: NumberOrArray | None = None
        if noise_std is not None:
            self.noise_std = numbers_by_label("noise_std", noise_std, labels, check_scale, book)
        ratio = numbers_by_label("noise_ratio", 1.0 if noise_ratio is None else noise_ratio, labels, check_scale, book)
        self.noise: Array = as_array(ratio if self.noise_std is None else self.noise_std, len(self.arms))
        self.actions = None if actions is None else self._read_actions(actions, arms, cost, part_cost, book)
        if part_cost is not None and actions is None:
            raise ParameterError("part_cost is for actions=...: what single measurements cost is cost=")
        cost = cost if actions is None else 1.0  # results of single components have no cost of their own
        self.cost: Array = as_array(numbers_by_label("cost", cost, labels, check_scale, book), len(self.arms))
        self.measures_actions = self.actions is not None
        self.action_set = SingleArms(self.arms, self.cost) if self.actions is None else self.actions
        check_sizes(self.arms, self.noise, np.atleast_1d(1.0 if self.prior_std is None else self.prior_std))
        self.signal = self.arms.scaled(1.0 / self.noise)
        self.space = space_for(oracle, space)
        self.known = check_identifiability(self.signal, oracle)  # some answers, with which those of a run are compared

    def _read_actions(self, actions: Any, arms: Any, cost: Any, part_cost: Any, book: LabelIndex) -> Actions:
        """Return the actions of a problem whose arms are single components."""
        if arms is not None and not (isinstance(arms, Arms) and arms.labels == self.oracle.components):
            raise ParameterError("actions show every component on them: leave arms out, or leave actions out")
        check_scale("cost", cost)
        if part_cost is None:
            return Actions(self.oracle, actions, cost)
        given = numbers_by_label("part_cost", part_cost, self.oracle.components, check_mean, book, default=0.0)
        parts = as_array(given, self.oracle.dim)
        if (parts < 0.0).any():
            culprit = self.oracle.components[int(parts.argmin())]
            raise ParameterError(f"part_cost must not be negative, that of {culprit!r:.60} is {parts.min():g}")
        return Actions(self.oracle, actions, cost, parts)

    def copy_with(self, **changes: Any) -> Problem:
        """Return the problem with other noise, cost, prior or actions: any keyword of the class but arms and space.

        Costs of single measurements do not apply to actions, nor vice versa: if `actions` changes from one to the
        other, the cost is 1 unless given.

        Examples
        --------
        >>> from combopeps import TopKOracle
        >>> Problem(TopKOracle(3, k=1), cost=2.0).copy_with(noise_std=0.1).cost
        array([2., 2., 2.])
        """
        options: dict[str, Any] = {
            "prior_mean": self.prior_mean,
            "prior_std": self.prior_std,
            "noise_std": self.noise_std,
        }
        actions = changes.get("actions", self.actions)
        if self.actions is None and actions is None:
            options["cost"] = self.cost
        elif self.actions is not None and actions is not None:
            options |= {"actions": actions, "cost": self.actions.cost, "part_cost": self.actions.part_cost}
        if changes.get("noise_std", self.noise_std) is None:
            options["noise_ratio"] = self.noise
        return Problem(self.oracle, self.arms, space=self.space, **(options | changes))

    @property
    def priced(self) -> Arms:
        """Arms x / (noise_x sqrt(cost_x)), for which a unit of cost buys a measurement with unit noise."""
        return self.signal.scaled(1.0 / np.sqrt(self.cost))

    @property
    def prior_is_estimated(self) -> bool:
        return self.prior_mean is None or self.prior_std is None

    def require_noise(self, what: str) -> None:
        """Raise for `noise_std=None`; `what` names the method that requires a stated noise level."""
        if self.noise_std is None:
            raise ParameterError(
                f"{what} needs the size of the noise, which noise_std=None leaves open: state noise_std in the problem"
            )

    @property
    def costs_differ(self) -> bool:
        """Whether arms have different costs."""
        return bool((self.cost != self.cost[0]).any())

    @property
    def relative_cost(self) -> Array:
        """Cost relative to the cheapest arm."""
        return np.asarray(self.cost / self.cost.min())

    @cached_property
    def worth(self) -> Array:
        """1 / relative_cost; 0 for arms that are dominated by a parallel arm with more information per cost."""
        return np.where(self.priced.is_dominated, 0.0, 1.0 / self.relative_cost)

    def __repr__(self) -> str:
        cost = f", cost={_range_text(self.cost)}" if self.costs_differ else ""
        prior = ", prior estimated" if self.prior_is_estimated else ""
        oracle, noise = short_repr(self.oracle, 150), _range_text(self.noise_std)
        return f"Problem({oracle}, {len(self.arms)} arms, noise_std={noise}{cost}{prior})"

    def _summary(self) -> Mapping[str, Any]:
        numbers_by_label = {"noise_std": self.noise_std, "prior_mean": self.prior_mean, "prior_std": self.prior_std}
        texts = {name: _range_text(value) for name, value in numbers_by_label.items()}
        priced = {"cost": _range_text(self.cost)} if self.actions is None else {"actions": self.actions}
        return {"oracle": self.oracle, "arms": len(self.arms), **texts, **priced, "space": self.space}


def _range_text(value: NumberOrArray | None) -> str:
    """Format a number, the range of different ones, or None for what is estimated."""
    if value is None:
        return "estimated"
    low, high = np.min(value), np.max(value)
    return f"{low:g}" if low == high else f"{low:g}..{high:g}"
