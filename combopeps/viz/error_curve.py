"""`Curve`: the error probability of a campaign after 1, 2, 3, 5, 7, 10, 14, ... measurements.

The grid of sample numbers is fixed, and the random numbers of a point follow from the campaign's seed and its sample
number, so that a point does not change. Posteriors follow from results alone: nothing is chosen again.
"""

from __future__ import annotations

from math import ceil, isfinite
from time import perf_counter

import numpy as np

from combopeps.campaign import Campaign
from combopeps.errors import ComboPepsError, ParameterError
from combopeps.policies.base import Policy
from combopeps.policies.registry import policy_class
from combopeps.random import Streams, named
from combopeps.stopping.base import View

_RATIO = 1.4  # 33 points up to 100,000 measurements
_SECONDS = 2.0


class Curve:
    """The error probability over time; an object that is kept computes new points only.

    Parameters
    ----------
    seconds
        Time limit of one update: where points take longer, some of the grid are left out.

    Attributes
    ----------
    points
        Numbers of measurements, and the posterior probability that the answer at that time was wrong: a rough estimate,
        from some hundred draws.
    left_out
        Number of points of the grid that are missing for lack of time.

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
        self._policy: Policy | None = None
        self._source: tuple[object, int] | None = None  # header and number of corrections

    def follow(self, campaign: Campaign) -> Curve:
        """Add points for results that are new, and return the curve."""
        with campaign._reading():
            source, results = (campaign.header, campaign._corrections), campaign._ledger.results
            if self._policy is None or self._source != source:
                self._source, self.points, self.left_out = source, list[tuple[int, float]](), 0
                self._rows, self._next = 0, 1
                # Nothing but the posterior is of interest: the policy is the cheapest one.
                self._policy = policy_class("top-two")(
                    campaign.problem, streams=Streams([named(campaign.header["seed"], "policy")])
                )
            policy, self._policy = self._policy, None  # if anything goes wrong on the way, begin anew
            counted = results.counted()
            counted = counted[counted >= self._rows]
            samples = policy.samples + np.cumsum(results.count[counted])
            noise, sem = campaign.problem.noise[results.arm[counted]], results.sem[counted]
            weights = np.where(sem > 0.0, (noise / np.where(sem > 0.0, sem, 1.0)) ** 2, results.count[counted])
            ends = self._ends(samples)
            begun = perf_counter()
            for i, (first, end) in enumerate(zip([0, *ends], [*ends, len(counted)], strict=True)):
                rows = counted[first:end]
                policy.learn_many(results.arm[rows], results.y[rows], weights[first:end], results.count[rows])
                if i == len(ends):
                    break
                if perf_counter() - begun <= self.seconds * (i + 1) / len(ends):
                    self._add_point(policy, campaign)
                else:
                    self.left_out += 1
            self._policy, self._rows = policy, len(results)
        return self

    def _ends(self, samples: np.ndarray) -> list[int]:
        """Where the results up to each point of the grid end."""
        ends = []
        while len(samples) and self._next <= samples[-1]:
            end = int(np.searchsorted(samples, self._next)) + 1
            ends.append(end)
            while self._next <= samples[end - 1]:
                self._next = max(self._next + 1, ceil(_RATIO * self._next))
        return ends

    def _add_point(self, policy: Policy, campaign: Campaign) -> None:
        viewed = policy.without_cache()
        try:
            view = View(viewed, viewed.streams.named(0, "look", viewed.samples))
            self.points.append((viewed.samples, view.risk(campaign.epsilon)))
        except ComboPepsError:  # a sampler that gave up: the next point may be easier
            self.left_out += 1
