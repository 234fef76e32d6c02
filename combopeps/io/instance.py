"""`Instance`: a named problem with the true theta, if known."""

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
from combopeps.posterior.stated_values import NumberOrArray
from combopeps.problem import Problem
from combopeps.session.simulated_environment import as_noise
from combopeps.utils.formatting import ShortRepr


@dataclass(frozen=True, eq=False, repr=False)
class Instance(ShortRepr):
    """Named problem for simulations and benchmarks.

    Parameters
    ----------
    name
        Name of the instance.
    problem
        The problem: Z, the arms, the noise, the prior and the parameter space.
    theta
        True parameter, one number per component; None if unknown.
    title, note
        One line for listings, and the source of the numbers.
    origin
        The column or attribute of a file from which theta was read, or why it is unknown; not saved by `save_instance`.
    nature
        True distribution of measurements in simulations: "normal", "relative:0.3", "bernoulli", "poisson" or "student",
        as in `simulate`.

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
            object.__setattr__(self, "theta", _check_theta(self.theta, self.problem))
        with Field(self.nature, "nature").checked():
            noise = as_noise(Field(self.nature, "nature").text())
            if self.theta is not None:
                noise.check(self.arms.dot(self.theta), self.arms.labels)

    @property
    def oracle(self) -> ArgmaxOracle:
        """The oracle of the set Z of answers."""
        return self.problem.oracle

    @property
    def arms(self) -> Arms:
        """The arms that can be measured."""
        return self.problem.arms

    @property
    def noise_std(self) -> NumberOrArray | None:
        """Standard deviation of one measurement."""
        return self.problem.noise_std

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """Labels of the components of theta."""
        return self.problem.oracle.components

    @property
    def best(self) -> Any:
        """The best answer, decoded; None if theta is unknown."""
        return None if self.theta is None else self.oracle.decode(self.oracle.argmax(self.theta))


def instance_from_file(
    path: Path,
    oracle: ArgmaxOracle,
    theta: list[float] | None,
    options: Mapping[str, Any],
    origin: str = "",
) -> Instance:
    """Create an instance named after its file; `options` are the arguments noise_std, cost, ... of `Problem`."""
    true_theta = None if theta is None else np.array(theta, dtype=np.float64)
    return Instance(path.stem, Problem(oracle, **options), true_theta, note=f"read from {path.name}", origin=origin)


def resolve_columns(options: Mapping[str, Any], read: Callable[[str], list[float]]) -> dict[str, Any]:
    """Replace options that name a column or attribute of the file by its numbers."""
    return {key: np.array(read(value)) if isinstance(value, str) else value for key, value in options.items()}


def _check_theta(theta: ArrayLike, problem: Problem) -> Array:
    """Return a read-only copy of theta; `InstanceError` unless it is valid for the problem."""
    field = Field(theta, "theta")
    with field.checked():
        checked = as_thetas(theta, problem.oracle.dim, problem.oracle.domain).copy()
    if checked.ndim != 1:
        field.fail(f"must be one vector, got shape {checked.shape}")
    if not problem.space.contains(checked):
        field.fail(f"is outside {problem.space!r}")
    checked.flags.writeable = False
    return checked
