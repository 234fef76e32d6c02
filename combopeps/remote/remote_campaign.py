"""`RemoteCampaign`: ask, tell and status of a campaign that lives behind an address."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, overload
from uuid import uuid4

from combopeps.belief import GaussianBelief
from combopeps.campaign import Holder
from combopeps.campaign.fingerprint import Own, reader
from combopeps.campaign.hands import check_name, check_patience
from combopeps.errors import ComboPepsError, OtherOracleError, QueryError, RemoteError
from combopeps.instances.schema import from_document
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Policy
from combopeps.policies.ledger import ActionQuery, Query, check_results
from combopeps.policies.recommendation import Leader
from combopeps.policies.registry import policy_class
from combopeps.problem import Problem
from combopeps.remote.translate import Translator, number_of
from combopeps.remote.wire import Wire
from combopeps.run.for_campaign import client_name, measure_for
from combopeps.run.result import Result
from combopeps.run.status import Status
from combopeps.streams import Streams, named
from combopeps.tables import Observed
from combopeps.validation import MOST_QUERIES, check_count

_AT_FIRST = 5.0  # seconds to find a server: a wrong address is to be noticed


class RemoteCampaign:
    """A campaign behind the address of its server (`combopeps serve`), with the interface of `Campaign`.

    Whatever is said is said again until it is heard, and counts once. Threads may share one; it can be pickled.

    Parameters
    ----------
    url
        The address that the server printed, such as `http://lab.example:8765`.
    token
        One of those that the campaign's owner has handed out; None where the server wants none.
    client
        Who we are. Queries are kept for us under this name: whoever asks again under it gets the open ones back first,
        so that every script, and every thread that asks for itself, needs a name of its own. By default the name of the
        token, or machine and user, with a random part.
    oracle
        Where the campaign was begun with an oracle of somebody's own: that oracle.
    timeout
        Seconds to wait for an answer.
    patience
        Seconds for which to try again where there is none, after growing pauses: a server may be started again. Here,
        at the beginning, 5 at most. A wrong token, or another campaign at the address, ends it at once.

    Attributes
    ----------
    problem, policy, delta, epsilon, stopping, seed, sweep, versions
        As in the header of the campaign; labels are the problem's own, tuples and numbers included.
    client
        Who we are.

    Examples
    --------
    >>> RemoteCampaign("http://127.0.0.1:9", patience=0)            # doctest: +ELLIPSIS
    Traceback (most recent call last):
    combopeps.errors.RemoteError: http://127.0.0.1:9 cannot be reached (...): see that `combopeps serve` runs there, ...
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        client: str | None = None,
        oracle: ArgmaxOracle | None = None,
        timeout: float = 10.0,
        patience: float = 120.0,
    ) -> None:
        own = None if oracle is None else Own(oracle)
        self._wire, self._oracle = Wire(url, token, timeout, patience), oracle
        header = self._wire.first("/problem", _AT_FIRST)
        try:
            self.problem: Problem = from_document(header["problem"], reader(own)).problem
            self.policy, self.stopping = str(header["policy"]), str(header["stopping"])
            self.delta, self.epsilon = float(header["delta"]), float(header.get("epsilon") or 0.0)
            self.seed, self.sweep = int(header["seed"]), int(header.get("sweep") or 0)
            self.versions = dict[str, Any](header["versions"])
        except OtherOracleError as cause:
            words = str(cause).replace("Campaign.open(path, ", "RemoteCampaign(url, ")
            raise OtherOracleError(f"{self.url}: {words}", cause.differs) from None
        except (KeyError, TypeError) as cause:
            raise RemoteError(f"{self.url} is no server of a campaign, or a newer one: {cause!r}") from None
        except (ComboPepsError, ValueError, ArithmeticError, AttributeError) as cause:
            raise RemoteError(f"{self.url} serves a problem that cannot be read here: {cause}") from None
        if client is None:
            me = self._wire.get("/me")
            with self._wire.understood():
                client = None if me["client"] is None else check_name("client", me["client"])  # of the token
        client = None if client is None else check_name("client", client)
        self.client, self.is_named = client or client_name(), client is not None
        self._words = Translator(self.problem)
        self._asked: dict[int, tuple[Query, str]] = {}  # by us, and not answered yet

    @property
    def url(self) -> str:
        """The address."""
        return self._wire.url

    def __repr__(self) -> str:
        return f"RemoteCampaign({self.url!r}, {self.problem!r})"

    def __reduce__(self) -> tuple[Callable[..., RemoteCampaign], tuple[Any, ...]]:
        """A copy asks the same server; one without a name of its own gets another."""
        wire, name = self._wire, self.client if self.is_named else None
        make = partial(
            type(self), client=name, oracle=self._oracle, timeout=wire.timeout, patience=wire.patience
        )  # fmt: skip
        return make, (wire.url, wire.token)

    def __enter__(self) -> RemoteCampaign:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections."""
        self._wire.close()

    @overload
    def ask(self, *, client: str | None = None, patience: float | None = None) -> Query: ...
    @overload
    def ask(self, n: int, *, client: str | None = None, patience: float | None = None) -> list[Query]: ...
    def ask(
        self, n: int | None = None, *, client: str | None = None, patience: float | None = None
    ) -> Query | list[Query]:
        """The next measurement to make, or n at once: those first that we have not answered yet.

        After `patience` seconds they may be handed to somebody else.
        """
        if n is not None:
            check_count("n", n, MOST_QUERIES)
        body: dict[str, Any] = {"client": self.client if client is None else check_name("client", client), "n": n or 1}
        if check_patience(patience, body["client"]) is not None:
            body["patience"] = patience
        answer = self._wire.post("/ask", body)
        with self._wire.understood():
            queries = [self._words.query(said) for said in answer["queries"]]
            if len(queries) != (n or 1):
                raise ValueError(f"{len(queries)} queries")
        self._asked |= {query.id: (query, body["client"]) for query in queries}
        return queries if n is not None else queries[0]

    def tell(self, query: Query | int, y: Any, sem: float | None = None) -> None:
        """The result of a query, itself or its id, as in `Campaign.tell`; recorded when this returns."""
        self.tell_many([(query, y, sem)])

    def tell_many(self, results: Iterable[tuple[Any, ...]]) -> None:
        """Several results (query, y) or (query, y, sem): all are recorded or none. A repetition is harmless."""
        pairs = check_results(results)
        said = [self._words.result(self._own(query), *rest) for query, *rest in pairs]
        if said:
            self._recorded(self._wire.post("/tell", said[0] if len(said) == 1 else {"results": said}))
        for one in said:
            self._asked.pop(one["id"], None)

    def observe(
        self, label: Hashable, y: float, sem: float | None = None, count: int = 1, *, key: str | None = None
    ) -> None:
        """A measurement that no query asked for, as in `Campaign.observe`. Said twice, it counts twice.

        It goes with a `key` that nobody else uses, so that what is lost on the way and said again counts once.
        """
        said = self._words.observation(label, y, sem, count)
        key = uuid4().hex if key is None else check_name("key", key)
        self._recorded(self._wire.post("/observe", said | {"key": key}))

    def observe_table(self, rows: Any, *, key: str | None = None) -> Observed:
        """Measurements that no query asked for, from a table, all or none; as in `Campaign.observe_table`."""
        said, observed = self._words.observations(rows)
        if said:
            key = uuid4().hex if key is None else check_name("key", key)
            self._recorded(self._wire.post("/observe", {"rows": said, "key": key}))
        return observed

    def abandon(self, query: Query | int) -> None:
        """Close a query that will never be answered; one that is abandoned because of its result voids every claim."""
        number = number_of(self._own(query))
        name = self._asked.get(number, (None, self.client))[1]
        self._recorded(self._wire.post("/abandon", {"id": number, "client": name}))
        self._asked.pop(number, None)

    def status(self) -> Status:
        """Where the campaign stands, as the server sees it."""
        answer = self._wire.get("/status")
        with self._wire.understood():
            return self._words.status(answer)

    @property
    def open_queries(self) -> list[Query]:
        """Queries that wait for a result."""
        answer = self._wire.get("/open")
        with self._wire.understood():
            return [self._words.query(said) for said in answer["queries"]]

    @property
    def holders(self) -> dict[int, Holder]:
        """Who has which of the open queries, by their ids, and until when; those of nobody are not in it."""
        answer = self._wire.get("/open")
        with self._wire.understood():
            return self._words.holders(answer["queries"])

    @property
    def samples(self) -> int:
        """Measurements so far."""
        return self._recorded(self._wire.get("/open"))

    @property
    def actions(self) -> int | None:
        """Actions measured so far; None where measurements are single."""
        answer = self._wire.get("/open")
        with self._wire.understood():
            return None if answer["actions"] is None else int(answer["actions"])

    @property
    def belief(self) -> GaussianBelief:
        """What the measurements say about theta."""
        return self.learnt().belief

    def learnt(self) -> Policy:
        """A policy that has learnt everything measured so far, from the sums of every arm that the server keeps."""
        streams = Streams([named(self.seed, "policy")])
        policy = policy_class(self.policy)(self.problem, streams=streams)
        answer = self._wire.get("/sums")
        with self._wire.understood():
            self._words.learn(policy, answer)
        return policy

    def leaders(self, n: int = 10) -> list[Leader]:
        """Up to n answers that may be the best, with their posterior probabilities: those of `status`, ten at most."""
        check_count("n", n)
        return self.status().leaders[:n]

    def run(
        self,
        measure: Callable[[Any], Any],
        *,
        client: str | None = None,
        budget: int | None = None,
        budget_cost: float | None = None,
        batch_size: int = 1,
        progress: bool = False,
        callback: Callable[[Any, Query, Any], None] | None = None,
    ) -> Result:
        """Measure for this campaign until its status says stop: as `Campaign.run`."""
        return measure_for(
            self, measure, client=client, budget=budget, budget_cost=budget_cost, batch_size=batch_size,
            progress=progress, callback=callback,
        )  # fmt: skip

    def _own(self, query: Any) -> Any:
        """A query of this campaign; the server knows them by their numbers alone."""
        if not isinstance(query, Query):
            return query
        known = self._asked[query.id][0] if query.id in self._asked else None
        if known is None:
            known = next((one for one in self.open_queries if one.id == query.id), query)
        if known != query or isinstance(query, ActionQuery) == (self.problem.actions is None):
            raise QueryError(f"query {query.id} was not asked here")
        return query

    def _recorded(self, answer: Any) -> int:
        """The measurements that the server has; it says so whenever it has recorded something."""
        with self._wire.understood():
            samples = answer["samples"]
            if type(samples) is not int or samples < 0:
                raise ValueError("samples must be a count")
            return samples
