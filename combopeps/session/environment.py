"""What a simulated measurement gives: the true mean of an arm, and noise of some kind.

    normal     y = mean + noise_std * N(0, 1)                    student    y = mean + noise_std * t_5 / sqrt(5/3)
    relative   y = mean + fraction * |mean| * N(0, 1)            bernoulli  y = 1 with probability mean, else 0
    poisson    y = a count of that mean

Policies and rules believe in the first. The others show what becomes of a problem whose measurements are not like that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from math import inf, isfinite, sqrt
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array
from combopeps.policies.base import Policy
from combopeps.problem import Problem
from combopeps.utils.formatting import ShortRepr

_FREEDOM = 5  # degrees of freedom of "student": the variance exists, kurtosis is 9
_ROUNDING = 1e-9  # by which a mean, computed from rows, may leave its range


class Draws(Protocol):
    """Where random numbers come from, one row per replication: `Streams`, or `SingleRunDraws`."""

    def normal(self, n: int) -> Array:
        """n standard normals per row, (R, n)."""

    def uniform(self) -> Array:
        """One uniform per row, (R,)."""

    def generator(self, r: int) -> np.random.Generator:
        """A numpy generator for row r."""


class Noise(ShortRepr, ABC):
    """A kind of noise; one of your own needs `draw`.

    Attributes
    ----------
    low, high
        The means that such measurements can have.
    """

    low: ClassVar[float] = -inf
    high: ClassVar[float] = inf

    @abstractmethod
    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        """One measurement per row, (R,), of arms with these means, (R,), where the stated noise is `std`, (R,)."""

    def check(self, means: Array, labels: Sequence[Hashable]) -> None:
        """Refuse means, (K,) or (R, K), that no such measurement can have, by the label of the arm."""
        outside = np.argwhere(~((means >= self.low - _ROUNDING) & (means <= self.high + _ROUNDING)))
        if len(outside):
            first = tuple(outside[0])
            name = next((name for name, kind in NOISES.items() if isinstance(self, kind)), type(self).__name__)
            raise ParameterError(
                f"noise of the kind {name!r} needs means from {self.low:g} to {self.high:g}; "
                f"that of arm {labels[first[-1]]!r:.80} is {means[first]:g}"
            )


@dataclass(frozen=True)
class NormalNoise(Noise):
    """Normal with the stated standard deviation; "normal:0.2" with that of 0.2, whatever is stated."""

    std: float | None = None

    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        return mean + (std if self.std is None else self.std) * draws.normal(1)[:, 0]


@dataclass(frozen=True)
class StudentNoise(Noise):
    """Student's t with 5 degrees of freedom (outliers), of the stated standard deviation; "student:0.2" of 0.2."""

    std: float | None = None

    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        normal = draws.normal(1 + _FREEDOM)
        t = normal[:, 0] / np.sqrt((normal[:, 1:] ** 2).mean(axis=1))
        unit: Array = t * sqrt((_FREEDOM - 2) / _FREEDOM)
        return mean + (std if self.std is None else self.std) * unit


@dataclass(frozen=True)
class RelativeNoise(Noise):
    """Normal in proportion to the mean: with "relative:0.3", 30 % of it, whatever is stated."""

    fraction: float

    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        return mean + self.fraction * np.abs(mean) * draws.normal(1)[:, 0]


@dataclass(frozen=True)
class BernoulliNoise(Noise):
    """0 or 1, such as a click: 1 with the probability that is the arm's mean."""

    low, high = 0.0, 1.0

    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        return (draws.uniform() < mean).astype(np.float64)


@dataclass(frozen=True)
class PoissonNoise(Noise):
    """Counts, such as calls in an hour: Poisson, their rate is the arm's mean."""

    low, high = 0.0, 1e15  # beyond it, doubles do not count one by one

    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        counts = [draws.generator(r).poisson(max(0.0, rate)) for r, rate in enumerate(mean.tolist())]
        return np.array(counts, dtype=np.float64)


NOISES: dict[str, type[Noise]] = {
    "normal": NormalNoise,
    "relative": RelativeNoise,
    "bernoulli": BernoulliNoise,
    "poisson": PoissonNoise,
    "student": StudentNoise,
}


def as_noise(name: str | Noise) -> Noise:
    """A kind of noise by its name, with its number where it takes one.

    Examples
    --------
    >>> as_noise("relative:0.3")
    RelativeNoise(fraction=0.3)
    >>> as_noise("bernoulli")
    BernoulliNoise()
    """
    if isinstance(name, Noise):
        return name
    if not isinstance(name, str):
        raise ParameterError(f"a kind of noise is a name, or a Noise, got {name!r:.40}")
    kind, given, text = name.partition(":")
    if kind not in NOISES:
        raise ParameterError(f"no noise is called {kind!r:.40}; there are {', '.join(NOISES)}")
    make: Any = NOISES[kind]
    if given and not fields(make):
        raise ParameterError(f'"{kind}" takes no number: leave out {":" + text!r:.40}')
    if not given and make is RelativeNoise:
        raise ParameterError('"relative" needs the fraction of the mean that the noise is: "relative:0.3"')
    noise: Noise = make(_positive(kind, text)) if given else make()
    return noise


class SingleRunDraws:
    """Random numbers of a single run, from a numpy generator: one row, or one for each of several arms."""

    def __init__(self, rng: np.random.Generator, rows: int = 1) -> None:
        self._rng, self._rows = rng, rows

    def normal(self, n: int) -> Array:
        return self._rng.standard_normal((self._rows, n))

    def uniform(self) -> Array:
        return self._rng.random(self._rows)

    def generator(self, r: int) -> np.random.Generator:
        return self._rng


class Environment:
    """Measures: knows the true mean of every arm, and the noise.

    Parameters
    ----------
    problem
        Whose arms are measured.
    means
        x @ theta of every arm, (K,); or (R, K), where each replication has a theta of its own.
    draws
        Random numbers, one row per replication.
    noise
        Its kind: a name out of `NOISES` or a `Noise`.
    std
        Its standard deviation for every arm, (K,), where that is not what the problem states.
    """

    def __init__(
        self,
        problem: Problem,
        means: Array,
        draws: Draws,
        noise: str | Noise = "normal",
        std: Array | None = None,
    ) -> None:
        self.means, self.noise, self._action_set = means, as_noise(noise), problem.action_set
        self.noise.check(means, problem.arms.labels)
        self._std = problem.noise if std is None else std
        self._draws = draws

    def measure(self, arm: NDArray[np.intp]) -> Array:
        """One measurement in every replication, (R,), each of an arm of its own."""
        means = self.means[arm] if self.means.ndim == 1 else self.means[np.arange(len(arm)), arm]
        return self.noise.draw(means, self._std[arm], self._draws)

    def measure_parts(self, shown: NDArray[np.bool_]) -> Array:
        """A measurement of every arm that is shown, (R, K), each replication with random numbers of its own."""
        ys = np.zeros(shown.shape)
        for r, row in enumerate(shown):
            arms = np.flatnonzero(row)
            means = self.means[arms] if self.means.ndim == 1 else self.means[r, arms]
            ys[r, arms] = self.noise.draw(means, self._std[arms], SingleRunDraws(self._draws.generator(r), len(arms)))
        return ys

    def measure_label(self, label: Any) -> Any:
        """What `identify` calls, in a single run: the result of an arm, or a list of those of an action's parts."""
        parts = self._action_set.parts_of(label)
        arms = np.sort(parts)
        ys = self.noise.draw(self.means[arms], self._std[arms], SingleRunDraws(self._draws.generator(0), len(arms)))
        found = ys[np.searchsorted(arms, parts)].tolist()
        return found if self._action_set.has_parts else found[0]


def _positive(kind: str, text: str) -> float:
    try:
        value = float(text) if text.isascii() and "_" not in text else inf
    except ValueError:
        value = inf
    if not (isfinite(value) and value > 0.0):
        raise ParameterError(f'the number after "{kind}:" must be positive, got {text!r:.40}')
    return value


def simulate_round(policy: Policy, nature: Environment) -> None:
    """One round of every replication: choose, measure, learn."""
    chosen, actions = policy.next_choices(), policy.problem.actions
    if actions:
        policy.learn_action(chosen, nature.measure_parts(actions.shown(chosen)))
    else:
        policy.learn(chosen, nature.measure(chosen))
