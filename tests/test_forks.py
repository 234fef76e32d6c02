"""A child process made by `fork` while a thread of its parent is inside a session or a campaign."""

import gc
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from combopeps import ArgmaxOracle, Campaign, Problem, Session, TopKOracle
from combopeps.errors import OracleError
from combopeps.utils import locks

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
# Python 3.12 warns of every fork with threads, which is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

SECONDS = 10.0
PROBLEM = Problem(TopKOracle(["a", "b", "c"], 1), noise_std=1.0, prior_mean=0.0, prior_std=1.0)


def in_child(work, seconds=SECONDS):
    """What a forked child returns for this work, as text; "hangs" if it does not end."""
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except BaseException as error:
            text = type(error).__name__
        os.write(start, text.encode())
        os._exit(0)
    os.close(start)
    deadline = time.monotonic() + seconds
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(end)
            return "hangs"
        time.sleep(0.01)
    with open(end) as pipe:
        return pipe.read()


class Held:
    """A thread that is inside a context until this one is left."""

    def __init__(self, context):
        self._inside, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold, args=(context,))

    def _hold(self, context):
        with context:
            self._inside.set()
            self._leave.wait()

    def __enter__(self):
        self._thread.start()
        assert self._inside.wait(SECONDS)

    def __exit__(self, *exception):
        self._leave.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


def new_campaign(folder):
    campaign = Campaign.create(folder / "run.db", PROBLEM)
    campaign.tell(campaign.ask(), 1.0)
    return campaign


@needs_fork
def test_a_campaign_can_be_read_in_a_child(tmp_path):
    campaign = new_campaign(tmp_path)
    with Held(campaign._mutex):
        assert in_child(lambda: campaign.samples) == "1"
    assert campaign.samples == 1


@needs_fork
def test_a_campaign_can_be_written_in_a_child_and_then_in_its_parent(tmp_path):
    campaign = new_campaign(tmp_path)

    def work():
        campaign.tell(campaign.ask(), 2.0)
        return campaign.samples

    with Held(campaign._mutex):
        assert in_child(work) == "2"
    campaign.tell(campaign.ask(), 3.0)
    assert campaign.samples == 3


@needs_fork
def test_the_lock_of_a_file_is_released_although_a_child_has_the_file_open(tmp_path):
    """A child that was forked inside `locked` and lives on does not keep others from the file."""
    campaign = new_campaign(tmp_path)
    with campaign.store.locked(1.0):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    try:
        other = Campaign.open(tmp_path / "run.db", timeout=1.0)
        other.tell(other.ask(), 2.0)
        assert other.samples == 2
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@needs_fork
def test_a_session_can_be_used_in_a_child():
    session = Session(PROBLEM)
    session.tell(session.ask(), 1.0)

    def work():
        session.tell(session.ask(), 2.0)
        return session.samples

    with Held(session.lock):
        assert in_child(work) == "2"
    assert session.samples == 1
    session.ask()


@needs_fork
def test_a_session_of_which_a_child_has_half_a_change_is_refused_there():
    session = Session(PROBLEM)
    query = session.ask()
    inside, leave = threading.Event(), threading.Event()

    def slow(*_):
        inside.set()
        leave.wait()

    session.policy.learn = slow  # a change that takes long
    thread = threading.Thread(target=session.tell, args=(query, 1.0))
    thread.start()
    assert inside.wait(SECONDS)
    try:
        assert in_child(session.ask) == "ConcurrentUseError"
        assert in_child(lambda: session.tell(query, 1.0)) == "ConcurrentUseError"
        assert in_child(lambda: len(Session(PROBLEM).ask(2))) == "2"  # created anew, as the message says
    finally:
        leave.set()
        thread.join(SECONDS)


@needs_fork
def test_a_lock_of_the_thread_that_forks_stays_its_own(tmp_path):
    campaign = new_campaign(tmp_path)

    def work():
        samples = campaign.samples
        campaign._mutex.release()
        return samples

    with campaign._mutex:
        assert in_child(work) == "1"


@needs_fork
def test_without_the_reset_the_child_hangs(tmp_path, monkeypatch):
    """The negative control."""
    campaign = new_campaign(tmp_path)
    monkeypatch.setattr(locks, "_owners", {})
    with Held(campaign._mutex):
        assert in_child(lambda: campaign.samples, seconds=1.0) == "hangs"


class Masked(ArgmaxOracle):
    """The best component; from some call on, in a masked array."""

    def __init__(self, plain_calls):
        super().__init__(["a", "b", "c"])
        self.plain_calls = plain_calls

    def _argmax_batch(self, thetas):
        self.plain_calls -= 1
        z = (thetas == thetas.max(axis=1, keepdims=True)).astype(float)
        return z if self.plain_calls >= 0 else np.ma.masked_array(z, mask=z > 0)


def test_a_masked_array_from_an_oracle_is_a_typed_error():
    with pytest.raises(OracleError, match="masked array"):
        Masked(0).argmax([1.0, 2.0, 3.0])
    with pytest.raises(OracleError, match="masked array"):
        Problem(Masked(0), noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    oracle = Masked(10**6)
    session = Session(Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0), policy="top-two")
    session.tell(session.ask(), 1.0)
    oracle.plain_calls = 0
    with pytest.raises(OracleError, match="masked array"):
        session.ask(20)
    assert Masked(1).argmax([1.0, 2.0, 3.0]).tolist() == [0.0, 0.0, 1.0]


def test_deleting_a_session_runs_no_python_code():
    """A Ctrl-C that came in it would be swallowed."""
    sessions, calls = [Session(PROBLEM) for _ in range(3)], []
    gc.collect()
    held = [session.lock for session in sessions]
    sessions.clear()
    gc.collect()
    sys.setprofile(lambda frame, event, arg: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        held.clear()
    finally:
        sys.setprofile(None)
    assert calls == []
