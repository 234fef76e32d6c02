"""Action sets: `SingleArms`, or `Actions` that measure several components at once (semi-bandit feedback).

    result of action a  =  one result of every component on it, each with the noise of that component
    best(gain)          =  argmax_a gain(a) / cost(a)
    gain(a) = sum_{i in a} gain_i,   cost(a) = fixed + sum_{i in a} part_i

An example is a route, whose measurement shows the travel time of each of its roads. The set of actions may be as large
as Z, and is reached through an argmax oracle of its own. Where components have costs, the ratio is maximised by
Dinkelbach's iteration: a <- argmax gain(a) - mu cost(a), mu <- gain(a) / cost(a).

A policy chooses an arm number, or the row of an action; `describe` converts the choice into the fields of a query, and
`restored` converts the stored numbers of a query into the choice. The two classes have the same methods: policies and
sessions call these, and need not know which of them a problem has.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import ActionError, AnswerError, ComboPepsError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.input_checks import as_labels, as_vector
from combopeps.posterior.arms import Arms
from combopeps.utils.formatting import ShortRepr, short_repr
from combopeps.utils.validation import as_float_array, check_kind, check_positive

Mask = NDArray[np.bool_]
_MAX_DINKELBACH_CALLS = 3
# Where the oracle minimises lengths >= 0 only, lengths are level * (largest gain) - gain, clipped at 0. Level 1, which
# needs no clipping, is always used; lower levels penalise actions with many components less.
_LENGTH_LEVELS = (0.25, 0.0)


class SingleArms:
    """Action set of a problem whose arms are measured one at a time."""

    def __init__(self, arms: Arms, cost: Array) -> None:
        self._arms, self._cost = arms, cost

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {label: arm for arm, label in enumerate(self._arms.labels)}

    def parts_of(self, label: Hashable) -> tuple[int, ...]:
        """Return the arm with this label, as a tuple."""
        return (self._numbers[label],)

    def describe(self, choice: Any) -> tuple[Any, tuple[int, ...], None]:
        """Return the label of an arm, the arms to be read (this one), and None."""
        arm = int(choice)
        return self._arms.labels[arm], (arm,), None

    def restored(self, numbers: Sequence[int]) -> int:
        """Return the arm from its number, in a sequence of length 1; ValueError if it is invalid."""
        _check_numbers(numbers, len(self._arms))
        if len(numbers) != 1:
            raise ValueError("a query is for one arm")
        return numbers[0]

    def cost_of_one(self, arm: int) -> float:
        return float(self._cost[arm])

    def requested(self, arms: Iterable[int], n: int) -> tuple[list[int], None]:
        """Return the first n of the requested arms."""
        return list(islice(arms, n)), None

    def choose(self, policy: Any) -> NDArray[np.intp]:
        """Return the next arm of every replication."""
        arms: NDArray[np.intp] = policy.next_arms()
        return arms

    def simulate_round(self, policy: Any, environment: Any) -> None:
        """Choose and measure an arm in every replication, and update the policy."""
        arms = policy.next_arms()
        policy.learn(arms, environment.measure(arms))

    def count(self, policy: Any, numbers: Sequence[int]) -> None:
        """Do nothing: single arms are counted by their results."""

    def result_of(self, ys: list[float]) -> float:
        """Return the result of a measurement from that of its arm, in a list."""
        return ys[0]

    def number(self, policy: Any) -> None:
        """Return None, as nothing but arms is measured."""

    def spent(self, policy: Any) -> Array:
        """Return the total cost of the measurements, (R,)."""
        return np.asarray(policy.pulls @ self._cost)


class Actions(ShortRepr):
    """Action set whose actions are the answers of an action oracle.

    An action is a row of booleans over the components of the action oracle; components that are not in the problem are
    ignored.

    Parameters
    ----------
    oracle
        Oracle of the problem.
    actions
        "answers": the answers of that oracle; another oracle whose components have the same labels; or rows with
        entries 0 and 1 (K x d, or a dict label -> row).
    cost, part_cost
        Cost of an action, and additional cost of each component of the problem on it, (d,).

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> actions = Actions(TopKOracle(["a", "b", "c"], k=2), "answers")
    >>> best = actions.best(np.array([[1.0, 5.0, 3.0]]))
    >>> label, parts = actions.decode_in_order(best[0])
    >>> best, sorted(label), parts
    (array([[False,  True,  True]]), ['b', 'c'], (1, 2))
    """

    def __init__(self, oracle: ArgmaxOracle, actions: Any, cost: float = 1.0, part_cost: Array | None = None) -> None:
        check_kind("oracle", oracle, ArgmaxOracle)
        check_positive("cost", cost)
        if part_cost is not None:
            part_cost = as_float_array("part_cost", part_cost)
            if part_cost.shape != (oracle.dim,) or not (np.isfinite(part_cost) & (part_cost >= 0.0)).all():
                raise ParameterError(f"part_cost must be {oracle.dim} finite numbers of at least 0, one per component")
        if isinstance(actions, Actions):
            actions = actions.oracle
        self.are_answers = actions is oracle or (isinstance(actions, str) and actions == "answers")
        self.oracle: ArgmaxOracle = oracle if self.are_answers else _as_oracle(oracle, actions)
        if not self.oracle.binary:
            raise ActionError(
                f"an action shows a component or it does not, but {self.oracle!r} does not promise answers of 0 and "
                f"{self.oracle.unit:g} (binary = True)"
            )
        self._components = oracle.components
        number = {label: i for i, label in enumerate(oracle.components)}
        self._numbers = [number.get(label, -1) for label in self.oracle.components]  # -1: not in the problem
        self._shared = np.flatnonzero(np.array(self._numbers) >= 0)
        self._shared_number = np.array(self._numbers)[self._shared]
        if not len(self._shared):
            raise ActionError(
                f"actions show {short_repr(self.oracle.components[0], 40)}, ..., and nothing that answers are made of: "
                f"{short_repr(oracle.components[0], 40)}, ..."
            )
        self.cost, self.part_cost = float(cost), np.zeros(oracle.dim) if part_cost is None else part_cost
        self._part_cost = self._of_actions(self.part_cost[None])[0]
        self._parts_cost = bool(self._part_cost.any())
        # An oracle for lengths >= 0 cannot maximise gains: the longest path in a graph with cycles is NP-hard.
        self.finds_best = self.oracle.domain == "real" or (self.oracle.unit > 0 and not self.part_cost.any())
        self._check_cover()

    def __repr__(self) -> str:
        return "Actions(answers)" if self.are_answers else f"Actions({short_repr(self.oracle, 150)})"

    def _summary(self) -> Mapping[str, Any]:
        return {"actions": "answers" if self.are_answers else self.oracle, "cost": self.cost}

    def shown(self, actions: Mask) -> Mask:
        """Return the components of the problem on each action, (R, d)."""
        if self.are_answers:
            return actions
        shown = np.zeros((len(actions), len(self._components)), dtype=bool)
        shown[:, self._shared_number] = actions[:, self._shared]
        return shown

    def cost_of(self, actions: Mask) -> Array:
        """Return the cost of each action, (R,)."""
        return (
            np.asarray(self.cost + actions @ self._part_cost) if self._parts_cost else np.full(len(actions), self.cost)
        )

    def best(self, gains: Array, others: Mask | None = None) -> Mask:
        """Return the action with the largest gain per cost in every row, for gains (R, d).

        Where the action oracle takes lengths >= 0 only, the maximum is heuristic, and the best of `others`, (R, m, .),
        is returned if it has a larger ratio.
        """
        own = self._of_actions(gains)
        best = self._argmax(own)
        for _ in range(_MAX_DINKELBACH_CALLS - 1 if self._parts_cost else 0):
            mu = self._rate(own, best)[:, None]
            again = self._argmax(own - mu * self._part_cost)
            better = self._rate(own, again) > mu[:, 0]
            if not better.any():
                break
            best = np.where(better[:, None], again, best)
        if others is None or self.finds_best:
            return best
        rates = np.einsum("rd,rmd->rm", own, others) / (self.cost + others @ self._part_cost)
        leader, rows = rates.argmax(axis=1), np.arange(len(rates))
        better = rates[rows, leader] > self._rate(own, best)
        return np.where(better[:, None], others[rows, leader], best)

    def parts_of(self, label: Any) -> tuple[int, ...]:
        """Return the arms on the action with this label, in the order of its results."""
        return self.decode_in_order(self.oracle.encode(label) != 0.0)[1]

    def describe(self, choice: Mask) -> tuple[Any, tuple[int, ...], tuple[int, ...] | None]:
        """Return the label of an action, the arms to be read, and its components in the action oracle."""
        label, arms = self.decode_in_order(choice)
        return label, arms, tuple(np.flatnonzero(choice).tolist())

    def restored(self, numbers: Sequence[int]) -> Mask:
        """Return the action with these components of the action oracle; ValueError if they are invalid."""
        _check_numbers(numbers, self.oracle.dim)
        if any(one >= other for one, other in pairwise(numbers)):
            raise ValueError("the components of an action must be in increasing order")
        row = np.zeros(self.oracle.dim, dtype=bool)
        row[list(numbers)] = True
        return row

    def cost_of_one(self, action: Mask) -> float:
        return float(self.cost_of(action[None])[0])

    def requested(self, arms: Iterable[int], n: int) -> tuple[list[Mask], list[int]]:
        """Return up to n actions that measure the requested arms, and the requests that are left."""
        left, chosen = np.bincount(np.fromiter(arms, dtype=np.intp), minlength=len(self._components)), list[Mask]()
        while left.any() and len(chosen) < n:
            action = self.best(left[None].astype(np.float64))
            shown = self.shown(action)[0]
            if not left[shown].any():  # no action measures the arms that are left
                left[:] = 0
                break
            chosen.append(action[0])
            left[shown] = np.maximum(left[shown] - 1, 0)
        return chosen, np.repeat(np.arange(len(left)), left).tolist()

    def choose(self, policy: Any) -> Mask:
        """Return the next action of every replication."""
        actions: Mask = policy.next_actions()
        return actions

    def simulate_round(self, policy: Any, environment: Any) -> None:
        """Choose and measure an action in every replication, and update the policy."""
        actions = policy.next_actions()
        policy.learn_action(actions, environment.measure_parts(self.shown(actions)))

    def count(self, policy: Any, numbers: Sequence[int]) -> None:
        """Count an action, whose results are learnt separately, and its cost."""
        policy.count_actions(self.restored(numbers)[None])

    def result_of(self, ys: list[float]) -> list[float]:
        """Return the result of a measurement from those of its parts: these."""
        return ys

    def number(self, policy: Any) -> int:
        """Return the number of actions measured in one replication."""
        return int(policy.actions[0])

    def spent(self, policy: Any) -> Array:
        """Return the total cost of the actions, (R,)."""
        return np.asarray(policy.actions_cost)

    def _of_actions(self, gains: Array) -> Array:
        if self.are_answers:
            return gains
        own = np.zeros((len(gains), self.oracle.dim))
        own[:, self._shared] = gains[:, self._shared_number]
        return own

    def _rate(self, gains: Array, actions: Mask) -> Array:
        return _sums(gains, actions) / self.cost_of(actions)

    def _argmax(self, values: Array) -> Mask:
        """Maximise the sum of values; heuristically where the oracle takes lengths >= 0 only."""
        if self.oracle.domain == "real":
            return self._oracle_argmax(np.sign(self.oracle.unit) * values)
        if self.oracle.unit > 0:
            return self._oracle_argmax(np.maximum(values, 0.0))
        top = values.max(axis=1, keepdims=True)
        best = self._oracle_argmax(np.maximum(top - values, 0.0))
        for level in _LENGTH_LEVELS:
            found = self._oracle_argmax(np.maximum(level * top - values, 0.0))
            better = _sums(values, found) > _sums(values, best)
            best = np.where(better[:, None], found, best)
        return best

    def _oracle_argmax(self, thetas: Array) -> Mask:
        return np.asarray(self.oracle.argmax(thetas) != 0.0)

    def cover(self, tie: Array | None = None) -> tuple[list[Mask], list[Hashable]]:
        """Return a greedy set cover of the components by actions, and the components that are not covered.

        `tie`, (d,) in 0..1, breaks ties between actions with as many new components.
        """
        uncovered = np.ones(len(self._components), dtype=bool)
        chosen = list[Mask]()
        while uncovered.any():
            gains = uncovered.astype(np.float64)
            if tie is not None:
                gains += 0.5 / len(gains) * tie
            action = self._argmax(self._of_actions(gains[None]))
            shown = self.shown(action)[0]
            if not (shown & uncovered).any():
                break
            chosen.append(action[0])
            uncovered &= ~shown
        return chosen, [self._components[i] for i in np.flatnonzero(uncovered)]

    def _check_cover(self) -> None:
        """Raise ActionError if a component is on no action that is found."""
        if self.are_answers:
            return
        missing = self.cover()[1]
        if missing:
            raise ActionError(
                f"no action was found that shows {short_repr(missing[0], 80)} ({len(missing)} components in "
                f"all): it cannot "
                "be estimated; add actions that do"
            )

    def label(self, action: Mask) -> Any:
        """Return the decoded label of one action."""
        return self.oracle.decode(self._vector(action))

    def decode_in_order(self, action: Mask) -> tuple[Any, tuple[int, ...]]:
        """Return the label of one action, and the problem's components on it in the order of the label."""
        label, parts = self.oracle.decode_in_order(self._vector(action))
        own = (self._numbers[i] for i in parts)
        return label, tuple(parts) if self.are_answers else tuple(number for number in own if number >= 0)

    def find(self, label: Any) -> Mask:
        """Return the action with this label; ActionError if there is none."""
        try:
            action = self.oracle.encode(label)
            theta = np.where(action != 0.0, 1.0, -1.0) * np.sign(self.oracle.unit)
            if self.oracle.domain == "nonnegative":
                theta = np.maximum(theta, 0.0) if self.oracle.unit > 0 else (action == 0.0).astype(np.float64)
            again = self.oracle.argmax(theta)
        except ComboPepsError as cause:
            raise ActionError(f"{short_repr(label, 80)} is no action: {cause}") from None
        if not np.array_equal(again, action):
            raise ActionError(f"{short_repr(label, 80)} is no action: {self.oracle!r} has no such answer")
        return np.asarray(action != 0.0)

    def _vector(self, action: Mask) -> Array:
        return np.where(action, self.oracle.unit, 0.0)


def _check_numbers(numbers: Sequence[int], limit: int) -> None:
    if any(type(number) is not int or not 0 <= number < limit for number in numbers):
        raise ValueError("numbers of arms or components are integers within the problem")


def _sums(values: Array, actions: Mask) -> Array:
    return np.asarray(np.einsum("rd,rd->r", values, actions))


def _as_oracle(oracle: ArgmaxOracle, actions: Any) -> ArgmaxOracle:
    """Return the action oracle for the parameter `actions`, or raise ActionError."""
    if isinstance(actions, ArgmaxOracle):
        return actions
    if isinstance(actions, str):
        raise ActionError(f'actions must be "answers", an oracle, or rows of 0 and 1, got {actions!r:.40}')
    labels = list(actions.keys()) if isinstance(actions, Mapping) else None
    rows = as_float_array("actions", list(actions.values()) if isinstance(actions, Mapping) else actions, ActionError)
    if rows.ndim != 2 or rows.shape[1] != oracle.dim or not len(rows):
        raise ActionError(f"actions must be K x {oracle.dim}, one entry per component, got shape {rows.shape}")
    wrong = np.flatnonzero(~((rows == 0.0) | (rows == 1.0)).all(axis=1) | ~rows.any(axis=1))
    if len(wrong):
        name = wrong[0] if labels is None else labels[wrong[0]]
        raise ActionError(f"action {name!r:.60} must have entries 0 and 1 only, and show at least one component")
    return ListedActions(rows, range(len(rows)) if labels is None else labels, oracle.components)


class ListedActions(ArgmaxOracle):
    """Action oracle of a list of actions: rows of 0 and 1 with labels."""

    binary = quick = True

    def __init__(self, rows: Array, labels: Iterable[Hashable], components: Iterable[Hashable]) -> None:
        super().__init__(components)
        self.rows, self.labels = rows, as_labels(labels, "actions")
        self._number = {row.tobytes(): number for number, row in enumerate(rows)}

    def __repr__(self) -> str:
        return f"ListedActions({len(self.rows)} actions)"

    def _argmax_batch(self, thetas: Array) -> Array:
        return np.asarray(self.rows[(thetas @ self.rows.T).argmax(axis=1)])

    def decode(self, z: ArrayLike) -> Hashable:
        """Return the label of the action."""
        try:
            return self.labels[self._number[(as_vector(z, self.dim) + 0.0).tobytes()]]
        except KeyError:
            raise AnswerError("these components are none of the listed actions") from None

    def encode(self, answer: Any) -> Array:
        """Return the row of a label."""
        try:
            return np.array(self.rows[self.labels.index(answer)])
        except ValueError:
            raise AnswerError(f"no action is called {answer!r:.60}") from None
