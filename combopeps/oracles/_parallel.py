"""Batches of an expensive oracle, solved side by side.

Every row is a question of its own, wherever it is solved: answers do not depend on the number of workers, nor on the
rows beside them. How long the first rows take only decides who solves the others.
"""

from __future__ import annotations

from pickle import PicklingError
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from combopeps.oracles.base import ArgmaxOracle

Array = NDArray[np.float64]

_FIRST = 2  # rows after which the time of the others is guessed
_WORTH = {
    "threads": 0.02,
    "processes": 2.0,
}  # seconds of work for which workers are called; processes take one to start
_BLOCKS = 4  # for each worker: some rows take far longer than others


def row_by_row(oracle: ArgmaxOracle, thetas: Array) -> Array:
    """The answers to all rows, (B, d), by joblib's workers where there is enough left for them to do."""
    start, answers = perf_counter(), list[Array]()
    for row in range(len(thetas)):
        if row == _FIRST:
            seconds = (perf_counter() - start) / _FIRST * (len(thetas) - row)
            others = None if seconds < _WORTH[oracle.side_by_side] else _by_workers(oracle, thetas[row:])
            if others is not None:
                return np.concatenate([*answers, *others])
        answers.append(oracle._argmax_batch(thetas[row : row + 1]))
    return np.concatenate(answers)


def _by_workers(oracle: ArgmaxOracle, thetas: Array) -> list[Array] | None:
    """None where there is one worker only, inside a worker, and where processes cannot be sent the oracle."""
    from joblib import Parallel, delayed, effective_n_jobs
    from joblib.parallel import get_active_backend

    workers = min(effective_n_jobs(-1), len(thetas))
    if workers < 2 or get_active_backend()[0].nesting_level:
        return None
    blocks = np.array_split(thetas, min(_BLOCKS * workers, len(thetas)))
    try:
        done = Parallel(workers, prefer=oracle.side_by_side)(delayed(_each)(oracle, block) for block in blocks)
    except PicklingError:
        return None
    return list(done)


def _each(oracle: ArgmaxOracle, thetas: Array) -> Array:
    return np.concatenate([oracle._argmax_batch(thetas[row : row + 1]) for row in range(len(thetas))])
