"""`check_sampler`: the contract of `AlternativeSampler` and a statistical test, for samplers outside this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from combopeps.alternatives.base import Alternatives, AlternativeSampler, current_answer
from combopeps.alternatives.rejection import RejectionSampler
from combopeps.errors import ComboPepsError
from combopeps.oracles import ArgmaxOracle, ExplicitOracle, MatchingOracle, TopKOracle
from combopeps.oracles.base import Array, strictly_better
from combopeps.posterior.arms import Arms
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.parameter_space import Box, ParameterSpace
from combopeps.utils.interface_checks import ContractReport, run_checks
from combopeps.utils.validation import MAX_DRAWS, check_callable, check_count, check_flag, check_integer, check_kind

FALSE_ALARM = 1e-4
"""Probability that a correct sampler with independent draws fails one of the comparisons of distributions."""
_MIN_EXPECTED_COUNT = 10  # answers with less are pooled, so that the chi-square approximation holds


def check_sampler(
    make: AlternativeSampler | Callable[[], AlternativeSampler], rng: int = 0, *, draws: int = 2000, raises: bool = True
) -> ContractReport:
    """Check the contract of a sampler, and compare the distribution of its draws with long rejection runs.

    Parameters
    ----------
    make
        The sampler, or a class or function that makes a new one.
    rng
        Seed.
    draws
        Alternatives drawn for each comparison of distributions. The draws are compared as if they were independent: a
        Markov chain needs enough steps between two of them.
    raises
        Raise `ContractError` with all violations, or only return the report.

    Examples
    --------
    >>> from combopeps.alternatives import RejectionSampler
    >>> print(check_sampler(RejectionSampler))
    RejectionSampler: 8 checks passed, 0 failed
    """
    if not isinstance(make, AlternativeSampler):
        check_callable("make", make)
    check_integer("rng", rng)
    check_count("draws", draws, MAX_DRAWS)
    check_flag("raises", raises)
    probe = _Probe(make, rng, draws)
    check_kind("make", probe.fresh(), AlternativeSampler)
    return run_checks(type(probe.fresh()).__name__, probe, _CHECKS, raises=raises)


@dataclass(frozen=True)
class DistributionTest:
    """The smallest p-value of several comparisons, corrected for their number (Bonferroni), and which one it is."""

    p_value: float
    where: str

    def __str__(self) -> str:
        return f"p = {self.p_value:.2g} at {self.where}"


def compare_distributions(a: Alternatives, b: Alternatives) -> DistributionTest:
    """Compare each coordinate of theta, the squared distance from the mean, and the frequencies of best answers.

    If both distributions are equal and the draws independent, P(p_value < x) <= x.
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
    return DistributionTest(min(1.0, tests[worst] * len(tests)), worst)


def _answer_test(a: Array, b: Array) -> float:
    """Return the p-value of a chi-square test of equal frequencies; rare answers are pooled."""
    from scipy.stats import chi2_contingency

    _, which = np.unique(np.concatenate([a, b]), axis=0, return_inverse=True)
    which = which.ravel()
    counts = np.stack([np.bincount(part, minlength=which.max() + 1) for part in (which[: len(a)], which[len(a) :])])
    expected = counts.sum(axis=0) * min(len(a), len(b)) / (len(a) + len(b))
    rare = expected < _MIN_EXPECTED_COUNT
    table = np.concatenate([counts[:, ~rare], counts[:, rare].sum(axis=1, keepdims=True)], axis=1)
    table = table[:, table.sum(axis=0) > 0]
    return float(chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0


@dataclass(frozen=True)
class _Case:
    """A posterior about a small problem."""

    posterior: GaussianPosterior
    oracle: ArgmaxOracle
    space: ParameterSpace | None = None

    @property
    def z_hat(self) -> Array:
        return current_answer(self.posterior, self.oracle, self.space)


class _Probe:
    def __init__(self, make: AlternativeSampler | Callable[[], AlternativeSampler], seed: int, draws: int) -> None:
        self.make, self.seed, self.draws = make, seed, draws

    def fresh(self) -> AlternativeSampler:
        return self.make if isinstance(self.make, AlternativeSampler) else self.make()

    def sample(self, case: _Case, n: int, seed: int) -> Alternatives:
        return self.fresh().sample(case.posterior, case.oracle, case.z_hat, n, seed, space=case.space)


def _posterior_after(oracle: ArgmaxOracle, theta: Array, rounds: int, arms: Array | None = None) -> GaussianPosterior:
    """Return the posterior after `rounds` noiseless measurements of every arm."""
    posterior = GaussianPosterior.start(Arms.of(oracle, arms))
    for arm in range(len(posterior.arms)):
        posterior.update(arm, float(posterior.arms.row(arm) @ theta), count=rounds)
    return posterior


def _topk_case() -> _Case:
    oracle = TopKOracle(6, k=2)
    return _Case(_posterior_after(oracle, np.array([1.0, 0.9, 0.5, 0.4, 0.2, 0.0]), 10), oracle)


def _matching_case() -> _Case:
    oracle = MatchingOracle(3, 3)
    return _Case(_posterior_after(oracle, np.linspace(1.0, 0.0, 9)[[0, 3, 5, 8, 1, 4, 6, 7, 2]], 12), oracle)


def _sphere_case() -> _Case:
    angles = np.linspace(0.0, 2.0, 7)
    points = np.stack([np.cos(angles), np.sin(angles), 0.3 * angles], axis=1)
    oracle = ExplicitOracle(points)
    return _Case(_posterior_after(oracle, points[3], 4, points), oracle)


def _boxed_case() -> _Case:
    case = _topk_case()
    return _Case(case.posterior, case.oracle, Box(0.0, 1.2))


def _shapes(p: _Probe) -> Iterator[str]:
    for case in (_topk_case(), _matching_case(), _sphere_case()):
        for n in (1, 5):
            found = p.sample(case, n, p.seed)
            if found.thetas.shape != (n, case.oracle.dim) or found.answers.shape != (n, case.oracle.dim):
                yield f"{n} alternatives have shapes {found.thetas.shape}, {found.answers.shape}; both must be (n, d)"
            if not np.isfinite(found.thetas).all():
                yield "a theta is NaN or infinite; an uninitialised array is a likely cause"


def _alternatives(p: _Probe) -> Iterator[str]:
    for case in (_topk_case(), _matching_case(), _sphere_case()):
        found = p.sample(case, 50, p.seed)
        if not strictly_better(case.oracle.argmax(found.thetas), case.z_hat, found.thetas).all():
            yield "the current answer is best under some returned theta; reject thetas in its cone and on its boundary"


def _answers(p: _Probe) -> Iterator[str]:
    for case in (_topk_case(), _matching_case(), _sphere_case()):
        found = p.sample(case, 50, p.seed)
        best = case.oracle.argmax(found.thetas)
        if strictly_better(best, found.answers, found.thetas).any():
            yield "an answer is not best under its theta; return oracle.argmax(thetas)"


def _account(p: _Probe) -> Iterator[str]:
    found = p.sample(_topk_case(), 5, p.seed).account
    if found.draws < 5 or found.oracle_calls < 0 or found.facets < 0 or found.log_probability > 1e-9:
        yield f"the account is impossible: {found}; count every draw, and return ln P(Alt) <= 0 or NaN"


def _reproducible(p: _Probe) -> Iterator[str]:
    if callable(p.make):
        first, again = p.sample(_matching_case(), 10, p.seed), p.sample(_matching_case(), 10, p.seed)
        if not np.array_equal(first.thetas, again.thetas):
            yield "the same seed gave two results; draw from the given generator only"


def _single_answer(p: _Probe) -> Iterator[str]:
    oracle = TopKOracle(3, k=3)
    case = _Case(GaussianPosterior.start(Arms.of(oracle)), oracle)
    try:
        p.sample(case, 1, p.seed)
    except ComboPepsError:
        return
    yield "Z has one answer, yet an alternative was returned; raise NoAlternativeError"


def _distribution(p: _Probe) -> Iterator[str]:
    yield from _compare(p, {"top-k": _topk_case(), "matching": _matching_case(), "sphere": _sphere_case()})


def _distribution_in_box(p: _Probe) -> Iterator[str]:
    yield from _compare(p, {"top-k in a box": _boxed_case()})
    found = p.sample(_boxed_case(), 200, p.seed)
    if (found.thetas < 0.0).any() or (found.thetas > 1.2).any():
        yield "a theta lies outside the space"


def _compare(p: _Probe, cases: dict[str, _Case]) -> Iterator[str]:
    """Compare the sampler with rejection on every case."""
    for name, case in cases.items():
        mine = p.sample(case, p.draws, p.seed + 1)
        reference = RejectionSampler().sample(
            case.posterior, case.oracle, case.z_hat, 2 * p.draws, p.seed + 2, space=case.space
        )
        test = compare_distributions(mine, reference)
        if test.p_value < FALSE_ALARM / 4:
            yield f"on {name} the draws do not follow the restricted posterior ({test})"


_CHECKS: dict[str, Callable[[_Probe], Iterator[str]]] = {
    "shapes": _shapes,
    "alternatives": _alternatives,
    "answers": _answers,
    "account": _account,
    "reproducible": _reproducible,
    "single answer": _single_answer,
    "distribution": _distribution,
    "distribution in a box": _distribution_in_box,
}
