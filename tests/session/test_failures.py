"""Whatever fails in a run, and wherever: what was measured is in the session, and the exception has the session."""

import dataclasses
from itertools import count

import numpy as np
import pytest
from unit_problem import unit_problem

import combopeps.session.run
import combopeps.session.session
from combopeps import ArgmaxOracle, Session, StoppingRule, TopKOracle, identify
from combopeps.errors import OracleError, RewardError
from combopeps.stopping import Verdict, View


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


def test_a_decode_that_fails_costs_no_measurement():
    calls = []
    error = caught_in(OracleError, Best(), calls.append)
    assert "cannot decode" in str(error)
    assert "no name for this answer" in str(error)
    assert isinstance(error.__cause__, LookupError)
    assert calls == []


def test_so_does_the_usual_decode_of_answers_that_are_not_sets():
    class Half(Best):
        decode = ArgmaxOracle.decode

        def _argmax_batch(self, thetas):
            return 0.5 * super()._argmax_batch(thetas)

    assert "override decode" in str(caught_in(OracleError, Half(), number))


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
    error = caught_in(LookupError, TopKOracle(["a", "b", "c"], k=1), number, stopping=Broken())
    assert error.session.samples == 12
    assert error.session.open_queries == []


@pytest.mark.parametrize(("what", "raised"), [(fails, LookupError), (interrupts, KeyboardInterrupt)])
@pytest.mark.parametrize("where", ["tied", "Result", "__exit__", "update", "__enter__"])
def test_what_follows_the_measurements_may_fail_too(where, what, raised, monkeypatch):
    problem = unit_problem(TopKOracle(["a", "b", "c"], k=1), noise_std=9.0)
    owners = {"tied": View, "Result": combopeps.session.session}
    monkeypatch.setattr(owners.get(where, combopeps.session.run.Progress), where, what)
    options = {"budget": 15, "progress": where == "update"}
    if what is interrupts and where == "update":
        result = identify(problem, number, **options)
        assert (result.stop_reason, result.samples) == ("interrupted", 10)
        return
    error = caught_in(raised, problem, number, **options)
    assert error.session.samples == {"update": 10, "__enter__": 0}.get(where, 15)
    assert error.session.open_queries == []


@pytest.mark.parametrize("kind", [OSError, SystemExit, KeyboardInterrupt, StopIteration, GeneratorExit])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_every_kind_of_exception_carries_the_session(kind, batch_size):
    session, calls = Session(unit_problem(TopKOracle(["a", "b", "c"], k=1)), policy="top-two"), count()

    def measure(labels):
        if next(calls) == 3:
            raise kind
        return number(labels) if batch_size == 1 else numbers(labels)

    if kind is KeyboardInterrupt:
        assert session.run(measure, batch_size=batch_size).stop_reason == "interrupted"
    else:
        with pytest.raises(kind) as caught:
            session.run(measure, batch_size=batch_size)
        assert caught.value.session is session
    assert session.samples == 3 * batch_size
    assert session.open_queries == []


def test_an_exception_that_takes_no_attributes_is_raised_all_the_same():
    @dataclasses.dataclass(frozen=True)
    class FrozenError(Exception):
        code: int

    def measure(label):
        raise FrozenError(3)

    error = caught_in(FrozenError, TopKOracle(3, k=1), measure)
    assert error.code == 3
    assert error.session.samples == 0


@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("raised", [RuntimeError, KeyboardInterrupt])
def test_a_callback_that_raises_does_not_cost_the_rest_of_the_batch(raised, batch_size):
    seen, session = [], Session(unit_problem(TopKOracle(["a", "b", "c"], k=1)), stopping="budget")

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

    error = caught_in(OSError, TopKOracle(["a", "b", "c"], k=1), measure, batch_size=8)
    assert error.session.samples == 3
    assert error.session.open_queries == []


def test_a_generator_without_an_end_is_refused():
    def measure(labels):
        while True:
            yield 1.0

    assert "4 labels" in str(caught_in(RewardError, TopKOracle(3, k=1), measure, batch_size=4))


@pytest.mark.parametrize("bad", [1.0, None, {0: 1.0, 1: 2.0}, {1.0, 2.0}, "12", np.array(1.0)], ids=repr)
def test_a_batch_without_an_order_or_a_length_is_refused(bad):
    error = caught_in(RewardError, TopKOracle(3, k=1), lambda labels: bad, batch_size=2)
    assert "2 labels and must return as many numbers, in this order" in str(error)
    assert error.session.samples == 0
