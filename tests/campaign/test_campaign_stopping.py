"""Stopping rules in campaigns."""

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Campaign, CertifiedRule, PosteriorRule, TopKOracle, identify, load_instance
from combopeps.policies.base import Fantasies
from combopeps.stopping import Verdict

TRUTH = {"a": 0.0, "b": 3.0, "c": 1.0, "d": 0.5}


def problem():
    return unit_problem(TopKOracle(TRUTH, k=1), prior_std=3.0)


def run(path, stopping, *, reopen=False, policy="top-two", batch=1, most=2000):
    """Measure until status says stop; the labels in order."""
    campaign = Campaign.create(path, problem(), stopping=stopping, policy=policy, delta=0.05)
    noise, labels = np.random.default_rng(0), []
    while (status := campaign.status()).stop is False:
        assert len(labels) < most
        for query in campaign.ask(batch):
            labels.append(query.label)
            campaign.tell(query, TRUTH[query.label] + noise.normal())
        if reopen:
            campaign = Campaign.open(path)
    return status, labels


@pytest.mark.parametrize(("stopping", "word"), [("posterior", "Bayesian"), ("certified", "frequentist"), ("verified", "fresh data"), ("heuristic", "none is proved")])  # fmt: skip
def test_every_rule_stops_with_its_claim(tmp_path, stopping, word):
    status, _ = run(tmp_path / "run.db", stopping)
    assert status.answer == {"b"}
    assert word in status.claim
    assert min(status.pulls.values()) >= (1 if stopping in ("certified", "verified") else 0)


def test_there_is_no_claim_before(tmp_path):
    status = Campaign.create(tmp_path / "run.db", problem()).status()
    assert not status.stop
    assert status.claim == ""


def test_the_rule_decides_and_not_the_estimate(tmp_path, monkeypatch):
    """An estimate below delta is not enough: the rule bounds it from above."""
    run(tmp_path / "run.db", "posterior")
    assert Campaign.open(tmp_path / "run.db").status().stop
    monkeypatch.setattr(PosteriorRule, "_behind_half_spaces", lambda self, view, nu: (1.0, 0, ""))
    status = Campaign.open(tmp_path / "run.db").status()
    assert status.error_probability <= status.delta
    assert not status.stop


def test_a_certified_campaign_does_not_depend_on_reopening(tmp_path):
    straight = run(tmp_path / "one.db", "certified")[1]
    reopened = run(tmp_path / "two.db", "certified", reopen=True)[1]
    assert straight == reopened


def test_requests_are_not_issued_twice(tmp_path):
    """The certificate requests every arm that was not measured; what is being measured is not requested again."""
    campaign = Campaign.create(tmp_path / "run.db", problem(), stopping="certified", delta=0.4)
    for _ in range(10):
        campaign.observe("b", 9.0)
    first, second, third = (campaign.ask() for _ in range(3))
    assert {first.label, second.label, third.label} == {"a", "c", "d"}


@pytest.mark.parametrize("requested", ["acd", "aab", "b"])
def test_requests_come_first_and_then_what_the_policy_chooses(tmp_path, monkeypatch, requested):
    """Whatever else is being measured; until all of their results are there, the rule does not look again."""
    campaign, looks = Campaign.create(tmp_path / "run.db", problem(), stopping="certified"), []
    for query in campaign.ask(12)[:10]:
        campaign.tell(query, TRUTH[query.label])
    verdict = Verdict(False, sample_next=np.array(["abcd".index(label) for label in requested], dtype=np.int64))
    monkeypatch.setattr(CertifiedRule, "check", lambda self, view: looks.append(view.t) or verdict)
    first, *rest = [*campaign.ask(len(requested)), *campaign.ask(2)]
    assert "".join(query.label for query in (first, *rest))[: len(requested)] == requested
    monkeypatch.setattr(Fantasies, "choose", lambda self, stream: 3)
    assert campaign.ask().label == "d"  # the policy's choice
    campaign.abandon(first)
    again, other = Campaign.open(tmp_path / "run.db").ask(2)
    assert (again.label, other.label) == (requested[0], "d")
    assert looks == [10]


@pytest.mark.parametrize("stopping", ["certified", "posterior"])
def test_a_status_takes_one_look(tmp_path, monkeypatch, stopping):
    campaign = Campaign.create(tmp_path / "run.db", problem(), stopping=stopping)
    rule, looks = CertifiedRule if stopping == "certified" else PosteriorRule, []
    check = rule.check
    monkeypatch.setattr(rule, "check", lambda self, view: looks.append(1) or check(self, view))
    campaign.status()
    assert len(looks) == 1


def test_about_as_many_samples_as_identify(tmp_path):
    noise = np.random.default_rng(0)
    result = identify(problem(), lambda x: TRUTH[x] + noise.normal(), stopping=CertifiedRule(0.05))
    samples = run(tmp_path / "run.db", "certified")[0].samples
    assert 0.3 < samples / result.samples < 3


def test_the_belief_is_a_copy(tmp_path):
    campaign = Campaign.create(tmp_path / "run.db", load_instance("town"))
    campaign.observe(("station", "market"), 3.0)
    belief = campaign.belief
    assert belief.theta_hat[0].any()
    belief.update(0, 100.0)
    assert not np.array_equal(belief.theta_hat, campaign.belief.theta_hat)


@pytest.mark.parametrize("delta", [0.3, 0.9])
def test_looks_at_any_time_share_one_tenth_of_delta(tmp_path, monkeypatch, delta):
    """Every status takes a fresh rule; what all of them spend on simulation errors stays below what the claim allows."""
    spent = {}
    true = PosteriorRule._behind_half_spaces

    def watched(self, view, nu):
        spent.setdefault(view.t, nu)
        assert spent[view.t] == nu  # the same data, and the same random numbers: one look
        return true(self, view, nu)

    monkeypatch.setattr(PosteriorRule, "_behind_half_spaces", watched)
    campaign = Campaign.create(tmp_path / "looks.db", unit_problem(TopKOracle(2, k=1)), delta=delta)
    for i in range(40):
        campaign.observe(i % 2, float(i % 2) * 3.0)
        campaign.status()
        campaign.status()
    assert len(spent) > 20
    assert sum(spent.values()) <= 0.1 * delta
