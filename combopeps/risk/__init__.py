"""The posterior probability that an answer is wrong, or worse than the best by over epsilon; and of other answers."""

from combopeps.risk.base import HALVINGS, check_epsilon, over_noise
from combopeps.risk.plain import count_worse, rough_error_probability
from combopeps.risk.ranking import Ranked, Ranking, rank_answers

__all__ = [
    "HALVINGS",
    "Ranked",
    "Ranking",
    "check_epsilon",
    "count_worse",
    "over_noise",
    "rank_answers",
    "rough_error_probability",
]
