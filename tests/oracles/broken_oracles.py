"""Oracles with one deliberate fault in their answers each, and a correct one."""

from math import log

import numpy as np
from scipy.sparse import csr_array

from combopeps import ArgmaxOracle, MatchingOracle
from combopeps.errors import AnswerError
from combopeps.oracles import LogCardinality


class Honest(ArgmaxOracle):
    """Correct control: the k = 2 best of d = 5 items, for costs (`unit` -1), with every optional hook."""

    unit = -1.0

    def __init__(self):
        super().__init__("abcde"[i] for i in range(5))

    def _argmax_batch(self, thetas):
        best = np.zeros(thetas.shape)
        np.put_along_axis(best, np.argsort(thetas, axis=1, kind="stable")[:, :2], self.unit, axis=1)
        return best

    def decode(self, z):
        items = super().decode(z)
        if len(items) != 2:
            raise AnswerError(f"an answer holds 2 items, got {len(items)}")
        return items

    def _membership_batch(self, z, thetas):
        return np.where(z != 0, thetas, -np.inf).max(axis=1) <= np.where(z != 0, np.inf, thetas).min(axis=1)

    def facets(self, z):
        rows = [
            self.unit * (np.eye(5)[j] - np.eye(5)[i]) for i in np.flatnonzero(z) for j in np.flatnonzero(np.equal(z, 0))
        ]
        return csr_array(np.array(rows))

    @property
    def log_cardinality(self):
        return LogCardinality(log(10), exact=True)


# ---------------------------------------------------------------- the form of the answer


class ShortAnswer(Honest):
    def _argmax_batch(self, thetas):
        return super()._argmax_batch(thetas)[:, :-1]


class IntegerAnswer(Honest):
    def _argmax_batch(self, thetas):
        return super()._argmax_batch(thetas).astype(int)


class ListAnswer(Honest):
    def _argmax_batch(self, thetas):
        return super()._argmax_batch(thetas).tolist()


class NoEmptyBatch(Honest):
    def _argmax_batch(self, thetas):
        return np.stack([super(NoEmptyBatch, self)._argmax_batch(theta[None])[0] for theta in thetas])


class NanAnswer(Honest):
    """Returns an uninitialised array for theta = 0."""

    def _argmax_batch(self, thetas):
        best = super()._argmax_batch(thetas)
        best[~thetas.any(axis=1)] = np.nan
        return best


class InfiniteAnswer(Honest):
    def _argmax_batch(self, thetas):
        best = super()._argmax_batch(thetas)
        best[best != 0] = -np.inf
        return best


# ---------------------------------------------------------------- a function of theta, and of nothing else


class SharedRows(Honest):
    """Every row of a batch gets the answer of the first."""

    def _argmax_batch(self, thetas):
        return np.repeat(super()._argmax_batch(thetas[:1]), len(thetas), axis=0)


class DiceOnTies(Honest):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)

    def _argmax_batch(self, thetas):
        shuffle = self.rng.permutation(5)
        return super()._argmax_batch(thetas[:, shuffle])[:, np.argsort(shuffle)]


class MutatesThroughTheView(Honest):
    def _argmax_batch(self, thetas):
        thetas -= thetas.min(axis=1, keepdims=True)
        return super()._argmax_batch(thetas)


class NegatesTheta(Honest):
    """Overrides `argmax`, so that theta is not passed as a read-only view."""

    def argmax(self, theta):
        best = super().argmax(theta)
        np.negative(theta, out=theta)
        return best


class ClipsTheta(Honest):
    """Changes theta in place, idempotently."""

    def argmax(self, theta):
        np.maximum(theta, -0.5, out=theta)
        return super().argmax(theta)


class LocksAnswer(Honest):
    def _argmax_batch(self, thetas):
        best = super()._argmax_batch(thetas)
        best.flags.writeable = False
        return best


class HandsOutItsCache(Honest):
    """Caches answers, and returns the cached arrays themselves."""

    def __init__(self):
        super().__init__()
        self.cache = {}

    def _argmax_batch(self, thetas):
        return self.cache.setdefault(thetas.tobytes(), super()._argmax_batch(thetas))


class ReusesItsBuffer(Honest):
    """Uses one output array per batch size: a later call overwrites earlier answers."""

    def __init__(self):
        super().__init__()
        self.buffers = {}

    def _argmax_batch(self, thetas):
        buffer = self.buffers.setdefault(len(thetas), np.empty(thetas.shape))
        buffer[...] = super()._argmax_batch(thetas)
        return buffer


class HoldsALambda(Honest):
    def __init__(self):
        super().__init__()
        self.rule = lambda thetas: np.argsort(thetas, axis=1)


class ForgetsItsOrder(Honest):
    """A pickled copy breaks ties in another order."""

    order = (0, 1, 2, 3, 4)

    def __init__(self):
        super().__init__()
        self.order = (4, 3, 2, 1, 0)

    def __getstate__(self):
        return {"_components": self._components}

    def _argmax_batch(self, thetas):
        order = np.array(self.order)
        return super()._argmax_batch(thetas[:, order])[:, np.argsort(order)]


class Raises(Honest):
    def _argmax_batch(self, thetas):
        if (thetas[:, 0] > 1.0).any():
            raise ZeroDivisionError("solver gave up")
        return super()._argmax_batch(thetas)


class SpoilsThetaAndRaises(Honest):
    def argmax(self, theta):
        theta[...] = 0.0
        raise ZeroDivisionError("solver gave up")


# ---------------------------------------------------------------- the argmax


class RoundsToIntegers(Honest):
    def _argmax_batch(self, thetas):
        return super()._argmax_batch(np.rint(thetas))


class AbsoluteTolerance(Honest):
    def _argmax_batch(self, thetas):
        return super()._argmax_batch(np.where(np.abs(thetas) < 1e-3, 0.0, thetas))


class WrongSign(Honest):
    def _argmax_batch(self, thetas):
        return super()._argmax_batch(-thetas)


class GreedyMatching(MatchingOracle):
    """Matches each left node in turn to the best free right node."""

    def __init__(self):
        super().__init__(4, 4)

    def _argmax_batch(self, thetas):
        best = np.zeros((len(thetas), 4, 4))
        for z, theta in zip(best, thetas.reshape(-1, 4, 4), strict=True):
            free = [0, 1, 2, 3]
            for i in range(4):
                z[i, free.pop(int(np.argmax(theta[i, free])))] = 1.0
        return best.reshape(-1, 16)


class OneItemTooMany(Honest):
    """Chooses all items of negative cost instead of k."""

    def _argmax_batch(self, thetas):
        return np.where(thetas < 0, self.unit, super()._argmax_batch(thetas))
