"""`GaussianPosterior`: Gaussian posterior of theta, for R replications.

    V = V_0 + sum_s x_s x_s',   S = V_0 prior_mean + sum_s x_s y_s,   theta_hat = V^-1 S
    theta | data ~ N(theta_hat, V^-1),   prior theta ~ N(prior_mean, V_0^-1),   V_0 = diag(prior_precision)

The noise has variance 1: rows and rewards are in units of it (`Problem.signal`). Where the noise is unknown, each
replication has an estimate sigma: rows and rewards are divided by it, and `restate` recomputes the posterior with a new
estimate. Replications are along the leading axis, and all of them are updated by the same numpy operations.

With arms that measure one component each, V is diagonal and an update costs O(1) (`DiagonalPosterior`). With general
arms a square root of the covariance is updated in O(d^2) (`DensePosterior`).

Normal distribution of theta: a posterior at one moment of one run, or a least-squares estimate.

gap_y = -y @ theta,   |y|^2 = y' C y,   C = diag(variance) or L L'
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from combopeps.errors import ParameterError
from combopeps.oracles.base import Array, Sparse
from combopeps.posterior.arms import Arms
from combopeps.posterior.hierarchical import PriorEstimate
from combopeps.posterior.stated_values import LARGEST_REWARD, check_mean, check_scale
from combopeps.utils.formatting import ShortRepr
from combopeps.utils.jit import njit
from combopeps.utils.state_dict import StateDict, integer, load_into
from combopeps.utils.validation import MAX_RUNS, as_float_array, check_count, check_kind, check_positive, shown


@dataclass(frozen=True)
class Normal:
    """N(theta, C).

    `spread` is the variance of each coordinate, (d,), if their errors are independent (0 where answers never differ);
    otherwise L with C = L L', (d, r).

    Examples
    --------
    >>> known = Normal(np.array([1.0, 3.0]), np.array([4.0, 0.25]))
    >>> y = np.array([[1.0, -1.0]])
    >>> known.gaps(y), known.quadratic(y)
    (array([2.]), array([4.25]))
    """

    theta: Array
    spread: Array

    @property
    def is_diagonal(self) -> bool:
        """Whether the errors of the coordinates are independent."""
        return self.spread.ndim == 1

    @property
    def root(self) -> Array:
        """L with C = L L', for either representation."""
        return np.diag(np.sqrt(self.spread)) if self.is_diagonal else self.spread

    def gaps(self, rows: Array | Sparse) -> Array:
        """Return -y @ theta of every row y: by how much z_hat is better, for y = z - z_hat."""
        if isinstance(rows, np.ndarray):
            return np.asarray(-(rows @ self.theta))
        return -row_sums(rows, rows.data * self.theta[rows.indices])

    def quadratic(self, rows: Array | Sparse) -> Array:
        """Return y' C y of every row y."""
        if isinstance(rows, np.ndarray):
            half = rows * np.sqrt(self.spread) if self.is_diagonal else rows @ self.spread
        elif self.is_diagonal:
            return row_sums(rows, rows.data**2 * self.spread[rows.indices])
        else:
            half = rows @ self.spread
        return np.asarray((half * half).sum(axis=1))

    def along(self, y: Array) -> Array:
        """Return C y: the direction in which theta reaches the facet of y at the least distance."""
        return self.spread * y if self.is_diagonal else np.asarray(self.spread @ (self.spread.T @ y))

    def whiten(self, theta: Array) -> Array:
        """Return L^-1 (theta - mean), (..., d): standard normal if theta is drawn from the distribution."""
        shift = theta - self.theta
        if self.is_diagonal:
            return np.asarray(shift / np.sqrt(self.spread))
        return np.asarray(np.linalg.solve(self.spread, shift[..., None])[..., 0])


def row_sums(rows: Sparse, entries: Array) -> Array:
    """Return the sums of `entries`, one per nonzero of `rows`, by row."""
    sums, filled = np.zeros(len(rows.indptr) - 1), np.diff(rows.indptr) > 0
    if len(entries):
        sums[filled] = np.add.reduceat(entries, rows.indptr[:-1][filled])
    return sums


Arm = NDArray[np.intp]
_MAX_REWARD = 1.001 * LARGEST_REWARD  # with room for rounding of rewards that were checked before
_SUM_TOLERANCE = 1e-6  # relative difference of sums added in another order
_MAX_CHECKED_DIM = 256  # largest dense posterior that `check_sums` recomputes
_REFACTOR_INTERVAL = 512  # updates between factorisations of V, which remove accumulated rounding errors


class GaussianPosterior(ShortRepr, ABC):
    """N(theta_hat, V^-1) for R replications; `GaussianPosterior.start(arms)` selects the representation.

    Attributes
    ----------
    theta_hat
        Posterior means, (R, d).
    is_diagonal
        Whether the components are independent.
    prior
        The estimated prior, which replaces `prior_mean` and `prior_precision`; None where these are stated.
    sigma, dof
        Standard deviation of the noise in units of the rows, and the degrees of freedom of its estimate, (R,) each: 1
        and infinity unless set by `restate`. With finite `dof`, theta has a multivariate t distribution:
        N(theta_hat, s^2 V^-1) with s^2 ~ dof / chi^2_dof.
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
        """Set the state before any measurement."""

    @staticmethod
    def start(
        arms: Arms,
        *,
        prior_precision: float | Array = 1.0,
        prior_mean: float | Array = 0.0,
        replications: int = 1,
    ) -> GaussianPosterior:
        """Return the prior as a posterior without measurements: diagonal for unit arms, dense for others."""
        cls: type[GaussianPosterior] = DiagonalPosterior if arms.are_units else DensePosterior
        return cls(arms, prior_precision=prior_precision, prior_mean=prior_mean, replications=replications)

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.arms.dim

    def _summary(self) -> Mapping[str, Any]:
        covariance = "diagonal" if self.is_diagonal else "dense"
        return {"components": self.dim, "replications": self.replications, "covariance": covariance}

    @property
    def prior_in_words(self) -> str:
        """Description of the prior."""
        if self.prior is not None:
            mean, std = self.prior.level.item(0), self.prior.spread.item(0)
            return f"prior estimated from the data: N({mean:.4g}, {std:.3g}^2)"
        widths, means = self.prior_precision**-0.5, np.unique(self.prior_mean)
        if len(means) > 1 or (widths != widths[0]).any():
            return "the prior stated for each component"
        return f"prior N({means[0]:g}, {widths[0]:g}{'^2' if widths[0] != 1 else ''}) in every component"

    def update(self, arm: ArrayLike, y: ArrayLike, count: float = 1.0) -> None:
        """Update with one measurement per replication: `arm` and `y` are numbers or (R,).

        y has variance 1 / count, as the mean of `count` measurements.
        """
        scale = 1.0
        if type(count) is not float or count != 1.0:
            check_positive("count", count)
            scale = sqrt(count)
        if (  # fast path of a single run: no arrays
            type(arm) is int
            and type(y) is float
            and self.replications == 1
            and 0 <= arm < self._arm_count
            and abs(y) <= _MAX_REWARD
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
        """Update one replication with several measurements, bit-identical to successive calls of `update`."""
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
        """Update replication `rows[i]` with result `ys[i]` of arm `arms[i]`; no arm twice in one replication."""
        self._check_rewards(ys)
        scale = 1.0 / self.sigma[rows]
        self._learn_parts(rows, arms, ys * scale, scale)

    def _learn_parts(self, rows: Arm, arms: Arm, y: Array, scale: Array) -> None:
        """Update replication `rows[i]` with entry i."""
        raise ParameterError("several arms are measured at once where they measure one component each")

    def _check_rewards(self, rewards: Array) -> None:
        # The sum of squares is fast and sufficient; entries are compared only if it exceeds the limit.
        if not np.vdot(rewards, rewards) <= _MAX_REWARD * _MAX_REWARD and not (np.abs(rewards) <= _MAX_REWARD).all():
            raise ParameterError(
                f"a reward is NaN, infinite, or above {LARGEST_REWARD:g} standard deviations of the noise; "
                "the posterior is unchanged"
            )

    @abstractmethod
    def _learn(self, arm: Arm, y: Array, scale: float | Array) -> None:
        """Update V += x x', S += x y with x the arm's row times scale, a number or (R,)."""

    def _learn_one(self, arm: int, y: float, scale: float) -> None:
        """`_learn` for R = 1, bit-identical."""
        self._learn(np.array([arm]), np.array([y]), scale)

    @abstractmethod
    def _learn_many(self, arm: Arm, y: Array, scale: Array) -> None:
        """`_learn` for each entry in turn, bit-identical; R = 1."""

    def restate(
        self, sigma: Array, dof: Array, weights: Array, totals: Array, prior: PriorEstimate | None = None
    ) -> None:
        """Recompute the posterior with noise sigma, from weights and weighted sums of the results of each arm, (R, K).

        `prior` replaces an estimated prior.
        """
        self.sigma, self.dof, self.prior = sigma, dof, prior or self.prior
        precision = 1.0 / (sigma * sigma)[:, None]
        self._recompute(weights * precision, totals * precision)

    @abstractmethod
    def _recompute(self, weights: Array, totals: Array) -> None:
        """Set V = V_0 + sum_x n_x x x', S = V_0 prior_mean + sum_x x s_x for n and s of shape (R, K)."""

    @property
    def prior_std(self) -> Array:
        """Prior standard deviation of every component in the first replication, (d,)."""
        precision = self.prior_precision if self.prior is None else self.prior.precision[0]
        return np.asarray(precision**-0.5)

    @property
    def _prior_moment(self) -> Array:
        prior = self.prior
        return self.prior_precision * self.prior_mean if prior is None else prior.precision * prior.mean

    def expect(self, arms: Sequence[int] | Arm) -> Array:
        """Update as if these arms were measured with their expected results, which are returned; R = 1.

        V grows, theta_hat is unchanged.

        Examples
        --------
        >>> posterior = GaussianPosterior.start(Arms(np.eye(2)), prior_mean=0.5)
        >>> posterior.expect([1, 1, 1])
        array([0.5, 0.5, 0.5])
        >>> posterior.theta_hat, posterior.covariance()
        (array([[0.5, 0.5]]), array([[1.  , 0.25]]))
        """
        arm, theta_hat = np.asarray(arms, dtype=np.intp), self.theta_hat.copy()
        if self.arms.are_units:
            means = theta_hat[0, self.arms.component[arm]] * self.arms.coefficient[arm]
        else:
            means = self.arms.row(arm) @ theta_hat[0]
        scale = np.full(len(arm), 1.0 / self.sigma[0])
        self._learn_many(arm, means * scale, scale)
        self.theta_hat[...] = theta_hat  # the update changes it by rounding errors
        return np.asarray(means)

    @abstractmethod
    def become(self, estimate: Normal) -> None:
        """Replace mean and covariance by those of `estimate`; the result must not be updated; R = 1."""

    @property
    @abstractmethod
    def spread(self) -> Array:
        """Representation of V^-1 in compiled code: variances (R, d) of independent components, else L, (R, d, d)."""

    @property
    @abstractmethod
    def std(self) -> Array:
        """Standard deviation of every component, (R, d)."""

    @abstractmethod
    def covariance(self) -> Array:
        """Return V^-1, (R, d, d), or its diagonal (R, d) where V is diagonal."""

    @abstractmethod
    def arm_widths(self) -> Array:
        """Return |x|^2_{V^-1} of every arm, in units of the noise, (R, K)."""

    @abstractmethod
    def narrowing(self, square: Array) -> Array:
        """Return x' V^-1 M V^-1 x / (1 + |x|^2_{V^-1}) of every arm x, (R, K).

        M has shape (R, d, d); where V is diagonal, only its diagonal, (R, d). For M = y y' this is the reduction of
        |y|^2_{V^-1} by one measurement of x (Sherman-Morrison formula).
        """

    @property
    def normal(self) -> Normal:
        """The posterior of the first replication, sharing memory."""
        return Normal(self.theta_hat[0], self.spread[0])

    def quadratic(self, rows: Array | Sparse) -> Array:
        """Return |y|^2_{V^-1} of every row y, (n, d) or sparse, in the first replication."""
        return self.normal.quadratic(rows)

    def whiten(self, theta: Array) -> Array:
        """Return L^-1 (theta - theta_hat), (..., d), in the first replication."""
        return self.normal.whiten(theta)

    @abstractmethod
    def noise(self, normals: Array) -> Array:
        """Return L w for standard normals w of shape (R, n, d), where L L' = V^-1."""

    @abstractmethod
    def covariance_dot(self, y: Array) -> Array:
        """Return V^-1 y for y of shape (R, d)."""

    def copy(self) -> GaussianPosterior:
        """Return a copy with arrays of its own; the arms, which are immutable, are shared."""
        other = copy.copy(self)
        for name in ("sigma", "dof", *self._arrays):
            setattr(other, name, getattr(self, name).copy())
        return other  # `prior` is replaced by `restate`, never modified: it can be shared

    def state_dict(self) -> StateDict:
        """Return the state."""
        state = {name: getattr(self, name) for name in ("sigma", "dof", *self._arrays)}
        return state if self.prior is None else state | {"prior": vars(self.prior)}

    def load_state_dict(self, data: StateDict) -> None:
        """Restore the state."""
        for name in ("sigma", "dof", *self._arrays):
            load_into(getattr(self, name), data[name])
        if self.prior is not None:
            prior = {name: np.zeros_like(value) for name, value in vars(self.prior).items()}
            for name, value in prior.items():
                load_into(value, data["prior"][name])
            self.prior = PriorEstimate(**prior)

    def check_sums(self, weights: Array, totals: Array) -> None:
        """Raise ValueError if the posterior contradicts weights and weighted sums of the results, (R, K).

        Differences due to rounding are allowed; large dense posteriors are not checked.
        """
        if not self.is_diagonal and self.dim > _MAX_CHECKED_DIM:
            return
        expected = self.copy()
        expected.restate(self.sigma, self.dof, weights, totals)
        agrees = np.abs(self.std - expected.std) <= _SUM_TOLERANCE * expected.std
        for theta, moment in ((self.theta_hat, expected.moment), (expected.theta_hat, self.moment)):
            agrees &= np.abs(self.covariance_dot(moment) - theta) <= _SUM_TOLERANCE * (np.abs(theta) + expected.std)
        if not agrees.all():
            raise ValueError("the posterior contradicts the measurements")

    def row(self, r: int) -> GaussianPosterior:
        """Return replication r, sharing memory; it must not be updated."""
        if self.replications == 1:
            return self
        row = object.__new__(type(self))
        row.__dict__.update(self.__dict__)  # three times as fast as copy.copy: called once per row and round
        row.replications = 1
        for name in ("sigma", "dof", *self._arrays):
            setattr(row, name, getattr(self, name)[r : r + 1])
        return row


@njit(steps=lambda *args: 2 * args[-1].size)
def _narrow_units(variance: Array, sigma: Array, component: Arm, coefficient: Array, square: Array, out: Array) -> None:
    """Compute `narrowing` for unit arms."""
    for r in range(len(out)):
        for k in range(len(component)):
            i, x = component[k], coefficient[k] / sigma[r]
            along = variance[r, i] * x
            out[r, k] = along * along * square[r, i] / (1.0 + x * along)


def _of_components(name: str, value: Any, dim: int) -> Array:
    """Return one number per component, from a number or an array."""
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
        self.precision = np.empty(self.theta_hat.shape)  # C-contiguous: `_learn` uses flat views
        self.precision[:] = self.prior_precision
        self.variance = 1.0 / self.precision
        self.moment = self.precision * self.theta_hat
        self._offsets = np.arange(self.replications) * self.dim  # of each replication in the flat views

    def _learn(self, arm: Arm, y: Array, scale: float | Array) -> None:
        at = self._offsets[: self.replications] + self.arms.component[arm]
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
        np.add.at(self.precision[0], at, x * x)  # in the order of the entries: bit-identical to single updates
        np.add.at(self.moment[0], at, x * y)
        self.variance[0, at] = 1.0 / self.precision[0, at]
        self.theta_hat[0, at] = self.moment[0, at] * self.variance[0, at]

    def _learn_parts(self, rows: Arm, arms: Arm, y: Array, scale: Array) -> None:
        at, x = (rows, self.arms.component[arms]), self.arms.coefficient[arms] * scale
        self.precision[at] += x * x
        self.moment[at] += x * y
        self.variance[at] = 1.0 / self.precision[at]
        self.theta_hat[at] = self.moment[at] * self.variance[at]

    def _recompute(self, weights: Array, totals: Array) -> None:
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
        _narrow_units(self.variance, self.sigma, self.arms.component, self.arms.coefficient, square, gains)
        return gains

    def noise(self, normals: Array) -> Array:
        return normals * np.sqrt(self.variance)[:, None, :]

    def covariance_dot(self, y: Array) -> Array:
        return self.variance * y


class DensePosterior(GaussianPosterior):
    """V^-1 = L L' with L updated by Potter's square-root formula.

        a = L' x,   L <- L - gamma (L a) a',   gamma = (1 - (1 + a'a)^-1/2) / a'a

    Draws, covariances and gains are computed from L, without linear solves. V and S are accumulated too, and L is
    recomputed from V every 512 updates.

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
        x = self._accumulate(arm, y, scale)
        if self._updates % _REFACTOR_INTERVAL == 0:
            self._refactor()
            return
        a = np.matmul(x[:, None, :], self.L)[:, 0]
        gain = np.matmul(self.L, a[:, :, None])[:, :, 0]
        squares = np.einsum("ri,ri->r", a, a)
        innovation = y - np.einsum("ri,ri->r", x, self.theta_hat)
        self.theta_hat += gain * (innovation / (1.0 + squares))[:, None]
        gamma = (1.0 - 1.0 / np.sqrt(1.0 + squares)) / np.maximum(squares, np.finfo(float).tiny)
        self.L -= (gamma[:, None] * gain)[:, :, None] * a[:, None, :]

    def _learn_many(self, arm: Arm, y: Array, scale: Array) -> None:
        # Before the last factorisation only V and S are needed.
        skipped = (self._updates + len(arm)) // _REFACTOR_INTERVAL * _REFACTOR_INTERVAL - self._updates
        for i in range(max(skipped, 0)):
            self._accumulate(arm[i : i + 1], y[i : i + 1], scale[i])
        if skipped > 0:
            self._refactor()
        for i in range(max(skipped, 0), len(arm)):
            self._learn(arm[i : i + 1], y[i : i + 1], scale[i])

    def _accumulate(self, arm: Arm, y: Array, scale: float | Array) -> Array:
        """Update V += x x', S += x y, and return the rows x."""
        x: Array = self.arms.row(arm) * np.reshape(scale, (-1, 1))
        self.V += x[:, :, None] * x[:, None, :]
        self.moment += x * y[:, None]
        self._updates += 1
        return x

    def _refactor(self) -> None:
        """Compute V = C C', L = C^-T, theta_hat = L L' S."""
        C = np.linalg.cholesky(self.V)
        eye = np.broadcast_to(np.eye(self.dim), self.V.shape)
        self.L[...] = np.swapaxes(np.linalg.solve(C, eye), 1, 2)
        self.theta_hat[...] = self.covariance_dot(self.moment)

    def _recompute(self, weights: Array, totals: Array) -> None:
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
        reduction = np.einsum("rkd,rkd->rk", np.matmul(half, inner), half)
        return np.asarray(reduction / (1.0 + np.einsum("rkd,rkd->rk", half, half)))

    def noise(self, normals: Array) -> Array:
        return np.asarray(np.matmul(normals, np.swapaxes(self.L, 1, 2)))

    def covariance_dot(self, y: Array) -> Array:
        half = np.matmul(y[:, None, :], self.L)
        return np.asarray(np.matmul(half, np.swapaxes(self.L, 1, 2))[:, 0])
