"""How many measurements the best possible allocation needs: the constant of the paper's Eq. (1)."""

from combopeps.bound.cutting_planes import LowerBound, least_expected_cost, lower_bound

__all__ = ["LowerBound", "least_expected_cost", "lower_bound"]
