"""Do two samplers draw from one law? Coordinates by Kolmogorov-Smirnov, best answers by chi-square."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from combopeps.oracles.base import Array
from combopeps.samplers.base import Alternatives

_RARE = 10  # answers with fewer expected counts are pooled, so that chi-square holds


@dataclass(frozen=True)
class LawTest:
    """The smallest p-value of all comparisons, corrected for their number (Bonferroni), and where it occurred."""

    p_value: float
    where: str

    def __str__(self) -> str:
        return f"p = {self.p_value:.2g} at {self.where}"


def same_law(a: Alternatives, b: Alternatives) -> LawTest:
    """Compare every coordinate of theta, the squared distance from the mean, and the frequencies of best answers.

    Under one law, and for independent draws, P(p_value < x) <= x.
    """
    from scipy.stats import ks_2samp

    centre = b.thetas.mean(axis=0)
    tests = {
        f"coordinate {i}": float(ks_2samp(a.thetas[:, i], b.thetas[:, i]).pvalue) for i in range(a.thetas.shape[1])
    }
    tests["distance from the mean"] = float(
        ks_2samp(((a.thetas - centre) ** 2).sum(axis=1), ((b.thetas - centre) ** 2).sum(axis=1)).pvalue
    )
    tests["best answers"] = _answer_test(a.answers, b.answers)
    worst = min(tests, key=tests.__getitem__)
    return LawTest(min(1.0, tests[worst] * len(tests)), worst)


def _answer_test(a: Array, b: Array) -> float:
    from scipy.stats import chi2_contingency

    _, which = np.unique(np.concatenate([a, b]), axis=0, return_inverse=True)
    which = which.ravel()
    counts = np.stack([np.bincount(part, minlength=which.max() + 1) for part in (which[: len(a)], which[len(a) :])])
    expected = counts.sum(axis=0) * min(len(a), len(b)) / (len(a) + len(b))
    rare = expected < _RARE
    table = np.concatenate([counts[:, ~rare], counts[:, rare].sum(axis=1, keepdims=True)], axis=1)
    table = table[:, table.sum(axis=0) > 0]
    return float(chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0
