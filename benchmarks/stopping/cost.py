"""The share of a run's wall time that goes into looks, on huge sets."""

from __future__ import annotations

import time

import numpy as np

from benchmarks._problems import grid_oracle
from benchmarks._table import markdown
from combopeps import (
    ArgmaxOracle,
    CertifiedRule,
    MatchingOracle,
    PosteriorRule,
    Problem,
    StoppingRule,
    TopKOracle,
    VerifiedRule,
    identify,
)
from combopeps.oracles.base import has_equal_value
from combopeps.stopping import Verdict, View

_LIMIT = 0.2


class Timed(StoppingRule):
    """A rule that says how long it took."""

    def __init__(self, rule: StoppingRule) -> None:
        self.rule, self.seconds, self.looks = rule, 0.0, 0
        self.name, self.delta, self.ratio = rule.name, rule.delta, rule.ratio

    def check(self, view: View) -> Verdict:
        start = time.perf_counter()
        verdict = self.rule.check(view)
        self.seconds += time.perf_counter() - start
        self.looks += 1
        return verdict


def instances() -> dict[str, tuple[ArgmaxOracle, np.ndarray]]:
    """A planted best answer: gap 1 in every component, noise 1."""
    grid, matching, items = grid_oracle(50), MatchingOracle(30, 30), np.zeros(1000)
    route = grid.argmax(np.random.default_rng(0).uniform(size=grid.dim))
    items[:50] = 1.0
    return {
        "top-k 1000 choose 50": (TopKOracle(1000, 50), items),
        "grid 50 x 50": (grid, 1.0 + route),
        "matching 30 x 30": (matching, np.eye(30).ravel()),
    }


def table(budget: int) -> str:
    rows = []
    for name, (oracle, theta) in instances().items():
        for make in (PosteriorRule, CertifiedRule, VerifiedRule):
            rule, nature = Timed(make(0.05)), np.random.default_rng(1)
            value = dict(zip(oracle.components, theta, strict=True))
            identify(
                Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0),
                lambda label: 0.0,
                stopping="budget",
                budget=20,
            )  # compile
            start = time.perf_counter()
            result = identify(
                Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0),
                lambda x, v=value, r=nature: v[x] + r.normal(),
                stopping=rule,
                budget=budget,
            )
            total = time.perf_counter() - start
            right = has_equal_value(result.z, oracle.argmax(theta), theta)
            share = rule.seconds / total
            rows.append(
                [name, rule.name, f"{result.samples:,}", "yes" if right else "NO", rule.looks, f"{total:.1f}",
                 f"{share:.1%}", f"<= {_LIMIT:.0%} {'yes' if share <= _LIMIT else 'NO'}"]
            )  # fmt: skip
    header = ["instance", "rule", "samples", "right", "looks", "seconds", "share of looks", "wanted"]
    return markdown(header, rows)
