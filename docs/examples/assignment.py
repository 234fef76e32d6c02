"""Who should do what, so that the work takes the least time in all?

Five people, six jobs, one job each. How long a person takes for a job is only known by letting them do it, and differs
from day to day. Which pairs should be tried?
"""

import numpy as np

from combopeps import MatchingOracle, Problem, Result, identify

NOISE = 5.0  # standard deviation from one day to another, in minutes
TYPICAL = 50.0  # minutes; how large the times may be expected to be, before anything is measured

JOBS = ["deliveries", "invoices", "packing", "phone", "repairs", "website"]
# Average minutes of each person for each job. The library never sees this table, only noisy days.
MINUTES = {
    "Ada": [55, 35, 60, 40, 70, 30],
    "Ben": [30, 65, 45, 60, 50, 85],
    "Cleo": [50, 25, 55, 35, 75, 45],
    "Dev": [45, 60, 35, 55, 30, 60],
    "Eve": [60, 50, 40, 30, 65, 55],
}


def main(budget: int | None = None, seed: int = 0) -> Result:
    """Try one person at one job at a time until the best assignment is known."""
    days = np.random.default_rng(seed)

    def try_out(pair: tuple[str, str]) -> float:
        person, job = pair
        return MINUTES[person][JOBS.index(job)] + NOISE * days.normal()

    problem = Problem(MatchingOracle(MINUTES, JOBS, maximize=False), noise_std=NOISE, prior_std=TYPICAL, prior_mean=0.0)
    result = identify(problem, try_out, delta=0.05, budget=budget, rng=seed)

    print("Best assignment, and the closest rival:")
    for person, job in result.answer.items():
        print(f"  {person:6}{job:12}{result.runner_up[person]}")
    print(f"{result.samples} days; wrong with probability {result.error_text}")
    print("Days spent on each pair:")
    print("        " + "".join(f"{job:>12}" for job in JOBS))
    for person in MINUTES:
        print(f"  {person:6}" + "".join(f"{result.pulls[person, job]:12}" for job in JOBS))
    return result


if __name__ == "__main__":
    main()
