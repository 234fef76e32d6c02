"""Campaigns on instances of every kind, with a few measurements."""

import numpy as np

from combopeps import Campaign, load_instance

KINDS = {  # instance: form of its picture, and name of its kind
    "town": ("network", "Shortest route from station to hospital"),
    "nsfnet": ("network", "Shortest route from Palo Alto to Princeton"),
    "two-nets": ("network", "Best route from s to t"),
    "grid-10": ("network", "Shortest route from (0, 0) to (9, 9)"),
    "tree-e20": ("network", "Heaviest spanning tree"),
    "cyclic-matching": ("columns", "Best assignment of 4 to 4"),
    "topk-paper": ("rows", "The best 3 of 12"),
    "knapsack-20": ("rows", "The best selection that fits"),
    "partition-10": ("rows", "The best of each of 10 groups"),
    "which-model": ("rows", "The best solution of an integer program"),
    "soare": ("rows", "The best of 3 listed answers"),
    "sphere": ("rows", "The best of 20 listed answers"),
}


def measure(campaign, theta, samples, seed=1, batch=10):
    """Ask and tell until the campaign has this number of measurements."""
    rng, problem = np.random.default_rng(seed), campaign.problem

    def result(query):
        if problem.actions is None:
            return float(query.x @ theta + problem.noise[query.arm] * rng.normal())
        return [theta[part] + problem.noise[part] * rng.normal() for part in query.arms]

    while campaign.samples < samples:
        queries = campaign.ask(min(batch, samples - campaign.samples))
        campaign.tell_many([(query, result(query)) for query in queries])
    return campaign


def measured(folder, name, samples=30, *, actions=None, **options):
    """Return a campaign on an instance with some measurements, in a new file."""
    instance = load_instance(name)
    problem = instance.problem.copy_with(actions=actions, cost=10.0, part_cost=1.0) if actions else instance
    path = folder / f"{name}{'' if actions is None else '-actions'}.db"
    return measure(Campaign.create(path, problem, **options), instance.theta, samples)
