"""How close the certified lower bounds come to the truth, family by family.

Run it as a script for the table.
"""

from dataclasses import dataclass

import numpy as np
from families import FAMILIES, draw
from scipy.optimize import minimize_scalar
from scipy.special import erfcx, log_ndtr

from combopeps.posterior.gaussian import Normal
from combopeps.stopping.certificates.glr import glr_bound
from combopeps.stopping.certificates.lagrangian import HalfNormal, lagrangian_bound


@dataclass(frozen=True)
class Row:
    """One bound in one family.

    `median` and `worst` are of bound / truth over the cases with a truth above 1 (smaller ones decide nothing);
    `excess` is the largest (bound - truth) / max(1, |truth|) over all cases: positive would be an error.
    """

    family: str
    bound: str
    cases: int
    median: float
    worst: float
    excess: float


def table(cases=50, seed=0, families=tuple(FAMILIES), bounds=("glr", "half-normal")):
    """A row for each family and bound; targets are infinite, so that nothing is refined beyond the first relaxation."""
    rows = []
    for family in families:
        for bound in bounds:
            rng = np.random.default_rng([seed, sorted(FAMILIES).index(family)])
            pairs = np.array([_measure(family, bound, rng) for _ in range(cases)])
            if np.isnan(pairs).any():
                continue
            found, truth = pairs.T
            ratios = (found / truth)[truth > 1] if (truth > 1).any() else np.ones(1)
            excess = ((found - truth) / np.maximum(1.0, np.abs(truth))).max()
            rows.append(Row(family, bound, cases, float(np.median(ratios)), float(ratios.min()), float(excess)))
    return rows


def _measure(family, bound, rng):
    case = draw(family, rng, scale=1.0 if bound == "glr" else 10.0)
    epsilon = 0.0 if rng.random() < 0.5 else float(rng.uniform(0, 1))
    if bound == "glr":
        return glr_of(case, epsilon), true_glr(case, epsilon)
    if not case.oracle.binary:
        return np.nan, np.nan
    rho, kappa = float(rng.choice([8.0, 512.0])), rng.uniform(0, 1, case.oracle.dim)
    return half_normal_of(case, rho, kappa, epsilon), true_half_normal(case, rho, kappa, epsilon)


def glr_of(case, epsilon, target=np.inf):
    estimate = Normal(case.theta, 1.0 / case.n)
    return glr_bound(case.oracle, case.z_hat, estimate, target=target, epsilon=epsilon).value


def half_normal_of(case, rho, kappa, epsilon, target=np.inf):
    penalty = HalfNormal(case.n, rho, kappa)
    return lagrangian_bound(case.oracle, case.z_hat, case.theta, penalty, target=target, epsilon=epsilon).value


def true_glr(case, epsilon):
    """min_z (gap_z + epsilon)^2 / (2 sum_a y_a^2 / n_a), over the list."""
    y = case.others
    return float((0.5 * np.maximum(epsilon - y @ case.theta, 0.0) ** 2 / (y**2 @ (1.0 / case.n))).min())


def true_half_normal(case, rho, kappa, epsilon):
    """min_z max_lam lam (gap_z + epsilon) - sum_a pen_a(lam), over the list, each maximum by Brent's method.

    An answer whose value at some lam exceeds a maximum that is known already cannot be the minimum.
    """
    y = case.others
    gaps = epsilon - y @ case.theta
    inverse_root = np.sqrt(case.n + rho) / case.n
    constant = 0.5 * np.log1p(case.n / rho) + kappa

    def value(lam, row, gap):
        at = row != 0
        return lam * gap - (conjugates(lam * np.abs(row[at]) * inverse_root[at]) + constant[at]).sum()

    lams = gaps / (y**2 @ inverse_root**2)  # best for a normal instead of half a one
    some = np.array([value(*one) for one in zip(2.0 * lams, y, gaps, strict=True)])
    smallest = np.inf
    for i in np.argsort(some):
        if some[i] > smallest:
            break
        s = minimize_scalar(lambda s, i=i: -value(np.exp(s) * lams[i], y[i], gaps[i]), bounds=(-1, 9), method="bounded")
        smallest = min(smallest, -s.fun)
    return float(smallest)


def conjugates(mu):
    """h*(mu) = max_x mu x - h(x), h(x) = x^2/2 + ln(2 Phi(x)): Newton's method on h'(x) = x + phi/Phi = mu.

    h' is convex and increases, so that Newton comes down to the root from x = mu, which lies to the right of it.
    """
    x = np.array(mu, dtype=float)
    for _ in range(200):
        m = np.sqrt(2 / np.pi) / erfcx(-x / np.sqrt(2))
        y = np.maximum(-x, 30.0)  # far out, x + m and h'' are small differences of large numbers: a series instead
        slope = np.where(x > -30, x + m, (1 - 2 / y**2 + 10 / y**4) / y)
        curvature = np.where(x > -30, 1.0 - m * (x + m), (1 - 6 / y**2 + 50 / y**4) / y**2)
        step = (slope - mu) / curvature
        x = x - step
        if (np.abs(step) <= 1e-11 * (1 + np.abs(x))).all():
            break
    h = np.where(x < 0, np.log(erfcx(-np.minimum(x, 0.0) / np.sqrt(2))), 0.5 * x * x + np.log(2.0) + log_ndtr(x))
    return mu * x - h


if __name__ == "__main__":
    for row in table():
        print(f"{row.family:22} {row.bound:12} {row.cases:5} {row.median:8.4f} {row.worst:10.4g} {row.excess:9.2e}")
