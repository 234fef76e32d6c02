"""An oracle that hides the structure of another one."""

import numpy as np

from combopeps import ArgmaxOracle


class Slow(ArgmaxOracle):
    """The argmax of another oracle, without the promise to be quick; it counts rows."""

    def __init__(self, oracle):
        super().__init__(oracle.components)
        self.oracle, self.rows = oracle, 0
        self.domain, self.unit, self.binary = oracle.domain, oracle.unit, oracle.binary

    def _argmax_batch(self, thetas):
        self.rows += len(thetas)
        return self.oracle.argmax(thetas)

    def decode(self, z):
        return tuple(z.tolist())

    def encode(self, answer):
        return np.array(answer)
