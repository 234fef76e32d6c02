"""How probable a wrong answer was, after 1, 2, 3, 5, 7, 10, 14, ... measurements: read off the records of a campaign.

The grid of sample numbers is fixed, and the random numbers of a point follow from the campaign's seed and its sample
number, so that a point stays what it is. Replayed without the choices: beliefs follow from results alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, isfinite
from time import perf_counter

from combopeps.campaign import Campaign
from combopeps.campaign.state import State
from combopeps.campaign.store import Cursor, Event
from combopeps.campaign.sync import uncollected
from combopeps.errors import ComboPepsError, ParameterError
from combopeps.run.look import View
from combopeps.streams import named

_RATIO = 1.4  # 33 points up to 100,000 measurements
_SECONDS = 2.0
_NO_CHOICES = {"policy": "top-two", "stopping": "posterior"}  # nothing but the belief is of interest


class Curve:
    """The error probability over time. Whoever keeps one pays for new points only.

    Parameters
    ----------
    seconds
        How long to estimate at a time: where points take longer, some of the grid are left out.

    Attributes
    ----------
    points
        Measurements so far, and the posterior probability that the answer of that moment was wrong: a rough estimate,
        from some hundred draws.
    left_out
        How many points of the grid are missing for lack of time.
    header
        The first record of the campaign.
    spent
        What all measurements have cost.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import TopKOracle
    >>> campaign = Campaign.create(tempfile.mkdtemp() + "/beans.db", TopKOracle(["a", "b"], k=1))
    >>> campaign.observe_table([("a", 5.0), ("b", 1.0), ("a", 5.5)])
    all 3 rows taken
    >>> [t for t, _ in Curve().follow(campaign).points]
    [1, 2, 3]
    """

    def __init__(self, seconds: float = _SECONDS) -> None:
        if not isfinite(seconds) or seconds <= 0:
            raise ParameterError(f"seconds must be a positive number, got {seconds!r:.40}")
        self.seconds = seconds
        self._state: State | None = None
        self._end: Cursor | None = None
        self._begin({})

    def _begin(self, header: Event) -> None:
        self.header, self.points, self.left_out = header, list[tuple[int, float]](), 0
        self._samples, self._next = 0, 1

    @property
    def spent(self) -> float:
        return 0.0 if self._state is None else self._state.policy.spent.item(0)

    def follow(self, campaign: Campaign) -> Curve:
        """Take in what was recorded since the last time; itself."""
        with uncollected():
            found = campaign.store.read(None if self._state is None else self._end)
            records, state = found.events, self._state
            if state is None or found.restarted:
                self._begin(records[0][1])
                plain = {key: value for key, value in self.header.items() if key != "sweep"} | _NO_CHOICES
                state, records = State(plain, campaign.problem), records[1:]
            self._state = None  # whatever goes wrong on the way, we begin at the first record again
            *pieces, rest = self._pieces(records)
            begun = perf_counter()
            for i, piece in enumerate(pieces):
                state.apply(piece)
                if perf_counter() - begun <= self.seconds * (i + 1) / len(pieces):
                    self._look(state)
                else:
                    self.left_out += 1
            state.apply(rest)
            self._state, self._end = state, found.end
        return self

    def _pieces(self, records: list[tuple[int, Event]]) -> Iterator[list[tuple[int, Event]]]:
        """Events up to each point of the grid, and those behind the last."""
        start = 0
        for i, (_, record) in enumerate(records, 1):
            self._samples += _readings(record)
            if self._samples >= self._next:
                yield records[start:i]
                start = i
                while self._next <= self._samples:
                    self._next = max(self._next + 1, ceil(_RATIO * self._next))
        yield records[start:]

    def _look(self, state: State) -> None:
        policy = state.policy.viewer()
        try:
            view = View(policy, named(state.seed, "status", policy.samples))
            probability = view.rough_error_probability(state.epsilon)
        except ComboPepsError:  # a sampler that gave up: the next point may be easier
            self.left_out += 1
        else:
            self.points.append((policy.samples, probability))


def _readings(record: Event) -> int:
    """How many measurements a record holds."""
    if "ys" in record:
        return sum(y is not None for y in record["ys"])
    return int(record.get("count", 1)) if "y" in record else 0
