"""One honest oracle, and one oracle per fault that a person may build into theirs."""

from math import log

import numpy as np
from scipy.sparse import csr_array

from combopeps import ArgmaxOracle, LogCardinality, MatchingOracle
from combopeps.errors import AnswerError


class Honest(ArgmaxOracle):
    """The k = 2 best of d = 5 items, for costs (`unit` -1), with every optional capability: the control."""

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
    """An array that was never filled for theta = 0."""

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
    """Overrides argmax, and with it the read-only view."""

    def argmax(self, theta):
        best = super().argmax(theta)
        np.negative(theta, out=theta)
        return best


class ClipsTheta(Honest):
    """As `NegatesTheta`, but doing it twice is doing it once."""

    def argmax(self, theta):
        np.maximum(theta, -0.5, out=theta)
        return super().argmax(theta)


class LocksAnswer(Honest):
    def _argmax_batch(self, thetas):
        best = super()._argmax_batch(thetas)
        best.flags.writeable = False
        return best


class HandsOutItsCache(Honest):
    """Remembers answers, and returns the remembered arrays themselves."""

    def __init__(self):
        super().__init__()
        self.cache = {}

    def _argmax_batch(self, thetas):
        return self.cache.setdefault(thetas.tobytes(), super()._argmax_batch(thetas))


class ReusesItsBuffer(Honest):
    """One output array per batch size: the next call overwrites what this one returned."""

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
    """A pickled copy loses the order in which ties are broken."""

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
    """Each left node in turn takes the best right node that is left."""

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
    """All items of negative cost, however many."""

    def _argmax_batch(self, thetas):
        return np.where(thetas < 0, self.unit, super()._argmax_batch(thetas))


# ---------------------------------------------------------------- labels and optional capabilities


class LosesTheSign(Honest):
    def encode(self, answer):
        return -super().encode(answer)


class MixesUpLabels(Honest):
    def decode(self, z):
        return super().decode(np.roll(z, 1))


class UnitForgotten(Honest):
    def _argmax_batch(self, thetas):
        return -super()._argmax_batch(thetas)


class DecodeCrashes(Honest):
    def decode(self, z):
        return {}["missing"]


class TiesAreNoMembers(Honest):
    def _membership_batch(self, z, thetas):
        return np.where(z != 0, thetas, -np.inf).max(axis=1) < np.where(z != 0, np.inf, thetas).min(axis=1)


class AlwaysMember(Honest):
    def _membership_batch(self, z, thetas):
        return np.ones(len(thetas), dtype=bool)


class OneFacetMissing(Honest):
    def facets(self, z):
        return super().facets(z)[:-1]


class FacetsPointTheWrongWay(Honest):
    def facets(self, z):
        return -super().facets(z)


class ZeroFacet(Honest):
    def facets(self, z):
        return super().facets(z) * 0.0


class FacetToAStranger(Honest):
    """A swap of two items at once is fine; dropping one for nothing is not an answer."""

    def facets(self, z):
        return csr_array(np.concatenate([super().facets(z).toarray(), -np.diag(z)[np.flatnonzero(z)]]))


class MoreFacetsThanItSays(Honest):
    facet_count = 5


class FewFacetsLeavesOneOut(Honest):
    """No closed form, and a list that ends too early."""

    facet_count = None

    def facets(self, z):
        return None

    def few_facets(self, z, most):
        rows = super().facets(z)[:-1]
        return rows if rows.shape[0] <= most else None


class FewFacetsIgnoresTheLimit(Honest):
    facet_count = None

    def few_facets(self, z, most):
        return super().facets(z)


class CountsTooFew(Honest):
    @property
    def log_cardinality(self):
        return LogCardinality(log(4), exact=True)


class CountsTooMany(Honest):
    @property
    def log_cardinality(self):
        return LogCardinality(log(25), exact=True)


class BoundTooLow(Honest):
    @property
    def log_cardinality(self):
        return LogCardinality(log(4), exact=False)


class CountsInPlainFloats(Honest):
    @property
    def log_cardinality(self):
        return log(10)


# ---------------------------------------------------------------- what is promised about answers


class NotBinaryAfterAll(ArgmaxOracle):
    """One of three weighted items."""

    binary = True

    def __init__(self):
        super().__init__(list("abc"))

    def _argmax_batch(self, thetas):
        weights = np.diag([1.0, 2.0, 3.0])
        return weights[(thetas @ weights).argmax(axis=1)]

    def decode(self, z):
        return "abc"[int(np.flatnonzero(z)[0])]

    def encode(self, answer):
        return np.diag([1.0, 2.0, 3.0])["abc".index(answer)]


class AnswersContainEachOther(ArgmaxOracle):
    """All subsets."""

    binary = antichain = True

    def __init__(self):
        super().__init__(list("abcd"))

    def _argmax_batch(self, thetas):
        return (thetas > 0.0).astype(float)


class UnequalEqualities(Honest):
    def equalities(self):
        return csr_array(np.array([[1.0, 1.0, 1.0, 1.0, 2.0]]))


# ---------------------------------------------------------------- the interface


class RepeatsALabel(Honest):
    @property
    def components(self):
        return ("a", "a", "c", "d", "e")


class LabelsTooFew(Honest):
    @property
    def components(self):
        return ("a", "b")


class UnknownDomain(Honest):
    domain = "positive"


class ForgetsSuper(Honest):
    def __init__(self):
        pass
