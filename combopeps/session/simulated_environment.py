"""Simulated measurements: the environment, with normal noise or another distribution.

    normal     y = mean + noise_std * N(0, 1)                    student    y = mean + noise_std * t_5 / sqrt(5/3)
    relative   y = mean + fraction * |mean| * N(0, 1)            bernoulli  y ~ Bernoulli(mean)
    poisson    y ~ Poisson(mean)

Policies and stopping rules assume normal noise; the other distributions simulate misspecified models.
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
from combopeps.problem import Problem
from combopeps.utils.formatting import ShortRepr

_STUDENT_DOF = 5  # finite variance, kurtosis 9
_ROUNDING = 1e-9  # means are computed from rows, and may exceed their range by rounding errors


class Draws(Protocol):
    """Source of random numbers, one row per replication: `Streams`, or `SingleRunDraws`."""

    def normal(self, n: int) -> Array:
        """Return n standard normals per row, (R, n)."""

    def uniform(self) -> Array:
        """Return one uniform per row, (R,)."""

    def generator(self, r: int) -> np.random.Generator:
        """Return a numpy generator for row r."""


class Noise(ShortRepr, ABC):
    """Base class of noise distributions; a subclass implements `draw`.

    Attributes
    ----------
    low, high
        Range of the means for which the distribution is defined.
    """

    low: ClassVar[float] = -inf
    high: ClassVar[float] = inf

    @abstractmethod
    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        """Return one measurement per row, (R,), of arms with these means and stated noise, (R,) each."""

    def check(self, means: Array, labels: Sequence[Hashable]) -> None:
        """Raise ParameterError for means, (K,) or (R, K), outside `low` to `high`; the error names the arm."""
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
    """Normal with the stated standard deviation; "normal:0.2" has standard deviation 0.2 instead."""

    std: float | None = None

    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        return mean + (std if self.std is None else self.std) * draws.normal(1)[:, 0]


@dataclass(frozen=True)
class StudentNoise(Noise):
    """Student's t with 5 degrees of freedom (outliers), scaled to the stated standard deviation, or to a given one."""

    std: float | None = None

    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        normal = draws.normal(1 + _STUDENT_DOF)
        t = normal[:, 0] / np.sqrt((normal[:, 1:] ** 2).mean(axis=1))
        unit: Array = t * sqrt((_STUDENT_DOF - 2) / _STUDENT_DOF)
        return mean + (std if self.std is None else self.std) * unit


@dataclass(frozen=True)
class RelativeNoise(Noise):
    """Normal with standard deviation proportional to the mean: "relative:0.3" is 30 % of it."""

    fraction: float

    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        return mean + self.fraction * np.abs(mean) * draws.normal(1)[:, 0]


@dataclass(frozen=True)
class BernoulliNoise(Noise):
    """Bernoulli, such as clicks: 1 with the arm's mean as probability, else 0."""

    low, high = 0.0, 1.0

    def draw(self, mean: Array, std: Array, draws: Draws) -> Array:
        return (draws.uniform() < mean).astype(np.float64)


@dataclass(frozen=True)
class PoissonNoise(Noise):
    """Poisson counts, such as calls per hour, with the arm's mean as rate."""

    low, high = 0.0, 1e15  # larger integers are not exact in double precision

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
    """Return a noise distribution from its name, with a parameter after a colon where it takes one.

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
    cls: Any = NOISES[kind]
    if given and not fields(cls):
        raise ParameterError(f'"{kind}" takes no number: leave out {":" + text!r:.40}')
    if not given and cls is RelativeNoise:
        raise ParameterError('"relative" requires the noise as a fraction of the mean: "relative:0.3"')
    noise: Noise = cls(_as_positive(kind, text)) if given else cls()
    return noise


class SingleRunDraws:
    """Random numbers of a single run from a numpy generator, in one row or several."""

    def __init__(self, rng: np.random.Generator, rows: int = 1) -> None:
        self._rng, self._rows = rng, rows

    def normal(self, n: int) -> Array:
        return self._rng.standard_normal((self._rows, n))

    def uniform(self) -> Array:
        return self._rng.random(self._rows)

    def generator(self, r: int) -> np.random.Generator:
        return self._rng


class Environment:
    """Simulated measurements of the arms of a problem.

    Parameters
    ----------
    problem
        The problem.
    means
        x @ theta of every arm, (K,); or (R, K), where theta differs between replications.
    draws
        Random numbers, one row per replication.
    noise
        Noise distribution: a name in `NOISES`, or a `Noise`.
    std
        True standard deviation of the noise of every arm, (K,), if it differs from that of the problem.
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
        """Return one measurement per replication, (R,), of the arms `arm`, (R,)."""
        means = self.means[arm] if self.means.ndim == 1 else self.means[np.arange(len(arm)), arm]
        return self.noise.draw(means, self._std[arm], self._draws)

    def measure_parts(self, shown: NDArray[np.bool_]) -> Array:
        """Return measurements of the arms selected by `shown`, (R, K); other entries are 0."""
        ys = np.zeros(shown.shape)
        for r, row in enumerate(shown):
            arms = np.flatnonzero(row)
            means = self.means[arms] if self.means.ndim == 1 else self.means[r, arms]
            ys[r, arms] = self.noise.draw(means, self._std[arms], SingleRunDraws(self._draws.generator(r), len(arms)))
        return ys

    def measure_label(self, label: Any) -> Any:
        """Return the result of an arm, or the list of results of an action, by label: `measure` of a single run."""
        parts = self._action_set.parts_of(label)
        arms = np.sort(parts)
        ys = self.noise.draw(self.means[arms], self._std[arms], SingleRunDraws(self._draws.generator(0), len(arms)))
        return self._action_set.result_of(ys[np.searchsorted(arms, parts)].tolist())


def _as_positive(kind: str, text: str) -> float:
    try:
        value = float(text) if text.isascii() and "_" not in text else inf
    except ValueError:
        value = inf
    if not (isfinite(value) and value > 0.0):
        raise ParameterError(f'the number after "{kind}:" must be positive, got {text!r:.40}')
    return value
