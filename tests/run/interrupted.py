"""Real SIGINTs at a policy, in a process of their own: `python interrupted.py guarded:diagonal:tell:100 ...`.

Prints for each case how many of the interrupts have left something behind that contradicts the rest.
"""

import os
import random
import signal
import sys
import threading
import time

import numpy as np

from combopeps import ExplicitOracle, Problem, TopKOracle, TopTwo
from combopeps.policies.step import Step

D = 24
STATED = {"noise_std": 1.0, "prior_mean": 0.0, "prior_std": 1.0}
X = np.random.default_rng(0).normal(size=(30, D))


class Killer(threading.Thread):
    """One SIGINT each time it is armed, after a random delay of at most `longest` seconds."""

    def __init__(self, longest):
        super().__init__(daemon=True)
        self.longest, self.armed, self.random = longest, threading.Event(), random.Random(0)

    def run(self):
        while True:
            self.armed.wait()
            self.armed.clear()
            until = time.perf_counter() + self.random.uniform(0.0, self.longest)
            while time.perf_counter() < until:
                time.sleep(1e-5)
            os.kill(os.getpid(), signal.SIGINT)


def interrupted(killer, work):
    """Work until the SIGINT has come, wherever that is."""
    try:
        killer.armed.set()
        while True:
            work()
    except KeyboardInterrupt:
        return


def y_of(arm):
    return np.sin(1.0 + arm)


def contradiction(policy):
    """The belief must be what the pulls say, with the same y at each measurement of an arm."""
    n, belief = policy.pulls[0], policy.belief
    rows = policy.problem.arms.row(np.arange(len(n)))
    V = np.eye(belief.dim) + (n[:, None] * rows).T @ rows
    mean = np.linalg.solve(V, (n * y_of(np.arange(len(n)))) @ rows)
    covariance = np.array([belief.covariance_dot(row[None])[0] for row in np.eye(belief.dim)])
    return not (np.allclose(belief.theta_hat[0], mean, atol=1e-9) and np.allclose(covariance @ V, np.eye(belief.dim)))


def telling(kind, way, times):
    problem = (
        Problem(TopKOracle(D, k=3), **STATED) if kind == "diagonal" else Problem(ExplicitOracle(np.eye(D)), X, **STATED)
    )
    arms, killer, bad = len(problem.arms), Killer(2e-3), 0
    killer.start()
    policy = TopTwo(problem, 0)

    def work():
        if way == "observe":
            for arm in range(arms):
                policy.observe(problem.arms.labels[arm], y_of(arm))
        elif way == "tell":
            for query in policy.request(range(arms)):
                policy.tell(query, y_of(query.arm))
        else:
            policy.tell_many([(query, y_of(query.arm)) for query in policy.request(range(arms))])

    for _ in range(times):
        interrupted(killer, work)
        ledger = policy.ask_tell.ledger
        miscounted = way != "observe" and policy.samples != len(ledger._answers)
        lost = ledger.next_id != len(ledger.open) + len(ledger._answers) + len(ledger._abandoned)
        half = way == "tell_many" and policy.samples % arms
        if contradiction(policy) or miscounted or lost or half or policy.turn.acquire.__self__._is_owned():
            bad, policy = bad + 1, TopTwo(problem, 0)
        elif policy.samples > 3000:
            policy = TopTwo(problem, 0)
        for query in policy.open_queries:
            policy.abandon(query)
    return bad


def unguarded(kind, way, times):
    whole = Step.__enter__, Step.__exit__
    Step.__enter__ = Step.__exit__ = lambda self, *exception: None
    try:
        return telling(kind, way, times)
    finally:
        Step.__enter__, Step.__exit__ = whole


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for case in sys.argv[1:]:
        how, *options, times = case.split(":")
        print({"guarded": telling, "unguarded": unguarded}[how](*options, int(times)))
