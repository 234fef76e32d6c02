"""`Service`: what a server does, without HTTP. Every request ends in one of these, or in a typed error."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any

import numpy as np

from combopeps.campaign import Campaign
from combopeps.campaign.hands import handed
from combopeps.campaign.together import Seen, Told
from combopeps.errors import AccessError, LabelError, LimitError, ParameterError
from combopeps.forms import plain
from combopeps.serve.access import Bearer
from combopeps.serve.bodies import Abandon, Ask, Observe, Tell, check_label
from combopeps.serve.looker import Looker
from combopeps.serve.looks import dumped, open_json, query_json
from combopeps.serve.writer import Counts, Writer
from combopeps.tables.book import LabelBook
from combopeps.tables.written import as_label

MOST_OPEN = 10_000  # queries that may be open at a time


class Service:
    """A campaign, who writes it, and who looks at it."""

    def __init__(self, opened: Callable[[], Campaign], *, patience: float | None = None, pause: float = 0.5) -> None:
        self.campaign = opened()
        self.campaign.pin()
        self.writer = Writer(self.campaign)
        self.looker = Looker(opened, self.writer, pause)
        self._patience = patience

    async def ask(self, body: Ask, bearer: Bearer) -> bytes:
        client = bearer.client(body.client)
        patience = self._patience if body.patience is None else body.patience
        if self._patience is not None and patience is not None and not bearer.is_owner:
            patience = min(patience, self._patience)  # less than the owner allows, not more
        if client is None and body.patience is not None:
            raise ParameterError("patience is for queries that somebody has: say who, with client")
        return await self.writer.call(partial(_ask, n=body.n, client=client, patience=patience if client else None))

    async def tell(self, body: Tell, bearer: Bearer) -> bytes:
        if body.results is None:
            if body.id is None:
                raise ParameterError("give id and value, id and values, or results")
            results = [self._result(body.id, body.value, body.sem, body.values)]
        elif {"id", "value", "sem", "values"} & body.model_fields_set:
            raise ParameterError("give either one result, or results")
        else:
            results = [self._result(one.id, one.value, one.sem, one.values) for one in body.results]
        return _counted(await self.writer.take(Told(results)))

    async def observe(self, body: Observe, bearer: Bearer) -> bytes:
        if body.rows is not None:
            if {"label", "value", "sem", "count"} & body.model_fields_set:
                raise ParameterError("give either one measurement, or rows")
            if not bearer.is_owner:
                raise AccessError("whole tables are for the owner; observe one measurement at a time")
            rows = [
                {"label": as_label(check_label(row.label)), "value": row.value, "sem": row.sem, "count": row.count}
                for row in body.rows
            ]
            return await self.writer.call(partial(_observe_table, rows=rows, key=body.key))
        if body.value is None or "label" not in body.model_fields_set:
            raise ParameterError("give label and value, or rows")
        label = check_label(body.label)
        return _counted(await self.writer.take(Seen(label, body.value, body.sem, body.count, body.key)))

    async def abandon(self, body: Abandon, bearer: Bearer) -> bytes:
        client = bearer.client(body.client)
        return await self.writer.call(partial(_abandon, id=body.id, client=client, any=bearer.is_owner))

    async def sums(self) -> bytes:
        """What was measured, arm by arm."""
        return await self.writer.read(_sums)

    async def open(self) -> bytes:
        """Open queries, and who has them."""
        return await self.writer.read(_open)

    @cached_property
    def problem(self) -> bytes:
        """The header of the campaign."""
        return dumped(self.campaign.header)

    @cached_property
    def mark(self) -> str:
        """A few characters that stand for the campaign."""
        return blake2b(self.problem, digest_size=8).hexdigest()

    def _result(self, id: int, value: float | None, sem: float | None, values: Any) -> tuple[Any, ...]:
        if (value is None) == (values is None):
            raise ParameterError("a result is a value, or of an action values, one of each part")
        if isinstance(values, dict):
            values = self._by_label(values)
        elif values is not None:
            values = [_part(value) for value in values]
        return id, value if values is None else values, sem

    def _by_label(self, values: dict[str, Any]) -> dict[Hashable, Any]:
        told: dict[Hashable, Any] = {}
        for text, value in values.items():
            label = self._book.by_words([text])
            if label in told:
                raise LabelError(f"{text!r:.60} stands there twice")
            told[label] = _part(value)
        return told

    @cached_property
    def _book(self) -> LabelBook:
        return LabelBook(self.campaign.problem.arms.labels, self.campaign.problem.oracle)


def _part(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _ask(campaign: Campaign, n: int, client: str | None, patience: float | None) -> bytes:
    with campaign._reading() as state:
        theirs = 0 if client is None else len(handed(state.ledger.open, state.hands, client, n)[0])
        if theirs < n and len(state.ledger.open) + n - theirs > MOST_OPEN:
            raise LimitError(f"{len(state.ledger.open)} queries are open; tell or abandon some before you ask for more")
    queries, holders = campaign.ask(n, client=client, patience=patience), campaign.holders
    said = []
    for query in queries:
        holder = holders.get(query.id)
        said.append(query_json(query) | {"client": holder and holder.client, "until": holder and holder.until})
    return dumped({"queries": said})


def _observe_table(campaign: Campaign, rows: list[Any], key: str | None) -> bytes:
    observed = campaign.observe_table(rows, key=key)
    left_out = [[plain(label), count] for label, count in observed.left_out.items()]
    table = {"rows": observed.rows, "taken": observed.taken, "left_out": left_out}
    return dumped({"samples": campaign.samples, "open": len(campaign.open_queries), **table})


def _abandon(campaign: Campaign, id: int, client: str | None, any: bool) -> bytes:
    with campaign._mutex:
        with campaign._reading() as state:
            holder, given_up = state.hands.get(id), state.ledger.is_abandoned(id)
            if not any and not given_up and (client is None or holder is None or holder.client != client):
                state.ledger.find(id)  # if it was never asked, that comes first
                raise AccessError(f"query {id} is not yours; only the owner abandons queries of others")
        if given_up:
            campaign.tell_many([])  # a repetition: waits until that is safe
        else:
            campaign.abandon(id)
        return dumped({"samples": campaign.samples, "open": len(campaign.open_queries)})


def _sums(campaign: Campaign) -> bytes:
    with campaign._reading() as state:
        policy, belief = state.policy, state.policy.belief
        arms = np.flatnonzero(policy.pulls[0])
        sums = {name: getattr(policy, name)[0, arms].tolist() for name in ("pulls", "weights", "totals")}
        sigma, dof = belief.sigma.item(0), belief.dof.item(0)
    return dumped({"arms": arms.tolist(), **sums, "sigma": sigma, "dof": plain(dof)})


def _open(campaign: Campaign) -> bytes:
    document = {"samples": campaign.samples, "actions": campaign.actions, "queries": open_json(campaign)}
    return dumped(document)


def _counted(counts: Counts) -> bytes:
    return b'{"samples":%d,"open":%d}' % (counts.samples, counts.waiting)
