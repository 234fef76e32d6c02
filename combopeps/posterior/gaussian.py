"""`GaussianPosterior`: what the measurements say about theta.

    V = V_0 + sum_s x_s x_s',   S = sum_s x_s y_s,   theta_hat = V^-1 S,   theta | data ~ N(theta_hat, V^-1)

with theta ~ N(prior_mean, V_0^-1), V_0 = diag(prior_precision), before the first one (S starts as V_0 prior_mean). The
noise has variance 1: rows and rewards come in units of it (`Problem.signal`). Where it is unknown, it has an estimate
sigma for each replication: rows and rewards are divided by that too, and `restate` begins anew with another. A posterior
holds R independent replications along a leading axis: one update of all of them costs one pass of numpy.

With arms that measure one component each V stays diagonal, and an update costs O(1) (`DiagonalPosterior`). With general
arms a square root of the covariance is updated in O(d^2) (`DensePosterior`).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array, Sparse
from combopeps.posterior.arms import Arms
from combopeps.posterior.hierarchical import PriorEstimate
from combopeps.posterior.normal import Normal
from combopeps.posterior.scales import LARGEST_REWARD, check_mean, check_scale
from combopeps.utils.jit import njit
from combopeps.utils.state_dict import StateDict, integer, load_into
from combopeps.utils.validation import MAX_RUNS, as_float_array, check_count, check_kind, check_positive, shown

Arm = NDArray[np.intp]
_MOST = 1.001 * LARGEST_REWARD  # what rounding makes of it is let in
_OFF = 1e-6  # by which sums that were added up in another order may differ, relative
_SMALL = 256  # dimensions of a posterior that is no trouble to work out anew
_REFRESH = 512  # updates between two factorisations from scratch: rounding never has time to add up


class GaussianPosterior(ABC):
    """N(theta_hat, V^-1) for R replications; `GaussianPosterior.start(arms)` picks the representation.

    Attributes
    ----------
    theta_hat
        Posterior means, (R, d).
    is_diagonal
        Whether the components are independent.
    prior
        The estimated prior that takes the place of `prior_mean` and `prior_precision`; None where these were stated.
    sigma, dof
        Size of the noise in units of the rows, and the degrees of freedom of that estimate, (R,) each: 1 and infinity
        unless `restate` said otherwise. With finite ones theta has Student's distribution: N(theta_hat, s^2 V^-1) with
        s^2 ~ dof / chi^2_dof.
    """

    theta_hat: Array
    moment: Array
    is_diagonal: ClassVar[bool]
    _arrays: ClassVar[tuple[str, ...]]  # with a leading replication axis

    def __init__(
        self,
        arms: Arms,
        *,
        prior_precision: float | Array = 1.0,
        prior_mean: float | Array = 0.0,
        replications: int = 1,
    ) -> None:
        check_kind("arms", arms, Arms)
        check_count("replications", replications, MAX_RUNS)
        precision = _of_components("prior_precision", prior_precision, arms.dim)
        for value in (precision.min(), precision.max()):
            check_positive("prior_precision", float(value))
            check_scale("prior_std", float(value) ** -0.5)
        mean = _of_components("prior_mean", prior_mean, arms.dim)
        check_mean("prior_mean", float(np.abs(mean).max()))
        self.arms, self.replications, self._arm_count = arms, replications, len(arms)
        self.prior_precision, self.prior_mean = precision, mean
        self.prior: PriorEstimate | None = None
        self.theta_hat = np.empty((replications, arms.dim))
        self.theta_hat[:] = mean
        self.sigma, self.dof = np.ones(replications), np.full(replications, np.inf)
        self._start()

    @abstractmethod
    def _start(self) -> None:
        """What is known before any measurement."""

    @staticmethod
    def start(
        arms: Arms,
        *,
        prior_precision: float | Array = 1.0,
        prior_mean: float | Array = 0.0,
        replications: int = 1,
    ) -> GaussianPosterior:
        """The posterior before any measurement: diagonal for unit arms, dense for others."""
        kind: type[GaussianPosterior] = DiagonalPosterior if arms.are_units else DensePosterior
        return kind(arms, prior_precision=prior_precision, prior_mean=prior_mean, replications=replications)

    @property
    def dim(self) -> int:
        """d."""
        return self.arms.dim

    @property
    def prior_in_words(self) -> str:
        """What was believed before the first measurement."""
        if self.prior is not None:
            mean, std = self.prior.level.item(0), self.prior.spread.item(0)
            return f"prior estimated from the data: N({mean:.4g}, {std:.3g}^2)"
        widths, means = self.prior_precision**-0.5, np.unique(self.prior_mean)
        if len(means) > 1 or (widths != widths[0]).any():
            return "the prior stated for each component"
        return f"prior N({means[0]:g}, {widths[0]:g}{'^2' if widths[0] != 1 else ''}) in every component"

    def update(self, arm: ArrayLike, y: ArrayLike, count: float = 1.0) -> None:
        """Learn from a measurement in each replication: `arm` and `y` are numbers or (R,).

        With `count`, y is as good as the mean of so many measurements of the arm: its variance is 1 / count.
        """
        scale = 1.0
        if type(count) is not float or count != 1.0:
            check_positive("count", count)
            scale = sqrt(count)
        if (  # as policies of one run tell it
            type(arm) is int
            and type(y) is float
            and self.replications == 1
            and 0 <= arm < self._arm_count
            and abs(y) <= _MOST
        ):
            scale /= self.sigma.item(0)
            self._learn_one(arm, y * scale, scale)
            return
        arms, rewards = np.empty(self.replications, dtype=np.intp), np.empty(self.replications)
        try:
            if not isinstance(arm, int) and np.asarray(arm).dtype.kind not in "iu":
                raise TypeError("an arm is an integer")
            arms[:], rewards[:] = arm, y
        except (TypeError, ValueError, OverflowError) as cause:
            raise ParameterError(f"arm and y must be numbers, or one per replication: {cause}") from None
        self._check_rewards(rewards)
        lowest, highest = (arms[0], arms[0]) if len(arms) == 1 else (arms.min(), arms.max())
        if lowest < 0 or highest >= len(self.arms):
            raise ParameterError(f"an arm is a number in 0..{len(self.arms) - 1}, got {arms}")
        rates = scale / self.sigma
        self._learn(arms, rewards * rates, rates)

    def update_many(
        self, arms: Sequence[int] | Arm, ys: Sequence[float] | Array, counts: Sequence[float] | Array | None = None
    ) -> None:
        """One measurement after the other, of one replication: the same bits as by `update`, in less time."""
        arm, rewards = np.asarray(arms, dtype=np.intp), np.asarray(ys, dtype=np.float64)
        scale = np.sqrt(np.ones(len(rewards)) if counts is None else np.asarray(counts, dtype=np.float64))
        if self.replications != 1 or arm.ndim != 1 or not arm.shape == rewards.shape == scale.shape:
            raise ParameterError("update_many is for one replication, and takes as many arms as rewards")
        if not (np.isfinite(scale) & (scale > 0.0)).all():
            raise ParameterError("counts must be positive numbers")
        self._check_rewards(rewards)
        if ((arm < 0) | (arm >= len(self.arms))).any():
            raise ParameterError(f"an arm is a number in 0..{len(self.arms) - 1}")
        scale /= self.sigma
        self._learn_many(arm, rewards * scale, scale)

    def update_parts(self, rows: Arm, arms: Arm, ys: Array) -> None:
        """Results of several arms in replication `rows[i]`, arm `arms[i]`; no arm twice in one replication."""
        self._check_rewards(ys)
        scale = 1.0 / self.sigma[rows]
        self._learn_parts(rows, arms, ys * scale, scale)

    def _learn_parts(self, rows: Arm, arms: Arm, y: Array, scale: Array) -> None:
        """`_learn` for each entry in turn, in a replication of its own."""
        raise ParameterError("several arms are measured at once where they measure one component each")

    def _check_rewards(self, rewards: Array) -> None:
        most = _MOST
        # The sum of squares is quick, and decides all cases but those of several rewards near the limit.
        if not np.vdot(rewards, rewards) <= most * most and not (np.abs(rewards) <= most).all():
            raise ParameterError(
                f"a reward is NaN, infinite, or above {LARGEST_REWARD:g} standard deviations of the noise; "
                "nothing was learnt from it"
            )

    @abstractmethod
    def _learn(self, arm: Arm, y: Array, scale: float | Array) -> None:
        """V += x x', S += x y with x the arm's row times scale, one number or (R,)."""

    def _learn_one(self, arm: int, y: float, scale: float) -> None:
        """`_learn` for R = 1, bit for bit."""
        self._learn(np.array([arm]), np.array([y]), scale)

    @abstractmethod
    def _learn_many(self, arm: Arm, y: Array, scale: Array) -> None:
        """`_learn` for each entry in turn, bit for bit; R = 1."""

    def restate(
        self, sigma: Array, dof: Array, weights: Array, totals: Array, prior: PriorEstimate | None = None
    ) -> None:
        """Begin anew, with noise sigma: from what the results of each arm are worth, and their sums, (R, K).

        `prior` takes the place of the one so far, where it is estimated.
        """
        self.sigma, self.dof, self.prior = sigma, dof, prior or self.prior
        precision = 1.0 / (sigma * sigma)[:, None]
        self._begin_anew(weights * precision, totals * precision)

    @abstractmethod
    def _begin_anew(self, weights: Array, totals: Array) -> None:
        """V = V_0 + sum_x n_x x x', S = V_0 prior_mean + sum_x x s_x for n and s of shape (R, K)."""

    @property
    def prior_std(self) -> Array:
        """Of every component in the first replication, (d,), before the first measurement."""
        precision = self.prior_precision if self.prior is None else self.prior.precision[0]
        return np.asarray(precision**-0.5)

    @property
    def _prior_moment(self) -> Array:
        prior = self.prior
        return self.prior_precision * self.prior_mean if prior is None else prior.precision * prior.mean

    def expect(self, arms: Sequence[int] | Arm) -> Array:
        """As if these arms were measured, each with what the posterior expects: V grows, theta_hat stays as it is; R = 1.

        Returns what it expects.

        Examples
        --------
        >>> posterior = GaussianPosterior.start(Arms(np.eye(2)), prior_mean=0.5)
        >>> posterior.expect([1, 1, 1])
        array([0.5, 0.5, 0.5])
        >>> posterior.theta_hat, posterior.covariance()
        (array([[0.5, 0.5]]), array([[1.  , 0.25]]))
        """
        arm, kept = np.asarray(arms, dtype=np.intp), self.theta_hat.copy()
        if self.arms.are_units:
            means = kept[0, self.arms.component[arm]] * self.arms.coefficient[arm]
        else:
            means = self.arms.row(arm) @ kept[0]
        scale = np.full(len(arm), 1.0 / self.sigma[0])
        self._learn_many(arm, means * scale, scale)
        self.theta_hat[...] = kept  # to the last bit
        return np.asarray(means)

    @abstractmethod
    def become(self, estimate: Normal) -> None:
        """Take this in place of what was learnt: to be looked at, not updated; R = 1."""

    @property
    @abstractmethod
    def spread(self) -> Array:
        """V^-1 as the compiled loops take it: variances (R, d) of independent components, else L, (R, d, d)."""

    @property
    @abstractmethod
    def std(self) -> Array:
        """Standard deviation of every component, (R, d)."""

    @abstractmethod
    def covariance(self) -> Array:
        """V^-1, (R, d, d), or its diagonal (R, d) where that is all there is."""

    @abstractmethod
    def arm_widths(self) -> Array:
        """|x|^2_{V^-1} of every arm, in units of the noise, (R, K)."""

    @abstractmethod
    def narrowing(self, square: Array) -> Array:
        """x' V^-1 M V^-1 x / (1 + |x|^2_{V^-1}) of every arm x, (R, K), for M of shape (R, d, d), or its diagonal.

        For M = y y' that is what one measurement of x takes off |y|^2_{V^-1}, by the formula of Sherman and Morrison.
        The diagonal, (R, d), will do where the posterior is diagonal.
        """

    @property
    def normal(self) -> Normal:
        """The first replication as it stands, sharing memory."""
        return Normal(self.theta_hat[0], self.spread[0])

    def quadratic(self, rows: Array | Sparse) -> Array:
        """|y|^2_{V^-1} of every row y, (n, d) or sparse, in the first replication."""
        return self.normal.quadratic(rows)

    def whiten(self, theta: Array) -> Array:
        """L^-1 (theta - theta_hat), (..., d), in the first replication."""
        return self.normal.whiten(theta)

    @abstractmethod
    def noise(self, normals: Array) -> Array:
        """L w for standard normals w of shape (R, n, d), where L L' = V^-1."""

    @abstractmethod
    def covariance_dot(self, y: Array) -> Array:
        """V^-1 y for y of shape (R, d)."""

    def copy(self) -> GaussianPosterior:
        """An independent copy; the arms, which never change, are the same."""
        twin = copy.copy(self)
        for name in ("sigma", "dof", *self._arrays):
            setattr(twin, name, getattr(self, name).copy())
        return twin  # an estimated prior is replaced as a whole, never changed

    def state_dict(self) -> StateDict:
        """All that was learnt, as plain data."""
        known = {name: getattr(self, name) for name in ("sigma", "dof", *self._arrays)}
        return known if self.prior is None else known | {"prior": vars(self.prior)}

    def load_state_dict(self, data: StateDict) -> None:
        """Take that back."""
        for name in ("sigma", "dof", *self._arrays):
            load_into(getattr(self, name), data[name])
        if self.prior is not None:
            same = {name: np.zeros_like(value) for name, value in vars(self.prior).items()}
            for name, value in same.items():
                load_into(value, data["prior"][name])
            self.prior = PriorEstimate(**same)

    def check_sums(self, weights: Array, totals: Array) -> None:
        """ValueError if this is not what one learns from results that are worth so much, with these sums, (R, K).

        Up to rounding; nothing is said where it would take long.
        """
        if not self.is_diagonal and self.dim > _SMALL:
            return
        twin = self.copy()
        twin.restate(self.sigma, self.dof, weights, totals)
        same = np.abs(self.std - twin.std) <= _OFF * twin.std
        for theta, moment in ((self.theta_hat, twin.moment), (twin.theta_hat, self.moment)):
            same &= np.abs(self.covariance_dot(moment) - theta) <= _OFF * (np.abs(theta) + twin.std)
        if not same.all():
            raise ValueError("the posterior contradicts the measurements")

    def row(self, r: int) -> GaussianPosterior:
        """Replication r alone, sharing memory; for looking at, not for updates."""
        if self.replications == 1:
            return self
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)  # as copy.copy does, in a third of the time: once per row and round
        twin.replications = 1
        for name in ("sigma", "dof", *self._arrays):
            setattr(twin, name, getattr(self, name)[r : r + 1])
        return twin


@cache
def _narrow_units() -> Any:
    """`narrowing` for arms that measure one component each, compiled when it is first used."""

    def narrow_units(
        variance: Array, sigma: Array, component: Arm, coefficient: Array, square: Array, out: Array
    ) -> None:
        for r in range(len(out)):
            for k in range(len(component)):
                i, x = component[k], coefficient[k] / sigma[r]
                along = variance[r, i] * x
                out[r, k] = along * along * square[r, i] / (1.0 + x * along)

    return njit(cache=True, nogil=True)(narrow_units)


def _of_components(name: str, value: Any, dim: int) -> Array:
    """One number for all components, or one for each."""
    try:
        return np.broadcast_to(as_float_array(name, value), (dim,))
    except ValueError:
        raise ParameterError(
            f"{name} must be a number, or one for each of {dim} components, got {shown(value)}"
        ) from None


class DiagonalPosterior(GaussianPosterior):
    """V = diag(precision); `variance` holds its inverse.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> from combopeps.posterior import Arms
    >>> posterior = DiagonalPosterior(Arms.of(TopKOracle(3, k=1)))
    >>> posterior.update(2, 4.0)
    >>> posterior.theta_hat, posterior.variance
    (array([[0., 0., 2.]]), array([[1. , 1. , 0.5]]))
    """

    is_diagonal = True
    _arrays = "theta_hat", "precision", "variance", "moment"

    def _start(self) -> None:
        self.precision = np.empty(self.theta_hat.shape)  # row after row in memory, as `_learn` needs it
        self.precision[:] = self.prior_precision
        self.variance = 1.0 / self.precision
        self.moment = self.precision * self.theta_hat
        self._first = np.arange(self.replications) * self.dim  # where each replication begins

    def _learn(self, arm: Arm, y: Array, scale: float | Array) -> None:
        at = self._first[: self.replications] + self.arms.component[arm]
        x = self.arms.coefficient[arm] * scale
        precision, moment = self.precision.reshape(-1), self.moment.reshape(-1)
        precision[at] += x * x
        moment[at] += x * y
        variance = 1.0 / precision[at]
        self.variance.reshape(-1)[at] = variance
        self.theta_hat.reshape(-1)[at] = moment[at] * variance

    def _learn_one(self, arm: int, y: float, scale: float) -> None:
        i, x = self.arms.component[arm], self.arms.coefficient[arm] * scale
        precision, moment = self.precision[0], self.moment[0]
        precision[i] += x * x
        moment[i] += x * y
        self.variance[0, i] = 1.0 / precision[i]
        self.theta_hat[0, i] = moment[i] * self.variance[0, i]

    def _learn_many(self, arm: Arm, y: Array, scale: Array) -> None:
        at = self.arms.component[arm]
        x = self.arms.coefficient[arm] * scale
        np.add.at(self.precision[0], at, x * x)  # adds in the order given, as one update after the other does
        np.add.at(self.moment[0], at, x * y)
        self.variance[0, at] = 1.0 / self.precision[0, at]
        self.theta_hat[0, at] = self.moment[0, at] * self.variance[0, at]

    def _learn_parts(self, rows: Arm, arms: Arm, y: Array, scale: Array) -> None:
        at, x = (rows, self.arms.component[arms]), self.arms.coefficient[arms] * scale
        self.precision[at] += x * x
        self.moment[at] += x * y
        self.variance[at] = 1.0 / self.precision[at]
        self.theta_hat[at] = self.moment[at] * self.variance[at]

    def _begin_anew(self, weights: Array, totals: Array) -> None:
        self.precision[...] = self.prior_precision if self.prior is None else self.prior.precision
        self.moment[...] = self._prior_moment
        at, x = self.arms.component, self.arms.coefficient
        np.add.at(self.precision.T, at, (weights * x**2).T)
        np.add.at(self.moment.T, at, (totals * x).T)
        self.variance[...] = 1.0 / self.precision
        self.theta_hat[...] = self.moment * self.variance

    def become(self, estimate: Normal) -> None:
        self.theta_hat[0], self.variance[0] = estimate.theta, estimate.spread
        with np.errstate(divide="ignore"):
            self.precision[0] = 1.0 / estimate.spread

    @property
    def spread(self) -> Array:
        return self.variance

    @property
    def std(self) -> Array:
        return np.sqrt(self.variance)

    def covariance(self) -> Array:
        return self.variance

    def arm_widths(self) -> Array:
        widths = self.variance[:, self.arms.component] * self.arms.coefficient**2
        return np.asarray(widths / (self.sigma**2)[:, None])

    def narrowing(self, square: Array) -> Array:
        gains = np.empty((self.replications, self._arm_count))
        _narrow_units()(self.variance, self.sigma, self.arms.component, self.arms.coefficient, square, gains)
        return gains

    def noise(self, normals: Array) -> Array:
        return normals * np.sqrt(self.variance)[:, None, :]

    def covariance_dot(self, y: Array) -> Array:
        return self.variance * y


class DensePosterior(GaussianPosterior):
    """V^-1 = L L', L kept up to date by Potter's rule.

        a = L' x,   L <- L - gamma (L a) a',   gamma = (1 - (1 + a'a)^-1/2) / a'a

    No solve is ever needed: L gives draws, covariances and the gain of the next measurement. V and S are summed
    up beside it, and L is recomputed from V every 512 updates.

    Examples
    --------
    >>> from combopeps import ExplicitOracle
    >>> from combopeps.posterior import Arms
    >>> arms = Arms.of(ExplicitOracle(np.eye(2)), np.array([[1.0, 1.0], [1.0, -1.0]]))
    >>> posterior = DensePosterior(arms)
    >>> posterior.update(0, 3.0)
    >>> posterior.theta_hat.round(12)
    array([[1., 1.]])
    """

    is_diagonal = False
    _arrays = "theta_hat", "V", "L", "moment"

    def _start(self) -> None:
        eye = np.broadcast_to(np.eye(self.dim), (self.replications, self.dim, self.dim))
        self.V = eye * self.prior_precision
        self.L: Array = eye / np.sqrt(self.prior_precision)
        self.moment = self.prior_precision * self.theta_hat
        self._updates = 0

    def _learn(self, arm: Arm, y: Array, scale: float | Array) -> None:
        x = self._sum_up(arm, y, scale)
        if self._updates % _REFRESH == 0:
            self._refactor()
            return
        a = np.matmul(x[:, None, :], self.L)[:, 0]
        gain = np.matmul(self.L, a[:, :, None])[:, :, 0]
        squares = np.einsum("ri,ri->r", a, a)
        surprise = y - np.einsum("ri,ri->r", x, self.theta_hat)
        self.theta_hat += gain * (surprise / (1.0 + squares))[:, None]
        gamma = (1.0 - 1.0 / np.sqrt(1.0 + squares)) / np.maximum(squares, np.finfo(float).tiny)
        self.L -= (gamma[:, None] * gain)[:, :, None] * a[:, None, :]

    def _learn_many(self, arm: Arm, y: Array, scale: Array) -> None:
        refresh = (self._updates + len(arm)) // _REFRESH * _REFRESH - self._updates
        for i in range(max(refresh, 0)):  # before the last factorisation, only V and S matter
            self._sum_up(arm[i : i + 1], y[i : i + 1], scale[i])
        if refresh > 0:
            self._refactor()
        for i in range(max(refresh, 0), len(arm)):
            self._learn(arm[i : i + 1], y[i : i + 1], scale[i])

    def _sum_up(self, arm: Arm, y: Array, scale: float | Array) -> Array:
        """V += x x', S += x y; the rows x."""
        x: Array = self.arms.row(arm) * np.reshape(scale, (-1, 1))
        self.V += x[:, :, None] * x[:, None, :]
        self.moment += x * y[:, None]
        self._updates += 1
        return x

    def _refactor(self) -> None:
        """V = C C', L = C^-T, theta_hat = L L' S."""
        C = np.linalg.cholesky(self.V)
        eye = np.broadcast_to(np.eye(self.dim), self.V.shape)
        self.L[...] = np.swapaxes(np.linalg.solve(C, eye), 1, 2)
        self.theta_hat[...] = self.covariance_dot(self.moment)

    def _begin_anew(self, weights: Array, totals: Array) -> None:
        rows = self.arms.row(np.arange(len(self.arms)))
        precision = self.prior_precision if self.prior is None else self.prior.precision[:, None, :]
        self.V[...] = np.eye(self.dim) * precision + np.matmul(rows.T * weights[:, None, :], rows)
        self.moment[...] = self._prior_moment + np.matmul(totals[:, None, :], rows)[:, 0]
        self._updates = 0
        self._refactor()

    def state_dict(self) -> StateDict:
        return super().state_dict() | {"updates": self._updates}

    def load_state_dict(self, data: StateDict) -> None:
        super().load_state_dict(data)
        self._updates = integer(data["updates"])

    def become(self, estimate: Normal) -> None:
        self.theta_hat[0], self.L[0] = estimate.theta, 0.0
        self.L[0, :, : estimate.spread.shape[1]] = estimate.spread

    @property
    def spread(self) -> Array:
        return self.L

    @property
    def std(self) -> Array:
        return np.asarray(np.sqrt(np.einsum("rij,rij->ri", self.L, self.L)))

    def covariance(self) -> Array:
        return np.asarray(np.matmul(self.L, np.swapaxes(self.L, 1, 2)))

    def arm_widths(self) -> Array:
        half = np.matmul(self.arms.row(np.arange(len(self.arms))), self.L)
        return np.asarray(np.einsum("rkd,rkd->rk", half, half) / (self.sigma**2)[:, None])

    def narrowing(self, square: Array) -> Array:
        assert self.arms.matrix is not None
        half = np.matmul(self.arms.matrix, self.L) / self.sigma[:, None, None]  # L' x
        inner = np.matmul(np.matmul(np.swapaxes(self.L, 1, 2), square), self.L)
        taken = np.einsum("rkd,rkd->rk", np.matmul(half, inner), half)
        return np.asarray(taken / (1.0 + np.einsum("rkd,rkd->rk", half, half)))

    def noise(self, normals: Array) -> Array:
        return np.asarray(np.matmul(normals, np.swapaxes(self.L, 1, 2)))

    def covariance_dot(self, y: Array) -> Array:
        half = np.matmul(y[:, None, :], self.L)
        return np.asarray(np.matmul(half, np.swapaxes(self.L, 1, 2))[:, 0])
