"""Problems, measurements and state files that the tests of campaigns share."""

import networkx as nx
import numpy as np

from combopeps import Campaign, ExplicitOracle, MatchingOracle, Problem, ShortestPathOracle, TopKOracle

STATED = {"noise_std": 1.0, "prior_mean": 0.0, "prior_std": 1.0}
ROADS = [("home", "bridge"), ("home", "tunnel"), ("tunnel", "bridge"), ("bridge", "work"), ("tunnel", "work")]


def problems():
    """One of each kind, by name."""
    grid = nx.DiGraph(
        ((i, j), (i + a, j + 1 - a))
        for i in range(4)
        for j in range(4)
        for a in (0, 1)
        if (i + a) < 4 and (j + 1 - a) < 4
    )
    rows = {"sum": [1.0, 1.0, 0.0], "left": [1.0, 0.0, 0.2], "rest": [0.0, -1.0, 1.0]}
    return {
        "topk": Problem(TopKOracle(["a", "b", "c", "d", "e"], k=2), **STATED | {"noise_std": 0.5, "prior_std": 2.0}),
        "route": Problem(ShortestPathOracle(nx.DiGraph(ROADS), "home", "work"), **STATED | {"prior_std": 3.0}),
        "grid": Problem(ShortestPathOracle(grid, (0, 0), (3, 3)), **STATED | {"prior_std": 3.0}),
        "matching": Problem(MatchingOracle(4, 4), **STATED | {"noise_std": 0.7, "prior_mean": 0.0, "prior_std": 5.0}),
        "explicit": Problem(ExplicitOracle(np.eye(3)), arms=rows, **STATED),
    }


def measured(query):
    """A result that depends on the query alone, so that interrupted and uninterrupted runs get the same ones.

    Of an action, all parts were read, except the first one in every third query.
    """
    if query.action is not None:
        ys = (1.0 + 0.3 * np.array(query.arms) + np.sin(query.id + np.arange(len(query.arms)))).tolist()
        return [None, *ys[1:]] if query.id % 3 == 0 else ys
    rng = np.random.default_rng([77, query.id, query.arm])
    return 1.0 + 0.3 * query.arm + 0.5 * float(rng.standard_normal())


def go_on(campaign, samples, batch=1):
    """Ask and tell until there are so many measurements; open queries first."""
    while True:
        queries = campaign.open_queries
        if not queries:
            if campaign.samples >= samples:
                return
            queries = campaign.ask(batch)
        for query in queries:
            campaign.tell(query, measured(query))


# By a policy from its choices: not in events.
LEARNT = {"t", "initial_design", "learner", "leader", "tracker", "turns", "runs", "epoch", "left"}


def state_of(campaign):
    """All data, and the state of the rule where it has one, which `Campaign.open` restores bit for bit."""
    campaign.samples  # noqa: B018, reads the events of others
    state = campaign.state_dict()
    state["policy"] = {name: value for name, value in state["policy"].items() if name not in LEARNT}
    if not campaign.rule.requests_measurements:
        del state["rule"]
    return state


def same_state(one, other):
    """Bit for bit the same data, claims and state of the rule; not what only decides about the next query."""
    x, y = one.status(), other.status()
    ours, theirs = state_of(one), state_of(other)
    np.testing.assert_equal(ours, theirs)
    for name in vars(x).keys() - {"z", "top_answers"}:
        np.testing.assert_equal(getattr(x, name), getattr(y, name), name)
    assert [(top.answer, top.probability) for top in x.top_answers] == [
        (top.answer, top.probability) for top in y.top_answers
    ]


def filled(path, tells=4, **options):
    """A small campaign with asks, tells, an observation and an abandoned query."""
    campaign = Campaign.create(path, problems()["topk"], **options)
    for query in campaign.ask(tells):
        campaign.tell(query, measured(query))
    campaign.observe("b", 1.25)
    campaign.abandon(campaign.ask())
    campaign.ask(2)
    return campaign
