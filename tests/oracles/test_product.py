"""`ProductOracle`: several questions answered by one set of measurements, with one claim."""

from itertools import product

import networkx as nx
import numpy as np
import pytest
from scipy.stats import binom

from combopeps import (
    Campaign,
    ExplicitOracle,
    MatchingOracle,
    Problem,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
    check_oracle,
    identify,
)
from combopeps.errors import AnswerError, ComboPepsError, ParameterError
from combopeps.oracles import ProductOracle
from combopeps.oracles.constrained_argmax import enumerate_answers
from combopeps.viz.text_descriptions import answer_text, difference_text, kind_of

GRID = nx.DiGraph([(u, v) for u, v in nx.grid_2d_graph(3, 3, create_using=nx.DiGraph).edges if sum(v) > sum(u)])


def routes():
    return ProductOracle({end: ShortestPathOracle(GRID, (0, 0), end) for end in ((2, 2), (1, 2), (2, 1))})


def choices():
    return ProductOracle([TopKOracle(["a", "b", "c", "d"], 2), TopKOracle(["c", "d", "e"], 1)])


def plans():
    return ProductOracle(
        {"crew": MatchingOracle(["p", "q"], ["r", "s", "t"]), "pairs": TopKOracle([("p", "r"), ("q", "s"), "x"], 2)}
    )


def streets():
    graph = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    reversed_graph = nx.Graph([(1, 0), (2, 1), (3, 2), (0, 3), (2, 0)])
    return ProductOracle([ShortestPathOracle(graph, 0, 2), ShortestPathOracle(reversed_graph, 3, 1)])


def networks():
    return ProductOracle(
        {
            "tree": SpanningTreeOracle(nx.complete_graph(4)),
            "tour": ShortestPathOracle(nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3)]), 0, 3),
        }
    )


FAMILIES = [routes, choices, plans, streets, networks]


def all_answers(oracle):
    """Z by enumeration: every combination of the answers of the oracles."""
    parts = [enumerate_answers(one, 500) if one.domain == "real" else _routes(one) for one in oracle.oracles.values()]
    return np.array([oracle.encode(_answer(oracle, chosen)) for chosen in product(*parts)])


def _routes(oracle):
    graph = nx.Graph(list(oracle.components))
    return [oracle.encode(path) for path in nx.all_simple_paths(graph, oracle.source, oracle.target)]


def _answer(oracle, chosen):
    answers = [one.decode(z) for one, z in zip(oracle.oracles.values(), chosen, strict=True)]
    return answers if oracle.is_listed else dict(zip(oracle.oracles, answers, strict=True))


def thetas_for(oracle, n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.gamma(1.0, size=(n, oracle.dim)) if oracle.domain == "nonnegative" else rng.normal(size=(n, oracle.dim))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_argmax_is_that_of_enumeration(family):
    oracle = family()
    Z, thetas = all_answers(oracle), thetas_for(oracle, 50)
    best = oracle.argmax(thetas)
    np.testing.assert_allclose((best * thetas).sum(axis=1), (thetas @ Z.T).max(axis=1), rtol=1e-9)
    assert all((z == Z).all(axis=1).any() for z in best)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_satisfies_the_contract_of_oracles(family):
    assert check_oracle(family(), raises=False).violations == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_answer_is_the_best_of_each_question(family):
    oracle = family()
    theta = thetas_for(oracle, 1)[0]
    answer = oracle.decode(oracle.argmax(theta))
    value = dict(zip(oracle.components, theta, strict=True))
    for label in oracle.components:
        value |= dict.fromkeys(oracle.aliases(label), value[label])
    for name, one in oracle.oracles.items():
        own = one.argmax([value[label] for label in one.components])
        assert answer[name] == one.decode(own)
    np.testing.assert_array_equal(oracle.encode(answer), oracle.argmax(theta))


@pytest.mark.parametrize("family", FAMILIES)
def test_different_answers_have_different_vectors(family):
    oracle = family()
    Z = all_answers(oracle)
    assert len(np.unique(Z, axis=0)) == len(Z)
    assert len(Z) == np.prod(
        [
            len(_routes(o)) if o.domain == "nonnegative" else len(enumerate_answers(o, 500))
            for o in oracle.oracles.values()
        ]
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_facets_decide_which_answer_is_best(family):
    """y @ theta > 0 for some facet exactly if another answer is better; without one of them the control is wrong."""
    oracle = family()
    Z, thetas = all_answers(oracle), thetas_for(oracle, 400, seed=1)
    z = oracle.argmax(thetas[0])
    rows = oracle.facets_up_to(z, 1000)
    assert rows is not None
    beaten = (thetas @ Z.T).max(axis=1) > thetas @ z + 1e-9
    np.testing.assert_array_equal((rows @ thetas.T > 1e-9).any(axis=0), beaten)
    assert ((rows[1:] @ thetas.T > 1e-9).any(axis=0) != beaten).any() or rows.shape[0] > 8
    assert oracle.facets_up_to(z, rows.shape[0] - 1) is None


def test_two_directions_of_a_street_are_one_component():
    oracle = streets()
    assert oracle.dim == 5
    assert oracle.index((1, 0)) == oracle.index((0, 1))


def test_a_measurement_counts_for_every_question():
    oracle = choices()
    assert oracle.components == ("a", "b", "c", "d", "e")
    z = oracle.argmax([0.0, 0.0, 5.0, 4.0, 1.0])
    np.testing.assert_allclose(z, [0.0, 0.0, 2.0, 1.0, 0.0], atol=1e-5)
    assert oracle.decode(z) == [{"c", "d"}, {"c"}]


def test_invalid_arguments_are_typed_errors():
    items = TopKOracle(3, 1)
    for oracles in ([], {}, items, 5, [items, "x"], [items] * 21, [items, ExplicitOracle(np.diag([1.0, 2.0, 3.0]))]):
        with pytest.raises(ComboPepsError):
            ProductOracle(oracles)
    with pytest.raises(ParameterError, match="either all maximise or all minimise"):
        ProductOracle([items, ShortestPathOracle(GRID, (0, 0), (2, 2))])
    oracle = choices()
    for answer in ([{"a", "b"}], {"x": {"a"}}, 3, [{"a", "b"}, {"a"}]):
        with pytest.raises(ComboPepsError):
            oracle.encode(answer)
    with pytest.raises(AnswerError, match="not a sum"):
        oracle.decode([1.0, 1.0, 1.0, 0.0, 0.0])
    with pytest.raises(AnswerError):
        routes().encode({(2, 2): [(0, 0)]})


def right_runs(oracle, problem, delta, runs, **options):
    """Runs with theta from the prior whose answers are all right."""
    right = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 8])
        theta = rng.normal(size=oracle.dim)
        value = dict(zip(oracle.components, theta, strict=True))
        result = identify(
            problem, lambda x, v=value, r=rng: v[x] + r.normal(), delta=delta, rng=seed, budget=800, **options
        )
        right += np.array_equal(result.z, oracle.argmax(theta))
    return right


def test_the_joint_error_rate_is_at_most_delta():
    """60 runs at delta 0.2, with a false alarm rate of 1e-4; delta 0.7 fails the same test."""
    oracle = choices()
    problem = Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    least = binom.ppf(1e-4, 60, 0.8)
    assert right_runs(oracle, problem, 0.2, 60) >= least
    assert right_runs(oracle, problem, 0.7, 60) < least


@pytest.mark.parametrize("stopping", ["certified", "verified", "guaranteed"])
def test_guaranteed_rules_prove_all_answers(stopping):
    oracle = routes()
    rng = np.random.default_rng(4)
    theta = rng.uniform(3.0, 9.0, size=oracle.dim)
    values = np.sort(all_answers(oracle) @ theta)
    assert values[-1] - values[-2] > 0.3
    value = dict(zip(oracle.components, theta, strict=True))
    problem = Problem(oracle, noise_std=0.3, prior_mean=6.0, prior_std=2.0)
    result = identify(problem, lambda x: value[x] + 0.3 * rng.normal(), stopping=stopping, budget=20_000)
    assert result.stop_reason in (stopping, "verified", "certified")
    np.testing.assert_array_equal(result.z, oracle.argmax(theta))


def test_campaigns_and_texts_show_all_questions(tmp_path):
    oracle = routes()
    campaign = Campaign.create(tmp_path / "c.db", Problem(oracle, noise_std=1.0, prior_mean=5.0, prior_std=2.0))
    for edge in oracle.components:
        campaign.observe(edge, 1.0 + sum(edge[0]))
    again = Campaign.open(tmp_path / "c.db")
    assert again.problem.oracle.components == oracle.components
    status = again.status()
    assert status.answer.keys() == oracle.oracles.keys()
    assert status.answer == campaign.status().answer
    text = answer_text(status.answer, oracle)
    assert text.count(";") == 2
    assert "(2, 1): (0, 0) -> " in text
    assert " instead of " in difference_text(status.answer, status.runner_up, oracle)
    assert kind_of(oracle).name == "Answers of 3 questions"
    listed = Campaign.create(tmp_path / "l.db", Problem(choices(), noise_std=1.0))
    assert Campaign.open(tmp_path / "l.db").problem.oracle.decode(choices().argmax(np.arange(5.0))) == [
        {"c", "d"},
        {"e"},
    ]
    assert listed.status().samples == 0


@pytest.mark.slow
def test_one_run_needs_fewer_samples_than_a_run_per_question():
    """Three destinations in 12 random networks: one run at delta 0.05 against three at 0.05 / 3.

    The mean ratio is below 1 by three standard errors. The control: the same three runs against themselves.
    """
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng([seed, 2])
        graph = nx.DiGraph(
            [(u, v) for u, v in nx.grid_2d_graph(5, 5, create_using=nx.DiGraph).edges if sum(v) > sum(u)]
        )
        length = {edge: rng.uniform(2.0, 8.0) for edge in graph.edges}
        oracles = [ShortestPathOracle(graph, (0, 0), end) for end in ((4, 4), (4, 3), (3, 4))]

        def samples(oracle, delta, rng=rng, length=length):
            problem = Problem(oracle, noise_std=0.5, prior_mean=5.0, prior_std=1.8)
            return identify(problem, lambda x: length[x] + 0.5 * rng.normal(), delta=delta, budget=20_000).samples

        ratios.append(samples(ProductOracle(oracles), 0.05) / sum(samples(one, 0.05 / 3) for one in oracles))
    logs = np.log(ratios)
    assert logs.mean() + 3 * logs.std(ddof=1) / np.sqrt(len(logs)) < 0.0
