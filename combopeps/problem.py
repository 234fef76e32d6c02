"""`Problem`: what to find, what can be measured, and how noisy that is."""

from __future__ import annotations

from typing import Any

from combopeps.belief import Arms, check_reach
from combopeps.belief.scales import check_scales, check_sizes
from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.oracles.probe import check_interface
from combopeps.space import ParameterSpace, space_for


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
        Standard deviation of the noise. It, prior_std, their ratio and the largest entries of arms must lie between
        1e-50 and 1e50, so that no square overflows.
    space
        Theta; by default all that the oracle can maximise over.
    prior_std
        How large the entries of theta are expected to be: the belief starts as N(0, prior_std^2) in every component.
        Far too small a value makes unmeasured components look bad, and wrong answers look certain.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=0.5)
    Problem(TopKOracle(1 of 3), 3 arms, noise_std=0.5)
    """

    def __init__(
        self,
        oracle: ArgmaxOracle,
        arms: Any = None,
        noise_std: float = 1.0,
        space: ParameterSpace | None = None,
        *,
        prior_std: float = 1.0,
    ) -> None:
        if not isinstance(oracle, ArgmaxOracle):
            raise ParameterError(f"a problem needs an ArgmaxOracle, got {type(oracle).__name__}")
        check_scales(noise_std=noise_std, prior_std=prior_std)
        check_interface(oracle)
        self.oracle = oracle
        self.arms = Arms.of(oracle, arms)
        self.noise_std, self.prior_std = float(noise_std), float(prior_std)
        check_sizes(self.arms, noise_std=self.noise_std, prior_std=self.prior_std)
        self.space = space_for(oracle, space)
        self.known = check_reach(self.arms, oracle)  # some answers, which those of a run are compared with

    def __repr__(self) -> str:
        return f"Problem({self.oracle!r}, {len(self.arms)} arms, noise_std={self.noise_std:g})"
