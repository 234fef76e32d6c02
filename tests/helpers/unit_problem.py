"""Problems with unit noise and the prior N(0, 1), as in the paper."""

from typing import Any

from combopeps import ArgmaxOracle, Problem


def unit_problem(
    oracle: ArgmaxOracle | Problem, arms: Any = None, noise_std: Any = 1.0, space: Any = None, **options: Any
) -> Problem:
    """A `Problem` in which everything is stated, by default noise 1 and the prior N(0, 1); a `Problem` stays as it is."""
    if isinstance(oracle, Problem):
        return oracle
    return Problem(oracle, arms, noise_std, space, **({"prior_mean": 0.0, "prior_std": 1.0} | options))
