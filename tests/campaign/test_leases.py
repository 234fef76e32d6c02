"""Leases: which client measures which open query. They make no difference to what is asked."""

import numpy as np
import pytest
from backends import events
from cases import measured, problems, state_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from combopeps import Campaign
from combopeps.campaign import check
from combopeps.errors import ParameterError, QueryError
from combopeps.session import Lease


@pytest.fixture
def campaign(tmp_path):
    return Campaign.create(tmp_path / "campaign.db", problems()["topk"])


@pytest.fixture
def now(monkeypatch):
    time = [1_000_000.0]
    monkeypatch.setattr("time.time", lambda: time[0])
    return time


def ids(queries):
    return [query.id for query in queries]


def test_a_client_that_asks_again_gets_its_own_queries(campaign):
    first = campaign.ask(2, client="ann")
    before = events(campaign.path)
    assert campaign.ask(2, client="ann") == first
    assert campaign.ask(client="ann") == first[0]
    assert Campaign.open(campaign.path).ask(1, client="ann") == first[:1]
    assert events(campaign.path) == before
    assert ids(campaign.ask(1, client="bob")) == [2]
    assert ids(campaign.ask(2)) == [3, 4]  # without a client
    assert ids(campaign.ask(4, client="ann")) == [0, 1, 5, 6]
    campaign.tell(0, 1.0)
    campaign.abandon(1)
    assert ids(campaign.ask(2, client="ann")) == [5, 6]
    assert campaign.leases == {2: Lease("bob"), 5: Lease("ann"), 6: Lease("ann")}
    assert campaign.status().leases == Campaign.open(campaign.path).leases == campaign.leases


def test_after_the_deadline_other_clients_get_a_query(campaign, now):
    campaign.ask(2, client="ann", lease=60)
    campaign.ask(1, client="eve")  # without a deadline
    now[0] += 60
    assert ids(campaign.ask(1, client="bob", lease=10)) == [3]
    now[0] += 1
    assert ids(campaign.ask(3, client="bob", lease=10)) == [3, 0, 1]
    assert events(campaign.path)[-1] == {"kind": "lease", "ids": [0, 1], "client": "bob", "until": now[0] + 10}
    assert ids(campaign.ask(2, client="ann")) == [4, 5]  # bob has the others
    now[0] += 1000
    assert ids(Campaign.open(campaign.path).ask(2, client="ann")) == [4, 5]
    assert ids(campaign.ask(3, client="ann")) == [4, 5, 0]
    campaign.tell(0, 1.5)
    campaign.tell(0, 1.5)  # by bob, too late: the same result
    with pytest.raises(QueryError, match="was answered 1\\.5 before"):
        campaign.tell(0, 2.5)
    assert campaign.samples == 1


def test_a_lease_is_extended_in_its_second_half_and_after_its_end(campaign, now):
    """At most one event for every half of the lease, however often a client asks."""
    campaign.ask(client="ann", lease=60)
    end = now[0] + 60
    for _ in range(10):
        now[0] += 2
        assert campaign.ask(client="ann", lease=60).id == 0
    campaign.ask(client="ann")  # without a lease nothing changes
    assert campaign.leases == {0: Lease("ann", end)}
    assert len(events(campaign.path)) == 2
    now[0] += 20
    for _ in range(3):
        assert campaign.ask(client="ann", lease=60).id == 0
        assert Campaign.open(campaign.path).leases == campaign.leases == {0: Lease("ann", end + 40)}
    assert len(events(campaign.path)) == 3
    now[0] = end + 30
    assert campaign.ask(client="bob").id == 1
    now[0] = end + 100  # it has passed, and no other client has the query
    assert campaign.ask(client="ann", lease=60).id == 0
    assert campaign.leases[0] == Lease("ann", now[0] + 60)


def same_data(one, other):
    """The same results and queries; the numbers of events and the leases differ."""
    for x, y in zip(state_of(one).items(), state_of(other).items(), strict=True):
        if x[0] == "ledger":
            x[1]["results"], y[1]["results"] = ({**z["results"], "event": 0} for z in (x[1], y[1]))
            x[1]["keys"] = y[1]["keys"] = []
        if x[0] not in ("event", "leases"):
            np.testing.assert_equal(x, y)
    ours, theirs = vars(one.status()), vars(other.status())
    for name in ours.keys() - {"z", "top_answers", "leases"}:
        np.testing.assert_equal(ours[name], theirs[name], name)


STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "tell", "observe", "abandon", "wait"]), st.integers(0, 3), st.integers(1, 3)),
    max_size=25,
)


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_leases_never_change_the_sequence_of_queries(tmp_path, now, policy):
    """The events without leases are those of a campaign that asks the same queries, and is in the same state."""
    runs = []

    @settings(max_examples=25, database=None, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(STEPS)
    def replayed(steps):
        runs.append(0)
        path, plain = tmp_path / f"{len(runs)}.db", tmp_path / f"{len(runs)}-plain.db"
        campaign = Campaign.create(path, problems()["topk"], policy=policy)
        for count, (what, who, n) in enumerate(steps):
            waiting = campaign.open_queries
            if what == "ask":
                client = [None, "ann", "bob", "eve"][who]
                queries = campaign.ask(n, client=client, lease=[None, 5.0, 50.0][n - 1] if client else None)
                assert len(set(ids(queries))) == n
            elif what == "observe":
                campaign.observe("a", 1.0 + n, key=f"{who}" if who else None) if who == 0 or n == 1 else None
            elif what == "wait":
                now[0] += 20.0 * n
            elif waiting and what == "tell":
                query = waiting[(who + count) % len(waiting)]
                campaign.tell(query, measured(query))
            elif waiting:
                campaign.abandon(waiting[who % len(waiting)])
        twin = Campaign.create(plain, problems()["topk"], policy=policy)
        for line in events(path)[1:]:
            if line["kind"] == "ask":
                asked = twin.ask(len(line["queries"]))
                assert [(q.id, q.arm) for q in asked] == [(q["id"], *q["measured"]) for q in line["queries"]]
            elif line["kind"] == "tell":
                twin.tell(line["id"], line["ys"][0])
            elif line["kind"] == "observe":
                twin.observe(line["label"], line["y"])
            elif line["kind"] == "abandon":
                twin.abandon(line["id"])
        again = Campaign.open(path)
        assert again.leases == campaign.leases
        assert set(again.leases) <= set(ids(again.open_queries))
        same_data(again, twin)
        if policy != "peps":  # whose weights are not restored
            assert again.ask(2) == twin.ask(2)
        assert check(path).faults == []

    replayed()
    assert len(runs) >= 25


@pytest.mark.parametrize(
    "name", ["", " ", "\u00a0  ", "a" * 65, "a\nb", "a\x00b", "a\x1b[2J", "\ud800", "a\u202eb", 7, b"ann", ["ann"]]
)
def test_invalid_names_of_clients_and_keys_are_refused(campaign, name):
    before = events(campaign.path)
    with pytest.raises(ParameterError, match="client must be a text of 1 to 64 characters"):
        campaign.ask(client=name)
    with pytest.raises(ParameterError, match="key must be a text of 1 to 64 characters"):
        campaign.observe("a", 1.0, key=name)
    with pytest.raises(ParameterError, match="key must be a text"):
        campaign.observe_table([("a", 1.0)], key=name)
    assert events(campaign.path) == before


@pytest.mark.parametrize(
    ("lease", "words"),
    [
        (lease, "lease must be a positive, finite number")
        for lease in (0, -1.0, float("nan"), float("inf"), True, "60", 1j)
    ]
    + [(lease, "at most 315576000 seconds, ten years; leave it out") for lease in (3.2e8, 1e12, 1e300, 10**400)],
)
def test_invalid_leases_are_refused(campaign, lease, words):
    with pytest.raises(ParameterError, match=words):
        campaign.ask(client="ann", lease=lease)
    with pytest.raises(ParameterError, match="lease requires client"):
        campaign.ask(lease=60)
    assert campaign.open_queries == []
    campaign.ask(client="ann", lease=315_576_000)
