"""`Instance`: a problem with a name and, when it is known, the truth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import InstanceError
from combopeps.io.parsing import Field
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.input_checks import as_thetas
from combopeps.posterior.arms import Arms
from combopeps.posterior.per_label import NumberOrArray
from combopeps.problem import Problem
from combopeps.session.environment import as_noise
from combopeps.utils.formatting import ShortRepr


@dataclass(frozen=True, eq=False, repr=False)
class Instance(ShortRepr):
    """A problem to try things on.

    Parameters
    ----------
    name
        What it is called.
    problem
        Z, the arms, the noise, the prior and Theta.
    theta
        The truth, one number per component; None when nobody knows it.
    title, note
        One line for a list, and where the numbers come from.
    origin
        The column or attribute of a file from which theta was read, or why there is none; not kept by `save_instance`.
    nature
        What its measurements are really like, for simulations: "normal", "relative:0.3", "bernoulli", "poisson" or
        "student", as in `simulate`.

    Examples
    --------
    >>> from combopeps import Problem, TopKOracle
    >>> beers = Instance("beers", Problem(TopKOracle(["ale", "bock", "cider"], k=1)), theta=[0.2, 0.9, 0.4])
    >>> beers.best
    {'bock'}
    >>> beers.labels
    ('ale', 'bock', 'cider')
    """

    name: str
    problem: Problem
    theta: Array | None = None
    title: str = ""
    note: str = ""
    origin: str = ""
    nature: str = "normal"

    def __post_init__(self) -> None:
        for field in ("name", "title", "note", "origin"):
            if not isinstance(getattr(self, field), str):
                raise InstanceError(f"{field}: must be a string, got {getattr(self, field)!r}", field)
        if not self.name:
            raise InstanceError("name: must not be empty", "name")
        if not isinstance(self.problem, Problem):
            raise InstanceError(f"problem: must be a Problem, got {type(self.problem).__name__}", "problem")
        if self.theta is not None:
            object.__setattr__(self, "theta", _truth(self.theta, self.problem))
        with Field(self.nature, "nature").checked():
            noise = as_noise(Field(self.nature, "nature").text())
            if self.theta is not None:
                noise.check(self.arms.dot(self.theta), self.arms.labels)

    @property
    def oracle(self) -> ArgmaxOracle:
        """Z."""
        return self.problem.oracle

    @property
    def arms(self) -> Arms:
        """What can be measured."""
        return self.problem.arms

    @property
    def noise_std(self) -> NumberOrArray | None:
        """Standard deviation of one measurement."""
        return self.problem.noise_std

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The components of theta, by name."""
        return self.problem.oracle.components

    @property
    def best(self) -> Any:
        """The best answer as a person reads it; None when theta is not known."""
        return None if self.theta is None else self.oracle.decode(self.oracle.argmax(self.theta))


def instance_from_file(
    path: Path,
    oracle: ArgmaxOracle,
    theta: list[float] | None,
    said: Mapping[str, Any],
    origin: str = "",
) -> Instance:
    """An instance called after the file that it was read from, with what was stated of noise, cost and prior."""
    truth = None if theta is None else np.array(theta, dtype=np.float64)
    return Instance(path.stem, Problem(oracle, **said), truth, note=f"read from {path.name}", origin=origin)


def in_file(said: Mapping[str, Any], read: Callable[[str], list[float]]) -> dict[str, Any]:
    """Numbers as they are; where a name stands instead of one, what the file's column or attribute of that name has."""
    return {key: np.array(read(value)) if isinstance(value, str) else value for key, value in said.items()}


def _truth(theta: ArrayLike, problem: Problem) -> Array:
    field = Field(theta, "theta")
    with field.checked():
        truth = as_thetas(theta, problem.oracle.dim, problem.oracle.domain).copy()
    if truth.ndim != 1:
        field.fail(f"one vector is wanted, got shape {truth.shape}")
    if not problem.space.contains(truth):
        field.fail(f"lies outside {problem.space!r}")
    truth.flags.writeable = False
    return truth
