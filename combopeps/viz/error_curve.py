"""Error probability of a campaign after 1, 2, 3, 5, 7, 10, 14, ... measurements.

The grid of sample numbers is fixed, and the random numbers of a point are determined by the seed of the campaign and
the number of samples, so that a point never changes. Results are replayed into the posterior; no query is chosen again.
"""

from __future__ import annotations

from math import ceil, isfinite
from time import perf_counter

import numpy as np

from combopeps.campaign import Campaign
from combopeps.errors import ComboPepsError, ParameterError
from combopeps.policies.base import Policy
from combopeps.policies.registry import policy_class
from combopeps.random import Streams, named_seed
from combopeps.stopping.base import View

_GRID_RATIO = 1.4  # of successive sample numbers: 33 points up to 100,000 measurements
_MAX_SECONDS = 2.0  # for one update


class ErrorCurve:
    """Error probabilities of a campaign on a grid of sample numbers; updates compute new points only.

    Parameters
    ----------
    seconds
        Time limit of one update. If the points take longer, some of them are left out.

    Attributes
    ----------
    points
        Pairs of a number of measurements and the posterior probability that the answer at that time was wrong, which
        is a rough estimate from some hundred draws.
    left_out
        Number of grid points that were left out for lack of time.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import TopKOracle
    >>> campaign = Campaign.create(tempfile.mkdtemp() + "/beans.db", TopKOracle(["a", "b"], k=1))
    >>> campaign.observe_table([("a", 5.0), ("b", 1.0), ("a", 5.5)])
    all 3 rows taken
    >>> [t for t, _ in ErrorCurve().follow(campaign).points]
    [1, 2, 3]
    """

    def __init__(self, seconds: float = _MAX_SECONDS) -> None:
        if not isfinite(seconds) or seconds <= 0:
            raise ParameterError(f"seconds must be a positive number, got {seconds!r:.40}")
        self.seconds = seconds
        self._policy: Policy | None = None
        self._version: tuple[object, int] | None = None  # header and number of corrections of the campaign

    def follow(self, campaign: Campaign) -> ErrorCurve:
        """Add points for new results, and return the curve; start again after a correction."""
        with campaign._reading():
            version, results = (campaign.header, campaign._corrections), campaign._ledger.results
            if self._policy is None or self._version != version:
                self._version, self.points, self.left_out = version, list[tuple[int, float]](), 0
                self._n_rows, self._next_samples = 0, 1
                # Only the posterior is needed, and it is the same for all policies: take the cheapest one.
                self._policy = policy_class("top-two")(
                    campaign.problem, streams=Streams([named_seed(campaign.header["seed"], "policy")])
                )
            policy, self._policy = self._policy, None  # after an exception, the next update starts again
            new = results.counted()
            new = new[new >= self._n_rows]
            samples = policy.samples + np.cumsum(results.count[new])
            noise, sem = campaign.problem.noise[results.arm[new]], results.sem[new]
            weights = np.where(sem > 0.0, (noise / np.where(sem > 0.0, sem, 1.0)) ** 2, results.count[new])
            ends = self._segment_ends(samples)
            begin = perf_counter()
            for i, (first, end) in enumerate(zip([0, *ends], [*ends, len(new)], strict=True)):
                rows = new[first:end]
                policy.learn_many(results.arm[rows], results.y[rows], weights[first:end], results.count[rows])
                if i == len(ends):
                    break
                # Each point has an equal share of the time, so that points that are left out are spread evenly.
                if perf_counter() - begin <= self.seconds * (i + 1) / len(ends):
                    self._add_point(policy, campaign)
                else:
                    self.left_out += 1
            self._policy, self._n_rows = policy, len(results)
        return self

    def _segment_ends(self, samples: np.ndarray) -> list[int]:
        """Return how many of the new results each grid point includes, and advance the grid beyond the last one."""
        ends = []
        while len(samples) and self._next_samples <= samples[-1]:
            end = int(np.searchsorted(samples, self._next_samples)) + 1
            ends.append(end)
            while self._next_samples <= samples[end - 1]:
                self._next_samples = max(self._next_samples + 1, ceil(_GRID_RATIO * self._next_samples))
        return ends

    def _add_point(self, policy: Policy, campaign: Campaign) -> None:
        snapshot = policy.without_cache()
        try:
            view = View(snapshot, snapshot.streams.named(0, "look", snapshot.samples))
            self.points.append((snapshot.samples, view.error_probability(campaign.epsilon)))
        except ComboPepsError:  # a sampler may give up; later points may be easier
            self.left_out += 1
