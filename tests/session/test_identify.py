"""`identify`: results, budgets, batches, callbacks, seeds and refusals."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from unit_problem import unit_problem

import combopeps
from combopeps import BudgetRule, CertifiedRule, PosteriorRule, Session, TopKOracle, TopTwo, any_of, identify
from combopeps.errors import ParameterError, RewardError

TRUTH = {"a": 0.1, "b": 2.0, "c": 1.2, "d": 1.9}


def noisy(seed=0):
    noise = np.random.default_rng(seed)
    return lambda item: TRUTH[item] + noise.normal()


def oracle(k=2):
    return TopKOracle(list(TRUTH), k=k)


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_five_lines(policy):
    result = identify(unit_problem(oracle()), noisy(), policy=policy, delta=0.01)
    assert result.answer == {"b", "d"}
    assert result.stop_reason == "posterior"
    assert result.error_probability <= 0.01
    np.testing.assert_array_equal(result.z, [0, 1, 0, 1])
    assert result.runner_up is not None
    assert result.runner_up != result.answer
    assert sum(result.pulls.values()) == result.samples == result.session.samples
    assert set(result.pulls) == set(TRUTH)
    assert (result.delta, result.seed) == (0.01, 0)


def test_measure_gets_labels_and_every_call_counts():
    seen, measure = [], noisy()
    result = identify(
        unit_problem(oracle()), lambda label: seen.append(label) or measure(label), budget=40, stopping="budget"
    )
    assert {label: seen.count(label) for label in TRUTH} == result.pulls
    assert (result.samples, result.stop_reason) == (40, "budget")


def test_a_smaller_delta_needs_more_measurements():
    few, many = (identify(unit_problem(oracle()), noisy(), delta=delta).samples for delta in (0.2, 0.001))
    assert few < many


def test_the_budget_holds_before_the_posterior_does():
    result = identify(unit_problem(oracle()), noisy(), delta=1e-9, budget=25)
    assert (result.samples, result.stop_reason) == (25, "budget")
    assert result.error_probability > 1e-9


def test_stopping_by_budget_uses_it_up_though_certain():
    problem = unit_problem(oracle(k=1), prior_std=100.0)
    result = identify(problem, lambda item: 100.0 * TRUTH[item], budget=60, stopping="budget")
    assert (result.samples, result.stop_reason) == (60, "budget")
    assert result.error_probability < 1e-6


def test_batches_are_lists_and_the_last_one_fits_the_budget():
    sizes, measure = [], noisy()

    def batch(labels):
        sizes.append(len(labels))
        return [measure(label) for label in labels]

    result = identify(unit_problem(oracle()), batch, batch_size=8, budget=20, stopping="budget")
    assert sizes == [8, 8, 4]
    assert result.samples == 20
    assert result.session.open_queries == []


@pytest.mark.parametrize("as_type", [list, tuple, np.array, iter])
def test_a_batch_may_come_back_as_any_sequence(as_type):
    result = identify(
        unit_problem(oracle()), lambda labels: as_type([TRUTH[x] for x in labels]), batch_size=3, budget=9
    )
    assert result.samples == 9


@pytest.mark.parametrize("change", [-1, 1])
def test_a_batch_of_the_wrong_length_is_refused(change):
    with pytest.raises(RewardError, match=rf"4 labels .* {4 + change} numbers") as caught:
        identify(unit_problem(oracle()), lambda labels: [1.0] * (len(labels) + change), batch_size=4, budget=8)
    assert caught.value.session.samples == 0


@pytest.mark.parametrize("bad", [None, float("nan"), "x"])
def test_a_result_that_is_no_number_is_refused(bad):
    results = iter([1.0, 2.0, bad])
    with pytest.raises(RewardError) as caught:
        identify(unit_problem(oracle()), lambda item: next(results), budget=9)
    assert caught.value.session.samples == 2
    assert caught.value.session.open_queries == []


def test_the_callback_sees_every_measurement():
    seen = []
    result = identify(
        unit_problem(oracle()),
        noisy(),
        budget=15,
        stopping="budget",
        callback=lambda *event: seen.append((*event, event[0].samples)),
    )
    assert [samples for *_, samples in seen] == list(range(1, 16))
    assert all(session is result.session for session, *_ in seen)
    for label in TRUTH:
        assert sum(query.label == label for _, query, *_ in seen) == result.pulls[label]
    mean = np.mean([y for _, query, y, _ in seen if query.label == "b"])
    n = result.pulls["b"]
    assert result.session.policy.belief.theta_hat[0, 1] == pytest.approx(mean * n / (n + 1))


def test_an_exception_carries_the_session_and_the_run_continues_from_there():
    measure, calls = noisy(), []

    def fails_once(label):
        calls.append(label)
        if len(calls) == 13:
            raise OSError("the instrument is off")
        return measure(label)

    with pytest.raises(OSError, match="instrument") as caught:
        identify(unit_problem(oracle()), fails_once, budget=30, stopping="budget")
    session = caught.value.session
    assert session.samples == 12
    assert session.open_queries == []
    assert "12 results" in "".join(caught.value.__notes__)
    result = session.run(fails_once, budget=18)
    assert result.session is session
    assert result.samples == 30
    assert len(calls) == 31


@pytest.mark.parametrize("at", [1, 8])
def test_ctrl_c_returns_what_is_known(at):
    calls, measure = [], noisy()

    def interrupted(label):
        calls.append(label)
        if len(calls) == at:
            raise KeyboardInterrupt
        return measure(label)

    result = identify(unit_problem(oracle()), interrupted)
    assert (result.stop_reason, result.samples) == ("interrupted", at - 1)
    assert len(result.answer) == 2
    assert result.session.open_queries == []
    assert 0 < result.error_probability <= 1


def test_a_policy_with_history_needs_fewer_new_measurements():
    policy = TopTwo(unit_problem(oracle()), 0)
    measure = noisy()
    for arm, label in list(enumerate(TRUTH)) * 500:
        policy.learn(arm, measure(label))
    result = identify(policy.problem.oracle, measure, policy=policy, delta=0.2)
    assert result.samples == 2001
    assert result.answer == {"b", "d"}


def test_a_policy_for_another_problem_or_for_many_runs_is_refused():
    problem = unit_problem(oracle())
    with pytest.raises(ParameterError, match="another problem"):
        Session(problem, policy=TopTwo(unit_problem(oracle()), 0))
    with pytest.raises(ParameterError, match="one replication"):
        Session(problem, policy=TopTwo(problem, 0, replications=2))


def fingerprint(seed, **options):
    result = identify(unit_problem(oracle()), noisy(), rng=seed, budget=120, stopping="budget", **options)
    return result.pulls, result.error_probability, sorted(result.answer)


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_the_same_seed_gives_the_same_run(policy):
    assert fingerprint(3, policy=policy) == fingerprint(3, policy=policy)
    assert fingerprint(3, policy=policy) != fingerprint(4, policy=policy)
    generators = (np.random.default_rng(5) for _ in range(2))
    assert fingerprint(next(generators)) == fingerprint(next(generators))


def test_the_seed_is_reported_when_it_is_one():
    assert identify(unit_problem(oracle()), noisy(), rng=11, budget=1).seed == 11
    assert identify(unit_problem(oracle()), noisy(), rng=None, budget=1).seed is None


SCRIPT = """
import networkx as nx, numpy as np
from combopeps import ShortestPathOracle, identify
graph = nx.Graph([("s", "x"), ("x", "t"), ("s", "y"), ("y", "t"), ("x", "y")])
noise = np.random.default_rng(0)
result = identify(ShortestPathOracle(graph, "s", "t"), lambda edge: len(edge) + noise.normal(), budget=40, rng=2)
print(result.pulls, result.answer, result.error_probability)
"""


def test_the_same_run_whatever_the_hash_seed():
    root = str(Path(combopeps.__file__).parents[1])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert "'s'" in outputs.pop()


def test_the_progress_bar_shows_the_answer(capsys):
    identify(unit_problem(oracle()), noisy(), budget=30, progress=True, stopping="budget")
    assert "wrong with p" in capsys.readouterr().err
    identify(unit_problem(oracle()), noisy(), budget=30, stopping="budget")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "options",
    [
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": float("nan")},
        {"budget": 0},
        {"batch_size": 0},
        {"stopping": "never"},
        {"stopping": "budget"},
        {"policy": "thompson"},
        {"delta": "small"},
        {"budget": float("nan")},
        {"budget": 10.5},
        {"budget": "many"},
        {"batch_size": 2.5},
        {"batch_size": float("nan")},
        {"batch_size": None},
        {"rng": -1},
        {"rng": 0.5},
        {"epsilon": float("nan")},
        {"epsilon": -1.0, "stopping": "budget", "budget": 5},
        {"callback": "print"},
    ],
)
def test_options_out_of_range_are_refused_before_anything_is_measured(options):
    calls = []
    with pytest.raises(ParameterError):
        identify(unit_problem(oracle()), calls.append, **options)
    assert calls == []


def test_measure_must_be_a_function():
    with pytest.raises(ParameterError, match="measure"):
        identify(oracle(), [1.0, 2.0])


@pytest.mark.parametrize(
    "limit", [{"budget": 7, "stopping": "budget"}, {"stopping": BudgetRule(7)}], ids=["argument", "rule"]
)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_budget_is_for_the_measurements_of_one_call(limit, batch_size):
    policy, measure, seen = TopTwo(unit_problem(oracle()), 0), noisy(), []
    for arm, label in list(enumerate(TRUTH)) * 5:
        policy.learn(arm, measure(label))

    def counted(labels):
        seen.extend(labels if batch_size > 1 else [labels])
        return measure(labels) if batch_size == 1 else [measure(label) for label in labels]

    for calls in (1, 2):
        result = identify(policy.problem, counted, policy=policy, batch_size=batch_size, **limit)
        assert (len(seen), result.samples, result.stop_reason) == (7 * calls, 20 + 7 * calls, "budget")


def test_what_a_callback_observes_is_not_charged_to_the_budget():
    result = identify(
        unit_problem(oracle()), noisy(), budget=6, stopping="budget", callback=lambda run, *_: run.observe("a", 0.1)
    )
    assert result.samples == 12


def tied_run(**options):
    """Twenty answers that are exactly tied: the data never tell which is best, only that all are good."""
    return identify(unit_problem(TopKOracle(6, k=3)), lambda item: 0.3, **options)


RULES = {"name": {"stopping": "posterior", "epsilon": 0.8}, "object": {"stopping": PosteriorRule(0.05, epsilon=0.8)}}


@pytest.mark.parametrize("options", RULES.values(), ids=RULES)
def test_with_an_epsilon_the_error_probability_is_that_of_being_worse_by_more(options):
    result = tied_run(**options)
    assert (result.stop_reason, result.epsilon) == ("posterior", 0.8)
    assert result.error_probability <= 0.05
    assert "epsilon=0.8" in repr(result)
    assert result.top_answers[0].probability < 0.2  # the best of the twenty remains unknown
    asked = [look for look in result.looks if look.threshold == 0.05]  # where the first estimate decided
    assert asked
    assert all(look.error_probability == look.statistic for look in asked)
    assert result.looks[-1].t == result.samples


def test_an_epsilon_counts_though_the_budget_ends_the_run():
    plain, lenient = (tied_run(stopping="budget", budget=300, epsilon=epsilon) for epsilon in (0.0, 0.8))
    assert plain.pulls == lenient.pulls
    assert (plain.epsilon, lenient.epsilon) == (0.0, 0.8)
    assert lenient.error_probability < 0.05 < plain.error_probability


def test_of_several_rules_the_one_that_stops_says_which_epsilon():
    result = tied_run(stopping=any_of(CertifiedRule(0.05), PosteriorRule(0.05, epsilon=0.8)))
    assert (result.stop_reason, result.epsilon) == ("posterior", 0.8)
    assert result.error_probability <= 0.05


def test_the_progress_bar_names_the_epsilon(capsys):
    tied_run(epsilon=0.8, progress=True)
    assert "worse by more than 0.8 with p" in capsys.readouterr().err


def test_one_bad_value_does_not_cost_the_rest_of_its_batch():
    def measure(labels):
        return [float("nan"), *[1.0] * (len(labels) - 1)]

    with pytest.raises(RewardError) as caught:
        identify(unit_problem(TopKOracle(4, k=1)), measure, batch_size=8, rng=0)
    assert caught.value.session.samples == 7
    assert not caught.value.session.open_queries
