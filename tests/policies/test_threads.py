"""One policy, several threads: refused while they meet, and never silently wrong."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, ConcurrentUseError, TopKOracle, TopTwo, identify


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
    "ask": lambda policy, query: policy.ask(),
    "ask many": lambda policy, query: policy.ask(3),
    "request": lambda policy, query: policy.request([0]),
    "tell": lambda policy, query: policy.tell(query, 1.0),
    "tell many": lambda policy, query: policy.tell_many([(query, 1.0)]),
    "observe": lambda policy, query: policy.observe("a", 1.0),
    "abandon": lambda policy, query: policy.abandon(query),
    "recommend": lambda policy, query: policy.recommend(),
}


@pytest.fixture
def occupied():
    """A policy with an open query, and another thread that is inside its `ask`."""
    oracle = Waiting()
    policy = TopTwo(unit_problem(oracle), 0)
    query = policy.ask()
    oracle.door.clear()
    oracle.inside.clear()
    other = threading.Thread(target=policy.ask)
    other.start()
    assert oracle.inside.wait(30)
    yield policy, query
    oracle.door.set()
    other.join()


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_second_thread_is_refused_and_changes_nothing(occupied, act):
    policy, query = occupied
    before = policy.belief.theta_hat.tobytes(), policy.samples, policy.open_queries
    with pytest.raises(ConcurrentUseError, match=r"lock of your own.*Campaign"):
        act(policy, query)
    assert (policy.belief.theta_hat.tobytes(), policy.samples, policy.open_queries) == before


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_it_is_welcome_afterwards(act):
    policy = TopTwo(TopKOracle(["a", "b", "c"], k=1), 0)
    query = policy.ask()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(act, policy, query).result()
        act(policy, pool.submit(policy.ask).result())


def test_threads_with_a_lock_of_their_own_lose_nothing():
    problem = unit_problem(TopKOracle(6, k=2), noise_std=1.0, prior_mean=0.0, prior_std=5.0)
    policy, lock = TopTwo(problem, 0), threading.Lock()

    def work(seed):
        for _ in range(40):
            with lock:
                query = policy.ask()
            with lock:
                policy.tell(query, float(query.arm))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert policy.samples == len(policy.ask_tell.ledger._answers) == 160


def test_threads_without_a_lock_are_refused_or_right():
    """Whatever was refused was not taken, and whatever was taken is in all the books."""
    policy = TopTwo(unit_problem(TopKOracle(6, k=2)), 0)
    taken = [0] * 4

    def work(worker):
        for _ in range(300):
            try:
                policy.observe(worker, 1.0)
                taken[worker] += 1
            except ConcurrentUseError:
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert policy.pulls[0].tolist() == [*taken, 0, 0]
    np.testing.assert_allclose(policy.belief.precision[0], 1.0 + policy.pulls[0])


@pytest.mark.parametrize("again", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
def test_a_copy_is_free_though_the_original_is_in_use(again):
    policy = TopTwo(TopKOracle(["a", "b", "c"], k=1), 0)
    query = policy.ask()
    assert policy.turn.acquire()
    twin = again(policy)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(twin.tell, query, 1.0).result()
        with pytest.raises(ConcurrentUseError):
            pool.submit(policy.tell, query, 1.0).result()
    policy.turn.release()
    assert (twin.samples, policy.samples) == (1, 0)


def test_a_result_is_kept_though_another_thread_is_in_the_way():
    """`identify` ends with the error, and waits until it can put down what has been measured."""
    oracle = Waiting()
    policy, others = TopTwo(unit_problem(oracle), 0), []

    def measure(label):
        oracle.door.clear()
        oracle.inside.clear()
        others.append(threading.Thread(target=policy.recommend))
        others[0].start()
        assert oracle.inside.wait(30)
        threading.Timer(0.2, oracle.door.set).start()
        return 1.0

    with pytest.raises(ConcurrentUseError) as caught:
        identify(policy.problem, measure, policy=policy)
    others[0].join()
    assert caught.value.session.policy is policy
    assert policy.samples == 1
    assert policy.open_queries == []
