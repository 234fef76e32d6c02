"""One oracle per fault beside the answers: labels, capabilities, promises and the interface."""

from math import log

import numpy as np
from broken_oracles import Honest
from scipy.sparse import csr_array

from combopeps import ArgmaxOracle
from combopeps.oracles import LogCardinality

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

    def facets_up_to(self, z, most):
        rows = super().facets(z)[:-1]
        return rows if rows.shape[0] <= most else None


class FewFacetsIgnoresTheLimit(Honest):
    facet_count = None

    def facets_up_to(self, z, most):
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
