"""Sets that a rule cannot list, because their oracle states that they are too large."""

from combopeps import ArgmaxOracle
from combopeps.oracles.base import LogCardinality


class Unlisted(ArgmaxOracle):
    """The answers of another oracle through its argmax alone; ln |Z| is stated as 30."""

    def __init__(self, oracle):
        super().__init__(oracle.components)
        self.oracle = oracle
        self.domain, self.unit, self.binary = oracle.domain, oracle.unit, oracle.binary
        self.antichain, self.quick = oracle.antichain, oracle.quick

    def _argmax_batch(self, thetas):
        return self.oracle.argmax(thetas)

    def decode(self, z):
        return self.oracle.decode(z)

    def encode(self, answer):
        return self.oracle.encode(answer)

    @property
    def log_cardinality(self):
        return LogCardinality(30.0, exact=True)
