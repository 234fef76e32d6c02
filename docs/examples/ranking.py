"""Which 5 of 30 articles are clicked most?

An article's click rate shows only when it is displayed, and every display of a dull article is wasted. One measurement
shows an article to 100 visitors and counts clicks. The count is binomial; of 100 visitors it is close enough to normal,
which is what the library assumes.
"""

import numpy as np

from combopeps import Problem, Result, TopKOracle, identify

VISITORS = 100  # per measurement

# Clicks per display. The library never sees this table, only counts.
RATES = {
    "election": 0.124, "flood": 0.112, "derby": 0.105, "royal baby": 0.098, "heat wave": 0.090,
    "tax reform": 0.062, "new phone": 0.060, "film awards": 0.058, "strike": 0.055, "bakery": 0.054,
    "budget": 0.050, "trains": 0.048, "marathon": 0.047, "vaccine": 0.045, "museum": 0.043,
    "festival": 0.042, "school": 0.040, "bees": 0.038, "rent": 0.036, "recipe": 0.035,
    "chess": 0.033, "opera": 0.031, "stocks": 0.030, "gardening": 0.028, "bridge": 0.025,
    "obituary": 0.022, "crossword": 0.020, "tides": 0.016, "fog": 0.013, "minutes": 0.009,
}  # fmt: skip

# The count varies with standard deviation sqrt(p (1 - p) / VISITORS), which is largest for the largest rate. Nobody
# here expects a rate above 15 %, so this is never too small: too small a value would stop too early.
NOISE = (0.15 * 0.85 / VISITORS) ** 0.5


def main(budget: int | None = None, seed: int = 0) -> Result:
    """Show articles to 100 visitors at a time until the top 5 are known."""
    visitors = np.random.default_rng(seed)

    def show(article: str) -> float:
        return visitors.binomial(VISITORS, RATES[article]) / VISITORS

    problem = Problem(TopKOracle(RATES, k=5), noise_std=NOISE, prior_mean=0.0, prior_std=1.0)
    result = identify(problem, show, delta=0.05, budget=budget, rng=seed)

    print(f"Top 5: {', '.join(sorted(result.answer))}")
    print(f"In doubt: {', '.join(sorted(result.answer - result.runner_up))}", end=" ")
    print(f"(instead perhaps {', '.join(sorted(result.runner_up - result.answer))})")
    print(f"{result.samples} measurements of {VISITORS} visitors; wrong with probability {result.error_text}")
    print("Measurements per article:")
    for article, measurements in sorted(result.pulls.items(), key=lambda pull: -pull[1]):
        print(f"  {article:12}{measurements:4} {'#' * measurements}")
    return result


if __name__ == "__main__":
    main()
