"""One session, several threads: they take turns, and no result is lost."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sessions import session_of
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, Session, TopKOracle, TopTwo


class Waiting(ArgmaxOracle):
    """The largest of three; a call waits in the oracle as long as the door is closed."""

    def __init__(self):
        super().__init__(["a", "b", "c"])
        self.door, self.inside = threading.Event(), threading.Event()
        self.door.set()

    def _argmax_batch(self, thetas):
        self.inside.set()
        self.door.wait(30)
        return np.eye(3)[thetas.argmax(axis=1)]


ACTS = {
    "ask": lambda session, query: session.ask(),
    "ask many": lambda session, query: session.ask(3),
    "tell": lambda session, query: session.tell(query, 1.0),
    "tell many": lambda session, query: session.tell_many([(query, 1.0)]),
    "observe": lambda session, query: session.observe("a", 1.0),
    "observe table": lambda session, query: session.observe_table([("a", 1.0)]),
    "abandon": lambda session, query: session.abandon(query),
    "retract": lambda session, query: session.retract(2),
    "status": lambda session, query: session.status(),
    "look": lambda session, query: session.look(),
    "measurements": lambda session, query: session.measurements(),
}


def begun(oracle):
    session = session_of(TopTwo, oracle)
    session.observe("b", 0.5)
    return session, session.ask()


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_second_thread_waits_for_the_first(act):
    oracle = Waiting()
    session, query = begun(oracle)
    oracle.door.clear()
    oracle.inside.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(session.ask)
        assert oracle.inside.wait(30)
        second = pool.submit(act, session, query)
        with pytest.raises(TimeoutError):
            second.result(0.05)
        oracle.door.set()
        first.result(30)
        second.result(30)
    expected, query = begun(Waiting())
    expected.ask()
    act(expected, query)
    assert session.open_queries == expected.open_queries
    np.testing.assert_array_equal(session.posterior.theta_hat, expected.posterior.theta_hat)


def test_threads_lose_nothing():
    problem = unit_problem(TopKOracle(6, k=2), prior_std=5.0)
    session, mine = Session(problem, rng=0), [[] for _ in range(4)]

    def work(worker):
        for _ in range(40):
            query = session.ask()
            mine[worker].append(query.id)
            session.tell(query, float(query.arm))
            session.observe(worker, float(worker))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert sorted(id for ids in mine for id in ids) == list(range(160))
    assert session.samples == len(session.measurements()) == 320
    asked = [one.label for one in session.measurements() if one.query is not None]
    pulls = np.bincount(asked, minlength=6) + np.array([40, 40, 40, 40, 0, 0])
    assert list(session.status().pulls.values()) == pulls.tolist()
    np.testing.assert_allclose(session.posterior.precision[0], 1.0 / 25 + pulls)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda session: pickle.loads(pickle.dumps(session))])
def test_a_copy_is_free_though_the_original_is_in_use(again):
    session, query = begun(TopKOracle(["a", "b", "c"], k=1))
    with session.lock, ThreadPoolExecutor(1) as pool:
        twin = again(session)
        pool.submit(twin.tell, query, 1.0).result(30)
        assert (twin.samples, session.samples) == (2, 1)
        late = pool.submit(session.tell, query, 1.0)
        with pytest.raises(TimeoutError):
            late.result(0.05)
        session.lock.release()
        late.result(30)
        session.lock.acquire()
    assert session.samples == 2
