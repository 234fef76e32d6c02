"""The data of the report page agree with the status of the campaign, for every kind of problem."""

import pickle
from datetime import UTC, datetime
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from page_cases import KINDS, measured
from unit_problem import unit_problem

from combopeps import (
    ArgmaxOracle,
    Campaign,
    MatchingOracle,
    MilpOracle,
    ShortestPathOracle,
    TopKOracle,
    identify,
    load_instance,
)
from combopeps.errors import NoiseWarning, ParameterError
from combopeps.viz.build_view_model import report_data, why_not_stopped
from combopeps.viz.html import Live, render


@pytest.mark.parametrize("name", KINDS)
def test_report_data_agree_with_the_status(tmp_path, name):
    campaign = measured(tmp_path, name)
    campaign.ask(2)
    facts, status = report_data(campaign), campaign.status()
    assert (facts.picture.form, facts.kind) == KINDS[name]
    assert facts.samples == status.samples
    assert facts.error_probability == status.error_probability == facts.chart.data[-1][1]
    assert (facts.delta, facts.epsilon, facts.stop) == (status.delta, status.epsilon, status.stop)
    assert [query.id for query in facts.open_queries] == [query.id for query in status.open_queries]
    assert sum(row.count for row in facts.most_measured) <= status.samples
    assert facts.most_measured[0].count == max(status.pulls.values())
    assert f'value="{status.error_probability!r}"' in render(facts)
    assert pickle.loads(pickle.dumps(facts)) == facts
    assert report_data(campaign) == facts  # looking changes nothing


def test_a_constraint_model_has_rows(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", load_instance("timetable"))
    campaign.observe(campaign.problem.arms.labels[0], 1.0)
    facts = report_data(campaign)
    assert facts.picture.form == "rows"
    assert facts.kind == "The best solution of a constraint model"


def test_estimates_are_those_of_the_posterior(tmp_path):
    campaign = measured(tmp_path, "topk-paper", 60)
    posterior, facts = campaign.posterior, report_data(campaign)
    for row in facts.most_measured:
        i = campaign.problem.arms.labels.index(int(row.label))
        assert row.mean == pytest.approx(posterior.theta_hat[0, i])
        assert row.std == pytest.approx(posterior.std[0, i])


def test_the_cut_of_a_ranking_follows_the_answer(tmp_path):
    campaign = measured(tmp_path, "topk-paper", 60)
    picture = report_data(campaign).picture
    inside = [row.label for row in picture.rows if row.status == "in"]
    assert set(inside) == {str(item) for item in campaign.status().answer}
    assert [row.status == "in" for row in picture.rows] == [True] * picture.cut + [False] * (12 - picture.cut)
    added = {row.label for row in picture.rows if row.note == "runner-up: in"}
    assert added == {str(item) for item in campaign.status().runner_up - campaign.status().answer}


def test_lines_of_a_network_are_those_of_answer_and_runner_up(tmp_path):
    campaign = measured(tmp_path, "town", 60)
    status, oracle = campaign.status(), campaign.problem.oracle
    lines = report_data(campaign).picture.lines
    z, runner_up = oracle.encode(status.answer) != 0, oracle.encode(status.runner_up) != 0
    drawn = {
        look: {line.title.split(":")[0] for line in lines if line.css_class == look} for look in ("e-in", "e-runner-up")
    }
    names = np.array([" - ".join(edge) for edge in oracle.components])
    assert drawn["e-in"] == set(names[z])
    assert drawn["e-runner-up"] == set(names[runner_up & ~z])
    thick = {line.title.split(":")[0]: line.width for line in lines if line.css_class == "e-seen"}
    pulls = {" - ".join(edge): count for edge, count in status.pulls.items()}
    order = sorted(thick, key=thick.get)
    assert [pulls[name] for name in order] == sorted(pulls[name] for name in order)


def test_actions_have_parts_and_a_cost(tmp_path):
    campaign = measured(tmp_path, "town", 20, actions="answers")
    query = campaign.ask()
    facts = report_data(campaign)
    assert facts.actions == campaign.status().actions
    assert facts.open_queries[0].parts == tuple(" - ".join(edge) for edge in query.components)
    assert facts.cost == facts.actions * 10.0 + facts.samples * 1.0


def test_many_parts_of_an_action_are_counted(tmp_path):
    problem = unit_problem(TopKOracle(600, k=250)).copy_with(actions="answers")
    campaign = Campaign.create(tmp_path / "c.db", problem)
    campaign.ask()
    (query,) = report_data(campaign).open_queries
    assert (query.parts, query.unlisted_parts) == ((), 250)
    assert 'data-many="250"' in render(report_data(campaign), Live('"1"'))


def test_results_that_are_still_out_are_counted(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", load_instance("town"))
    campaign.ask()
    assert "Nothing has been measured yet: 1 result is still out." in render(report_data(campaign))
    campaign = measured(tmp_path, "town", 8)
    assert "<strong>Not yet:</strong> measure on until" in render(report_data(campaign))
    queries = campaign.ask(60)
    campaign.tell(queries[55], 3.0)
    facts = report_data(campaign)
    assert facts.unlisted_queries == tuple(query.id for query in queries[50:] if query is not queries[55])
    assert facts.n_open_queries == 59
    page = render(facts, Live('"1"'))
    first = queries[50].id
    assert f'data-others="{first}-{first + 4} {first + 6}-{first + 9}"' in page
    assert "<strong>Not yet:</strong> 59 results are still out; measure on until" in page


def test_it_is_explained_why_a_small_probability_is_not_enough(tmp_path):
    def begun(rule, gap):
        problem = unit_problem(TopKOracle(["a", "b"], k=1), noise_std=1.0, prior_std=1.0)
        campaign = Campaign.create(tmp_path / f"{rule}{gap}.db", problem, stopping=rule, epsilon=0.001)
        campaign.observe_table([("a", gap), ("b", 0.0)] * 9)
        return report_data(campaign)

    near = begun("posterior", 0.91)
    assert 0.02 < near.error_probability < 0.05
    assert not near.stop
    assert "upper end of its margin of error" in near.why_not_stopped
    assert near.why_not_stopped in render(near)
    assert (
        begun("posterior", 0.5).why_not_stopped == begun("posterior", 3.0).why_not_stopped == ""
    )  # too large, and satisfied
    assert "without the prior" in begun("certified", 0.91).why_not_stopped
    few = (
        SimpleNamespace(error_probability=0.03, error_interval=(0.02, 0.04), delta=0.05),
        SimpleNamespace(dof=np.array([3.0])),
    )
    assert "too few repetitions" in why_not_stopped("posterior", *few)


def test_nothing_measured_yet(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", load_instance("town"))
    facts = report_data(campaign)
    assert facts.samples == 0
    assert (
        facts.most_measured
        == facts.top_answers
        == facts.open_queries
        == facts.recent_results
        == facts.chart.points
        == ()
    )
    assert {line.css_class for line in facts.picture.lines} == {"e-faint"}
    page = render(facts)
    assert "Nothing has been measured yet." in page


def test_a_result_shows_its_looks():
    noise = np.random.default_rng(0)
    result = identify(TopKOracle(["a", "b", "c"], k=1), lambda x: "cab".index(x) + noise.normal(), delta=0.01)
    facts = report_data(result, title="Three")
    assert facts.title == "Three"
    assert facts.stop
    assert facts.verdict == result.claim
    assert facts.chart.data[-1] == (result.samples, result.error_probability)
    assert {(look.t, look.error_probability) for look in result.looks} >= set(facts.chart.data[:-1])
    assert len(facts.chart.points) <= 61
    spent = identify(TopKOracle(["a", "b", "c"], k=1), lambda x: noise.normal(), delta=1e-9, budget=10)
    assert not report_data(spent).stop
    assert "the budget is spent" in render(report_data(spent))


class Neighbours(ArgmaxOracle):
    def _argmax_batch(self, thetas):
        first = (thetas[:, :-1] + thetas[:, 1:]).argmax(axis=1)
        return np.eye(self.dim)[first] + np.eye(self.dim)[first + 1]


def test_a_custom_oracle(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", Neighbours(["north", "gate", "yard", "south"]))
    campaign.observe("yard", 3.0)
    facts = report_data(campaign)
    assert facts.kind == "Neighbours"
    assert {row.label for row in facts.picture.rows if row.status == "in"} == {str(x) for x in campaign.status().answer}


def test_warnings_epsilon_and_noise_are_shown(tmp_path):
    oracle = TopKOracle(["a", "b"], k=1)
    near = Campaign.create(tmp_path / "near.db", unit_problem(oracle, noise_std=0.1, prior_std=2.0), epsilon=0.5)
    near.observe_table([("a", 1.0), ("b", 1.0)] * 2)
    assert "by more than 0.5" in render(report_data(near))
    unknown = Campaign.create(tmp_path / "unknown.db", unit_problem(oracle, noise_std=None, prior_std=2.0))
    unknown.observe_table([("a", y) for y in np.random.default_rng(0).normal(1.0, 1.0, 20)] + [("b", 0.1), ("b", 0.2)])
    assert report_data(unknown).noise == str(unknown.status().noise_estimate)
    loud = Campaign.create(tmp_path / "loud.db", unit_problem(oracle, noise_std=0.1, prior_std=50.0))
    with pytest.warns(NoiseWarning):
        loud.observe_table([("a", y) for y in np.random.default_rng(0).normal(1.0, 5.0, 40)])
    assert report_data(loud).warnings == (loud.status().warning,)


def test_clients_with_leases_are_named(tmp_path):
    campaign = measured(tmp_path, "topk-paper", 5)
    campaign.ask(1, client="ann", lease=3600.0)
    campaign.ask(1, client="bob <b>")
    campaign.ask()
    facts, (until, *_) = report_data(campaign), [lease.until for lease in campaign.leases.values()]
    assert [(query.holder, query.until) for query in facts.open_queries] == [
        ("ann", until),
        ("bob <b>", None),
        ("", None),
    ]
    page = render(facts)
    assert f'datetime="{datetime.fromtimestamp(until, UTC):%Y-%m-%dT%H:%MZ}"' in page
    assert "bob &lt;b&gt;" in page


def test_the_latest_results_can_be_changed_and_changes_are_counted(tmp_path):
    campaign = measured(tmp_path, "topk-paper", 15)
    campaign.observe(3, 2.5)
    last = campaign.measurements()[-1]
    campaign.correct(last.event, 1.5)
    campaign.retract(campaign.measurements()[-2].event)
    facts, measurements = report_data(campaign), campaign.measurements()
    assert [(row.event, row.label, row.y, row.retracted, row.single) for row in facts.recent_results] == [
        (one.event, str(one.label), one.y, one.retracted, True) for one in measurements[:-13:-1]
    ]
    assert (facts.recent_results[0].y, facts.recent_results[1].retracted, facts.corrections) == (1.5, True, 2)
    live, still = render(facts, Live('"1"')), render(facts)
    for page in (live, still):
        assert "2 results were corrected or retracted." in page
        assert "because of its value makes every claim void" in page
    assert (live.count('data-do="correct"'), live.count('data-do="retract"')) == (11, 11)  # not of the retracted one
    assert "data-do=" not in still + render(facts, Live('"1"', can_tell=False))
    actions = measured(tmp_path, "town", 5, actions="answers")
    assert not any(
        row.single for row in report_data(actions).recent_results
    )  # results of an action are only retracted, all at once
    page = render(report_data(actions), Live('"1"'))
    assert 'data-do="correct"' not in page
    assert 'data-do="retract"' in page


@pytest.mark.parametrize("dim", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_large_rankings_stay_small(tmp_path, dim):
    campaign = Campaign.create(tmp_path / "c.db", TopKOracle(dim, k=40))
    campaign.observe_table([(i, 1.0) for i in range(200)])
    campaign.ask(1)
    page = render(report_data(campaign))
    assert len(page) < 300_000
    assert f"and {dim - 60:,} more below" in page


@pytest.mark.slow
def test_large_networks_and_matchings_stay_small(tmp_path):
    grid = nx.grid_2d_graph(71, 71)
    route = ShortestPathOracle(nx.DiGraph((min(u, v), max(u, v)) for u, v in grid.edges), (0, 0), (70, 70))
    for number, oracle in enumerate((route, MatchingOracle(100, 100))):
        campaign = Campaign.create(tmp_path / f"{number}.db", oracle)
        campaign.observe_table([(label, 1.0) for label in oracle.components[:200]])
        assert len(render(report_data(campaign))) < 300_000


def test_only_campaigns_and_results_are_accepted():
    with pytest.raises(ParameterError, match="Campaign or a Result"):
        report_data("run.db")


def test_what_to_do_next_follows_the_rule(tmp_path):
    early = render(report_data(measured(tmp_path, "topk-paper", 5)))
    assert "Not yet:" in early
    assert "until that is safely below 5\N{NO-BREAK SPACE}%" in early
    proof = render(report_data(measured(tmp_path, "town", 5, stopping="certified")))
    assert "until the rule “certified” is satisfied" in proof
    done = measured(tmp_path, "cyclic-matching", 200, delta=0.3)
    status = done.status()
    assert status.stop
    assert status.claim[1:] in render(report_data(done))


def test_parallel_edges_on_a_map(tmp_path):
    graph = nx.MultiGraph()
    for name, place in {"Bern": (7.4, 46.9), "Chur": (9.5, 46.8), "Genf": (6.1, 46.2), "Brig": (8.0, 46.3)}.items():
        graph.add_node(name, lon=place[0], lat=place[1])
    graph.add_edges_from([("Genf", "Bern", "rail"), ("Genf", "Bern", "road"), ("Bern", "Chur", "rail")])
    graph.add_edges_from([("Genf", "Brig", "rail"), ("Brig", "Chur", "rail")])
    oracle = ShortestPathOracle(graph, "Genf", "Chur")
    campaign = Campaign.create(tmp_path / "c.db", oracle)
    campaign.observe_table([(label, 1.0 + i / 9) for i, label in enumerate(oracle.components)])
    picture = report_data(campaign).picture
    assert picture.shape == "s-wide"
    places = {node.label: (node.x, node.y) for node in picture.nodes}
    assert places["Genf"][0] < places["Bern"][0] < places["Brig"][0] < places["Chur"][0]
    assert places["Bern"][1] < places["Brig"][1]  # north is up
    assert len({line.path for line in picture.lines}) == 5  # parallel edges bend apart


def test_values_of_integer_variables_are_shown(tmp_path):
    oracle = MilpOracle(["small", "large"], [[1, 4]], 0, 9, bounds=(0, 5))
    campaign = Campaign.create(tmp_path / "c.db", oracle)
    campaign.observe_table([(label, 1.0) for label in oracle.components])
    notes = {row.label: row.note for row in report_data(campaign).picture.rows}
    assert notes["small"].startswith(f"× {campaign.status().answer['small']}")
