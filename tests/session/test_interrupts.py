"""Ctrl-C at any moment: posterior, pulls and recorded results agree, and nothing that was measured is lost."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from interrupted import PROBLEMS
from interrupter import Interrupter, contained
from unit_problem import unit_problem

from combopeps import Session, TopKOracle, identify
from combopeps.policies import base
from combopeps.policies.baselines import Uniform
from combopeps.session import queries, run, session
from combopeps.session.run import Batch
from combopeps.utils import locks
from combopeps.utils.locks import Atomic, SessionLock

ROOT = Path(locks.__file__).parents[2]
MODULES = (session, run, queries, base, locks)
TRACED = {module.__file__ for module in MODULES}


def contradictions(*cases):
    """Real SIGINTs in a process of their own: how many left a contradiction behind, for each case."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("interrupted.py"), *cases],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True, timeout=900,
    )  # fmt: skip
    return [int(count) for count in done.stdout.split()]


def test_a_sigint_never_leaves_half_a_measurement():
    assert contradictions("diagonal:tell:100", "dense:tell_many:100", "dense:observe_table:100") == [0, 0, 0]


@contained
def halves(lines):
    """Tables of which a SIGINT at one of these lines has left a part, or a posterior that contradicts them."""
    found = 0
    for line in lines:
        changed = Session(PROBLEMS["dense"], policy="uniform")
        with suppress(KeyboardInterrupt), Interrupter(TRACED, line):
            changed.observe_table([(label, 1.0) for label in changed.problem.arms.labels])
        arms = len(changed.problem.arms)
        found += {changed.samples, len(changed.measurements()), int(changed.policy.totals.sum())} not in ({0}, {arms})
    return found


def test_without_the_guard_a_sigint_leaves_half_a_table(monkeypatch):
    """Negative control, with the same SIGINTs."""
    tracer = Interrupter(TRACED)
    with tracer:
        Session(PROBLEMS["dense"], policy="uniform").observe_table([(arm, 1.0) for arm in range(30)])
    lines = range(tracer.lines // 2, tracer.lines, 5)
    assert halves(lines) == 0
    monkeypatch.setattr(Atomic, "__enter__", lambda self: None)
    monkeypatch.setattr(Atomic, "__exit__", lambda self, *exception: None)
    assert halves(lines) > 0


@pytest.mark.slow
@pytest.mark.parametrize("way", ["tell", "observe", "tell_many", "observe_table"])
@pytest.mark.parametrize("kind", ["diagonal", "dense"])
def test_many_sigints_never_leave_half_a_measurement(kind, way):
    assert contradictions(f"{kind}:{way}:1000") == [0]


PROBLEM = unit_problem(TopKOracle(3, k=3))  # a single answer: looks and results are quick


@contained
def interrupted_run(batch_size, *moments):
    """Faults that SIGINTs at these lines have caused.

    `measure` is written in C, so that an interrupt comes before or after it: what was taken from it has been returned.
    """
    source = [0.5] * 20 if batch_size == 1 else [[0.5] * batch_size for _ in range(20)]
    supply, policy, found = iter(source), Uniform(PROBLEM, 0), None
    options = {"policy": policy, "budget": 2 * batch_size, "batch_size": batch_size}
    tracer, before = Interrupter(TRACED, *moments), signal.getsignal(signal.SIGINT)
    try:
        with tracer:
            found = identify(PROBLEM, partial(next, supply), **options).session
    except KeyboardInterrupt as error:
        found = getattr(error, "session", None)
    taken = (len(source) - supply.__length_hint__()) * batch_size
    answers, left = (0, []) if found is None else (len(found.measurements()), found.open_queries)
    faults = {
        f"{taken} returned, {policy.samples} learnt": policy.samples != taken,
        f"{answers} recorded, {policy.samples} learnt": policy.samples != answers,
        f"{left} open": bool(left),
        "no session": taken > 0 and found is None,
        "the handler was not put back": signal.getsignal(signal.SIGINT) is not before,
    }
    return [fault for fault, true in faults.items() if true], tracer


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_ctrl_c_at_any_line_loses_nothing(batch_size):
    faults, tracer = interrupted_run(batch_size)
    assert (faults, tracer.lines > 100) == ([], True)
    for line in range(tracer.lines):
        faults, now = interrupted_run(batch_size, line)
        assert (faults, now.sent) == ([], 1), f"at line event {line}"


def test_a_second_ctrl_c_while_the_first_is_dealt_with_loses_nothing():
    twice = 0
    for first in range(0, interrupted_run(2)[1].lines, 11):
        for pause in (1, 3, 10, 30):
            faults, tracer = interrupted_run(2, first, first + pause)
            twice += tracer.sent == 2
            assert faults == [], f"at line events {first} and {pause} later"
    assert twice > 20
    assert sys.exc_info() == (None, None, None)


def test_without_the_rescue_of_batches_a_ctrl_c_loses_something(monkeypatch):
    monkeypatch.setattr(Batch, "rescue", lambda self: None)
    assert any(interrupted_run(2, line)[0] for line in range(interrupted_run(2)[1].lines))


def test_a_ctrl_c_in_a_change_waits_for_its_end():
    seen = []

    def interrupted_change():
        with Atomic(SessionLock()):
            signal.raise_signal(signal.SIGINT)
            seen.append("the rest of the change")

    with pytest.raises(KeyboardInterrupt):
        interrupted_change()
    assert seen == ["the rest of the change"]


@pytest.fixture
def handled():
    """`handled(handler)` is in force for the test."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda handler: signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_handlers_that_are_not_python_are_left_alone(handler, handled):
    handled(handler)
    with Atomic(SessionLock()):
        assert signal.getsignal(signal.SIGINT) is handler
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_of_ones_own_is_called_after_the_change(handled):
    calls = []
    handled(lambda *event: calls.append(event[0]))
    with Atomic(SessionLock()), Atomic(SessionLock()):
        signal.raise_signal(signal.SIGINT)
        assert calls == []
    assert calls == [signal.SIGINT]
