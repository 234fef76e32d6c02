"""A campaign behind HTTP: the same events, statuses and refusals as those of a campaign here."""

import json
import pickle

import numpy as np
import pytest
from backends import events
from cases import filled, go_on, measured, problems, same_state
from servers import served
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, Campaign, RemoteCampaign, TopKOracle
from combopeps.errors import LabelError, OracleMismatchError, ParameterError, QueryError, RewardError


def event_texts(path):
    """The events of a campaign as text, without leases, keys and the rows of their tables."""
    found = events(path)
    return [json.dumps({key: event[key] for key in event if key not in ("client", "key", "row")}) for event in found]


def actions():
    return unit_problem(problems()["route"].oracle, prior_std=3.0, actions="answers", cost=2.0, part_cost=0.5)


CASES = {name: (problem, {}) for name, problem in problems().items()} | {
    "peps": (problems()["topk"], {"policy": "peps"}),
    "initial_design": (problems()["topk"], {"initial_design": 2}),
    "actions": (actions(), {}),
    "certified": (problems()["topk"], {"stopping": "certified", "delta": 0.2}),
    "certified actions": (actions(), {"stopping": "certified", "delta": 0.2}),
    "verified": (problems()["topk"], {"stopping": "verified", "delta": 0.2}),
    "epsilon": (problems()["topk"], {"epsilon": 0.5}),
    "unknown noise": (unit_problem(TopKOracle(["a", "b", "c"], k=1), noise_std=None), {}),
}


QUICK = {("topk", 1), ("grid", 3), ("peps", 3), ("actions", 1), ("certified actions", 3), ("verified", 3)}
ALL = [
    pytest.param(case, batch, marks=() if (case, batch) in QUICK else pytest.mark.slow)
    for case in CASES
    for batch in (1, 3)
]


@pytest.mark.parametrize(("case", "batch"), ALL)
def test_a_remote_campaign_records_the_events_of_a_local_one(abroad, tmp_path, case, batch):
    problem, options = CASES[case]
    remote = abroad(problem, rng=5, **options)
    twin = Campaign.create(tmp_path / "twin", problem, rng=5, **options)
    for campaign in (remote, twin):
        go_on(campaign, 12, batch)
    assert event_texts(abroad.path) == event_texts(tmp_path / "twin")
    same_state(Campaign.open(abroad.path), twin)
    mine, theirs = remote.status(), twin.status()
    assert (mine.answer, mine.runner_up) == (theirs.answer, theirs.runner_up)
    assert type(mine.answer) is type(theirs.answer)
    assert mine.to_dict() == theirs.to_dict()
    assert mine.leases == remote.leases
    assert (remote.samples, remote.actions, remote.open_queries) == (twin.samples, twin.actions, twin.open_queries)
    assert mine.noise_estimate == theirs.noise_estimate
    np.testing.assert_allclose(remote.posterior.theta_hat, twin.posterior.theta_hat, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(remote.posterior.std, twin.posterior.std, rtol=1e-9)
    assert remote.ask(2) == twin.ask(2)


def test_a_remote_campaign_has_the_options_of_its_header(abroad):
    remote = abroad(
        problems()["topk"], delta=0.01, epsilon=0.5, rng=9, initial_design=2, policy="peps", stopping="heuristic"
    )
    local = Campaign.open(abroad.path)
    for name in ("policy_name", "delta", "epsilon", "stopping", "seed", "initial_design", "versions"):
        assert getattr(remote, name) == getattr(local, name), name
    assert remote.url in repr(remote)


@pytest.mark.parametrize("name", ["route", "grid", "matching"])
def test_labels_are_the_problems_own(abroad, name):
    campaign = abroad(problems()[name])
    queries = campaign.ask(3)
    local = Campaign.open(abroad.path)
    assert queries == local.open_queries
    assert [type(query.label) for query in queries] == [tuple] * 3
    np.testing.assert_array_equal(queries[0].x, local.open_queries[0].x)
    campaign.observe(queries[0].label, 2.0)
    campaign.observe(list(queries[0].label), 3.0)  # as JSON has it
    assert campaign.status().pulls[queries[0].label] == 2
    assert repr(campaign.observe_table([])) == "no rows"


def test_what_is_refused_is_refused_in_the_same_words_and_changes_nothing(abroad):
    campaign = abroad(problems()["topk"])
    twin = Campaign.open(abroad.path)
    for query in twin.ask(4):
        twin.tell(query, measured(query))
    twin.abandon(twin.ask())
    twin.ask(2)
    told, abandoned, waiting = 0, 4, campaign.open_queries[0]
    before, policy = events(abroad.path), twin.policy
    for error, act in [
        (QueryError, lambda c: c.tell(told, 99.0)),
        (QueryError, lambda c: c.tell(abandoned, 0.0)),
        (QueryError, lambda c: c.tell(1000, 0.0)),
        (QueryError, lambda c: c.tell(True, 0.0)),
        (QueryError, lambda c: c.tell("0", 0.0)),
        (QueryError, lambda c: c.tell_many([(waiting, 0.0), (waiting, 1.0)])),
        (QueryError, lambda c: c.tell_many([(waiting, 0.0), (1000, 1.0)])),
        (QueryError, lambda c: c.abandon(told)),
        (QueryError, lambda c: c.abandon(1000)),
        (RewardError, lambda c: c.tell(waiting, float("nan"))),
        (RewardError, lambda c: c.tell(waiting, float("inf"))),
        (RewardError, lambda c: c.tell(waiting, 1e300)),
        (RewardError, lambda c: c.tell(waiting.id, 1e300)),
        (RewardError, lambda c: c.tell(waiting, "warm")),
        (RewardError, lambda c: c.tell(waiting, 1.0, -1.0)),
        (RewardError, lambda c: c.tell(waiting.id, 1.0, -1.0)),
        (RewardError, lambda c: c.observe("a", None)),
        (LabelError, lambda c: c.observe("z", 0.0)),
        (LabelError, lambda c: c.observe({}, 0.0)),
        (ParameterError, lambda c: c.observe("a", 0.0, count=0)),
        (ParameterError, lambda c: c.ask(0)),
        (ParameterError, lambda c: c.ask(1.5)),
        (ParameterError, lambda c: c.ask(10**6)),
        (ParameterError, lambda c: c.tell_many([(waiting,)])),
        (LabelError, lambda c: c.observe_table([("a", 1.0), ("z", 1.0)])),
        (QueryError, lambda c: c.correct(1, 1.0)),
        (QueryError, lambda c: c.retract(99)),
        (RewardError, lambda c: c.correct(3, 1e300)),
        (RewardError, lambda c: c.correct(3, 1.0, sem=-1.0)),
        (ParameterError, lambda c: c.ask(client="")),
        (ParameterError, lambda c: c.ask(client="ann", lease=-1.0)),
    ]:
        said = []
        for one in (campaign, twin):
            with pytest.raises(error) as caught:
                act(one)
            said.append(str(caught.value))
            assert events(abroad.path) == before
        assert said[0] == said[1]
    assert twin.policy is policy  # nothing had to be read again
    same_state(twin, Campaign.open(abroad.path))


def test_a_query_of_another_campaign_is_refused(abroad, tmp_path):
    mine, theirs = abroad(problems()["topk"]), Campaign.create(tmp_path / "theirs", problems()["grid"])
    mine.ask()
    query = theirs.ask()
    for one in (mine, abroad.again(), Campaign.open(abroad.path)):
        with pytest.raises(QueryError, match="not asked here"):
            one.tell(query, 0.0)
        with pytest.raises(QueryError, match=r"not asked here|asked by another session"):
            one.abandon(query)


def test_actions_are_told_in_every_form(abroad):
    campaign = abroad(actions())
    first, second, third, fourth = campaign.ask(4)
    assert [first, second, third, fourth] == Campaign.open(abroad.path).open_queries
    campaign.tell(first, [1.0] * len(first.components))
    campaign.tell(second, {second.components[0]: (2.0, 0.5)})
    campaign.tell(third.id, [None, *[1.5] * (len(third.components) - 1)])
    campaign.tell(fourth.id, {fourth.components[0]: 2.5})
    with pytest.raises(RewardError, match="several results"):
        campaign.tell(first, 1.0, 0.5)
    with pytest.raises(RewardError, match="parts"):
        campaign.tell(campaign.ask(), 1.0)
    local = Campaign.open(abroad.path)
    assert (campaign.actions, campaign.samples) == (local.actions, local.samples) == (4, local.samples)
    status = campaign.status()
    assert status.cost == local.status().cost > 8.0


class Own(ArgmaxOracle):
    def _argmax_batch(self, thetas):
        return np.eye(self.dim)[thetas.argmax(axis=1)]


def test_an_oracle_of_ones_own_is_passed_to_the_client(abroad):
    campaign = abroad(Own(["a", "b"]), oracle=Own(["a", "b"]))
    go_on(campaign, 3)
    assert campaign.status().samples == 3
    with pytest.raises(OracleMismatchError, match=r"RemoteCampaign\(url, oracle=mine\)"):
        RemoteCampaign(campaign.url)
    with pytest.raises(OracleMismatchError, match="lacks"):
        RemoteCampaign(campaign.url, oracle=Own(["a", "c"]))


def test_a_copy_asks_the_same_server(abroad):
    abroad(problems()["topk"])
    ann = abroad.again(client="ann", timeout=3.0, patience=1.0)
    with pickle.loads(pickle.dumps(ann)) as copy, pickle.loads(pickle.dumps(abroad.again())) as nameless:
        assert (copy.client, copy.url) == ("ann", ann.url)
        assert copy.ask() == ann.ask()
        assert nameless.ask() != ann.ask()


def test_a_status_by_the_status_process_is_that_of_the_campaign(tmp_path):
    filled(tmp_path / "campaign.db")
    with served(str(tmp_path / "campaign.db"), looks_here=False) as address, RemoteCampaign(address) as campaign:
        local = Campaign.open(tmp_path / "campaign.db")
        assert campaign.status().to_dict() == local.status().to_dict()
        campaign.tell(campaign.open_queries[0], 1.0)
        assert campaign.status().samples == local.samples
