"""`Campaign.run` and `RemoteCampaign.run`: measure for a campaign, maybe beside others, until its status says stop.

    status -> ask -> somebody measures -> tell -> ask -> ... -> status -> Result

The campaign chooses what to measure, keeps what came of it and judges it; here is what belongs to one script. It may be
in a file or a database of this machine, or behind an address: whatever offers what `Host` says.
"""

from __future__ import annotations

import getpass
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from combopeps.errors import QueryError, RewardError
from combopeps.policies.base import Policy
from combopeps.policies.ledger import ActionQuery, Query
from combopeps.problem import Problem
from combopeps.run.batch import Measure, Returned, said
from combopeps.run.look import tied_answers
from combopeps.run.result import Look, Result
from combopeps.run.session import FIRST_LOOK, PAUSE, ROUNDING, TOLD_APART, Progress, check_run, cost_of
from combopeps.stopping.base import Verdict
from combopeps.stopping.registry import stopping_rule
from combopeps.streams import named

Callback = Callable[[Any, Query, Any], None] | None


class Host(Protocol):
    """What a campaign offers to those who measure for it."""

    @property
    def problem(self) -> Problem: ...
    @property
    def delta(self) -> float: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def stopping(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def sweep(self) -> int: ...
    @property
    def holders(self) -> Mapping[int, Any]: ...
    def ask(self, n: int, *, client: str) -> list[Query]: ...
    def tell_many(self, results: Sequence[tuple[Any, ...]], /) -> None: ...
    def observe(self, label: Any, y: float, sem: float | None) -> None: ...
    def abandon(self, query: int, /) -> None: ...
    def status(self) -> Any: ...
    def learnt(self) -> Policy: ...


def client_name() -> str:
    """A name for who measures: machine and user, so that people know it, and a random part."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no name for this number
        user = "somebody"
    return f"{user[:20]}@{platform.node()[:30]}-{secrets.token_hex(4)}"


def measure_for(
    campaign: Host,
    measure: Callable[[Any], Any],
    *,
    client: str | None = None,
    budget: int | None = None,
    budget_cost: float | None = None,
    batch_size: int = 1,
    progress: bool = False,
    callback: Callback = None,
) -> Result:
    """Measure for a campaign, maybe beside others, until its status says stop: see `Campaign.run`."""
    check_run(measure, callback, progress, batch_size, budget, budget_cost)
    visit = Visit(campaign, client, budget, budget_cost)
    try:
        try:
            with Progress(progress, budget) as shown:
                reason = _until_certain(visit, measure, batch_size, callback, shown)
            return visit.result(reason)
        except BaseException as error:
            visit.carry_on(error)
            raise
    except BaseException as error:  # once more, for a Ctrl-C that came while the first exception was dealt with
        visit.carry_on(error)
        raise


def _until_certain(visit: Visit, measure: Measure, batch_size: int, callback: Callback, shown: Progress) -> str:
    """Look, measure, look again: the reason for which it ended."""
    try:
        while not (visit.due and visit.look(shown)):
            if visit.spent:
                return "budget"
            visit.measure(measure, batch_size, callback)
        return visit.rule.name
    except KeyboardInterrupt:
        visit.keep()
        return "interrupted"


class Errand(Returned):
    """Some queries of a campaign, on their way to `measure` and back."""

    def __init__(self, campaign: Host, queries: list[Query], *, single: bool) -> None:
        super().__init__(single=single)
        self.campaign, self._queries = campaign, queries
        self._told: set[int] = set()

    def run(self, measure: Measure, callback: Callback) -> None:
        """Measure, and tell; a result that is no number is reported after the others have been told."""
        self._fetch(measure)
        bad = self._tell(self.untold)
        if callback is not None:
            for query, y in zip(self._queries, self._results, strict=True):
                if query.id in self._told:
                    callback(self.campaign, query, y if isinstance(query, ActionQuery) else float(said(query, y)[0]))
        if bad is not None:
            raise bad

    @property
    def untold(self) -> list[tuple[Query, Any]]:
        """What has come back, and is not known to be in the campaign."""
        pairs = zip(self._queries, self._results, strict=False)
        return [(query, y) for query, y in pairs if query.id not in self._told]

    @property
    def told(self) -> list[Query]:
        """Queries whose result is in the campaign."""
        return [query for query in self._queries if query.id in self._told]

    def keep(self) -> None:
        """After an exception: tell what has come back. Twice does no harm."""
        self._rescue()
        with suppress(Exception):  # the first exception is the one to report
            self._tell(self.untold)

    def _tell(self, results: list[tuple[Query, Any]]) -> RewardError | None:
        """All at once; one by one where something about them is wrong. The first that is no result."""
        try:
            self.campaign.tell_many([(query, *said(query, y)) for query, y in results])
            self._told.update(query.id for query, _ in results)
            return None
        except RewardError as error:
            if len(results) == 1:
                return error
        except QueryError:
            if len(results) == 1:
                self._observe(*results[0])
                return None
        wrong = [self._tell([result]) for result in results]
        return next((error for error in wrong if error is not None), None)

    def _observe(self, query: Query, y: Any) -> None:
        """Somebody else has closed the query meanwhile, to whom it was handed over: this is more data."""
        if not isinstance(query, ActionQuery):
            pairs = [(query.label, said(query, y))]
        elif isinstance(y, Mapping):
            pairs = [(label, value if isinstance(value, tuple) else (value,)) for label, value in y.items()]
        else:
            values = [value if isinstance(value, tuple) else (value,) for value in y]
            pairs = list(zip(query.components, values, strict=True))
        self._told.add(query.id)  # an observation counts whenever it is said: once
        for label, (value, *sem) in pairs:
            if value is not None:
                self.campaign.observe(label, value, sem[0] if sem else None)


class Visit:
    """One call of `run` for a campaign: what it has measured, and what it has seen.

    A look is taken when the campaign has grown by a tenth or so. How far it has come, numbers of queries say: others
    are given those in between.
    """

    def __init__(self, campaign: Host, client: str | None, budget: int | None, budget_cost: float | None) -> None:
        self.campaign, self.budget, self.budget_cost = campaign, budget, budget_cost
        given = client or getattr(campaign, "client", None)
        self.client = given or client_name()
        self.returns = client is not None or bool(getattr(campaign, "is_named", False))  # under the same name, one day
        self.rule = stopping_rule(campaign.stopping, campaign.delta, campaign.epsilon)
        self.made, self.paid, self.looks = 0, 0.0, list[Look]()
        self._errand: Errand | None = None
        self._too_dear = False
        self._status: Any = None
        self._reached = self._next_look = 0  # measurements of all, as far as we know
        self._newest = -1  # query of all
        self._stale = False
        self._left = False

    @property
    def spent(self) -> bool:
        """Is the budget used up, or too small for what would come next?"""
        return self._too_dear or (self.budget is not None and self.made >= self.budget)

    @property
    def due(self) -> bool:
        """Is it time for a look?"""
        return self._reached >= self._next_look

    def measure(self, measure: Measure, batch_size: int, callback: Callback) -> None:
        """One batch: queries that we hold already first, then new ones."""
        room = batch_size if self.budget is None else min(batch_size, self.budget - self.made)
        queries = self._affordable(self.campaign.ask(room, client=self.client))
        if not queries:
            return
        self._errand = Errand(self.campaign, queries, single=batch_size == 1)
        try:
            self._errand.run(measure, callback)
        finally:
            self._count(self._errand.told)
        self._errand = None

    def look(self, shown: Progress) -> bool:
        """Is it certain enough?"""
        status = self._see()
        if shown.show:
            shown.say(self.made, status.answer, status.error_text, self.campaign.epsilon)
        return bool(status.stop)

    def keep(self) -> None:
        """Lose nothing that was measured; give back what will not be measured here. Twice does no harm.

        Who comes back under the same name finds its queries open.
        """
        if self._errand is not None:
            before = {query.id for query in self._errand.told}
            self._errand.keep()
            self._count([query for query in self._errand.told if query.id not in before])
        if not self.returns and not self._left:
            with suppress(Exception):
                for number in [id for id, holder in self.campaign.holders.items() if holder.client == self.client]:
                    self.campaign.abandon(number)
                self._left = True

    def carry_on(self, error: BaseException) -> None:
        """Say with an exception what became of the measurements."""
        self.keep()
        untold = [] if self._errand is None else self._errand.untold
        if getattr(error, "untold", None) == untold:
            return
        with suppress(Exception):  # an exception may refuse attributes
            BaseException.__setattr__(error, "untold", untold)
            error.add_note(f"{self.made} results of this call are in the campaign: go on with campaign.run(measure)")
            if untold:
                error.add_note(f"{len(untold)} could not be told: campaign.tell_many(error.untold) does, later")

    def result(self, reason: str) -> Result:
        """Everything there is to say."""
        self.keep()
        campaign, status = self.campaign, self._see() if self._stale or self._status is None else self._status
        policy, rule, claim, tied = campaign.learnt(), self.rule, status.claim, list[Any]()
        if not status.stop:
            how = "interrupted" if reason == "interrupted" else "ended by its budget"
            claim = policy.ask_tell.qualify(f"none: the run was {how}")
            if reason == "budget" and status.error_probability > max(campaign.delta, TOLD_APART):
                rng = np.random.default_rng(named(campaign.seed, "ties", status.samples))
                tied = policy.alone(lambda: tied_answers(policy, rng))
                reason = "indistinguishable" if tied else reason
        return Result(
            z=status.z,
            answer=status.answer,
            alternative=status.alternative,
            error_probability=status.error_probability,
            error_interval=status.error_interval,
            leaders=status.leaders,
            samples=status.samples,
            cost=status.cost,
            stop_reason=rule.name if status.stop and reason == "budget" else reason,
            rule=rule.name,
            claim=claim,
            evidence=Verdict(status.stop, claim=claim),
            tied=tied,
            delta=campaign.delta,
            epsilon=campaign.epsilon,
            seed=campaign.seed,
            pulls=status.pulls,
            session=campaign,
            belief=policy.belief,
            looks=tuple(self.looks),
            warning=status.warning,
            noise_estimate=status.noise_estimate,
            actions=status.actions,
        )

    def _see(self) -> Any:
        """The campaign's status, and when to ask for it again."""
        self._status = status = self.campaign.status()
        t, self._stale = status.samples, False
        self.looks.append(Look(t, status.error_probability, float("nan"), float("nan")))
        unswept = sum(max(0, self.campaign.sweep - pulls) for pulls in status.pulls.values())
        pause = max(1, unswept, self.campaign.problem.oracle.dim // PAUSE, int(t * (self.rule.ratio - 1.0)))
        self._reached, self._next_look = t, max(t + pause, FIRST_LOOK)
        return status

    def _count(self, told: list[Query]) -> None:
        """Results are in the campaign, of so many queries; and those of others, whose numbers lie between."""
        if not told:
            return
        newest = max(query.id for query in told)
        others = 0 if self._newest < 0 else max(0, newest - self._newest - len(told))
        self._newest, self._stale = max(self._newest, newest), True
        self._reached += sum(len(query.parts) for query in told) + others * len(told[0].parts)
        self.made += len(told)
        self.paid += sum(cost_of(self.campaign.problem, query) for query in told)

    def _affordable(self, queries: list[Query]) -> list[Query]:
        """As far as the cost allows; what it does not is abandoned, and ends the run."""
        if self.budget_cost is None:
            return queries
        left = self.budget_cost * (1.0 + ROUNDING) - self.paid
        costs = [cost_of(self.campaign.problem, query) for query in queries]
        kept = int((np.cumsum(costs) <= left).sum())
        for query in queries[kept:]:
            self.campaign.abandon(query.id)
        self._too_dear = kept < len(queries)
        return queries[:kept]
