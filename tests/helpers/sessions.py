"""Sessions of one policy, their state, and the covariances of posteriors; the names of all policies."""

import pickle

import numpy as np
from unit_problem import unit_problem

from combopeps import Session
from combopeps.policies.registry import POLICIES  # by name


def session_of(kind, problem, rng=0, *, session=None, **options):
    """A session whose policy is `kind(problem, rng, **options)`; a bare oracle gets the statements of `unit_problem`."""
    policy = kind(unit_problem(problem), rng, **options)
    return Session(policy.problem, policy=policy, **(session or {}))


def state_of(session):
    """All that telling and observing may change."""
    return pickle.dumps(session.state_dict())


def covariance_of(posterior, r=0):
    """The covariance matrix of theta in a replication, whatever the kind of the posterior."""
    alone = posterior.row(r)
    return np.stack([alone.covariance_dot(e[None])[0] for e in np.eye(posterior.dim)])


__all__ = ["POLICIES", "POLICY_NAMES", "covariance_of", "session_of", "state_of"]

POLICY_NAMES = [name for name, policy in POLICIES.items() if policy.by_name]
"""Policies that need no options."""
