"""Problems without alternatives, with ties, or infeasible ones: every sampler ends, with a typed outcome."""

from itertools import product

import networkx as nx
import numpy as np
import pytest
from situations import Situation, measured

from combopeps import (
    ArgmaxOracle,
    Box,
    ComboPepsError,
    ExplicitOracle,
    MatchingOracle,
    ShortestPathOracle,
    SpanningTreeOracle,
    TopKOracle,
)
from combopeps.alternatives import AutoSampler, GibbsSampler, HalfSpaceSampler, HitAndRunSampler, RejectionSampler
from combopeps.alternatives import half_space as halfspace
from combopeps.errors import AnswerError, DomainError, NoAlternativeError, ParameterError, SamplerCapError
from combopeps.posterior import Arms, GaussianPosterior

SAMPLERS = {
    "rejection": lambda: RejectionSampler(cap=2000),
    "half-space": HalfSpaceSampler,
    "discovered": lambda: HalfSpaceSampler(closed_form=False),
    "auto": AutoSampler,
    "auto discovered": lambda: AutoSampler(half_space=HalfSpaceSampler(closed_form=False)),
    "hit-and-run": HitAndRunSampler,
    "gibbs": GibbsSampler,
}


class ConstantOracle(ArgmaxOracle):
    """Always returns the same z, and does not state the number of answers."""

    def _argmax_batch(self, thetas):
        return np.repeat(np.array([[1.0, 0.0, 1.0]]), len(thetas), axis=0)


ONE_ANSWER = {
    "all of them": lambda: TopKOracle(3, 3),
    "one row": lambda: ExplicitOracle([[1.0, 2.0, 3.0]]),
    "one route": lambda: ShortestPathOracle(nx.DiGraph([(0, 1), (1, 2)]), 0, 2),
    "one route, undirected": lambda: ShortestPathOracle(nx.path_graph(4), 0, 3),
    "one tree": lambda: SpanningTreeOracle(nx.path_graph(4)),
    "one pair": lambda: MatchingOracle(1, 1),
    "one matching": lambda: MatchingOracle(2, 2, edges=[(0, 0), (0, 1), (1, 1)]),
    "stubborn": lambda: ConstantOracle(range(3)),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("oracle", ONE_ANSWER)
def test_one_answer_means_no_alternative(oracle, name):
    oracle = ONE_ANSWER[oracle]()
    situation = Situation(GaussianPosterior.start(Arms.of(oracle)), oracle)
    allowed = (NoAlternativeError, SamplerCapError) if name == "rejection" else NoAlternativeError
    with pytest.raises(allowed) as caught:
        situation.draw(SAMPLERS[name](), 1, seed=51)
    assert isinstance(caught.value, ComboPepsError)


@pytest.mark.parametrize("oracle", ["all of them", "one row", "one pair"])
def test_rejection_raises_if_the_oracle_states_a_single_answer(oracle):
    oracle = ONE_ANSWER[oracle]()
    with pytest.raises(NoAlternativeError, match="one answer"):
        Situation(GaussianPosterior.start(Arms.of(oracle)), oracle).draw(RejectionSampler(cap=100), 1, seed=52)


@pytest.mark.parametrize("oracle", ONE_ANSWER)
def test_no_probability_without_alternatives(oracle):
    oracle = ONE_ANSWER[oracle]()
    posterior = GaussianPosterior.start(Arms.of(oracle))
    with pytest.raises(NoAlternativeError):
        HalfSpaceSampler().probability(posterior, oracle, oracle.argmax(np.ones(oracle.dim)), 53)


TIES = {
    "top-k": (TopKOracle(6, 2), np.zeros(6)),
    "top-k, half tied": (TopKOracle(6, 2), np.array([1.0, 0.5, 0.5, 0.5, 0.0, 0.0])),
    "matching": (MatchingOracle(3, 3), np.zeros(9)),
    "matching, equal": (MatchingOracle(3, 3), np.ones(9)),
    "grid": (ShortestPathOracle(nx.DiGraph([(0, 1), (1, 3), (0, 2), (2, 3)]), 0, 3), np.zeros(4)),
    "roads": (ShortestPathOracle(nx.cycle_graph(4), 0, 2), np.ones(4)),
    "roads of length 0": (ShortestPathOracle(nx.cycle_graph(4), 0, 2), np.zeros(4)),
    "trees": (SpanningTreeOracle(nx.complete_graph(4)), np.zeros(6)),
    "explicit": (ExplicitOracle(np.eye(4)), np.zeros(4)),
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("tie", TIES)
def test_exact_ties(tie, name):
    """theta_hat on the boundary: P(Alt) is at least 1/2, and all draws are alternatives."""
    oracle, theta = TIES[tie]
    situation = Situation(measured(oracle, theta, 4), oracle)
    found = situation.draw(SAMPLERS[name](), 20, seed=54)
    assert not oracle.membership(situation.z_hat, found.thetas).any()
    assert found.account.draws >= 20


@pytest.mark.parametrize("tie", TIES)
def test_the_probability_at_a_tie(tie):
    """Against plain draws, within 5 standard errors; all of the few facets are known."""
    oracle, theta = TIES[tie]
    situation = Situation(measured(oracle, theta, 4), oracle)
    found = HalfSpaceSampler().probability(situation.posterior, oracle, situation.z_hat, 55, draws=10_000)
    truth = np.exp(situation.draw(RejectionSampler(), 10_000, seed=56).account.log_probability)
    assert np.exp(found.log_probability) == pytest.approx(truth, rel=5 * found.relative_error + 0.03)


def test_the_cap_is_respected_and_reported():
    oracle = TopKOracle(4, 1)
    situation = Situation(measured(oracle, np.array([9.0, 0.0, 0.0, 0.0]), 10), oracle)
    with pytest.raises(SamplerCapError, match="HalfSpaceSampler") as caught:
        situation.draw(RejectionSampler(cap=1234), 1, seed=57)
    assert caught.value.draws == 1234


def test_the_cap_of_the_half_space_sampler(monkeypatch):
    """A box that proposals with a full covariance hardly ever hit, where there are too many components for tilts.

    With tilts it is known that there is nothing to be found: no facet reaches into the box.
    """
    points = np.random.default_rng(1).normal(size=(6, 3))
    oracle = ExplicitOracle(points)
    posterior = measured(oracle, points[0], 2, points)
    box = Box(posterior.theta_hat[0] + 6.0, posterior.theta_hat[0] + 6.1)
    situation = Situation(posterior, oracle, box)
    corners = np.array(list(product(*zip(*box.bounds(3), strict=True))))
    assert oracle.membership(situation.z_hat, corners).all()
    with pytest.raises(NoAlternativeError):
        situation.draw(HalfSpaceSampler(cap=500), 1, seed=58)
    monkeypatch.setattr(halfspace, "MAX_DIM", 2)
    with pytest.raises(SamplerCapError) as caught:
        situation.draw(HalfSpaceSampler(cap=500), 1, seed=58)
    assert caught.value.draws == 500


def test_a_sampler_is_usable_after_a_cap_error():
    oracle = TopKOracle(4, 1)
    sampler = RejectionSampler(cap=50)
    with pytest.raises(SamplerCapError):
        Situation(measured(oracle, np.array([9.0, 0.0, 0.0, 0.0]), 10), oracle).draw(sampler, 1, seed=59)
    assert Situation(measured(oracle, np.zeros(4), 10), oracle).draw(sampler, 3, seed=59).thetas.shape == (3, 4)


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "rejection"])
def test_a_sampler_is_usable_after_no_alternative_error(name):
    sampler = SAMPLERS[name]()
    stubborn = ConstantOracle(range(3))
    with pytest.raises(NoAlternativeError):
        Situation(GaussianPosterior.start(Arms.of(stubborn)), stubborn).draw(sampler, 1, seed=60)
    oracle = TopKOracle(3, 1)
    situation = Situation(measured(oracle, np.array([0.3, 0.2, 0.1]), 3), oracle)
    assert not oracle.membership(situation.z_hat, situation.draw(sampler, 5, seed=60).thetas).any()


FAULTS = {
    "n 0": {"n": 0},
    "n negative": {"n": -1},
    "eta 0": {"eta": 0.0},
    "eta NaN": {"eta": float("nan")},
    "eta inf": {"eta": float("inf")},
    "z_hat of another length": {"z_hat": np.ones(3)},
    "z_hat a matrix": {"z_hat": np.ones((1, 4))},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", SAMPLERS)
def test_bad_arguments(name, fault):
    oracle = TopKOracle(4, 1)
    posterior = measured(oracle, np.array([0.4, 0.3, 0.2, 0.1]), 3)
    arguments = {"z_hat": np.eye(4)[0], "n": 1, "eta": 1.0} | FAULTS[fault]
    with pytest.raises((ParameterError, AnswerError)):
        SAMPLERS[name]().sample(posterior, oracle, arguments["z_hat"], arguments["n"], 61, eta=arguments["eta"])


def test_several_replications_are_refused():
    oracle = TopKOracle(4, 1)
    posterior = GaussianPosterior.start(Arms.of(oracle), replications=2)
    with pytest.raises(ParameterError, match=r"posterior.row\(r\)"):
        RejectionSampler().sample(posterior, oracle, np.eye(4)[0])
    assert RejectionSampler().sample(posterior.row(1), oracle, np.eye(4)[0], rng=0).thetas.shape == (1, 4)


def test_probability_of_several_replications_is_refused():
    oracle = TopKOracle(4, 1)
    posterior = GaussianPosterior.start(Arms.of(oracle), replications=2)
    with pytest.raises(ParameterError):
        HalfSpaceSampler().probability(posterior, oracle, np.eye(4)[0])


OPTIONS = {
    "cap": lambda: RejectionSampler(cap=0),
    "tries": lambda: AutoSampler(tries=0),
    "steps": lambda: GibbsSampler(steps=0),
    "missing": lambda: HalfSpaceSampler(missing=0.0),
    "max_rays": lambda: HalfSpaceSampler(max_rays=0),
    "max_facets": lambda: HalfSpaceSampler(max_facets=1),
    "cap must be": lambda: HalfSpaceSampler(cap=0),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_bad_options(option):
    with pytest.raises(ParameterError, match=option):
        OPTIONS[option]()


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_current_answer_outside_the_orthant_is_taken_at_the_projection(name):
    """Roads with negative estimated lengths: theta_hat < 0 is never passed to the oracle."""
    oracle = ShortestPathOracle(nx.cycle_graph(5), 0, 2)
    situation = Situation(measured(oracle, np.array([-0.5, 0.3, -1.0, 0.2, 0.4]), 2), oracle)
    with pytest.raises(DomainError):
        oracle.argmax(situation.posterior.theta_hat[0])
    found = situation.draw(SAMPLERS[name](), 10, seed=62)
    assert (found.thetas >= 0).all()
    assert not oracle.membership(situation.z_hat, found.thetas).any()
