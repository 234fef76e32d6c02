"""Open queries count as if answered with their expected results, and only while the next query is chosen."""

import copy

import numpy as np
import pytest
from sessions import POLICIES, session_of
from unit_problem import unit_problem

from combopeps import PEPS, Box, ExplicitOracle, Problem, TopKOracle, TopTwo, identify, load_instance
from combopeps.alternatives import HalfSpaceSampler
from combopeps.policies.base import Fantasies
from combopeps.policies.baselines import CLUCB

BEST = unit_problem(TopKOracle(5, k=1), noise_std=0.5)
BOXED = unit_problem(TopKOracle(5, k=1), noise_std=0.5, space=Box(-3, 3))
GENERAL = unit_problem(
    ExplicitOracle(np.eye(4)), np.random.default_rng(0).normal(size=(7, 4)), noise_std=np.linspace(0.5, 2.0, 7)
)
CASES = {name: (POLICIES[name], BEST) for name in ("top-two", "greedy", "peps", "clucb", "thompson", "uniform")} | {
    "top-two, general arms": (TopTwo, GENERAL),
    "top-two, a box": (TopTwo, BOXED),
    "peps, tracking": (lambda problem, rng: PEPS(problem, rng, tracking=True, alpha=0.5), GENERAL),
    "doubling": (POLICIES["doubling-peps"], BOXED),
    "lingame": (POLICIES["lingame"], GENERAL),
    "lingape": (POLICIES["lingape"], GENERAL),
}
each_policy = pytest.mark.parametrize(("make", "problem"), CASES.values(), ids=CASES)


def ignore_open_queries(monkeypatch):
    """The negative control: choices do not know what is being measured."""
    monkeypatch.setattr(Fantasies, "__init__", lambda self, policy, arms: vars(self).update(_policy=policy, _copy=None))
    monkeypatch.setattr(Fantasies, "_pending", (), raising=False)
    monkeypatch.setattr(Fantasies, "add", lambda self, arms: None)


def value(t, arm):
    return float(np.sin(1.0 + 3 * t + 7 * arm))


def played(make, problem, rounds=9):
    session = session_of(make, problem, 3)
    for t in range(rounds):
        query = session.ask()
        session.tell(query, value(t, query.arm))
    return session


def statistics(policy):
    parts = [policy.posterior.theta_hat, policy.posterior.spread, policy.pulls, policy.weights, policy.totals]
    return [part.tobytes() for part in parts]


@each_policy
def test_without_open_queries_the_policy_chooses_itself(make, problem):
    """The arms are those of choosing and learning without a session, where query i draws from stream i."""
    session, plain = session_of(make, problem, 3), make(problem, 3)
    for t in range(25):
        plain.streams.seek(t)
        query, arm = session.ask(), int(plain.next_arms()[0])
        assert query.arm == arm
        session.tell(query, value(t, arm))
        plain.learn(arm, value(t, arm))
    assert statistics(session.policy) == statistics(plain)


@each_policy
def test_it_does_not_matter_whether_queries_are_asked_together(make, problem):
    together, apart = played(make, problem), played(make, problem)
    assert [query.arm for query in together.ask(8)] == [apart.ask().arm for _ in range(8)]


@each_policy
def test_what_a_policy_changes_while_choosing_is_kept(make, problem):
    """A copy that continues from the middle of a batch, and the original, ask for the same."""
    session = played(make, problem)
    first = session.ask(5)
    twin = copy.deepcopy(session)
    for one in (session, twin):
        one.tell_many((query, value(50, query.arm)) for query in first)
    assert [q.arm for q in session.ask(6)] == [q.arm for q in twin.ask(6)]
    if hasattr(session.policy, "learner"):
        assert np.array_equal(session.policy.learner.lam, twin.policy.learner.lam)


class Recorded(TopTwo):
    """Records what it sees when it chooses."""

    def choose(self):
        self.seen = [
            self.posterior.theta_hat.copy(),
            self.posterior.covariance(),
            self.pulls.copy(),
            self.weights.copy(),
        ]
        return super().choose()


@pytest.mark.parametrize("problem", [BEST, GENERAL], ids=["unit arms", "general arms"])
def test_open_queries_count_as_if_answered_with_expected_results(problem):
    session = played(Recorded, problem)
    queries, policy = session.ask(3), session.policy
    mean = policy.posterior.theta_hat.copy()
    session.ask()
    theta, covariance, pulls, weights = policy.seen
    for query in queries:  # as if they came true
        policy.posterior.update(query.arm, float(problem.signal.dot(mean[0])[query.arm]))
    assert np.array_equal(theta, mean)
    np.testing.assert_allclose(covariance, policy.posterior.covariance(), rtol=1e-9, atol=1e-12)
    counted = np.bincount([query.arm for query in queries], minlength=pulls.shape[1])
    assert np.array_equal(pulls - policy.pulls, counted[None])
    assert np.allclose(weights - policy.weights, counted[None])


def test_answered_and_abandoned_queries_have_no_expected_results():
    session = played(Recorded, BEST)
    told, gone = session.ask(2)
    session.tell(told, 0.3)
    session.abandon(gone)
    session.ask()
    assert np.array_equal(session.policy.seen[2], session.policy.pulls)
    assert np.array_equal(session.policy.seen[0], session.policy.posterior.theta_hat)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@each_policy
def test_an_interrupted_choice_leaves_no_expected_results(make, problem, error, monkeypatch):
    session, calls = played(make, problem), []
    policy = session.policy
    before, real = statistics(policy), type(policy).choose

    def choose(self):
        calls.append(None)
        if len(calls) == 4:
            raise error
        return real(self)

    with monkeypatch.context() as patched:
        patched.setattr(type(policy), "choose", choose)
        with pytest.raises(error):
            session.ask(6)
    assert statistics(policy) == before
    assert session.open_queries == []
    assert len(session.ask(3)) == 3
    assert session.policy is policy
    assert statistics(policy) == before


def test_clucb_is_not_finished_by_expected_results():
    session = session_of(CLUCB, unit_problem(TopKOracle(3, k=1), noise_std=0.1))
    policy = session.policy
    for query in session.ask(3):
        session.tell(query, [0.0, 1.0, 0.5][query.arm])
    session.ask(400)  # their expected results would finish it
    assert not policy.finished.any()
    for query in session.open_queries[:60]:
        session.tell(query, [0.0, 1.0, 0.5][query.arm])
    samples = session.samples
    session.ask()
    assert policy.finished.all()
    assert policy.stopped_at[0] == samples


@pytest.mark.parametrize("recipe", ["grid:n=6,seed=1", "topk:d=40,k=5"])
def test_the_cone_is_in_step_with_what_was_measured_afterwards(recipe):
    instance = load_instance(recipe)
    problem = Problem(instance.oracle, noise_std=0.1, prior_mean=0.8, prior_std=0.5)
    session = session_of(TopTwo, problem, sampler=HalfSpaceSampler())
    policy, means, noise = session.policy, instance.arms.dot(instance.theta[None])[0], np.random.default_rng(0)
    for _ in range(6):
        session.tell_many((query, means[query.arm] + 0.1 * noise.normal()) for query in session.ask(30))
    session.ask(30)
    cone = policy.alternatives.at(policy.z_hat()[0]).cone
    assert cone.size > 0
    expected = cone.width[: cone.size].copy()
    cone.sync(policy.posterior, 1.0)
    assert (cone.width[: cone.size] > expected * (1.0 - 1e-9)).all()
    assert (cone.width[: cone.size] > 1.1 * expected).any()
    _, indptr, indices, data = cone.rows
    rows = np.zeros((cone.size, policy.posterior.dim))
    for f in range(cone.size):
        part = slice(indptr[f], indptr[f + 1])
        rows[f, indices[part]] = data[part]
    np.testing.assert_allclose(cone.width[: cone.size], policy.posterior.quadratic(rows), rtol=1e-9)
    np.testing.assert_allclose(cone.gap[: cone.size], -rows @ policy.posterior.theta_hat[0], atol=1e-9)


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
    ignore_open_queries(monkeypatch)
    assert samples(60) > 2.4 * single


def test_a_batch_spreads_over_what_matters(monkeypatch):
    """A route of 10 streets and those beside it: without expected results, streets are asked for again."""
    instance = load_instance("grid:n=6,seed=1")
    problem = Problem(instance.oracle, noise_std=0.1, prior_mean=1.0, prior_std=0.3)

    def different():
        return np.mean([len({query.arm for query in session_of(TopTwo, problem, seed).ask(40)}) for seed in range(8)])

    aware = different()
    ignore_open_queries(monkeypatch)
    assert aware > 1.2 * different()
