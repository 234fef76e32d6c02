"""`identify` and `Session.run`: results, budgets, batches, seeds, refusals, failures; and the same by asking and telling.

Whatever fails in a run, and wherever: what was measured is in the session, and the exception has the session.
"""

import dataclasses
import os
import pickle
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from unit_problem import unit_problem

import combopeps
from combopeps import (
    PEPS,
    ArgmaxOracle,
    BudgetRule,
    CertifiedRule,
    PosteriorRule,
    Result,
    Session,
    StoppingRule,
    TopKOracle,
    TopTwo,
    VerifiedRule,
    any_of,
    identify,
)
from combopeps.errors import OracleError, ParameterError, RewardError
from combopeps.stopping import Verdict, View

TRUTH = {"a": 0.1, "b": 2.0, "c": 1.2, "d": 1.9}


def noisy(seed=0):
    noise = np.random.default_rng(seed)
    return lambda item: TRUTH[item] + noise.normal()


PROBLEM = unit_problem(TopKOracle(list(TRUTH), k=2))
ONE = unit_problem(TopKOracle(list(TRUTH), k=1), prior_std=100.0)


@pytest.mark.parametrize("policy", ["greedy", "top-two", "peps", "uniform", "lingame", "lingape", "clucb", "thompson"])
def test_the_result_says_what_was_found_and_why_it_stopped(policy):
    single = policy == "thompson"
    result = identify(ONE if single else PROBLEM, noisy(), policy=policy, delta=0.01, budget=20_000)
    assert result.answer == ({"b"} if single else {"b", "d"})
    assert result.stop_reason == "posterior"
    assert result.error_probability <= 0.01
    np.testing.assert_array_equal(result.z, [0, 1, 0, not single])
    assert result.runner_up is not None
    assert result.runner_up != result.answer
    assert sum(result.pulls.values()) == result.samples == result.session.samples
    assert set(result.pulls) == set(TRUTH)
    assert (result.delta, result.seed) == (0.01, 0)


def test_a_smaller_delta_needs_more_measurements():
    few, many = (identify(PROBLEM, noisy(), delta=delta).samples for delta in (0.2, 0.001))
    assert few < many


def test_stopping_by_budget_uses_it_up_though_certain():
    result = identify(ONE, lambda item: 100.0 * TRUTH[item], budget=60, stopping="budget")
    assert (result.samples, result.stop_reason) == (60, "budget")
    assert result.error_probability < 1e-6


def test_batches_are_lists_and_the_last_one_fits_the_budget():
    sizes, measure = [], noisy()

    def batch(labels):
        sizes.append(len(labels))
        return [measure(label) for label in labels]

    result = identify(PROBLEM, batch, batch_size=8, budget=20, stopping="budget")
    assert sizes == [8, 8, 4]
    assert result.samples == 20
    assert result.session.open_queries == []


@pytest.mark.parametrize("as_type", [list, tuple, np.array, iter])
def test_a_batch_may_come_back_as_any_sequence(as_type):
    result = identify(PROBLEM, lambda labels: as_type([TRUTH[x] for x in labels]), batch_size=3, budget=9)
    assert result.samples == 9


@pytest.mark.parametrize(
    "bad", [[1.0], [1.0] * 3, count(), 1.0, None, {0: 1.0, 1: 2.0}, {1.0, 2.0}, "12", np.array(1.0)]
)
def test_a_batch_has_an_order_and_as_many_results_as_labels(bad):
    with pytest.raises(RewardError, match=r"2 labels and (returned [13]|must return as many) numbers") as caught:
        identify(PROBLEM, lambda labels: bad, batch_size=2)
    assert caught.value.session.samples == 0


PAIRS = r"a tuple \(y, sem\)"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        *[(bad, "query 2") for bad in (None, float("nan"), "x", (1.0, 0.0), (1.0, "x"), (float("nan"), 1.0))],
        *[(bad, PAIRS) for bad in ([1.0, 0.1], (1.0, 2.0, 3.0), (1.0,))],
    ],
)
def test_a_result_is_a_number_or_a_pair_with_a_standard_error(bad, words):
    results = iter([1.0, (2.0, 0.5), bad])
    with pytest.raises(RewardError, match=words) as caught:
        identify(PROBLEM, lambda item: next(results), budget=9)
    assert caught.value.session.samples == 2
    assert caught.value.session.open_queries == []


def test_one_bad_value_does_not_cost_the_rest_of_its_batch():
    with pytest.raises(RewardError) as caught:
        identify(PROBLEM, lambda labels: [float("nan"), *[1.0] * (len(labels) - 1)], batch_size=8)
    assert caught.value.session.samples == 7
    assert not caught.value.session.open_queries


def test_measure_gets_labels_and_the_callback_sees_every_result():
    measured, seen, measure = [], [], noisy()
    result = identify(
        PROBLEM,
        lambda label: measured.append(label) or measure(label),
        budget=15,
        stopping="budget",
        callback=lambda *event: seen.append((*event, event[0].samples)),
    )
    assert [samples for *_, samples in seen] == list(range(1, 16))
    assert all(session is result.session for session, *_ in seen)
    assert [query.label for _, query, *_ in seen] == measured
    assert {label: measured.count(label) for label in TRUTH} == result.pulls
    n = result.pulls["b"]
    mean = np.mean([y for _, query, y, _ in seen if query.label == "b"])
    assert result.posterior.theta_hat[0, 1] == pytest.approx(mean * n / (n + 1))


def test_a_policy_with_history_needs_fewer_new_measurements():
    policy = TopTwo(PROBLEM, 0)
    measure = noisy()
    for arm, label in list(enumerate(TRUTH)) * 500:
        policy.learn(arm, measure(label))
    result = identify(policy.problem.oracle, measure, policy=policy, delta=0.2)
    assert result.samples == 2001
    assert result.answer == {"b", "d"}


def test_a_policy_for_another_problem_or_for_many_runs_is_refused():
    with pytest.raises(ParameterError, match="another problem"):
        Session(PROBLEM, policy=TopTwo(ONE, 0))
    with pytest.raises(ParameterError, match="one replication; this policy runs 2"):
        Session(PROBLEM, policy=TopTwo(PROBLEM, 0, replications=2))


def fingerprint(rng, policy="greedy"):
    result = identify(PROBLEM, noisy(), rng=rng, policy=policy, budget=120, stopping="budget")
    return result.pulls, result.error_probability, sorted(result.answer), result.seed


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_the_same_seed_gives_the_same_run_and_is_reported(policy):
    assert fingerprint(3, policy) == fingerprint(3, policy)
    assert fingerprint(3, policy)[:2] != fingerprint(4, policy)[:2]
    assert fingerprint(np.random.default_rng(5)) == fingerprint(np.random.default_rng(5))
    assert [fingerprint(rng)[-1] for rng in (3, None)] == [3, None]


SCRIPT = """
import networkx as nx, numpy as np
from combopeps import ShortestPathOracle, identify
graph = nx.Graph([("s", "x"), ("x", "t"), ("s", "y"), ("y", "t"), ("x", "y")])
noise = np.random.default_rng(0)
result = identify(ShortestPathOracle(graph, "s", "t"), lambda edge: len(edge) + noise.normal(), budget=40, rng=2)
print(result.pulls, result.answer, result.error_probability)
"""


def test_the_same_run_whatever_the_hash_seed(capsys):
    """In a process with another seed than this one's."""
    other = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"
    root = str(Path(combopeps.__file__).parents[1])
    variables = {**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": root}
    said = subprocess.run([sys.executable, "-c", SCRIPT], env=variables, capture_output=True, text=True, check=True)
    exec(SCRIPT, {})
    assert said.stdout == capsys.readouterr().out
    assert "'s'" in said.stdout


def test_the_progress_bar_shows_the_answer_and_names_the_epsilon(capsys):
    for epsilon, words in ((0.0, "wrong with p"), (0.8, "worse by more than 0.8 with p")):
        identify(PROBLEM, noisy(), budget=30, progress=True, stopping="budget", epsilon=epsilon)
        assert words in capsys.readouterr().err
    identify(PROBLEM, noisy(), budget=30, stopping="budget")
    assert capsys.readouterr().err == ""


NAN = float("nan")
REFUSED = {
    "delta": [0.0, 1.0, NAN, "small"],
    "epsilon": [-1.0, NAN, "much"],
    "budget": [0, NAN, 10.5, "many"],
    "budget_cost": [0.0, -1.0, NAN, float("inf"), "much", True],
    "batch_size": [0, 2.5, NAN, None],
    "stopping": ["never", "budget"],
    "policy": ["thomson"],
    "rng": [-1, 0.5, "seed", NAN],
    "callback": ["print"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_options_out_of_range_are_refused_before_anything_is_measured(name, value):
    calls = []
    with pytest.raises(ParameterError, match=name if name not in ("stopping", "policy") else None):
        identify(PROBLEM, calls.append, **{name: value})
    assert calls == []


@pytest.mark.parametrize("rng", REFUSED["rng"])
def test_seeds_are_refused_by_sessions_and_policies_too(rng):
    for act in (
        lambda: TopTwo(PROBLEM, rng),
        lambda: Session(PROBLEM, rng=rng),
        lambda: PEPS(PROBLEM).sample_answer(rng),
    ):
        with pytest.raises(ParameterError, match="rng"):
            act()


def test_measure_must_be_a_function():
    with pytest.raises(ParameterError, match="measure"):
        identify(PROBLEM, [1.0, 2.0])


@pytest.mark.parametrize(
    "limit", [{"budget": 7, "stopping": "budget"}, {"stopping": BudgetRule(7)}], ids=["argument", "rule"]
)
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_budget_is_for_the_measurements_of_one_call(limit, batch_size):
    policy, measure, seen = TopTwo(PROBLEM, 0), noisy(), []
    for arm, label in list(enumerate(TRUTH)) * 5:
        policy.learn(arm, measure(label))

    def counted(labels):
        seen.extend(labels if batch_size > 1 else [labels])
        return measure(labels) if batch_size == 1 else [measure(label) for label in labels]

    for calls in (1, 2):
        result = identify(policy.problem, counted, policy=policy, batch_size=batch_size, **limit)
        assert (len(seen), result.samples, result.stop_reason) == (7 * calls, 20 + 7 * calls, "budget")


def test_what_a_callback_observes_is_not_charged_to_the_budget():
    options = {"budget": 6, "stopping": "budget", "callback": lambda run, *_: run.observe("a", 0.1)}
    result = identify(PROBLEM, noisy(), **options)
    assert result.samples == 12


def tied_run(**options):
    """Twenty answers that are exactly tied: the data never tell which is best, only that all are good."""
    return identify(unit_problem(TopKOracle(6, k=3)), lambda item: 0.3, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"stopping": "posterior", "epsilon": 0.8},
        {"stopping": PosteriorRule(0.05, epsilon=0.8)},
        {"stopping": any_of(CertifiedRule(0.05), PosteriorRule(0.05, epsilon=0.8))},
    ],
    ids=["name", "object", "several, of which one stops"],
)
def test_with_an_epsilon_the_error_probability_is_that_of_being_worse_by_more(options):
    result = tied_run(**options)
    assert (result.stop_reason, result.epsilon) == ("posterior", 0.8)
    assert result.error_probability <= 0.05
    assert "epsilon=0.8" in repr(result)
    assert result.top_answers[0].probability < 0.2  # the best of the twenty remains unknown
    asked = [look for look in result.looks if look.threshold == 0.05]  # where the first estimate decided
    assert bool(asked) == (not isinstance(options["stopping"], any_of))
    assert all(look.error_probability == look.statistic for look in asked)
    assert result.looks[-1].t == result.samples


def test_an_epsilon_counts_though_the_budget_ends_the_run():
    plain, lenient = (tied_run(stopping="budget", budget=300, epsilon=epsilon) for epsilon in (0.0, 0.8))
    assert plain.pulls == lenient.pulls
    assert (plain.epsilon, lenient.epsilon) == (0.0, 0.8)
    assert lenient.error_probability < 0.05 < plain.error_probability


# ---------------------------------------------------------------- failures


class Best(ArgmaxOracle):
    """The largest of three, with a `decode` that fails from some call on."""

    def __init__(self, good=0):
        super().__init__(["a", "b", "c"])
        self.calls, self.good = count(), good

    def _argmax_batch(self, thetas):
        return np.eye(3)[thetas.argmax(axis=1)]

    def decode(self, z):
        if next(self.calls) >= self.good:
            raise LookupError("no name for this answer")
        return self.components[int(np.argmax(z))]


THREE = TopKOracle(["a", "b", "c"], k=1)


def number(label):
    return {"a": 0.0, "b": 0.5, "c": 1.0}[label]


def numbers(labels):
    return [number(label) for label in labels]


def fails(*arguments, **options):
    raise LookupError("out of order")


def interrupts(*arguments, **options):
    raise KeyboardInterrupt


def caught_in(error, problem, *arguments, **options):
    with pytest.raises(error) as caught:
        identify(unit_problem(problem), *arguments, **options)
    return caught.value


class Half(Best):
    """Answers that are not sets, with the usual decode."""

    decode = ArgmaxOracle.decode

    def _argmax_batch(self, thetas):
        return 0.5 * super()._argmax_batch(thetas)


def test_a_decode_that_fails_costs_no_measurement():
    calls = []
    assert "override decode" in str(caught_in(OracleError, Half(), calls.append))
    error = caught_in(OracleError, Best(), calls.append)
    assert "cannot decode" in str(error)
    assert "no name for this answer" in str(error)
    assert isinstance(error.__cause__, LookupError)
    assert calls == []


@pytest.mark.parametrize("good", [1, 2])  # the first is asked for when the problem is made
def test_a_decode_that_fails_in_the_end_loses_nothing(good):
    error = caught_in(LookupError, Best(good), number, budget=30, stopping="budget")
    assert error.session.samples == 30
    assert "30 results" in error.__notes__[0]
    assert len(error.__notes__) == 1


class Broken(StoppingRule):
    """A rule whose third look fails."""

    name, delta = "broken", 0.1

    def __init__(self):
        self.looks = count()

    def check(self, view):
        return fails() if next(self.looks) == 2 else Verdict(False)


def test_a_look_that_fails_loses_nothing():
    error = caught_in(LookupError, THREE, number, stopping=Broken())
    assert error.session.samples == 12
    assert error.session.open_queries == []


class Bar:
    """A progress bar that shows nothing."""

    def __init__(self, **options): ...

    def set_postfix_str(self, text): ...

    def close(self): ...


@pytest.mark.parametrize(("what", "raised"), [(fails, LookupError), (interrupts, KeyboardInterrupt)])
@pytest.mark.parametrize("where", ["tied", "result", "__init__", "set_postfix_str", "close"])
def test_what_surrounds_the_measurements_may_fail_too(where, what, raised, monkeypatch):
    problem = unit_problem(THREE, noise_std=9.0)
    public = {"tied": (View, "tied"), "result": (Result, "__init__")}
    monkeypatch.setattr(*public.get(where, (Bar, where)), what)
    monkeypatch.setattr("tqdm.tqdm", Bar)
    options = {"budget": 15, "progress": hasattr(Bar, where)}
    if what is interrupts and where == "set_postfix_str":
        result = identify(problem, number, **options)
        assert (result.stop_reason, result.samples) == ("interrupted", 10)
        return
    error = caught_in(raised, problem, number, **options)
    assert error.session.samples == {"set_postfix_str": 10, "__init__": 0}.get(where, 15)
    assert error.session.open_queries == []


@pytest.mark.parametrize("kind", [OSError, SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit])
@pytest.mark.parametrize(("batch_size", "done"), [(1, 0), (1, 3), (4, 3)])
def test_every_kind_of_exception_carries_the_session_and_the_run_continues(kind, batch_size, done):
    session, calls = Session(unit_problem(THREE), stopping="budget"), count()

    def measure(labels):
        if next(calls) == done:
            raise kind
        return number(labels) if batch_size == 1 else numbers(labels)

    options = {"batch_size": batch_size, "budget": 40}
    if kind is KeyboardInterrupt:
        result = session.run(measure, **options)
        assert (result.stop_reason, len(result.answer)) == ("interrupted", 1)
        assert 0 < result.error_probability <= 1
    else:
        with pytest.raises(kind) as caught:
            session.run(measure, **options)
        assert caught.value.session is session
        assert f"{done * batch_size} results" in "".join(caught.value.__notes__) or not done
    assert session.samples == done * batch_size
    assert session.open_queries == []
    assert session.run(measure, **options).samples == done * batch_size + 40


def test_an_exception_that_takes_no_attributes_is_raised_all_the_same():
    @dataclasses.dataclass(frozen=True)
    class FrozenError(Exception):
        code: int

    def measure(label):
        raise FrozenError(3)

    error = caught_in(FrozenError, THREE, measure)
    assert error.code == 3
    assert error.session.samples == 0


@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("raised", [RuntimeError, KeyboardInterrupt])
def test_a_callback_that_raises_does_not_cost_the_rest_of_the_batch(raised, batch_size):
    seen, session = [], Session(unit_problem(THREE), stopping="budget")

    def callback(session, query, y):
        seen.append(query.id)
        if query.id == 6:
            raise raised("enough")

    options = {"batch_size": batch_size, "callback": callback, "budget": 50}
    measure = number if batch_size == 1 else numbers
    if raised is KeyboardInterrupt:
        assert session.run(measure, **options).stop_reason == "interrupted"
    else:
        with pytest.raises(raised) as caught:
            session.run(measure, **options)
        assert caught.value.session is session
    assert seen == [0, 1, 2, 3, 4, 5, 6]
    assert session.samples == {1: 7, 5: 10}[batch_size]
    assert session.open_queries == []


def test_what_a_generator_has_measured_before_it_fails_is_kept():
    def measure(labels):
        for i, label in enumerate(labels):
            if i == 3:
                raise OSError("the instrument is off")
            yield number(label)

    error = caught_in(OSError, THREE, measure, batch_size=8)
    assert error.session.samples == 3
    assert error.session.open_queries == []


# ---------------------------------------------------------------- asking and telling by hand gives the same


CLEAR = {"a": 0.0, "b": 2.0, "c": 1.0, "d": 0.3}
FOUR = unit_problem(TopKOracle(list(CLEAR), k=1), noise_std=0.8)


class Bench:
    """The n-th measurement of an item has the same result in every run."""

    def __init__(self, seed=0):
        self.made, self.seed = dict.fromkeys(CLEAR, 0), seed

    def __call__(self, item):
        self.made[item] += 1
        noise = np.random.default_rng([self.seed, list(CLEAR).index(item), self.made[item]])
        return CLEAR[item] + 0.8 * noise.normal()


def by_hand(session, measure, most=5000):
    """Ask, tell, and look when a look is due, until the rule stops."""
    while session.samples < most:
        query = session.ask()
        session.tell(query, measure(query.label))
        if session.due and session.look().stop:
            return session.result()
    raise AssertionError("it does not stop")


@pytest.mark.parametrize("stopping", ["posterior", "heuristic", "verified", "certified", "guaranteed"])
@pytest.mark.parametrize("policy", ["greedy", "top-two", "peps"])
def test_by_hand_as_by_identify(policy, stopping):
    options = {"policy": policy, "stopping": stopping, "delta": 0.02, "rng": 7}
    expected = identify(FOUR, Bench(), **options)
    found = by_hand(Session(FOUR, **options), Bench())
    assert (found.answer, found.samples, found.pulls) == (expected.answer, expected.samples, expected.pulls)
    assert (found.claim, found.stop_reason) == (expected.claim, expected.stop_reason)
    assert repr(found.looks) == repr(expected.looks)  # with NaNs


def test_results_in_any_order_and_batches_of_requests():
    session = Session(FOUR, stopping=VerifiedRule(0.05), rng=1)
    measure, rng = Bench(3), np.random.default_rng(0)
    while session.samples < 5000:
        queries = session.ask(7)
        assert len(queries) == 7
        for i in rng.permutation(7):
            session.tell(queries[i], measure(queries[i].label))
        if session.due and session.look().stop:
            break
    assert session.result().answer == {"b"}
    assert session.result().stop_reason == "verified"


def test_a_status_changes_nothing():
    quiet, asked = (Session(FOUR, stopping="guaranteed", rng=5) for _ in range(2))
    for session in (quiet, asked):
        measure = Bench()
        for _ in range(150):
            query = session.ask()
            session.tell(query, measure(query.label))
            if session is asked:
                session.status()
                session.top_answers(3)
    assert quiet.status().to_dict() == asked.status().to_dict()
    assert quiet.result().pulls == asked.result().pulls
    assert repr(quiet.looks) == repr(asked.looks)


def test_a_result_of_a_run_that_has_not_ended():
    session = Session(unit_problem(TopKOracle(list(CLEAR), k=1), noise_std=9.0))
    session.tell(session.ask(), 0.5)
    result = session.result()
    assert result.stop_reason == "open"
    assert result.claim.startswith("none: the run has not ended")
    assert result.samples == 1


def test_a_rule_is_continued_with_its_requests():
    session, measure = Session(FOUR, stopping="verified", rng=4), Bench()
    result = session.run(measure, budget=30)
    while result.stop_reason == "budget":
        result = session.run(measure, budget=7)
    assert result.answer == {"b"}
    assert result.stop_reason == "verified"


def test_a_session_is_pickled_with_its_rule():
    session = Session(FOUR, stopping=any_of(VerifiedRule(0.05), PosteriorRule(1e-9)), rng=6)
    session.run(Bench(), budget=40)
    again = pickle.loads(pickle.dumps(session))
    assert [query.arm for query in again.ask(3)] == [query.arm for query in session.ask(3)]
    assert again.status().answer == session.status().answer


def test_one_rule_serves_one_session_at_a_time():
    rule = VerifiedRule(0.05)
    first = Session(FOUR, stopping=rule)
    first.ask()
    second = Session(FOUR, stopping=rule)
    with pytest.raises(ParameterError, match="serves a run that has not ended"):
        second.ask()
