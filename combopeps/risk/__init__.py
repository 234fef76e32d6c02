"""The posterior probability that an answer is wrong, or worse than the best by over epsilon; and of other answers."""

from combopeps.risk.estimate import HALVINGS, check_epsilon, count_worse, over_noise, rough_error_probability
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
