"""`Instance`: a problem with a name and, when it is known, the truth."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from combopeps.belief import Arms
from combopeps.errors import InstanceError
from combopeps.instances.parsing import Field
from combopeps.oracles._validate import as_thetas
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.problem import Problem
from combopeps.run.nature import noise_called


@dataclass(frozen=True, eq=False)
class Instance:
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
    nature: str = "normal"

    def __post_init__(self) -> None:
        for field in ("name", "title", "note"):
            if not isinstance(getattr(self, field), str):
                raise InstanceError(f"{field}: must be a string, got {getattr(self, field)!r}", field)
        if not self.name:
            raise InstanceError("name: must not be empty", "name")
        if not isinstance(self.problem, Problem):
            raise InstanceError(f"problem: must be a Problem, got {type(self.problem).__name__}", "problem")
        if self.theta is not None:
            object.__setattr__(self, "theta", _truth(self.theta, self.problem))
        with Field(self.nature, "nature").checked():
            noise = noise_called(Field(self.nature, "nature").text())
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
    def noise_std(self) -> float:
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
    path: Path, oracle: ArgmaxOracle, theta: list[float] | None, noise_std: float, prior_std: float | None
) -> Instance:
    """An instance called after the file that it was read from; its prior is as wide as theta is large."""
    truth = None if theta is None else np.array(theta, dtype=np.float64)
    if prior_std is None:
        prior_std = (float(np.sqrt(np.mean(truth**2))) if truth is not None else 0.0) or 1.0
    problem = Problem(oracle, noise_std=noise_std, prior_std=prior_std)
    return Instance(path.stem, problem, truth, note=f"read from {path.name}")


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
