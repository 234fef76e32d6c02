"""Sessions of one policy."""

from unit_problem import unit_problem

from combopeps import Session


def session_of(kind, problem, rng=0, *, session=None, **options):
    """A session whose policy is `kind(problem, rng, **options)`; a bare oracle gets the statements of `unit_problem`."""
    policy = kind(unit_problem(problem), rng, **options)
    return Session(policy.problem, policy=policy, **(session or {}))
