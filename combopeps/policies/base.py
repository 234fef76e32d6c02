"""`Policy`: which arm to measure next.

A policy runs R replications side by side. People use one, by asking and telling (`policies.ask_tell`); simulations use
hundreds, and call the same `choose` and `learn` underneath (`policies.chooser`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, overload

import numpy as np

from combopeps.belief import GaussianBelief
from combopeps.errors import SpaceError
from combopeps.oracles._validate import as_vector
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.policies.ask_tell import AskTell
from combopeps.policies.chooser import Chooser
from combopeps.policies.guards import NoiseGuard
from combopeps.policies.knowledge import Arm as Arm
from combopeps.policies.ledger import Query
from combopeps.policies.recommendation import LEADERS, Leader, Recommendation, recommendation_of
from combopeps.policies.step import exclusive
from combopeps.problem import Problem
from combopeps.risk import Ranking, check_epsilon, rank_answers
from combopeps.samplers.base import Question
from combopeps.space import RealSpace
from combopeps.tables import Observed
from combopeps.validation import as_generator, check_count, check_kind


class Policy(Chooser):
    """Chooses arms for a problem.

    A policy serves one thread at a time: while one is inside `ask`, `tell`, `observe` or `recommend`, a call from
    another raises `ConcurrentUseError`. Let one thread ask and tell, or hold a lock of your own around every call. What
    `tell` and `observe` change, they change in one step, which Ctrl-C does not tear apart.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    rng
        Seed, generator, or None for an unpredictable one.
    sampler
        Where alternatives come from; by default the one that suits the problem.
    prior_precision
        V_0 = prior_precision * I; by default what the problem's prior_std says, component by component.
    replications
        Independent runs side by side; `ask` and `tell` are for one.
    streams
        Random streams of the replications, instead of `rng`.
    sweep
        Measure every arm so many times (True: once) before anything is chosen: a cheap start where data come in bulk.
        Arms that have been measured before, or are being measured, are left out as often as they have. The order is
        drawn at random in each replication.
    """

    def __init__(
        self, problem: Problem | ArgmaxOracle, rng: int | np.random.Generator | None = None, **options: Any
    ) -> None:
        super().__init__(problem, rng, **options)
        self._ask_tell = AskTell(self) if self.replications == 1 else None

    @property
    def ask_tell(self) -> AskTell:
        """Asking and telling, which is for one replication."""
        self._single("asking and telling")
        assert self._ask_tell is not None
        return self._ask_tell

    @overload
    def ask(self) -> Query: ...
    @overload
    def ask(self, n: int) -> list[Query]: ...
    def ask(self, n: int | None = None) -> Query | list[Query]:
        """The next measurement to make, or n of them at once, each with an alternative of its own.

        Queries that are open count as if they had been answered with what the belief expects: no two that are under way
        at the same time ask for the same thing without need.
        """
        return self.ask_tell.ask()[0] if n is None else self.ask_tell.ask(n)

    def request(self, arms: Iterable[int]) -> list[Query]:
        """Queries for arms that somebody else has chosen, such as a stopping rule."""
        return self.ask_tell.request(arms)

    def tell(self, query: Query, y: Any, sem: float | None = None) -> None:
        """The result of a query, in any order; repeating the same result is harmless.

        With `sem`, the standard error of this very measurement, that takes the place of the arm's noise. Where
        measurements are actions, y holds a result for each of `query.components`: a sequence in their order, or a dict;
        each is a number, (number, sem), or None for what was not read.
        """
        self.ask_tell.tell(query, y, sem)

    def tell_many(self, results: Iterable[tuple[Any, ...]]) -> None:
        """Several results (query, y) or (query, y, sem): all are checked before the first is taken."""
        self.ask_tell.tell_many(results)

    def observe(self, label: Hashable, y: float, sem: float | None = None, count: int = 1) -> None:
        """A measurement that no query asked for, by the arm's label; or the mean of `count` of them.

        With `sem`, the standard error of y. Give all results there are: if some were left out because of what they say,
        no claim holds.
        """
        self.ask_tell.observe(label, y, sem, count)

    def observe_table(self, rows: Any) -> Observed:
        """Measurements that no query asked for, from a table: a history, say. All or none of them are taken.

        Parameters
        ----------
        rows
            A data frame of pandas, the path of a CSV file, or rows: (label, value[, sem[, count]]), or dicts with these
            keys. Columns are found by name: `label`, or `source`, `target` (and `key`) for edges, or `left`, `right`
            for pairs; `value`; and, where they are known, `sem`, the standard error of the value, and `count`, of how
            many measurements it is the mean. Labels may be written as `ask` of the command line prints them.

        Returns
        -------
        Observed
            How many rows were taken, and which were left out because no answer has what they measured.

        Examples
        --------
        >>> from combopeps import TopKOracle, TopTwo
        >>> policy = TopTwo(TopKOracle(["ale", "bock"], k=1), rng=0)
        >>> policy.observe_table([("ale", 1.5), ("bock", 0.5), ("ale", 2.0)])
        all 3 rows taken
        >>> policy.samples
        3
        """
        return self.ask_tell.observe_table(rows)

    def abandon(self, query: Query) -> None:
        """Close a query that will never be answered; one that is abandoned because of its result voids every claim."""
        self.ask_tell.abandon(query)

    @property
    def open_queries(self) -> list[Query]:
        """Queries that have been asked and neither told nor abandoned."""
        return list(self.ask_tell.ledger.open.values())

    @property
    def noise(self) -> NoiseGuard:
        """What repeated measurements say against the stated noise; replications side by side are not watched."""
        if self._ask_tell is not None:
            return self._ask_tell.noise
        return NoiseGuard(self.problem.noise, stated=self.problem.noise_std is not None)

    def recommend(
        self, rng: int | np.random.Generator | None = 0, *, epsilon: float = 0.0, z: Array | None = None
    ) -> Recommendation:
        """The current answer (or z), the most probable other answer, and the posterior probability of an error.

        With an epsilon, an error is to be worse than the best by more than epsilon. Estimates from one set of 2,048
        draws of the belief restricted to Theta: 256 while more than a quarter of them disagree with the answer, fewer
        above 976 components. Where fewer than one draw in 40 disagrees, alternatives are drawn from behind the facets
        of its cone: probabilities down to 1e-300 then have a relative standard error of some percent. Where not all
        facets are known, they may be too small. An oracle that is not quick is asked about 64 to 256 of the draws.
        `error_interval` says how precise the estimate is. A recommendation changes nothing: the run goes on as if it
        had not been asked for.
        """
        return recommendation_of(self.problem.oracle, self.rank(rng, epsilon=epsilon, z=z))

    def leaders(
        self, n: int = LEADERS, rng: int | np.random.Generator | None = 0, *, belief: GaussianBelief | None = None
    ) -> list[Leader]:
        """Up to n answers that may be the best, each with its posterior probability, in decreasing order.

        From the same draws as `recommend` with the same `rng`. Answers that no draw showed are not listed; early in a
        large problem every draw shows another one. The current answer is the best at the posterior mean; early in a
        run, another one may be more probable. `belief` is another one to look at, such as an earlier snapshot.
        """
        check_count("n", n)
        if belief is not None:
            check_kind("belief", belief, GaussianBelief)
        return recommendation_of(self.problem.oracle, self.rank(rng, belief=belief), n).leaders

    @exclusive
    def rank(
        self,
        rng: int | np.random.Generator | None = 0,
        *,
        epsilon: float = 0.0,
        z: Array | None = None,
        belief: GaussianBelief | None = None,
        own_cone: bool = False,
    ) -> Ranking:
        """What `recommend` and `leaders` show, as vectors.

        With `own_cone`, facets are those of the run's cone of the answer, and facets that are found are kept there:
        cheaper, and the run goes on with them. An oracle that is not quick is asked apart from the run in any case.
        """
        self._single("recommend")
        check_epsilon(epsilon)
        belief = belief or self.belief
        z = self.z_hat(belief)[0] if z is None else as_vector(z, self.problem.oracle.dim)
        question, generator = Question(belief, self.problem.oracle, z, self.problem.space), as_generator(rng)
        own_cone = own_cone and self.problem.oracle.quick
        sampler = self.alternatives.at(z) if own_cone else self.alternatives.aside(z)
        return self.alone(lambda: rank_answers(sampler, question, generator, epsilon, self._watch))


def check_unbounded(policy: Policy) -> None:
    """Refuse a bounded Theta."""
    if not isinstance(policy.problem.space, RealSpace):
        raise SpaceError(
            f"{type(policy).__name__} is written for Theta = R^d, got {policy.problem.space!r}; use TopTwo or PEPS"
        )
