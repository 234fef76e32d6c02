"""Real SIGINTs at a session, in a process of their own: `python interrupted.py guarded:diagonal:tell:100 ...`.

Prints for each case how many of the interrupts have left a session that contradicts itself.
"""

import random
import signal
import sys

import numpy as np

from combopeps import ExplicitOracle, Problem, Session, TopKOracle
from combopeps.utils.locks import Atomic

D = 24
STATED = {"noise_std": 1.0, "prior_mean": 0.0, "prior_std": 1.0}
X = np.random.default_rng(0).normal(size=(30, D))
PROBLEMS = {"diagonal": Problem(TopKOracle(D, k=3), **STATED), "dense": Problem(ExplicitOracle(np.eye(D)), X, **STATED)}


def interrupted(work):
    """Work until a SIGINT comes after a random delay, wherever that is."""
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 2e-3))
        while True:
            work()
    except KeyboardInterrupt:
        return


def y_of(arm):
    return np.sin(1.0 + arm)


def contradiction(session):
    """The posterior must be that of the pulls, with the same y at each measurement of an arm."""
    n, posterior = session.policy.pulls[0], session.posterior
    rows = session.problem.arms.row(np.arange(len(n)))
    V = np.eye(posterior.dim) + (n[:, None] * rows).T @ rows
    mean = np.linalg.solve(V, (n * y_of(np.arange(len(n)))) @ rows)
    covariance = np.array([posterior.covariance_dot(row[None])[0] for row in np.eye(posterior.dim)])
    return not (
        np.allclose(posterior.theta_hat[0], mean, atol=1e-9) and np.allclose(covariance @ V, np.eye(posterior.dim))
    )


def telling(kind, way, times):
    problem = PROBLEMS[kind]
    labels, bad = problem.arms.labels, 0
    rows = [(label, y_of(arm)) for arm, label in enumerate(labels)]

    def begin():
        return Session(problem, policy="uniform"), set()

    def work():
        if way == "observe":
            for arm, label in enumerate(labels):
                session.observe(label, y_of(arm))
        elif way == "observe_table":
            session.observe_table(rows)
        elif way == "tell":
            for query in session.ask(len(labels)):
                session.tell(query, y_of(query.arm))
        else:
            session.tell_many([(query, y_of(query.arm)) for query in session.ask(len(labels))])

    session, abandoned = begin()
    for _ in range(times):
        interrupted(work)
        results = session.measurements()
        miscounted = session.samples != len(results)
        half = way in ("tell_many", "observe_table") and session.samples % len(labels)
        broken = contradiction(session) or miscounted or half or session.lock._is_owned()
        for query in session.open_queries:
            session.abandon(query)
            abandoned.add(query.id)
        if way.startswith("tell") and not broken:
            answered, last = {result.query for result in results}, session.ask()
            broken = answered | abandoned != set(range(last.id))  # each query is open, answered or abandoned
            session.abandon(last)
            abandoned.add(last.id)
        bad += bool(broken)
        if broken or session.samples > 3000:
            session, abandoned = begin()
    return bad


def unguarded(kind, way, times):
    whole = Atomic.__enter__, Atomic.__exit__
    Atomic.__enter__ = Atomic.__exit__ = lambda self, *exception: None
    try:
        return telling(kind, way, times)
    finally:
        Atomic.__enter__, Atomic.__exit__ = whole


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, lambda *event: signal.raise_signal(signal.SIGINT))
    random.seed(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for case in sys.argv[1:]:
        how, *options, times = case.split(":")
        print({"guarded": telling, "unguarded": unguarded}[how](*options, int(times)))
