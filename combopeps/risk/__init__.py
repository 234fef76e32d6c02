"""How probable is it that the current answer is wrong, or worse than the best by over epsilon, and who leads then?"""

from combopeps.risk.base import HALVINGS, Doubt, check_epsilon, over_noise
from combopeps.risk.plain import chance_worse, count_worse, doubt_about, leading

__all__ = [
    "HALVINGS",
    "Doubt",
    "chance_worse",
    "check_epsilon",
    "count_worse",
    "doubt_about",
    "leading",
    "over_noise",
]
