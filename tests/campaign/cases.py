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
    """A result that depends on the query alone, so that interrupted and uninterrupted runs meet the same world.

    Of an action, all parts but one in every third query were read.
    """
    if query.arm < 0:
        ys = (1.0 + 0.3 * np.array(query.parts) + np.sin(query.id + np.arange(len(query.parts)))).tolist()
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


def same_state(one, other):
    """Bit for bit: belief, pulls, queries and everything that is shown; not the next query, nor what only steers it."""
    x, y = one.status(), other.status()
    a, b = one._state, other._state
    fields = [name for name, value in vars(a.policy.belief).items() if isinstance(value, np.ndarray)]
    assert {"theta_hat", "moment"} < set(fields)
    for name in fields:
        np.testing.assert_array_equal(getattr(a.policy.belief, name), getattr(b.policy.belief, name), name)
    np.testing.assert_array_equal(a.policy.pulls, b.policy.pulls)
    assert (a.policy.actions[0], a.policy.spent[0]) == (b.policy.actions[0], b.policy.spent[0])
    np.testing.assert_array_equal(a.policy._tie, b.policy._tie)
    assert a.ledger.open == b.ledger.open
    assert a.ledger._answers == b.ledger._answers
    assert a.ledger.next_id == b.ledger.next_id
    assert (x.answer, x.alternative, x.error_probability) == (y.answer, y.alternative, y.error_probability)
    assert (x.samples, x.pulls, x.open_queries) == (y.samples, y.pulls, y.open_queries)
    assert (x.stop, x.claim, x.warning) == (y.stop, y.claim, y.warning)


def filled(path, tells=4, **options):
    """A small campaign with asks, tells, an observation and an abandoned query."""
    campaign = Campaign.create(path, problems()["topk"], **options)
    for query in campaign.ask(tells):
        campaign.tell(query, measured(query))
    campaign.observe("b", 1.25)
    campaign.abandon(campaign.ask())
    campaign.ask(2)
    return campaign
