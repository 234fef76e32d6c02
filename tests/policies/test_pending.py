"""Open queries count as if they had been answered as expected, and only while the next query is chosen."""

import copy

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import Box, ExplicitOracle, HalfSpaceSampler, Problem, TopKOracle, identify, load_instance
from combopeps.policies import CLUCB, PEPS, DoublingPEPS, LinGame, LinGapE, ThompsonSampling, TopTwo, Uniform, ask_tell
from combopeps.policies.pending import Pending

BEST = unit_problem(TopKOracle(5, k=1), noise_std=0.5)
BOXED = unit_problem(TopKOracle(5, k=1), noise_std=0.5, space=Box(-3, 3))
GENERAL = unit_problem(
    ExplicitOracle(np.eye(4)),
    np.random.default_rng(0).normal(size=(7, 4)),
    noise_std=np.linspace(0.5, 2.0, 7),
)
CASES = {
    "top-two": (TopTwo, BEST),
    "top-two, general arms": (TopTwo, GENERAL),
    "top-two, a box": (TopTwo, BOXED),
    "peps": (PEPS, BEST),
    "peps, tracking": (lambda problem, rng: PEPS(problem, rng, tracking=True, alpha=0.5), GENERAL),
    "doubling": (DoublingPEPS, BOXED),
    "lingame": (LinGame, GENERAL),
    "lingape": (LinGapE, GENERAL),
    "clucb": (CLUCB, BEST),
    "thompson": (ThompsonSampling, BEST),
    "uniform": (Uniform, BEST),
}
each_policy = pytest.mark.parametrize(("make", "problem"), CASES.values(), ids=CASES)


class Blind(Pending):
    """Does not know what is under way: the negative control."""

    def __init__(self, policy, arms):
        super().__init__(policy, ())

    def add(self, arm):
        pass


def value(t, arm):
    return float(np.sin(1.0 + 3 * t + 7 * arm))


def played(make, problem, rounds=9):
    policy = make(problem, 3)
    for t in range(rounds):
        query = policy.ask()
        policy.tell(query, value(t, query.arm))
    return policy


def knowledge(policy):
    parts = [policy.belief.theta_hat, policy.belief.spread, policy.pulls, policy.weights, policy.totals]
    return [part.tobytes() for part in parts]


@each_policy
def test_with_nothing_open_nothing_changes(make, problem):
    """The arms are those of choosing and learning alone, without any asking."""
    asked, plain = make(problem, 3), make(problem, 3)
    for t in range(25):
        query, arm = asked.ask(), int(plain.next_arms()[0])
        assert query.arm == arm
        asked.tell(query, value(t, arm))
        plain.learn(arm, value(t, arm))
    assert knowledge(asked) == knowledge(plain)


@each_policy
def test_asking_leaves_the_knowledge_as_it_is(make, problem):
    policy = played(make, problem)
    belief, before = policy.belief, knowledge(policy)
    policy.ask(12)
    policy.ask()
    assert policy.belief is belief
    assert knowledge(policy) == before


@each_policy
def test_it_does_not_matter_whether_queries_are_asked_together(make, problem):
    together, apart = played(make, problem), played(make, problem)
    assert [query.arm for query in together.ask(8)] == [apart.ask().arm for _ in range(8)]


@each_policy
def test_what_a_policy_notes_down_while_choosing_is_kept(make, problem):
    """A copy that goes on from the middle of a batch, and the original, ask for the same."""
    policy = played(make, problem)
    first = policy.ask(5)
    twin = copy.deepcopy(policy)
    for one in (policy, twin):
        one.tell_many((query, value(50, query.arm)) for query in first)
    assert [q.arm for q in policy.ask(6)] == [q.arm for q in twin.ask(6)]
    if hasattr(policy, "learner"):
        assert np.array_equal(policy.learner.lam, twin.learner.lam)


class Watched(TopTwo):
    """Writes down what it sees when it chooses."""

    def choose(self):
        self.seen = [self.belief.theta_hat.copy(), self.belief.covariance(), self.pulls.copy(), self.weights.copy()]
        return super().choose()


@pytest.mark.parametrize("problem", [BEST, GENERAL], ids=["unit arms", "general arms"])
def test_the_imagined_belief_is_that_of_expected_results(problem):
    policy = played(Watched, problem)
    queries = policy.ask(3)
    mean = policy.belief.theta_hat.copy()
    policy.ask()
    theta, covariance, pulls, weights = policy.seen
    for query in queries:  # as if they came true
        policy.belief.update(query.arm, float(problem.signal.dot(mean[0])[query.arm]))
    assert np.array_equal(theta, mean)
    np.testing.assert_allclose(covariance, policy.belief.covariance(), rtol=1e-9, atol=1e-12)
    counted = np.bincount([query.arm for query in queries], minlength=pulls.shape[1])
    assert np.array_equal(pulls - policy.pulls, counted[None])
    assert np.allclose(weights - policy.weights, counted[None])


def test_what_is_told_or_abandoned_is_not_imagined():
    policy = played(Watched, BEST)
    told, gone = policy.ask(2)
    policy.tell(told, 0.3)
    policy.abandon(gone)
    policy.ask()
    assert np.array_equal(policy.seen[2], policy.pulls)
    assert np.array_equal(policy.seen[0], policy.belief.theta_hat)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@each_policy
def test_an_interrupted_choice_leaves_nothing_imagined(make, problem, error, monkeypatch):
    policy = played(make, problem)
    before, calls = knowledge(policy), []
    real = type(policy).choose

    def choose(self):
        calls.append(None)
        if len(calls) == 4:
            raise error
        return real(self)

    monkeypatch.setattr(type(policy), "choose", choose)
    with pytest.raises(error):
        policy.ask(6)
    assert knowledge(policy) == before
    assert len(policy.open_queries) == 3
    assert len(policy.ask(3)) == 3
    assert knowledge(policy) == before


def test_clucb_is_not_finished_by_imagined_results():
    policy = CLUCB(unit_problem(TopKOracle(3, k=1), noise_std=0.1), 0)
    for query in policy.ask(3):
        policy.tell(query, [0.0, 1.0, 0.5][query.arm])
    policy.ask(400)  # imagined, they would settle it
    assert not policy.finished.any()
    for query in policy.open_queries[:60]:
        policy.tell(query, [0.0, 1.0, 0.5][query.arm])
    samples = policy.samples
    policy.ask()
    assert policy.finished.all()
    assert policy.stopped_at[0] == samples


@pytest.mark.parametrize("recipe", ["grid:n=6,seed=1", "topk:d=40,k=5"])
def test_the_cone_is_in_step_with_what_was_measured_afterwards(recipe):
    instance = load_instance(recipe)
    problem = Problem(instance.oracle, noise_std=0.1, prior_mean=0.8, prior_std=0.5)
    policy = TopTwo(problem, 0, sampler=HalfSpaceSampler())
    means, noise = instance.arms.dot(instance.theta[None])[0], np.random.default_rng(0)
    for _ in range(6):
        policy.tell_many((query, means[query.arm] + 0.1 * noise.normal()) for query in policy.ask(30))
    policy.ask(30)
    cone = policy.alternatives.at(policy.z_hat()[0]).cone
    assert cone.size > 0
    imagined = cone.width[: cone.size].copy()
    cone.sync(policy.belief, 1.0)
    assert (cone.width[: cone.size] > imagined * (1.0 - 1e-9)).all()
    assert (cone.width[: cone.size] > 1.1 * imagined).any()
    _, indptr, indices, data = cone.rows
    rows = np.zeros((cone.size, policy.belief.dim))
    for f in range(cone.size):
        part = slice(indptr[f], indptr[f + 1])
        rows[f, indices[part]] = data[part]
    np.testing.assert_allclose(cone.width[: cone.size], policy.belief.quadratic(rows), rtol=1e-9)
    np.testing.assert_allclose(cone.gap[: cone.size], -rows @ policy.belief.theta_hat[0], atol=1e-9)


def samples(batch_size, runs=10):
    """The mean of some runs on the best of 40 items, of which three are close."""
    problem = Problem(TopKOracle(40, k=1), noise_std=0.2, prior_mean=0.5, prior_std=0.4)
    truth, total = np.array([1.0, 0.8, 0.75, *[0.3] * 37]), 0
    for seed in range(runs):
        nature = np.random.default_rng(seed)

        def measure(labels, nature=nature):
            y = truth[np.atleast_1d(labels)] + 0.2 * nature.normal(size=np.size(labels))
            return y.tolist() if isinstance(labels, list) else float(y[0])

        total += identify(problem, measure, rng=seed, batch_size=batch_size, budget=2000).samples
    return total / runs


def test_batches_waste_little(monkeypatch):
    """Batches nearly as large as the whole run of single queries: at most 2.3 times as many, or nothing was gained."""
    single, batches = samples(1), samples(60)
    assert batches <= 2.3 * single
    monkeypatch.setattr(ask_tell, "Pending", Blind)
    assert samples(60) > 2.4 * single


def test_a_batch_spreads_over_what_matters(monkeypatch):
    """A route of 10 streets and those beside it: without knowing what is under way, streets are asked for again."""
    instance = load_instance("grid:n=6,seed=1")
    problem = Problem(instance.oracle, noise_std=0.1, prior_mean=1.0, prior_std=0.3)

    def different():
        return np.mean([len({query.arm for query in TopTwo(problem, seed).ask(40)}) for seed in range(8)])

    aware = different()
    monkeypatch.setattr(ask_tell, "Pending", Blind)
    assert aware > 1.2 * different()
