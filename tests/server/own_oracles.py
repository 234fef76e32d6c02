"""An oracle that no file can hold; in the status process it waits for as long as a file exists, or fails."""

import os
import time
from pathlib import Path

import numpy as np

from combopeps import ArgmaxOracle


class Slow(ArgmaxOracle):
    binary = antichain = True

    def __init__(self):
        super().__init__(["x", "y", "z"])

    def _argmax_batch(self, thetas):
        flag = os.environ.get("SLOW_ORACLE", "")
        if flag and os.path.exists(flag) and "status_worker" in Path("/proc/self/cmdline").read_text():
            Path(flag + ".waiting").touch()
            while os.path.exists(flag):
                time.sleep(0.01)
        broken = os.environ.get("BROKEN_ORACLE", "")
        if broken and os.path.exists(broken):
            raise ZeroDivisionError("of this oracle")
        best = np.zeros(thetas.shape)
        best[np.arange(len(thetas)), thetas.argmax(axis=1)] = 1.0
        return best


def slow():
    return Slow()
