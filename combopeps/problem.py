"""`Problem`: what to find, what can be measured, how noisy that is, what it costs, and what is known before."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from combopeps.actions import Actions, SingleArms
from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.validation import check_interface
from combopeps.posterior.arms import Arms, check_reach
from combopeps.posterior.parameter_space import ParameterSpace, space_for
from combopeps.posterior.per_label import Stated, each, stated
from combopeps.posterior.scales import check_mean, check_scale, check_sizes
from combopeps.utils.label_index import LabelBook


class Problem:
    """Find argmax_{z in Z} z @ theta by measuring arms: x @ theta + noise.

    Parameters
    ----------
    oracle
        Z.
    arms
        What can be measured: component labels, a K x d array, a scipy sparse matrix, or a dict label -> row. By
        default every component.
    noise_std
        Standard deviation of the noise: a number; {label: number}, or one number per arm in their order, where arms
        differ. None, the default: estimated from the scatter of repeated results. It, prior_std, their ratio and the
        largest entries of arms must lie between 1e-50 and 1e50, so that no square overflows.
    space
        Theta; by default all that the oracle can maximise over.
    cost
        Of one measurement: a number, or one per arm as for noise_std. Policies buy information per cost.
    prior_mean, prior_std
        What is known of the entries of theta before the first measurement: theta_i ~ N(mean, std^2). Numbers, or one
        per component by label or in their order; components that a dict leaves out get 0 and 1. None, the default:
        estimated from the measurements, one mean and one standard deviation for all components (see
        `combopeps.posterior.hierarchical`). A stated std that is far too small makes wrong answers look certain.
    noise_ratio
        Where noise_std is None: how noisy the arms are relative to each other, by default all alike.
    actions
        What is measured at once, instead of single arms: "answers" for whole answers of the oracle, such as routes that
        are driven; another oracle, whose components have the same names; or rows of 0 and 1 (K x d, or a dict label ->
        row). A measurement of an action shows a result of every component on it, each with its own noise (see
        docs/actions.md). `cost` is then that of an action, one number.
    part_cost
        With actions: what each component on an action adds to its cost: a number, or one per component.

    Attributes
    ----------
    noise, cost
        One number per arm. Where noise_std is None, `noise` holds the ratios.
    action_set
        What is measured at once: `actions`, or the arms one at a time.
    measures_actions
        Whether measurements are actions, which may have several results.
    prior_is_estimated
        Whether the mean or the standard deviation of the prior is estimated from the measurements.
    signal
        The arms in units of their noise, x / noise_x: measured with unit noise, they are the same problem.

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
        book = LabelBook(components, oracle)
        self.prior_mean: Stated | None = None
        self.prior_std: Stated | None = None
        if prior_mean is not None:
            self.prior_mean = stated("prior_mean", prior_mean, components, check_mean, book, default=0.0)
        if prior_std is not None:
            self.prior_std = stated("prior_std", prior_std, components, check_scale, book, default=1.0)
        self.oracle = oracle
        self.arms = Arms.of(oracle, arms)
        labels = self.arms.labels
        book = LabelBook(labels, oracle)
        if noise_ratio is not None and noise_std is not None:
            raise ParameterError("noise_ratio is for noise_std=None: state the noise, or how its levels compare")
        self.noise_std: Stated | None = None
        if noise_std is not None:
            self.noise_std = stated("noise_std", noise_std, labels, check_scale, book)
        ratio = stated("noise_ratio", 1.0 if noise_ratio is None else noise_ratio, labels, check_scale, book)
        self.noise: Array = each(ratio if self.noise_std is None else self.noise_std, len(self.arms))
        self.actions = None if actions is None else self._read_actions(actions, arms, cost, part_cost, book)
        if part_cost is not None and actions is None:
            raise ParameterError("part_cost is for actions=...: what single measurements cost is cost=")
        cost = cost if actions is None else 1.0  # of a reading, which nobody pays for on its own
        self.cost: Array = each(stated("cost", cost, labels, check_scale, book), len(self.arms))
        self.measures_actions = self.actions is not None
        self.action_set = SingleArms(self.arms, self.cost) if self.actions is None else self.actions
        check_sizes(self.arms, self.noise, np.atleast_1d(1.0 if self.prior_std is None else self.prior_std))
        self.signal = self.arms.scaled(1.0 / self.noise)
        self.space = space_for(oracle, space)
        self.known = check_reach(self.signal, oracle)  # some answers, which those of a run are compared with

    def _read_actions(self, actions: Any, arms: Any, cost: Any, part_cost: Any, book: LabelBook) -> Actions:
        """An action shows single components: there are no other arms."""
        if arms is not None and not (isinstance(arms, Arms) and arms.labels == self.oracle.components):
            raise ParameterError("actions show every component on them: leave arms out, or leave actions out")
        check_scale("cost", cost)
        if part_cost is None:
            return Actions(self.oracle, actions, cost)
        told = stated("part_cost", part_cost, self.oracle.components, check_mean, book, default=0.0)
        parts = each(told, self.oracle.dim)
        if (parts < 0.0).any():
            culprit = self.oracle.components[int(parts.argmin())]
            raise ParameterError(f"part_cost must not be negative, that of {culprit!r:.60} is {parts.min():g}")
        return Actions(self.oracle, actions, cost, parts)

    def restated(self, **changes: Any) -> Problem:
        """The same problem with other noise, cost, prior or actions: any keyword of the class but arms and space.

        What single measurements cost says nothing about actions, nor the other way round: where `actions` changes that,
        a cost that is not stated anew is 1.

        Examples
        --------
        >>> from combopeps import TopKOracle
        >>> Problem(TopKOracle(3, k=1), cost=2.0).restated(noise_std=0.1).cost
        array([2., 2., 2.])
        """
        said: dict[str, Any] = {"prior_mean": self.prior_mean, "prior_std": self.prior_std, "noise_std": self.noise_std}
        actions = changes.get("actions", self.actions)
        if self.actions is None and actions is None:
            said["cost"] = self.cost
        elif self.actions is not None and actions is not None:
            said |= {"actions": actions, "cost": self.actions.cost, "part_cost": self.actions.part_cost}
        if changes.get("noise_std", self.noise_std) is None:
            said["noise_ratio"] = self.noise
        return Problem(self.oracle, self.arms, space=self.space, **(said | changes))

    @property
    def priced(self) -> Arms:
        """The rows x / (noise_x sqrt(cost_x)): a unit of cost spent on them is a measurement with unit noise."""
        return self.signal.scaled(1.0 / np.sqrt(self.cost))

    @property
    def prior_is_estimated(self) -> bool:
        return self.prior_mean is None or self.prior_std is None

    def require_noise(self, what: str) -> None:
        """Refuse `noise_std=None` for something that needs the size of the noise."""
        if self.noise_std is None:
            raise ParameterError(
                f"{what} needs the size of the noise, which noise_std=None leaves open: state noise_std in the problem"
            )

    @property
    def costs_differ(self) -> bool:
        """Whether it matters for the choice of arms."""
        return bool((self.cost != self.cost[0]).any())

    @property
    def relative_cost(self) -> Array:
        """Cost in units of the cheapest arm's: what choices depend on, whatever the currency."""
        return np.asarray(self.cost / self.cost.min())

    @cached_property
    def worth(self) -> Array:
        """1 / relative_cost, and 0 for arms that another one outdoes: the same is measured there for less."""
        return np.where(self.priced.outdone, 0.0, 1.0 / self.relative_cost)

    def __repr__(self) -> str:
        noise = self.noise_std
        text = f"{noise:g}" if isinstance(noise, float) else "estimated"
        if isinstance(noise, np.ndarray):
            text = f"{noise.min():g}..{noise.max():g}"
        cost = f", cost={self.cost.min():g}..{self.cost.max():g}" if self.costs_differ else ""
        prior = ", prior estimated" if self.prior_is_estimated else ""
        return f"Problem({self.oracle!r}, {len(self.arms)} arms, noise_std={text}{cost}{prior})"
