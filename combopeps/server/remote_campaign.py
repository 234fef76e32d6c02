"""`RemoteCampaign`: client of a campaign server, with the interface of `Session`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, overload
from uuid import uuid4

from combopeps.campaign.campaign import generated_client
from combopeps.campaign.custom_oracle import CustomOracle, reader
from combopeps.errors import ComboPepsError, DependencyError, OracleMismatchError, QueryError, RemoteError
from combopeps.io.instance_files import from_document
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.base import Policy
from combopeps.policies.registry import policy_class
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.problem import Problem
from combopeps.random import Streams, named_seed
from combopeps.session.events import Lease, check_lease, check_name
from combopeps.session.measurement_table import TableSummary, read_observations
from combopeps.session.queries import Query, check_id, check_results
from combopeps.session.reports import Measurement
from combopeps.session.result import Look, Result, Status, TopAnswer
from combopeps.session.run import Callback, Run
from combopeps.session.session import FIRST_LOOK, LOOK_DIVISOR
from combopeps.stopping.base import Verdict
from combopeps.stopping.registry import stopping_rule
from combopeps.utils.formatting import ShortRepr
from combopeps.utils.label_format import as_label
from combopeps.utils.validation import MAX_QUERIES, check_count, check_flag, check_integer

_CONNECT_PATIENCE = 5.0  # seconds to reach a server, so that a wrong address is noticed soon


class RemoteCampaign(ShortRepr):
    """A client of a campaign server (`combopeps serve`), with the interface of `Session`.

    Requests are repeated until they are acknowledged, and are idempotent. Threads may share an object, and it can be
    pickled.

    Parameters
    ----------
    url
        The address that the server printed, such as `http://lab.example:8765`.
    token
        An access token, from the owner of the campaign; None if the server requires none.
    client
        Name of this client, which holds the queries that it asks for: `ask` returns its open queries first, so that
        scripts, and threads that ask independently, need different names. By default the name of the token, or user
        and machine with a random part.
    oracle
        The oracle, if the campaign was created with a user-defined one.
    timeout
        Seconds to wait for a response.
    patience
        Seconds for which requests without a response are repeated, after growing pauses, so that a server can be
        restarted; at most 5 for the first request. A wrong token, or another campaign at the address, is an error at
        once.

    Attributes
    ----------
    problem, policy_name, delta, epsilon, stopping, seed, initial design, versions
        As in the header of the campaign; labels have their original types, including tuples and numbers.
    client
        Name of this client.

    Examples
    --------
    >>> RemoteCampaign("http://127.0.0.1:9", patience=0)            # doctest: +ELLIPSIS
    Traceback (most recent call last):
    combopeps.errors.RemoteError: http://127.0.0.1:9 cannot be reached (...): check that `combopeps serve` runs ...
    """

    look_first = True

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
        try:
            from combopeps.server import schemas
            from combopeps.server.http_client import HttpClient
            from combopeps.server.responses import Serializer
        except ImportError:
            message = "RemoteCampaign needs httpx and pydantic; install them: pip install 'combopeps[remote]'"
            raise DependencyError(message) from None
        custom = None if oracle is None else CustomOracle(oracle)
        self._http, self._oracle = HttpClient(url, token, timeout, patience), oracle
        content = self._http.connect("/problem", _CONNECT_PATIENCE)
        try:
            header = schemas.Header.read(content)
            self.problem: Problem = from_document(header.problem, reader(custom)).problem
            self._rule = stopping_rule(header.stopping, header.delta, header.epsilon)
            self._policy_class = policy_class(header.policy)
        except OracleMismatchError as cause:
            message = str(cause).replace("Campaign.open(path, ", "RemoteCampaign(url, ")
            raise OracleMismatchError(f"{self.url}: {message}", cause.differs) from None
        except (ComboPepsError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as cause:
            raise RemoteError(f"{self.url} serves a problem that cannot be read here: {cause}") from None
        self.policy_name, self.stopping = header.policy, header.stopping
        self.delta, self.epsilon, self.seed, self.initial_design = (
            header.delta,
            header.epsilon,
            header.seed,
            header.initial_design,
        )
        self.versions = header.versions
        self._serializer = Serializer(self.problem)
        client = self._http.get("/me", self._serializer.client) if client is None else check_name("client", client)
        self.client, self.is_named = client or generated_client(), client is not None
        self._asked: dict[int, tuple[Query, str]] = {}  # open queries of this object and the names of their clients
        self._samples = self._next_look = 0  # of the last acknowledgement
        self._estimated_samples = 0  # including those that other clients are expected to have made
        self._is_stale = False  # whether results were acknowledged since the last look
        self._status: Status | None = None
        self._looks = list[Look]()

    @property
    def url(self) -> str:
        """Address of the server."""
        return self._http.url

    @property
    def run_client(self) -> str:
        """Name of the client under which a run holds queries."""
        return self.client

    def __repr__(self) -> str:
        return f"RemoteCampaign({self.url!r}, {self.problem!r})"

    def _summary(self) -> Mapping[str, Any]:
        header = {"policy": self.policy_name, "stopping": self.stopping, "delta": self.delta}
        return {"address": self.url, **header, "problem": self.problem}

    def __reduce__(self) -> tuple[Callable[..., RemoteCampaign], tuple[Any, ...]]:
        """Pickle the options: a copy connects to the same server, under a new name if none was given."""
        http, name = self._http, self.client if self.is_named else None
        make = partial(type(self), client=name, oracle=self._oracle, timeout=http.timeout, patience=http.patience)
        return make, (http.url, http.token)

    def __enter__(self) -> RemoteCampaign:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @overload
    def ask(self, *, client: str | None = None, lease: float | None = None) -> Query: ...
    @overload
    def ask(self, n: int, *, client: str | None = None, lease: float | None = None) -> list[Query]: ...
    def ask(
        self, n: int | None = None, *, client: str | None = None, lease: float | None = None
    ) -> Query | list[Query]:
        """Return the next measurement to make, or n at once, as `Session.ask`; the client is this one by default."""
        if n is not None:
            check_count("n", n, MAX_QUERIES)
        body: dict[str, Any] = {"client": self.client if client is None else check_name("client", client), "n": n or 1}
        if check_lease(lease, body["client"]) is not None:
            body["lease"] = lease
        queries = self._http.post("/ask", body, partial(self._serializer.queries, n=n or 1))
        self._asked |= {query.id: (query, body["client"]) for query in queries}
        return queries if n is not None else queries[0]

    def tell(self, query: Query | int, y: Any, sem: float | None = None, *, confirm: bool = False) -> None:
        """Record the result of a query, itself or its id, as `Session.tell`; durable when this returns."""
        self.tell_many([(query, y, sem)], confirm=confirm)

    def tell_many(self, results: Iterable[tuple[Any, ...]], *, confirm: bool = False) -> None:
        """Record several results (query, y) or (query, y, sem): all of them or none. Repeating the call is harmless."""
        check_flag("confirm", confirm)
        bodies = [self._serializer.result(self._check_query(query), *rest) for query, *rest in check_results(results)]
        if bodies:
            body = bodies[0] if len(bodies) == 1 else {"results": bodies}
            self._change("/tell", body, confirm)
        for result in bodies:
            self._asked.pop(result["id"], None)

    def observe(
        self,
        label: Hashable,
        y: float,
        sem: float | None = None,
        count: int = 1,
        *,
        key: str | None = None,
        confirm: bool = False,
    ) -> None:
        """Record a measurement without a query, as `Session.observe`.

        It is sent with an idempotency key, so that a repeated request counts once.
        """
        check_flag("confirm", confirm)
        arm = self._serializer.result_reader.arm(as_label(label))
        body = self._serializer.observation(arm, self._serializer.result_reader.observation(arm, y, sem, count))
        self._observe(body, key, confirm)

    def observe_table(self, rows: Any, *, key: str | None = None, confirm: bool = False) -> TableSummary:
        """Record measurements without queries from a table, all or none, as `Session.observe_table`."""
        check_flag("confirm", confirm)
        arms, readings, observed = read_observations(rows, self._serializer.result_reader)
        if arms:
            bodies = [self._serializer.observation(*pair) for pair in zip(arms, readings, strict=True)]
            self._observe({"rows": bodies}, key, confirm)
        return observed

    def _observe(self, body: dict[str, Any], key: str | None, confirm: bool) -> None:
        key = uuid4().hex if key is None else check_name("key", key)
        self._change("/observe", body | {"key": key}, confirm)

    def abandon(self, query: Query | int) -> None:
        """Close a query that will never be answered, as `Session.abandon`.

        Claims do not hold if queries are abandoned because of their results.
        """
        checked = self._check_query(query)
        query_id = checked.id if isinstance(checked, Query) else checked
        client = self._asked.get(query_id, (None, self.client))[1]
        self._change("/abandon", {"id": query_id, "client": client})
        self._asked.pop(query_id, None)

    def correct(self, event: int, y: Any, sem: float | None = None, *, confirm: bool = False) -> None:
        """Replace a wrong result, as `Session.correct`; only for the owner."""
        check_flag("confirm", confirm)
        check_integer("event", event)
        self._change("/correct", {"event": int(event)} | self._serializer.values(y, sem), confirm)

    def retract(self, event: int) -> None:
        """Withdraw a result, as `Session.retract`; only for the owner."""
        check_integer("event", event)
        self._change("/retract", {"event": int(event)})

    def measurements(self) -> list[Measurement]:
        """Return all recorded results, in the order of their events; only for the owner."""
        return self._http.get("/measurements", self._serializer.measurements)

    def status(self) -> Status:
        """Return the state of the campaign, as the server computes it."""
        return self._http.get("/status", self._serializer.status)

    def result(self) -> Result:
        """Return the current answer and what may be claimed about it."""
        status = self._status = self.status()
        return self._result(status.rule if status.stop else "open", status)

    def top_answers(self, n: int = 10) -> list[TopAnswer]:
        """Return the most probable best answers with their posterior probabilities, at most the ten of `status`."""
        check_count("n", n)
        return self.status().top_answers[:n]

    @property
    def open_queries(self) -> list[Query]:
        """Queries that wait for a result."""
        return self._http.get("/open", self._serializer.queries)

    @property
    def leases(self) -> dict[int, Lease]:
        """Leases of open queries, by query id."""
        return self._http.get("/open", self._serializer.leases)

    @property
    def samples(self) -> int:
        """Number of measurements so far."""
        return self._http.get("/open", self._count)

    @property
    def actions(self) -> int | None:
        """Number of actions measured so far; None if single arms are measured."""
        return self._http.get("/open", self._serializer.actions)

    @property
    def cost(self) -> float:
        """Cost of all measurements so far."""
        return self.status().cost

    @property
    def posterior(self) -> GaussianPosterior:
        """The posterior, from the sufficient statistics that the server sends."""
        policy: Policy = self._policy_class(self.problem, streams=Streams([named_seed(self.seed, "policy")]))
        self._http.get("/sums", partial(self._serializer.learn, policy))
        return policy.posterior

    def run(
        self,
        measure: Callable[[Any], Any],
        *,
        client: str | None = None,
        budget: int | None = None,
        budget_cost: float | None = None,
        progress: bool = False,
        batch_size: int = 1,
        callback: Callback = None,
    ) -> Result:
        """Measure until the stopping rule is satisfied, as `Session.run`; other clients may measure meanwhile."""
        client = self.client if client is None and self.is_named else client
        return Run(self, measure, client, budget, budget_cost, progress, batch_size, callback).run()

    # The interface that `Run` requires.

    def look(self) -> Verdict:
        """Return the verdict of the stopping rule on the current results."""
        status = self._status = self.status()
        t, self._samples = status.samples, self._samples or status.samples
        self._estimated_samples, self._is_stale = t, False
        self._looks.append(Look(t, status.error_probability, float("nan"), float("nan")))
        remaining = sum(max(0, self.initial_design - pulls) for pulls in status.pulls.values())  # of the initial design
        pause = max(1, remaining, self.problem.oracle.dim // LOOK_DIVISOR, int(t * (self._rule.ratio - 1.0)))
        self._next_look = max(t + pause, FIRST_LOOK)
        return Verdict(status.stop, claim=status.claim, z=status.z, error_probability=status.error_probability)

    @property
    def due(self) -> bool:
        """Whether it is time for a look, by the estimated number of measurements."""
        return self._estimated_samples >= self._next_look

    def start_run(self, has_budget: bool) -> int | None:
        """Begin a run."""
        self._samples = self._estimated_samples = self._next_look = 0
        self._status, self._looks = None, []
        return None

    def end_run(self) -> None:
        """Do nothing: the server evaluates the stopping rule."""

    def finish_run(self, reason: str, made: int, by_cost: bool) -> Result:
        """Return the result of a run."""
        if self._status is None or self._is_stale:
            self.look()
        assert self._status is not None
        return self._result(reason or self._status.rule, self._status)

    def _result(self, reason: str, status: Status) -> Result:
        claim = status.claim
        if not status.stop:
            ending = {"interrupted": "was interrupted", "open": "has not ended"}.get(reason, "was ended by its budget")
            claim = f"none: the run {ending}" + (f"; {status.warning}" if status.warning else "")
        shared = {field.name: getattr(status, field.name) for field in fields(Result) if hasattr(status, field.name)}
        others: dict[str, Any] = {
            "stop_reason": status.rule if status.stop and reason == "budget" else reason,
            "claim": claim,
            "evidence": Verdict(status.stop, claim=claim),
            "tied": [],
            "seed": self.seed,
            "session": self,
            "posterior": self.posterior,
            "looks": tuple(self._looks),
        }
        return Result(**shared | others)

    def _check_query(self, query: Any) -> Query | int:
        """Return a query of this campaign, or its id; raise `QueryError` for anything else."""
        if not isinstance(query, Query):
            return check_id(query)
        known = self._asked[query.id][0] if query.id in self._asked else None
        if known is None:
            known = next((other for other in self.open_queries if other.id == query.id), query)
        if known != query or (query.action is None) != (self.problem.actions is None):
            raise QueryError(f"query {query.id} was not asked here")
        return query

    def _change(self, path: str, body: dict[str, Any], confirm: bool = False) -> None:
        self._http.post(path, body | ({"confirm": True} if confirm else {}), self._count)

    def _count(self, content: bytes) -> int:
        """Return the number of measurements in an acknowledgement, and estimate it until the next one."""
        samples = self._serializer.samples(content)
        growth = samples - self._samples  # since the last acknowledgement, by all clients: extrapolated to the next one
        self._estimated_samples = max(samples, self._estimated_samples + growth)
        self._samples, self._is_stale = samples, True
        return samples
