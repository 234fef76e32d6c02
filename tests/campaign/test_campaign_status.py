"""Stopping rules, claims, warnings and the status of a campaign."""

import json
import warnings

import numpy as np
import pytest
from servers import served
from unit_problem import unit_problem

from combopeps import (
    Campaign,
    CertifiedRule,
    PosteriorRule,
    Problem,
    RemoteCampaign,
    TopKOracle,
    identify,
    load_instance,
)
from combopeps.campaign import copy
from combopeps.cli import main
from combopeps.errors import NoiseWarning, PriorWarning
from combopeps.policies.base import Fantasies
from combopeps.stopping import Verdict
from combopeps.viz.build_view_model import report_data
from combopeps.viz.curves import plot_pulls
from combopeps.viz.html import render, report

TRUTH = {"a": 0.0, "b": 3.0, "c": 1.0, "d": 0.5}


def problem(labels=TRUTH):
    return unit_problem(TopKOracle(labels, k=1), prior_std=3.0)


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


@pytest.mark.parametrize(
    ("stopping", "word"),
    [("posterior", "Bayesian"), ("certified", "frequentist"), ("verified", "fresh data"), ("heuristic", "none is")],
)
def test_every_rule_stops_with_its_claim_and_not_before(tmp_path, stopping, word):
    assert Campaign.create(tmp_path / "new.db", problem(), stopping=stopping).status().claim == ""
    status, _ = run(tmp_path / "run.db", stopping)
    assert status.answer == {"b"}
    assert word in status.claim
    assert min(status.pulls.values()) >= (1 if stopping in ("certified", "verified") else 0)


def test_the_rule_decides_and_not_the_estimate(tmp_path, monkeypatch):
    run(tmp_path / "run.db", "posterior")
    assert Campaign.open(tmp_path / "run.db").status().stop
    monkeypatch.setattr(PosteriorRule, "check", lambda self, view: Verdict(False))
    status = Campaign.open(tmp_path / "run.db").status()
    assert status.error_probability <= status.delta
    assert not status.stop


def test_a_certified_campaign_measures_the_same_when_it_is_reopened_and_about_as_much_as_identify(tmp_path):
    status, straight = run(tmp_path / "one.db", "certified")
    assert run(tmp_path / "two.db", "certified", reopen=True)[1] == straight
    noise = np.random.default_rng(0)
    result = identify(problem(), lambda x: TRUTH[x] + noise.normal(), stopping=CertifiedRule(0.05))
    assert 0.3 < status.samples / result.samples < 3


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
    verdict = Verdict(False, requested_arms=np.array(["abcd".index(label) for label in requested], dtype=np.int64))
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


def test_the_posterior_is_a_copy(tmp_path):
    campaign = Campaign.create(tmp_path / "run.db", load_instance("town"))
    campaign.observe(("station", "market"), 3.0)
    posterior = campaign.posterior
    assert posterior.theta_hat[0].any()
    posterior.update(0, 100.0)
    assert not np.array_equal(posterior.theta_hat, campaign.posterior.theta_hat)


@pytest.mark.parametrize("delta", [0.3, 0.9])
def test_looks_at_any_time_share_one_tenth_of_delta(tmp_path, monkeypatch, delta):
    """Every status takes a fresh rule; what all of them spend on simulation errors stays below what the claim allows."""
    spent = {}
    true = PosteriorRule._bound_by_half_spaces

    def watched(self, view, nu):
        spent.setdefault(view.t, nu)
        assert spent[view.t] == nu  # the same data, and the same random numbers: one look
        return true(self, view, nu)

    monkeypatch.setattr(PosteriorRule, "_bound_by_half_spaces", watched)
    campaign = Campaign.create(tmp_path / "looks.db", unit_problem(TopKOracle(2, k=1)), delta=delta)
    for i in range(40):
        campaign.observe(i % 2, float(i % 2) * 3.0)
        campaign.status()
        campaign.status()
    assert len(spent) > 20
    assert sum(spent.values()) <= 0.1 * delta


ALMOST = {"a": 0.0, "b": 3.0, "c": 2.9, "d": 0.5}


def almost_certain(path, **options):
    """Every arm in turn, the same numbers for each campaign."""
    campaign, noise = Campaign.create(path, problem(), **options), np.random.default_rng(1)
    campaign.observe_table([("abcd"[i % 4], ALMOST["abcd"[i % 4]] + noise.normal()) for i in range(200)])
    return campaign


@pytest.mark.parametrize(
    ("stopping", "claim"),
    [
        ("posterior", "the answer is worse than the best by more than 2 with posterior probability at most 0.05"),
        (
            "certified",
            "the answer is worse than the best by more than 2 with probability at most 0.05, for every theta",
        ),
        ("heuristic", "none is proved"),
        ("clucb", "the answer is worse than the best by more than 2 with probability at most 0.05, for every theta"),
    ],
)
def test_with_an_epsilon_almost_the_best_is_enough_and_the_claim_and_copies_have_it(stopping, claim, tmp_path):
    status = almost_certain(tmp_path / "lenient.db", stopping=stopping, epsilon=2.0).status()
    assert status.stop
    assert status.epsilon == 2.0
    assert status.claim.startswith(claim)
    copy(tmp_path / "lenient.db", tmp_path / "copy.db")
    again = Campaign.open(tmp_path / "copy.db")
    assert (again.epsilon, again.status().claim) == (2.0, status.claim)
    strict = almost_certain(tmp_path / "strict.db", stopping=stopping).status()  # the negative control
    assert (strict.stop, strict.epsilon) == (False, 0.0)


CASES = {
    "prior": (
        PriorWarning,
        {"noise_std": 1.0, "prior_std": 1.0},
        "contradict the stated prior",
        "claims that rest on the prior do not hold then",
    ),
    "smaller noise": (NoiseWarning, {"noise_std": 60.0, "prior_std": 100.0}, "times as large as stated", "claims hold"),
    "larger noise": (
        NoiseWarning,
        {"noise_std": 0.1, "prior_std": 100.0},
        "times as large as stated",
        "no claim holds",
    ),
}
MEANS = {"a": 82.0, "b": 81.0, "c": 70.0}


def told(place, case, **options):
    """Measurements with noise 1, by a table and by queries."""
    category, scales, *_ = CASES[case]
    problem = unit_problem(TopKOracle(MEANS, k=1), prior_mean=0.0, **scales)
    campaign, rng = Campaign.create(place, problem, **options), np.random.default_rng(0)

    def tell():
        campaign.observe_table([(item, mean + rng.normal()) for item, mean in MEANS.items()])
        for _ in range(8):
            campaign.tell_many([(query, MEANS[query.label] + rng.normal()) for query in campaign.ask(4)], confirm=True)

    with pytest.warns(category) as seen:
        tell()
    assert [warning.category for warning in seen] == [category]
    return campaign


@pytest.mark.parametrize("case", CASES)
def test_status_command_page_report_and_server_show_the_warning(tmp_path, case, capsys):
    url = f"sqlite:///{tmp_path}/runs.db#beans"
    campaign = told(url, case)
    says, follows = CASES[case][2:]
    status = Campaign.open(url).status()
    assert says in status.warning
    assert follows in status.warning
    assert status.warning == campaign.status().warning
    assert status.to_dict()["warning"] == status.warning
    main(["status", "--state", url])
    assert status.warning in capsys.readouterr().out
    main(["status", "--state", url, "--json"])
    assert json.loads(capsys.readouterr().out)["warning"] == status.warning
    facts = report_data(Campaign.open(url))
    assert facts.warnings == (status.warning,)
    assert says in render(facts)
    report(campaign, tmp_path / "page.html")
    assert follows in (tmp_path / "page.html").read_text(encoding="utf-8")
    with served(url) as address:
        remote = RemoteCampaign(address)
        assert remote.status().warning == status.warning
        assert remote.status().claim == status.claim
    if status.stop:
        assert says in status.claim
        assert ("does not hold" in status.claim) == (case != "smaller noise")


@pytest.mark.parametrize("case", CASES)
def test_the_result_of_a_run_and_its_page_have_the_warning(tmp_path, case):
    campaign = told(tmp_path / "run.db", case)
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = campaign.run(lambda item: MEANS[item] + rng.normal(), budget=5)
    assert CASES[case][2] in result.warning
    assert CASES[case][2] in result.claim
    assert report_data(result).warnings == (result.warning,)


def test_measurements_that_agree_with_noise_and_prior_give_no_warning(tmp_path, capsys):
    problem = Problem(TopKOracle(MEANS, k=1), noise_std=1.0, prior_mean=75.0, prior_std=10.0)
    campaign, rng = Campaign.create(tmp_path / "run.db", problem), np.random.default_rng(0)
    for _ in range(8):
        campaign.tell_many([(query, MEANS[query.label] + rng.normal()) for query in campaign.ask(4)])
    assert campaign.status().warning == ""
    main(["status", "--state", str(tmp_path / "run.db")])
    assert "warning" not in capsys.readouterr().out


BEANS = {"arabica": 4.0, "robusta": 6.5, "<b>liberica</b>": 5.0}


def test_a_status_is_given_as_json_html_and_picture(tmp_path):
    campaign = Campaign.create(tmp_path / "beans.db", unit_problem(TopKOracle(BEANS, k=1), prior_std=5.0))
    for query in campaign.ask(12)[:-1]:
        campaign.tell(query, BEANS[query.label])
    status = campaign.status()
    document = json.loads(status.to_json())
    assert document == status.to_dict()
    assert set(document) == set(status.__dataclass_fields__)
    assert document["answer"] == ["robusta"]
    assert document["pulls"] == [[label, status.pulls[label]] for label in BEANS]
    (waiting,) = status.open_queries
    assert document["open_queries"] == [{"id": 11, "label": waiting.label, "arms": [waiting.arm], "action": None}]
    html = status._repr_html_()
    assert "&lt;b&gt;liberica&lt;/b&gt;" in html
    assert "<b>liberica" not in html
    assert "error probability" in html
    assert sorted(bar.get_width() for bar in plot_pulls(status).patches) == sorted(status.pulls.values())


def test_a_status_of_thousands_of_items_stays_short(tmp_path):
    campaign = Campaign.create(tmp_path / "x.db", unit_problem(TopKOracle(4_000, k=2_000)))
    campaign.ask(200)
    status = campaign.status()
    assert len(status.open_queries) == 200
    for thing in (campaign, status):
        assert len(repr(thing)) < 2000
    assert len(status._repr_html_()) < 10_000
